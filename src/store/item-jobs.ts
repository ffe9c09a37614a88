/** Items that wait for the jobs that their state enqueued. */
import type { Engine, Row, Transaction } from "./engine.ts";
import { sql } from "./sql.ts";
import type { DueItem, ItemJob, ItemWrite } from "./workflows.ts";

/** A job may be ended by somebody who tells nobody: then it is found after this long. */
const JOBS_LOOK_MS = 10 * 60_000;

/** When to look whether its jobs have ended; the last of them makes it sooner. */
export function whenJobsEnd(
  { item, jobs }: ItemWrite,
  at: number,
): Row & { item_id: string; reason: string; workflow: string; due_at: number } {
  const lookMs = jobs.length === 0 ? 0 : JOBS_LOOK_MS;
  return { item_id: item.id, reason: "jobs", workflow: item.workflow, due_at: at + lookMs };
}

/** Notes for the items that wait for them what became of jobs, in the transaction in which they end. */
export async function tellItems(
  engine: Engine,
  tx: Transaction,
  { ended, now }: { ended: readonly { id: string; status: string }[]; now: number },
): Promise<void> {
  const ids = ended.map(({ id }) => id);
  const waiting = await tx.all<{ job: string; item: string }>(sql`
    select job_id as job, item_id as item from holdfast.item_job where ${engine.among(sql`job_id`, ids)}`);
  // In the order in which a move lets go of them.
  for (const item of new Set(waiting.map((row) => row.item))) {
    await tx.run(sql`
      update holdfast.item_due set due_at = ${now} where item_id = ${item} and reason = 'jobs'`);
  }
  for (const { job } of waiting) {
    const status = ended.find(({ id }) => id === job)?.status ?? null;
    await tx.run(sql`update holdfast.item_job set status = ${status} where job_id = ${job}`);
  }
}

export function itemJobs(engine: Engine, item: string): Promise<ItemJob[]> {
  return engine.all<ItemJob>(sql`
    select job_id as job, status from holdfast.item_job where item_id = ${item} order by job_id`);
}

export async function postponeItem(
  engine: Engine,
  { item, reason }: DueItem,
  ms: number,
): Promise<void> {
  await engine.run(sql`
    update holdfast.item_due
       set due_at = ${engine.now()} + ${ms}
     where item_id = ${item}
       and reason = ${reason}`);
}
