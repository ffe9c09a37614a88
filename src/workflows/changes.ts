/**
 * Changes of items.
 *
 * Every change locks the root of its tree first, so changes of one tree run one after the other. Rows are written from the
 * root down too: the database refuses a child that is newer than its parent.
 */
import { sha256 } from "../audit/entry.ts";
import { StoreRefusedError } from "../core/errors.ts";
import { begins, type ChildrenIn, type ItemEntry } from "../core/item.ts";
import {
  asRow,
  type Engine,
  type Hint,
  readNow,
  type Row,
  type Transaction,
} from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { carriedPast, theirsIn } from "../database/user-errors.ts";
import { enqueueIn } from "../jobs/enqueue-policy.ts";
import type { MoveContext } from "../jobs/hooks.ts";
import {
  type ItemsChange,
  type ItemWrite,
  limitOf,
  type Seen,
  type StoredItem,
  whenJobsEnd,
  willBeDue,
} from "./item-record.ts";
import { IntegrityViolationError, ItemNotFoundError } from "./errors.ts";

export const ITEM_COLUMNS = sql`
       id, workflow, type, tenant, identifier, parent_id as "parent", root_id as "root", depth, status, data, revision,
       created_at as "createdAt", updated_at as "updatedAt", entered_at as "enteredAt", audit_seq as "auditSeq",
       audit_hash as "auditHash"`;

/** How long all functions of the user's together may run in one change, because items are locked. */
export const CALLBACK_MS = 5_000;

export interface Changed {
  readonly items: StoredItem[];
  readonly hints: readonly Hint[];
}

export function changeItems(context: MoveContext, change: ItemsChange): Promise<Changed> {
  const { engine } = context;
  const changing = async (tx: Transaction): Promise<Changed> => {
    const changed = await changeIn(context, tx, change);
    await engine.notifyInTx(tx, changed.hints);
    return changed;
  };
  return orViolation(() => engine.transaction(changing, { idleMs: 2 * CALLBACK_MS }));
}

/** A change that the database refuses violates a rule of items. Errors of guards pass unchanged. */
export async function orViolation<T>(change: () => Promise<T>): Promise<T> {
  try {
    return await change();
  } catch (error) {
    const theirs = theirsIn(error);
    // Without a cause, it was not the database that refused.
    if (theirs !== error || !(error instanceof StoreRefusedError) || error.cause === undefined)
      throw theirs;
    throw new IntegrityViolationError({ problem: error.message }, error);
  }
}

export async function changeIn(
  context: MoveContext,
  tx: Transaction,
  change: ItemsChange,
): Promise<Changed> {
  const { engine } = context;
  const seen = await lockItems(engine, tx, change);
  if (change.once === true && (await isMade(tx, change))) {
    const items = change.items.flatMap((id) => seen.items.get(id) ?? []);
    // The jobs that it enqueued are pending, and the notification may have been lost.
    return { items, hints: [{ kind: "unknown" }] };
  }
  const writes = await decided(change, seen);
  const items = await write(engine, tx, { id: change.id, writes, seen });
  const jobs = writes.flatMap((one) => one.jobs);
  const { hints } = jobs.length === 0 ? { hints: [] } : await enqueueIn(context, tx, jobs);
  return { items, hints: writes.some(willBeDue) ? [...hints, { kind: "waiting" }] : hints };
}

/** Read under the locks: a concurrent call with the same id has committed, or waits for us. */
async function isMade(tx: Transaction, { id }: ItemsChange): Promise<boolean> {
  const lines = await tx.all(sql`
    select item_id from holdfast.item_audit where change_id = ${id} limit 1`);
  return lines.length > 0;
}

/** It calls functions of the user's: an engine must not mistake their errors for its own. */
async function decided(change: ItemsChange, seen: Seen): Promise<readonly ItemWrite[]> {
  let ours: unknown = null;
  const progress = async (item: string): Promise<ChildrenIn[]> => {
    try {
      return await seen.progress(item);
    } catch (error) {
      ours = error;
      throw error;
    }
  };
  try {
    return await change.decide({ ...seen, progress });
  } catch (error) {
    throw error === ours ? error : carriedPast(error);
  }
}

