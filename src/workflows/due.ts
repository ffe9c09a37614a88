/** Items that move automatically, at the time limit of their state or when the jobs of the state have ended. */
import { isCalled } from "../core/id.ts";
import type { Engine, Row, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { JobHooks } from "../jobs/hooks.ts";
import type { DueItem, ItemWrite } from "./item-record.ts";

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

  async revived(tx, id) {
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
