/** Reads items and their history, and prunes them. */
import { idRange, type IdRange } from "../core/id.ts";
import type { ChildrenIn, ItemEntry } from "../core/item.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { type AsRead, ITEM_COLUMNS, itemOf, progressOf } from "./changes.ts";
import type { HistoryFilter, ItemFilter, LineRange, StoredItem } from "./item-record.ts";

/** The database, or a transaction in it. */
type From = Pick<Transaction, "all">;

/** Reads that also run in a transaction of the user's. */
export class ItemReader {
  readonly #engine: Engine;
  readonly #from: From;

  constructor(engine: Engine, from: From) {
    this.#engine = engine;
    this.#from = from;
  }

  async find(id: string): Promise<StoredItem | null> {
    const [item] = await findItems(this.#engine, this.#from, [id]);
    return item ?? null;
  }

  /**
   * Newest first, a page at a time: pass the last id of one page as `before` of the next.
   *
   * An index has every such list in this order. The order names its first column, so that no database walks through all
   * items by id instead.
   */
  async list(filter: ItemFilter): Promise<StoredItem[]> {
    const engine = this.#engine;
    for (const id of [filter.parent, filter.before]) {
      if (id !== undefined && !engine.mayBeId(id)) return [];
    }
    const range = filter.prefix === undefined ? undefined : idRange(filter.prefix);
    if (range === null) return [];
    const { where, order } = leadOf(engine, filter);
    const rows = await this.#from.all<AsRead<StoredItem>>(sql`
      select ${ITEM_COLUMNS}
        from holdfast.item
       where ${where}
             ${conditionsOf(filter, range)}
       order by ${order} id desc
       limit ${filter.limit}`);
    return rows.map(itemOf);
  }

  /** How many children of this item are in which state. */
  progressOf(item: string): Promise<ChildrenIn[]> {
    return progressOf(this.#engine, this.#from, item);
  }

  /** The audit lines of an item, oldest first; `after` is the last number of the page before. */
  async history({ item, after, limit }: HistoryFilter): Promise<ItemEntry[]> {
    if (!this.#engine.mayBeId(item)) return [];
    const rows = await this.#from.all<AsRead<EntryRow>>(sql`
      select ${ENTRY_COLUMNS}
        from holdfast.item_audit
       where item_id = ${item}
         and seq > ${after}
       order by seq
       limit ${limit}`);
    return rows.map(entryOf);
  }
}

export interface CountFilter {
  readonly workflow: string;
  readonly states: readonly string[];
  /** Of one state; beyond it nothing is counted. */
  readonly limit: number;
}

/** How many items of a workflow are in each of these states. An index has them. */
export async function countItems(
  from: From,
  { workflow, states, limit }: CountFilter,
): Promise<{ readonly status: string; readonly items: number }[]> {
  const counts = [];
  for (const status of states) {
    const [row] = await from.all<{ items: number }>(sql`
      select count(*) as items
        from (select 1 as one
                from holdfast.item
               where workflow = ${workflow}
                 and status = ${status}
               limit ${limit}) as found`);
    counts.push({ status, items: row?.items ?? 0 });
  }
  return counts;
}

async function findItems(
  engine: Engine,
  from: From,
  ids: readonly string[],
): Promise<StoredItem[]> {
  const possible = ids.filter((id) => engine.mayBeId(id));
  if (possible.length === 0) return [];
  const rows = await from.all<AsRead<StoredItem>>(sql`
    select ${ITEM_COLUMNS} from holdfast.item where ${engine.among(sql`id`, possible)}`);
  return rows.map(itemOf);
}

/** The items that a committed change wrote. */
export async function itemsOfChange(engine: Engine, change: string): Promise<StoredItem[]> {
  const rows = await engine.all<{ id: string }>(sql`
    select item_id as id from holdfast.item_audit where change_id = ${change}`);
  const ids = rows.map(({ id }) => id);
  return findItems(engine, engine, ids);
}

/** The most selective column leads. Unless it is the workflow, the planner must not choose the index of the workflow. */
function leadOf(engine: Engine, filter: ItemFilter): { where: Sql; order: Sql } {
  const { workflow, parent, identifier } = filter;
  const inWorkflow =
    workflow === undefined ? nothing : sql`and coalesce(workflow, '') = ${workflow}`;
  if (parent !== undefined) {
    const named = identifier === undefined ? nothing : sql`and identifier = ${identifier}`;
    const where = sql`${engine.among(sql`parent_id`, [parent])} ${inWorkflow} ${named}`;
    return { where, order: sql`parent_id desc,` };
  }
  if (identifier !== undefined) {
    const where = sql`${engine.among(sql`identifier`, [identifier])} ${inWorkflow}`;
    return { where, order: sql`identifier desc,` };
  }
  if (workflow === undefined) return { where: sql`id is not null`, order: nothing };
  return { where: engine.among(sql`workflow`, [workflow]), order: sql`workflow desc,` };
}

function conditionsOf({ status, tenant, before }: ItemFilter, range: IdRange | undefined): Sql {
  return sql`${before === undefined ? nothing : sql`and id < ${before}`}
           ${tenant === undefined ? nothing : sql`and tenant = ${tenant}`}
           ${status === undefined ? nothing : sql`and status = ${status}`}
           ${range === undefined ? nothing : sql`and id >= ${range.from} and id <= ${range.to}`}`;
}

export async function itemsAfter(
  engine: Engine,
  after: string | null,
  limit: number,
): Promise<StoredItem[]> {
  const from = after === null ? nothing : sql`where id > ${after}`;
  const rows = await engine.all<AsRead<StoredItem>>(sql`
    select ${ITEM_COLUMNS} from holdfast.item ${from} order by id limit ${limit}`);
  return rows.map(itemOf);
}

interface EntryRow extends Omit<ItemEntry, "jobs" | "lockWaitMs"> {
  readonly jobs: string;
  readonly lockWaitUs: number | string | null;
}

const ENTRY_COLUMNS = sql`
       item_id as item, seq, at, actor, action, move, old_status as "oldStatus", new_status as "newStatus", revision,
       reason, lock_wait_us as "lockWaitUs", trace_id as "traceId", jobs, data_hash as "dataHash",
       previous_hash as "previousHash", hash`;

function entryOf({ lockWaitUs, jobs, ...row }: AsRead<EntryRow>): ItemEntry {
  return {
    ...row,
    seq: Number(row.seq),
    at: Number(row.at),
    revision: Number(row.revision),
    jobs: JSON.parse(jobs) as string[],
    lockWaitMs: lockWaitUs === null ? null : Number(lockWaitUs) / 1_000,
  };
}

export async function itemLines(
  engine: Engine,
  { after, upTo, limit }: LineRange,
): Promise<ItemEntry[]> {
  // The first condition is where the index scan begins; the second excludes the lines before.
  const behind =
    after === null
      ? sql`item_id is not null`
      : sql`item_id >= ${after.item} and (item_id > ${after.item} or seq > ${after.seq})`;
  const rows = await engine.all<AsRead<EntryRow>>(sql`
    select ${ENTRY_COLUMNS}
      from holdfast.item_audit
     where ${behind}
           ${upTo === null ? nothing : sql`and item_id <= ${upTo}`}
     order by item_id, seq
     limit ${limit}`);
  return rows.map(entryOf);
}

// Pruning deletes each tree of items as a whole.

/** How many rows one statement deletes. */
const DELETED_MAX = 500;

interface Kept {
  readonly workflow: string;
  readonly status: string;
  readonly keepMs: number;
}

/** Deletes trees whose root ended long enough ago and that contain no living item. Returns how many. */
export async function pruneItems(engine: Engine, limit: number): Promise<number> {
  let pruned = 0;
  for (const kept of await keptFor(engine)) {
    for (const root of await over(engine, kept, limit - pruned)) {
      if (await engine.transaction((tx) => pruneTree(engine, tx, { root, kept }))) pruned += 1;
    }
    if (pruned >= limit) break;
  }
  return pruned;
}

/** The final states of workflows with a retention time. */
function keptFor(engine: Engine): Promise<Kept[]> {
  return engine.all<Kept>(sql`
    select s.workflow, s.name as status, w.keep_ms as "keepMs"
      from holdfast.workflow w
      join holdfast.workflow_state s on s.workflow = w.name
     where w.keep_ms is not null
       and s.is_final = 1
     order by s.workflow, s.name`);
}

/** Every change below a root changes the root too, so its time covers the whole tree. */
async function over(
  engine: Engine,
  { workflow, status, keepMs }: Kept,
  limit: number,
): Promise<string[]> {
  const rows = await engine.all<{ id: string }>(sql`
    select i.id
      from holdfast.item i
     where i.workflow = ${workflow}
       and i.status = ${status}
       and i.depth = 0
       and i.updated_at < ${engine.now()} - ${keepMs}
       and not exists (select 1
                         from holdfast.item below
                         join holdfast.workflow_state t on t.workflow = below.workflow and t.name = below.status
                        where below.root_id = i.id and t.is_final = 0)
     order by i.updated_at
     limit ${limit}`);
  return rows.map(({ id }) => id);
}

/** The lock on the root keeps the tree unchanged. False: the tree changed before. */
async function pruneTree(
  engine: Engine,
  tx: Transaction,
  { root, kept }: { root: string; kept: Kept },
): Promise<boolean> {
  const locked = sql`i.updated_at < ${engine.now()} - ${kept.keepMs} ${engine.lockRows()}`;
  const top = await tx.all(sql`
    select i.id from holdfast.item i where i.id = ${root} and i.status = ${kept.status} and ${locked}`);
  if (top.length === 0) return false;
  const rows = await tx.all<{ id: string; depth: number; living: number }>(sql`
    select i.id, i.depth, 1 - s.is_final as living
      from holdfast.item i
      join holdfast.workflow_state s on s.workflow = i.workflow and s.name = i.status
     where i.root_id = ${root}`);
  if (rows.some(({ living }) => living === 1)) return false;
  // Children before their parents.
  const depths = [...new Set(rows.map(({ depth }) => depth))].toSorted((a, b) => b - a);
  for (const depth of depths) {
    const ids = rows.filter((row) => row.depth === depth).map(({ id }) => id);
    for (let at = 0; at < ids.length; at += DELETED_MAX) {
      await deleteItems(engine, tx, ids.slice(at, at + DELETED_MAX));
    }
  }
  return true;
}

async function deleteItems(engine: Engine, tx: Transaction, ids: readonly string[]): Promise<void> {
  const those = engine.among(sql`item_id`, ids);
  const pruning = ids.map((id) => ({ item_id: id }));
  await tx.insert("item_pruning", pruning);
  await tx.run(sql`delete from holdfast.item_audit where ${those}`);
  await tx.run(sql`delete from holdfast.item_due where ${those}`);
  await tx.run(sql`delete from holdfast.item_job where ${those}`);
  await tx.run(sql`delete from holdfast.item where ${engine.among(sql`id`, ids)}`);
  await tx.run(sql`delete from holdfast.item_progress where ${those}`);
  await tx.run(sql`delete from holdfast.item_pruning where ${those}`);
}