/** Locks the items and their ancestors. Ancestors never change, so they are known before the lock. */
async function lockItems(engine: Engine, tx: Transaction, change: ItemsChange): Promise<Seen> {
  const rows = (await lockKnown(engine, tx, change)) ?? (await lockFound(engine, tx, change.items));
  const now = rows.at(-1)?.now ?? (await readNow(engine, tx));
  return {
    now,
    items: new Map(rows.map(({ item }) => [item.id, item])),
    // The item's lock covers these rows; a locking read also shows commits since the transaction began.
    progress: (item) => progressOf(engine, tx, item, engine.lockRows()),
  };
}

interface Locked {
  readonly item: StoredItem;
  readonly now: number;
}

/** Null: the caller did not name all ancestors, or a row is missing. */
async function lockKnown(
  engine: Engine,
  tx: Transaction,
  { items, above }: ItemsChange,
): Promise<Locked[] | null> {
  if (above === undefined || ![...items, ...above].every((id) => engine.mayBeId(id))) return null;
  const [root, ...others] = new Set([...above, ...items]);
  if (root === undefined) return null;
  const rows = await lock(engine, tx, [[root], others]);
  const locked = new Set(rows.map(({ item }) => item.id));
  const isWhole = rows.every(({ item }) => item.root === root && locked.has(item.parent ?? root));
  return isWhole && locked.size === others.length + 1 ? rows : null;
}

async function lockFound(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
): Promise<Locked[]> {
  const possible = ids.filter((id) => engine.mayBeId(id));
  const chain = possible.length === 0 ? [] : await chainOf(engine, tx, possible);
  const known = new Set(chain.map(({ id }) => id));
  const missing = ids.find((id) => !known.has(id));
  if (missing !== undefined) throw new ItemNotFoundError({ id: missing });
  const roots = chain.filter(({ depth }) => depth === 0).map(({ id }) => id);
  const others = chain.filter(({ depth }) => depth > 0).map(({ id }) => id);
  return lock(engine, tx, [roots, others]);
}

async function chainOf(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
): Promise<{ id: string; depth: number }[]> {
  const rows = await tx.all<{ id: string; depth: number | string }>(sql`
    select id, depth
      from (with recursive chain (id, parent_id, depth) as (
              select id, parent_id, depth from holdfast.item where ${engine.among(sql`id`, ids)}
               union
              select i.id, i.parent_id, i.depth from chain c join holdfast.item i on i.id = c.parent_id)
            select id, depth from chain) links`);
  return rows.map(({ id, depth }) => ({ id, depth: Number(depth) }));
}

/** One group after the other, and always in the same order, so that changes of several trees cannot deadlock. */
async function lock(
  engine: Engine,
  tx: Transaction,
  groups: readonly (readonly string[])[],
): Promise<Locked[]> {
  const inOrder = sql`id ${engine.lockRows()}`;
  const queries = groups
    .filter((ids) => ids.length > 0)
    .map(
      (ids) => sql`
    select ${ITEM_COLUMNS}, ${engine.now()} as now
      from holdfast.item
     where ${engine.among(sql`id`, ids)}
     order by ${inOrder}`,
    );
  const rows = await tx.allOf<AsRead<StoredItem & { now: number }>>(queries);
  return rows.flat().map(({ now, ...row }) => ({ item: itemOf(row), now: Number(now) }));
}

/** In a transaction of the user's, the driver may return numbers as text. */
export type AsRead<T> = {
  readonly [Column in keyof T]: T[Column] extends number ? number | string : T[Column];
};

export function itemOf(row: AsRead<StoredItem>): StoredItem {
  return {
    ...row,
    depth: Number(row.depth),
    revision: Number(row.revision),
    createdAt: Number(row.createdAt),
    updatedAt: Number(row.updatedAt),
    enteredAt: Number(row.enteredAt),
    auditSeq: Number(row.auditSeq),
  };
}

