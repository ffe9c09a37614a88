/** What must be true of a tree when everybody is done with it, read from the database. */
import type { Holdfast } from "../../src/index.ts";
import type { ItemEntry } from "../../src/workflows/index.ts";
import { sql } from "../../src/database/sql.ts";
import { hashOf } from "../../src/workflows/changes.ts";
import { NO_HASH, sha256 } from "../../src/audit/entry.ts";
import type { StoredItem } from "../../src/workflows/item-record.ts";
import type { Op, Result } from "./plan.ts";
import { part } from "./workflows.ts";

/** A tree: the order and its parts, in the order in which ops name them. */
export interface Tree {
  readonly parent: string;
  readonly children: readonly string[];
}

export interface Verdict {
  readonly accepted: number;
  readonly refused: number;
  /** Lines of the audit that tell of a wait for the distributed lock. */
  readonly waited: number;
  /** Changes that were accepted and are not there. */
  readonly lost: readonly string[];
  /** Whatever else is not as it must be. */
  readonly wrong: readonly string[];
  /** Errors that nothing asked for. */
  readonly unexpected: readonly string[];
}

export interface Expected {
  /** Errors that may happen in this race. */
  readonly tolerated?: ReadonlySet<string>;
  /** Everything has ended, and so has the parent. Default true. */
  readonly completed?: boolean;
}

const CHILDREN_MAX = 1_000;
/** A free lock is acquired sooner, unless the machine is very busy. */
const WAITED_MS = 2;

interface Look {
  readonly parent: StoredItem;
  readonly children: readonly StoredItem[];
  readonly accepted: readonly Result[];
  readonly refused: readonly Result[];
}

export async function checkTree(
  holdfast: Holdfast,
  tree: Tree,
  results: readonly Result[],
  { tolerated = new Set(), completed = true }: Expected = {},
): Promise<Verdict> {
  const accepted = results.filter(({ outcome }) => outcome === "accepted");
  const refused = results.filter(({ outcome }) => outcome !== "accepted");
  const items = await itemsOf(holdfast, tree);
  const [parent, ...children] = items;
  if (parent === undefined) throw new Error("A tree has a parent.");
  const look = { accepted, refused, parent, children };
  const trails = await trailsOf(holdfast, items);
  return {
    accepted: accepted.length,
    refused: refused.length,
    waited: [...trails.values()].flat().filter(hasWaited).length,
    lost: [...lostFields(look), ...lostCounts(look), ...lostRevisions(look)],
    wrong: [
      ...ghosts(look),
      ...behind(look),
      ...(await miscounted(holdfast, look)),
      ...brokenTrails(look.parent, trails, completed),
    ],
    unexpected: unexpected(look, tolerated),
  };
}

/** The parent first. */
async function itemsOf({ store }: Holdfast, { parent, children }: Tree): Promise<StoredItem[]> {
  const found = await store.items.list({ workflow: part.name, parent, limit: CHILDREN_MAX });
  const byId = new Map([await store.items.find(parent), ...found].map((item) => [item?.id, item]));
  return [parent, ...children].map((id) => {
    const item = byId.get(id) ?? null;
    if (item === null) throw new Error(`Item ${id} is gone.`);
    return item;
  });
}

// ── What a change says about the items ───────────────────────────────────────────────────────────

/** The children that an op changes by itself. */
function childrenOf(op: Op): readonly number[] {
  if ("child" in op) return [op.child];
  return "children" in op ? op.children : [];
}

/** The items, by their data, in which an op leaves its field. */
function fieldsOf(op: Op, { parent, children }: Look): StoredItem[] {
  if (op.kind === "parent") return [parent];
  const own = childrenOf(op).flatMap((child) => children[child] ?? []);
  return op.kind === "both" ? [parent, ...own] : own;
}

function has(item: StoredItem, key: string): boolean {
  return Object.hasOwn(JSON.parse(item.data) as object, key);
}

function lostFields(look: Look): string[] {
  return look.accepted
    .filter(({ op }) => op.kind !== "count")
    .flatMap(({ op }) =>
      fieldsOf(op, look)
        .filter((item) => !has(item, op.key))
        .map((item) => `${op.kind} ${op.key} of ${item.workflow} ${item.id}`),
    );
}

/** What was refused left nothing behind; least of all a part of a bulk. */
function ghosts(look: Look): string[] {
  return look.refused
    .filter(({ op }) => op.kind !== "count")
    .flatMap(({ op, outcome }) =>
      fieldsOf(op, look)
        .filter((item) => has(item, op.key))
        .map((item) => `${op.kind} ${op.key} was refused (${outcome}) and is in ${item.id}`),
    );
}

function lostCounts({ accepted, children }: Look): string[] {
  return children.flatMap((item, child) => {
    const added = accepted.filter(({ op }) => op.kind === "count" && op.child === child).length;
    const { count = 0 } = JSON.parse(item.data) as { count?: number };
    return count === added ? [] : [`${added - count} of ${added} counts of ${item.id}`];
  });
}

/** One at the start, one for the children that were started under it, and one for every change in the tree. */
function lostRevisions({ accepted, parent, children }: Look): string[] {
  const expected = new Map([[parent, 2 + accepted.length]]);
  for (const [child, item] of children.entries()) {
    const own = accepted.filter(({ op }) => childrenOf(op).includes(child)).length;
    expected.set(item, 1 + own);
  }
  return [...expected].flatMap(([{ id, workflow, revision }, count]) =>
    revision === count
      ? []
      : Array.from(
          { length: Math.max(1, count - revision) },
          () => `a revision of ${workflow} ${id}: ${revision} of ${count}`,
        ),
  );
}

