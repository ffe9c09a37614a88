/**
 * Changes of items.
 *
 * Whoever changes an item locks the one at its top first, so that all changes of one tree go one after the other, whatever
 * else they lock. They are written from the top too: the database refuses a child that is ahead of its parent.
 */
import { StoreRefused } from "../core/errors.ts";
import type { ChildrenIn, ItemEntry } from "../core/item.ts";
import { IntegrityViolation, ItemNotFound } from "../core/workflow-errors.ts";
import { enqueueIn } from "./enqueue.ts";
import type { Engine, Row, Transaction } from "./engine.ts";
import { whenJobsEnd } from "./item-jobs.ts";
import { asRow } from "./moving.ts";
import { sql, type Sql } from "./sql.ts";
import type { Hint } from "./store.ts";
import { lineOf, lineRow } from "./trail.ts";
import type { ItemsChange, ItemWrite, Seen, StoredItem } from "./workflows.ts";

export const ITEM_COLUMNS = sql`
       id, workflow, type, tenant, identifier, parent_id as "parent", root_id as "root", depth, status, data, revision,
       created_at as "createdAt", updated_at as "updatedAt", entered_at as "enteredAt", audit_seq as "auditSeq",
       audit_hash as "auditHash"`;

export interface Changed {
  readonly items: StoredItem[];
  readonly hints: readonly Hint[];
}

export function changeItems(engine: Engine, change: ItemsChange): Promise<Changed> {
  return engine.transaction((tx) => changeIn(engine, tx, change));
}

export async function changeIn(
  engine: Engine,
  tx: Transaction,
  change: ItemsChange,
): Promise<Changed> {
  const seen = await lockItems(engine, tx, change.items);
  const writes = await change.decide(seen);
  try {
    const items = await write(engine, tx, { id: change.id, writes, seen });
    const jobs = writes.flatMap((one) => one.jobs);
    const { hints } = jobs.length === 0 ? { hints: [] } : await enqueueIn(engine, tx, jobs);
    return { items, hints };
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    throw new IntegrityViolation({ problem: error.message }, error);
  }
}

/** The items, and all above them. Who is above whom never changes, so that is read before anything is locked. */
async function lockItems(engine: Engine, tx: Transaction, ids: readonly string[]): Promise<Seen> {
  const chain = ids.length === 0 ? [] : await chainOf(engine, tx, ids);
  const missing = ids.find((id) => !chain.some((link) => link.id === id));
  if (missing !== undefined) throw new ItemNotFound({ id: missing });
  const roots = chain.filter(({ depth }) => depth === 0).map(({ id }) => id);
  const others = chain.filter(({ depth }) => depth > 0).map(({ id }) => id);
  const rows = [...(await lock(engine, tx, roots)), ...(await lock(engine, tx, others))];
  const now = rows.at(-1)?.now ?? (await clock(engine, tx));
  return {
    now,
    items: new Map(rows.map(({ item }) => [item.id, item])),
    progress: (item) => progressOf(engine, tx, item),
  };
}

interface Link {
  readonly id: string;
  readonly depth: number;
}

async function chainOf(engine: Engine, tx: Transaction, ids: readonly string[]): Promise<Link[]> {
  const rows = await tx.all<{ id: string; depth: number | string }>(sql`
    select id, depth
      from (with recursive chain (id, parent_id, depth) as (
              select id, parent_id, depth from holdfast.item where ${engine.among(sql`id`, ids)}
               union
              select i.id, i.parent_id, i.depth from chain c join holdfast.item i on i.id = c.parent_id)
            select id, depth from chain) links`);
  return rows.map(({ id, depth }) => ({ id, depth: Number(depth) }));
}

/** In one order for everybody: two changes of several trees must not wait for one another. */
async function lock(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
): Promise<{ item: StoredItem; now: number }[]> {
  if (ids.length === 0) return [];
  const inOrder = sql`id ${engine.lockRows()}`;
  const rows = await tx.all<AsRead<StoredItem & { now: number }>>(sql`
    select ${ITEM_COLUMNS}, ${engine.now()} as now
      from holdfast.item
     where ${engine.among(sql`id`, ids)}
     order by ${inOrder}`);
  return rows.map(({ now, ...row }) => ({ item: itemOf(row), now: Number(now) }));
}

async function clock(engine: Engine, tx: Transaction): Promise<number> {
  const [row] = await tx.all<{ now: number | string }>(sql`select ${engine.now()} as now`);
  return Number(row?.now);
}