export async function progressOf(
  engine: Engine,
  from: Pick<Transaction, "all">,
  item: string,
  locking: Sql = nothing,
): Promise<ChildrenIn[]> {
  if (!engine.mayBeId(item)) return [];
  const inOrder = sql`p.workflow, p.status ${locking}`;
  const rows = await from.all<AsRead<Omit<ChildrenIn, "isFinal"> & { isFinal: number }>>(sql`
    select p.workflow, p.status, p.children,
           (select s.is_final
              from holdfast.workflow_state s
             where s.workflow = p.workflow and s.name = p.status) as "isFinal"
      from holdfast.item_progress p
     where p.item_id = ${item}
       and p.children > 0
     order by ${inOrder}`);
  return rows.map((row) => ({
    ...row,
    isFinal: Number(row.isFinal) === 1,
    children: Number(row.children),
  }));
}

/** The time of a change: never before an earlier change, and every stay in a state begins at a different time. */
export function instantOf(writes: readonly ItemWrite[], { now, items }: Seen): number {
  const moved = writes.filter(({ line }) => line.action === "move");
  return Math.max(
    now,
    ...[...items.values()].map(({ updatedAt }) => updatedAt),
    ...moved.map(({ item }) => item.enteredAt + 1),
  );
}

/** Returns the changed items, without the touched ancestors. */
async function write(
  engine: Engine,
  tx: Transaction,
  { id, writes, seen }: { id: string; writes: readonly ItemWrite[]; seen: Seen },
): Promise<StoredItem[]> {
  const at = instantOf(writes, seen);
  const changes = new Map(writes.map((one) => [one.item.id, one]));
  const changed: StoredItem[] = [];
  const started: Row[] = [];
  const updates: { item: StoredItem; query: Sql }[] = [];
  for (const item of touchedBy(writes, seen)) {
    const change = changes.get(item.id);
    if (change === undefined) {
      updates.push({ item, query: touching(item, at) });
      continue;
    }
    const after = changeOf(change, at);
    const line = lineOf(change, after);
    const audited = { ...after, auditSeq: line.seq, auditHash: line.hash };
    const last = lastChange(line, id);
    if (begins(line)) started.push({ ...rowOf(audited), ...last });
    else updates.push({ item, query: updating(item, audited, last) });
    changed.push(audited);
  }
  const queries = [...updates.map(({ query }) => query), ...forgetting(engine, writes)];
  const written = await tx.runAll(queries);
  const missed = updates.find((_, index) => written[index] === 0);
  // The lock prevents this; a program that writes without the lock must be refused.
  if (missed !== undefined) {
    const problem = `Another process changed ${missed.item.id} at the same time.`;
    throw new IntegrityViolationError({ problem });
  }
  // After the updates: started items are below all touched items, and none is the parent of another.
  await tx.insert("item", started);
  await schedule(tx, writes, at);
  return changed;
}

/** All rows to write, from the root down: the changed items and their ancestors. */
function touchedBy(writes: readonly ItemWrite[], { items }: Seen): StoredItem[] {
  const touched = new Map<string, StoredItem>();
  for (const { item } of writes) {
    for (let at: StoredItem | undefined = item; at !== undefined;) {
      touched.set(at.id, at);
      at = at.parent === null ? undefined : items.get(at.parent);
    }
  }
  return [...touched.values()].toSorted((a, b) => a.depth - b.depth);
}

/** The changed item, except for its audit columns. */
export function changeOf({ item, line, status, data }: ItemWrite, at: number): StoredItem {
  if (begins(line)) {
    // An imported item may have its own times.
    const { createdAt, enteredAt } = item;
    return {
      ...item,
      revision: 1,
      createdAt: createdAt || at,
      updatedAt: at,
      enteredAt: enteredAt || at,
    };
  }
  const enteredAt = line.action === "move" ? at : item.enteredAt;
  return { ...item, status, data, revision: item.revision + 1, updatedAt: at, enteredAt };
}

/** Updates an ancestor of a changed item. */
function touching({ id, revision }: StoredItem, at: number): Sql {
  return sql`
    update holdfast.item
       set revision = ${revision + 1}, updated_at = ${at}
     where id = ${id}
       and revision = ${revision}`;
}

