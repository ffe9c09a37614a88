/** Reading items: one, a page of them, their history, and those that are due. */
import type { ItemEntry } from "../core/item.ts";
import type { Engine, Transaction } from "./engine.ts";
import { ITEM_COLUMNS, itemOf, type AsRead } from "./items.ts";
import { nothing, sql, type Sql } from "./sql.ts";
import type { DueItem, HistoryFilter, ItemFilter, StoredItem } from "./workflows.ts";

export async function findItems(
  engine: Engine,
  from: Pick<Transaction, "all">,
  ids: readonly string[],
): Promise<StoredItem[]> {
  if (ids.length === 0) return [];
  const rows = await from.all<AsRead<StoredItem>>(sql`
    select ${ITEM_COLUMNS} from holdfast.item where ${engine.among(sql`id`, ids)}`);
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

export async function listItems(engine: Engine, filter: ItemFilter): Promise<StoredItem[]> {
  for (const id of [filter.parent, filter.before]) {
    if (id !== undefined && !engine.mayBeId(id)) return [];
  }
  const rows = await engine.all<AsRead<StoredItem>>(sql`
    select ${ITEM_COLUMNS}
      from holdfast.item
     where ${conditionsOf(engine, filter)}
     order by id desc
     limit ${filter.limit}`);
  return rows.map(itemOf);
}

function conditionsOf(engine: Engine, filter: ItemFilter): Sql {
  const { workflow, status, tenant, identifier, parent, before } = filter;
  return sql`${before === undefined ? sql`id is not null` : sql`id < ${engine.typed(before)}`}
           ${parent === undefined ? nothing : sql`and parent_id = ${parent}`}
           ${identifier === undefined ? nothing : sql`and identifier = ${identifier}`}
           ${tenant === undefined ? nothing : sql`and tenant = ${tenant}`}
           ${workflow === undefined ? nothing : sql`and workflow = ${workflow}`}
           ${status === undefined ? nothing : sql`and status = ${status}`}`;
}

export async function itemsAfter(
  engine: Engine,
  after: string | null,
  limit: number,
): Promise<StoredItem[]> {
  const from = after === null ? sql`id is not null` : sql`id > ${after}`;
  const rows = await engine.all<AsRead<StoredItem>>(sql`
    select ${ITEM_COLUMNS} from holdfast.item where ${from} order by id limit ${limit}`);
  return rows.map(itemOf);
}

interface EntryRow extends Omit<ItemEntry, "jobs" | "lockWaitMs"> {
  readonly jobs: string;
  readonly lockWaitUs: number | null;
}

export async function itemHistory(
  engine: Engine,
  { item, after, limit }: HistoryFilter,
): Promise<ItemEntry[]> {
  const rows = await engine.all<EntryRow>(sql`
    select item_id as item, seq, at, actor, action, move, old_status as "oldStatus", new_status as "newStatus", revision,
           reason, lock_wait_us as "lockWaitUs", trace_id as "traceId", jobs, data_hash as "dataHash",
           previous_hash as "previousHash", hash
      from holdfast.item_audit
     where item_id = ${item}
       and seq > ${after}
     order by seq
     limit ${limit}`);
  return rows.map(({ lockWaitUs, jobs, ...row }) => ({
    ...row,
    jobs: JSON.parse(jobs) as string[],
    lockWaitMs: lockWaitUs === null ? null : lockWaitUs / 1_000,
  }));
}

export async function dueItems(
  engine: Engine,
  { workflows, limit }: { workflows: readonly string[]; limit: number },
): Promise<{ due: DueItem[]; nextInMs: number | null }> {
  if (workflows.length === 0) return { due: [], nextInMs: null };
  // One more than wanted: the first that is not due, or has no place any more, says when to look again.
  const rows = await engine.all<DueItem & { inMs: number }>(sql`
    select item_id as item, workflow, reason, due_at - ${engine.now()} as "inMs"
      from holdfast.item_due
     where ${engine.among(sql`workflow`, workflows)}
     order by due_at
     limit ${limit + 1}`);
  const due = rows.filter(({ inMs }) => inMs <= 0).slice(0, limit);
  const next = rows[due.length];
  return {
    due: due.map(({ item, workflow, reason }) => ({ item, workflow, reason })),
    nextInMs: next === undefined ? null : Math.max(0, next.inMs),
  };
}