/** In a transaction of the user's, numbers come as their driver reads them. */
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
): Promise<ChildrenIn[]> {
  if (!engine.mayBeId(item)) return [];
  const rows = await from.all<AsRead<Omit<ChildrenIn, "isFinal"> & { isFinal: number }>>(sql`
    select p.workflow, p.status, s.is_final as "isFinal", p.children
      from holdfast.item_progress p
      join holdfast.workflow_state s on s.workflow = p.workflow and s.name = p.status
     where p.item_id = ${item}
       and p.children > 0
     order by p.workflow, p.status`);
  return rows.map((row) => ({
    ...row,
    isFinal: Number(row.isFinal) === 1,
    children: Number(row.children),
  }));
}

interface Writing {
  readonly id: string;
  readonly writes: readonly ItemWrite[];
  readonly seen: Seen;
}

/** Returns the items that were changed by themselves, as they are now. */
async function write(engine: Engine, tx: Transaction, writing: Writing): Promise<StoredItem[]> {
  const { writes, seen } = writing;
  const touched = touchedBy(writes, seen);
  const at = Math.max(seen.now, ...touched.map(({ updatedAt }) => updatedAt));
  const changed: StoredItem[] = [];
  const lines: ItemEntry[] = [];
  for (const item of touched) {
    const change = writes.find((one) => one.item.id === item.id);
    const after = change === undefined ? touch(item, at) : changeOf(change, at);
    if (change === undefined) await update(tx, item, after);
    else {
      const line = lineOf(change, after);
      const audited = { ...after, auditSeq: line.seq, auditHash: line.hash };
      await (change.line.action === "start" ? insert(tx, audited) : update(tx, item, audited));
      lines.push(line);
      changed.push(audited);
    }
  }
  await tx.insert(
    "item_audit",
    lines.map((line) => lineRow(line, writing.id)),
  );
  await remind(engine, tx, { writes, at });
  return changed;
}

/** All that are written, from the top: those that change, and those above them. */
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

function touch(item: StoredItem, at: number): StoredItem {
  return { ...item, revision: item.revision + 1, updatedAt: at };
}

function changeOf({ item, line, status, data }: ItemWrite, at: number): StoredItem {
  if (line.action === "start") {
    return { ...item, revision: 1, createdAt: at, updatedAt: at, enteredAt: at };
  }
  const enteredAt = line.action === "move" ? at : item.enteredAt;
  return { ...touch(item, at), status, data, enteredAt };
}

async function insert(tx: Transaction, item: StoredItem): Promise<void> {
  await tx.insert("item", [rowOf(item)]);
}

/** Only if it still is as it was seen; that it is, the lock sees to. */
async function update(tx: Transaction, before: StoredItem, after: StoredItem): Promise<void> {
  const written = await tx.run(sql`
    update holdfast.item
       set status = ${after.status}, data = ${after.data}, revision = ${after.revision},
           updated_at = ${after.updatedAt}, entered_at = ${after.enteredAt}, audit_seq = ${after.auditSeq},
           audit_hash = ${after.auditHash}
     where id = ${before.id}
       and revision = ${before.revision}`);
  if (written > 0) return;
  throw new StoreRefused({ problem: `item ${before.id} was changed by somebody else meanwhile.` });
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

/** What a state asks for holds for as long as the item is in it. */
async function remind(
  engine: Engine,
  tx: Transaction,
  { writes, at }: { writes: readonly ItemWrite[]; at: number },
): Promise<void> {
  const left = writes.filter(({ line }) => line.action === "move").map(({ item }) => item.id);
  if (left.length > 0) {
    const those: Sql = engine.among(sql`item_id`, left);
    await tx.run(sql`delete from holdfast.item_due where ${those}`);
    await tx.run(sql`delete from holdfast.item_job where ${those}`);
  }
  const entered = writes.filter(({ line }) => line.action !== "update");
  const due = entered.flatMap(({ item, limitMs }) =>
    limitMs === null
      ? []
      : [{ item_id: item.id, reason: "limit", workflow: item.workflow, due_at: at + limitMs }],
  );
  const waiting = entered.filter(({ awaitsJobs }) => awaitsJobs);
  due.push(...waiting.map((one) => whenJobsEnd(one, at)));
  if (due.length > 0) await tx.insert("item_due", due);
  const jobs = waiting.flatMap(({ item, jobs: news }) =>
    news.map(({ id }) => ({ job_id: id, item_id: item.id, status: null })),
  );
  if (jobs.length > 0) await tx.insert("item_job", jobs);
}