function updating(before: StoredItem, after: StoredItem, last: ReturnType<typeof lastChange>): Sql {
  // Data may be large: it is sent only if it changed.
  const data = after.data === before.data ? nothing : sql`, data = ${after.data}`;
  return sql`
    update holdfast.item
       set status = ${after.status}, revision = ${after.revision}, updated_at = ${after.updatedAt},
           entered_at = ${after.enteredAt}, audit_seq = ${after.auditSeq}, audit_hash = ${after.auditHash},
           change_id = ${last.change_id}, actor = ${last.actor}, action = ${last.action}, move = ${last.move},
           reason = ${last.reason}, lock_wait_us = ${last.lock_wait_us}, trace_id = ${last.trace_id},
           jobs = ${last.jobs}, data_hash = ${last.data_hash}${data}
     where id = ${before.id}
       and revision = ${before.revision}`;
}

function rowOf(item: StoredItem): Row {
  return asRow({
    id: item.id,
    workflow: item.workflow,
    type: item.type,
    tenant: item.tenant,
    identifier: item.identifier,
    parent_id: item.parent,
    root_id: item.root,
    depth: item.depth,
    status: item.status,
    data: item.data,
    revision: item.revision,
    created_at: item.createdAt,
    updated_at: item.updatedAt,
    entered_at: item.enteredAt,
    audit_seq: item.auditSeq,
    audit_hash: item.auditHash,
  });
}

/** Deletes the due time and the awaited jobs of the states that items leave. */
function forgetting(engine: Engine, writes: readonly ItemWrite[]): Sql[] {
  const left = writes.filter(({ line }) => line.action === "move").map(({ item }) => item.id);
  if (left.length === 0) return [];
  const those: Sql = engine.among(sql`item_id`, left);
  return [
    sql`delete from holdfast.item_due where ${those}`,
    sql`delete from holdfast.item_job where ${those}`,
  ];
}

async function schedule(tx: Transaction, writes: readonly ItemWrite[], at: number): Promise<void> {
  const entered = writes.filter(({ line }) => line.action !== "update");
  const waiting = entered.filter(({ awaitsJobs }) => awaitsJobs);
  await tx.insert("item_due", [
    ...entered.flatMap((one) => limitOf(one, changeOf(one, at).enteredAt)),
    ...waiting.map((one) => whenJobsEnd(one, changeOf(one, at).enteredAt)),
  ]);
  const awaited = waiting.flatMap(({ item, jobs }) =>
    jobs.map(({ id }) => ({ job_id: id, item_id: item.id, status: null })),
  );
  await tx.insert("item_job", awaited);
}

/**
 * The audit line of a change; `after` is the changed item, except for its audit columns. Each line has the hash of the line
 * before, so no line can be changed, added or removed later.
 */
function lineOf(change: ItemWrite, after: StoredItem): ItemEntry {
  const { item, line, jobs } = change;
  const entry = {
    ...line,
    item: item.id,
    seq: item.auditSeq + 1,
    at: after.updatedAt,
    oldStatus: begins(line) ? null : item.status,
    newStatus: change.status,
    revision: after.revision,
    lockWaitMs: line.lockWaitMs === null ? null : Math.round(line.lockWaitMs * 1_000) / 1_000,
    jobs: jobs.map(({ id }) => id),
    dataHash: sha256(change.data),
    previousHash: item.auditHash,
  };
  return { ...entry, hash: hashOf(entry) };
}

/** Hashes all fields of the line, in a fixed order. */
export function hashOf(entry: Omit<ItemEntry, "hash">): string {
  return sha256(
    JSON.stringify([
      entry.previousHash,
      entry.item,
      entry.seq,
      entry.at,
      entry.actor,
      entry.action,
      entry.move,
      entry.oldStatus,
      entry.newStatus,
      entry.revision,
      entry.reason,
      microseconds(entry.lockWaitMs),
      entry.traceId,
      entry.jobs,
      entry.dataHash,
    ]),
  );
}

/** The last audit line as columns of the item. A trigger copies it to the audit from there. */
function lastChange(entry: ItemEntry, change: string) {
  return {
    change_id: change,
    actor: entry.actor,
    action: entry.action,
    move: entry.move,
    reason: entry.reason,
    lock_wait_us: microseconds(entry.lockWaitMs),
    trace_id: entry.traceId,
    jobs: JSON.stringify(entry.jobs),
    data_hash: entry.dataHash,
  };
}

/** Every database returns whole numbers exactly. */
function microseconds(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms * 1_000);
}
