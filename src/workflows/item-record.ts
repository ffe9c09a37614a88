/** Workflows and items as the store reads and writes them. */
import { isCalled } from "../core/id.ts";
import type { ChildrenIn, ItemAction, ItemRecord } from "../core/item.ts";
import { decode } from "../core/json.ts";
import type { Engine, Row, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { JobHooks } from "../jobs/hooks.ts";
import type { NewJob } from "../jobs/store.ts";

export interface Declaration {
  readonly name: string;
  readonly version: number;
  /** The workflow of its items' parents; its own name: items may have a parent of the same workflow. */
  readonly parent: string | null;
  readonly keepMs: number | null;
  readonly types: readonly string[];
  readonly states: readonly DeclaredState[];
  readonly moves: readonly DeclaredMove[];
}

interface DeclaredState {
  readonly name: string;
  readonly isInitial: boolean;
  readonly isFinal: boolean;
}

export interface DeclaredMove {
  readonly name: string;
  readonly from: string;
  readonly to: string;
}

export interface StoredWorkflow extends Declaration {
  readonly declaredAt: number;
}

/** A row of the table; its data is text. */
export interface StoredItem extends Omit<ItemRecord, "data"> {
  readonly data: string;
  readonly depth: number;
  /** The number and the hash of the last line in its audit. */
  readonly auditSeq: number;
  readonly auditHash: string;
}

export interface ItemsChange {
  /** Identifies the change when its answer was lost. */
  readonly id: string;
  /** The change may have been made before under this id: then nothing is written, and the items are returned. */
  readonly once?: boolean;
  /** The items to change. All of them must exist. */
  readonly items: readonly string[];
  /** Their ancestors, root first, if the caller knows them. */
  readonly above?: readonly string[];
  decide(seen: Seen): Promise<readonly ItemWrite[]>;
}

/** The input of `decide`. It is locked until the change is written. */
export interface Seen {
  readonly now: number;
  /** The items to change, and their ancestors. */
  readonly items: ReadonlyMap<string, StoredItem>;
  progress(item: string): Promise<ChildrenIn[]>;
}

export interface ItemWrite {
  /** The item before the change, or the item to start. */
  readonly item: StoredItem;
  readonly line: NewLine;
  readonly status: string;
  readonly data: string;
  readonly jobs: readonly NewJob[];
  /** It moves automatically when all these jobs have ended. */
  readonly awaitsJobs: boolean;
  /** It moves automatically after this long in the state; null: never. */
  readonly limitMs: number | null;
}

export interface NewLine {
  readonly action: ItemAction;
  readonly move: string | null;
  readonly actor: string;
  readonly reason: string | null;
  readonly lockWaitMs: number | null;
  readonly traceId: string | null;
}

export interface ItemFilter {
  /** Required for lists by status or tenant: no other index has their order. */
  readonly workflow?: string;
  readonly status?: string;
  readonly tenant?: string;
  readonly identifier?: string;
  readonly parent?: string;
  /** Only items whose id begins with this, in either case, with or without dashes. */
  readonly prefix?: string;
  readonly before?: string;
  readonly limit: number;
}

export interface HistoryFilter {
  readonly item: string;
  readonly after: number;
  readonly limit: number;
}

export interface DueItem {
  readonly item: string;
  readonly workflow: string;
  /** The time limit of its state, or its ended jobs. */
  readonly reason: "limit" | "jobs";
  /** When it entered the state. */
  readonly enteredAt: number;
  readonly dueAt: number;
}

export interface ItemJob {
  readonly job: string;
  /** Null: it has not ended. */
  readonly status: string | null;
}

/** An item as guards and callers see it. */
export function recordOf(item: StoredItem): ItemRecord {
  const { id, workflow, type, tenant, identifier, parent, root, status } = item;
  const { revision, createdAt, updatedAt, enteredAt } = item;
  const place = { id, workflow, type, tenant, identifier, parent, root, status };
  return { ...place, data: decode(item.data), revision, createdAt, updatedAt, enteredAt };
}

export function recordOrNull(item: StoredItem | null): ItemRecord | null {
  return item === null ? null : recordOf(item);
}

export interface LineRange {
  /** The last line of the page before, or of the range before. */
  readonly after: { readonly item: string; readonly seq: number } | null;
  /** The last item of the range; null: to the end. */
  readonly upTo: string | null;
  readonly limit: number;
}

// Items that move automatically, at the time limit of their state or when the jobs of the state have ended.

/** A job may end without a notification; its item looks again after this long. */
const JOBS_LOOK_MS = 10 * 60_000;

/** None, if the state has no time limit. */
export function limitOf({ item, limitMs }: ItemWrite, at: number): Row[] {
  if (limitMs === null) return [];
  const { id, workflow } = item;
  return [{ item_id: id, reason: "limit", workflow, entered_at: at, due_at: at + limitMs }];
}

/** When to check whether its jobs have ended; each ending job makes it sooner. */
export function whenJobsEnd({ item, jobs }: ItemWrite, at: number): Row {
  const due = jobs.length === 0 ? at : at + JOBS_LOOK_MS;
  const { id, workflow } = item;
  return { item_id: id, reason: "jobs", workflow, entered_at: at, due_at: due };
}

/** Whether maintenance may have to look sooner than it planned. */
export function willBeDue({ limitMs, awaitsJobs, jobs }: ItemWrite): boolean {
  return limitMs !== null || (awaitsJobs && jobs.length === 0);
}

/** Items wait for the ends of the jobs that their state enqueued. */
export const itemHooks: JobHooks = {
  async ended(engine, tx, { jobs, now }) {
    await recordEnds(engine, tx, { ended: jobs, now });
    return [];
  },

  async reopened(tx, id) {
    if (!isCalled(id)) return;
    await tx.run(sql`update holdfast.item_job set status = null where job_id = ${id}`);
  },
};

/** Records the ends of jobs for the items that wait for them, in the transaction in which they end. */
async function recordEnds(
  engine: Engine,
  tx: Transaction,
  { ended, now }: { ended: readonly { id: string; status: string }[]; now: number },
): Promise<void> {
  const ids = ended.map(({ id }) => id);
  const waiting = await tx.all<{ job: string; item: string }>(sql`
    select job_id as job, item_id as item
      from holdfast.item_job
     where ${engine.among(sql`job_id`, ids)}
     order by item_id, job_id`);
  // In the order in which a move deletes them. The time always changes, so that a concurrent reader notices.
  for (const item of new Set(waiting.map((row) => row.item))) {
    await tx.run(sql`
      update holdfast.item_due
         set due_at = case when due_at > ${now} then ${now} else due_at - 1 end
       where item_id = ${item}
         and reason = 'jobs'`);
  }
  for (const { job } of waiting) {
    const status = ended.find(({ id }) => id === job)?.status ?? null;
    await tx.run(sql`update holdfast.item_job set status = ${status} where job_id = ${job}`);
  }
}

export async function dueItems(
  engine: Engine,
  { workflows, limit }: { workflows: readonly string[]; limit: number },
): Promise<{ due: DueItem[]; nextInMs: number | null }> {
  if (workflows.length === 0) return { due: [], nextInMs: null };
  // One more than wanted: the first one beyond the limit, or not yet due, tells when to look again. One query for each
  // workflow: for several together the database would sort all rows.
  const each = workflows.map(
    (workflow) => sql`
    select *
      from (select item_id as item, workflow, reason, entered_at as "enteredAt", due_at as "dueAt",
                   due_at - ${engine.now()} as "inMs"
              from holdfast.item_due
             where workflow = ${workflow}
             order by due_at
             limit ${limit + 1}) due`,
  );
  const found = await engine.all<DueItem & { inMs: number }>(
    each.reduce((all, one) => sql`${all} union all ${one}`),
  );
  const rows = found.toSorted((a, b) => a.inMs - b.inMs);
  const due = rows.filter(({ inMs }) => inMs <= 0).slice(0, limit);
  const next = rows[due.length];
  return {
    due: due.map(({ inMs: _inMs, ...one }) => one),
    nextInMs: next === undefined ? null : Math.max(0, next.inMs),
  };
}