function behind({ parent, children }: Look): string[] {
  return children
    .filter(({ updatedAt }) => updatedAt > parent.updatedAt)
    .map(({ id }) => `the parent is behind ${id}`);
}

// ── What the database counts and writes down ─────────────────────────────────────────────────────

async function miscounted(holdfast: Holdfast, { parent, children }: Look): Promise<string[]> {
  const progress = await holdfast.workflows.progress(parent.id);
  const counted = new Map<string, number>();
  for (const { status } of children) counted.set(status, (counted.get(status) ?? 0) + 1);
  const told = new Map(progress.map((one) => [one.status, one.children]));
  return [...new Set([...counted.keys(), ...told.keys()])]
    .filter((status) => counted.get(status) !== told.get(status))
    .map((status) => `${counted.get(status) ?? 0} are ${status}, counted ${told.get(status) ?? 0}`);
}

interface Line extends Omit<ItemEntry, "jobs" | "lockWaitMs"> {
  readonly jobs: string;
  readonly lockWaitUs: number | null;
}

/** All at once: what is read one by one takes longer than the race. */
async function trailsOf(
  { store }: Holdfast,
  items: readonly StoredItem[],
): Promise<Map<StoredItem, ItemEntry[]>> {
  const { engine } = store.db;
  const ids = items.map(({ id }) => id);
  const lines = await engine.all<Line>(sql`
    select item_id as item, seq, at, actor, action, move, old_status as "oldStatus", new_status as "newStatus", revision,
           reason, lock_wait_us as "lockWaitUs", trace_id as "traceId", jobs, data_hash as "dataHash",
           previous_hash as "previousHash", hash
      from holdfast.item_audit
     where ${engine.among(sql`item_id`, ids)}
     order by item_id, seq`);
  const trails = new Map<string, ItemEntry[]>(ids.map((id) => [id, []]));
  for (const { lockWaitUs, jobs, ...line } of lines) {
    const lockWaitMs = lockWaitUs === null ? null : lockWaitUs / 1_000;
    trails.get(line.item)?.push({ ...line, lockWaitMs, jobs: JSON.parse(jobs) as string[] });
  }
  return new Map(items.map((item) => [item, trails.get(item.id) ?? []]));
}

function brokenTrails(
  parent: StoredItem,
  trails: ReadonlyMap<StoredItem, readonly ItemEntry[]>,
  completed: boolean,
): string[] {
  const broken = [...trails].flatMap(([item, lines]) => breaksOf(item, lines));
  const ends = (trails.get(parent) ?? []).filter(({ move }) => move === "complete").length;
  if (ends !== (completed ? 1 : 0)) broken.push(`the parent was completed ${ends} times`);
  if (completed && parent.status !== "done") broken.push(`the parent is ${parent.status}`);
  return broken;
}

function hasWaited({ action, lockWaitMs }: ItemEntry): boolean {
  return action !== "start" && lockWaitMs !== null && lockWaitMs >= WAITED_MS;
}

/** Every line is there, follows the one before, and says what its hash says; the last tells of the item as it is. */
function breaksOf(item: StoredItem, lines: readonly ItemEntry[]): string[] {
  const where = `the audit of ${item.workflow} ${item.id}`;
  const broken: string[] = [];
  let previous = { hash: NO_HASH, newStatus: null as string | null };
  for (const [index, line] of lines.entries()) {
    const isNext = line.seq === index + 1 && line.previousHash === previous.hash;
    const fits = line.oldStatus === previous.newStatus && line.hash === hashOf(line);
    if (!isNext || !fits) broken.push(`${where} breaks at ${line.seq}`);
    previous = line;
  }
  const last = lines.at(-1);
  const told = [last?.seq, last?.hash, last?.newStatus, last?.dataHash].join(" ");
  const found = [item.auditSeq, item.auditHash, item.status, sha256(item.data)].join(" ");
  if (told !== found) broken.push(`${where} ends elsewhere than the item`);
  return broken;
}

// ── What was refused ─────────────────────────────────────────────────────────────────────────────

function unexpected({ accepted, refused }: Look, tolerated: ReadonlySet<string>): string[] {
  const never = accepted.filter(
    ({ op }, index) => op.kind === "half" || op.kind === "illegal" || isMadeAgain(accepted, index),
  );
  const errors = refused.filter(
    ({ op, outcome }) => !tolerated.has(outcome) && !mayBeRefused(op, outcome, accepted),
  );
  return [
    ...never.map(({ op }) => `${op.kind} ${op.key} was accepted`),
    ...errors.map(
      ({ op, outcome, message }) => `${op.kind} ${op.key}: ${outcome} ${message ?? ""}`,
    ),
  ];
}

/** No child makes the same move twice. */
function isMadeAgain(accepted: readonly Result[], index: number): boolean {
  const op = accepted[index]?.op;
  if (op?.kind !== "begin" && op?.kind !== "finish") return false;
  return accepted
    .slice(0, index)
    .some((one) => one.op.kind === op.kind && one.op.child === op.child);
}

/** A move that another process made first is refused, and one that is not declared. */
function mayBeRefused(op: Op, outcome: string, accepted: readonly Result[]): boolean {
  if (outcome !== "INVALID_MOVE") return false;
  if (op.kind === "half" || op.kind === "illegal") return true;
  if (op.kind !== "begin" && op.kind !== "finish") return false;
  const ended = accepted.filter((one) => one.op.kind === "finish" && one.op.child === op.child);
  return ended.length === 1 || (op.kind === "begin" && hasBegun(accepted, op.child));
}

function hasBegun(accepted: readonly Result[], child: number): boolean {
  return accepted.some(({ op }) => op.kind === "begin" && op.child === child);
}

export function isClean({ lost, wrong, unexpected: errors }: Verdict): boolean {
  return lost.length + wrong.length + errors.length === 0;
}
