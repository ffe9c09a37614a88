/** Reading items: one, a page of them, and their history. */
import type { ItemEntry } from "../core/item.ts";
import { idRange, type IdRange } from "../core/id-prefix.ts";
import type { LineRange } from "./actions.ts";
import type { Engine, Transaction } from "./engine.ts";
import { ITEM_COLUMNS, itemOf, type AsRead } from "./items.ts";
import { nothing, sql, type Sql } from "./sql.ts";
import type { HistoryFilter, ItemFilter, StoredItem } from "./workflows.ts";

/** The database, or a transaction in it. */
type From = Pick<Transaction, "all">;

export async function findItems(
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

/** The items that a change wrote, if it was committed. */
export async function itemsOfChange(engine: Engine, change: string): Promise<StoredItem[]> {
  const rows = await engine.all<{ id: string }>(sql`
    select item_id as id from holdfast.item_audit where change_id = ${change}`);
  return findItems(
    engine,
    engine,
    rows.map(({ id }) => id),
  );
}

/**
 * Whatever is asked for, an index has it in this order: it begins with the column that leads, which is named in the order so
 * that no database walks through all items by id instead.
 */
export async function listItems(
  engine: Engine,
  from: From,
  filter: ItemFilter,
): Promise<StoredItem[]> {
  for (const id of [filter.parent, filter.before]) {
    if (id !== undefined && !engine.mayBeId(id)) return [];
  }
  const range = filter.prefix === undefined ? undefined : idRange(filter.prefix);
  if (range === null) return [];
  const { where, order } = leadOf(engine, filter);
  const rows = await from.all<AsRead<StoredItem>>(sql`
    select ${ITEM_COLUMNS}
      from holdfast.item
     where ${where}
           ${conditionsOf(filter)}
           ${inRange(range)}
     order by ${order} id desc
     limit ${filter.limit}`);
  return rows.map(itemOf);
}

/** The rarest leads. Where that is not the workflow, the workflow must not be what the index is chosen by. */
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

function inRange(range: IdRange | undefined): Sql {
  return range === undefined ? nothing : sql`and id >= ${range.from} and id <= ${range.to}`;
}

function conditionsOf({ status, tenant, before }: ItemFilter): Sql {
  return sql`${before === undefined ? nothing : sql`and id < ${before}`}
           ${tenant === undefined ? nothing : sql`and tenant = ${tenant}`}
           ${status === undefined ? nothing : sql`and status = ${status}`}`;
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

export async function itemHistory(
  engine: Engine,
  from: From,
  { item, after, limit }: HistoryFilter,
): Promise<ItemEntry[]> {
  if (!engine.mayBeId(item)) return [];
  const rows = await from.all<AsRead<EntryRow>>(sql`
    select ${ENTRY_COLUMNS}
      from holdfast.item_audit
     where item_id = ${item}
       and seq > ${after}
     order by seq
     limit ${limit}`);
  return rows.map(entryOf);
}

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

/** The lines of all items, for whoever looks through them. */
export async function itemLines(
  engine: Engine,
  { after, upTo, limit }: LineRange,
): Promise<ItemEntry[]> {
  // Said twice: where to begin, and what to leave out of that.
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
