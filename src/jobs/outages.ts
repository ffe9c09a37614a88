/**
 * Attempts whose leases expired because the database did not answer in time.
 *
 * That is no crash: the worker is alive and reports it. Either it still finds its lease, or another worker has reclaimed
 * the lease and counted a crash. Then the report uncounts the crash, under the fence of the attempt. One row of the
 * history has that fence, so a crash is uncounted once.
 */
import { type Fence, finalStatuses, type OutageReport } from "../core/job.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { MoveContext } from "./hooks.ts";
import { settledBefore } from "./recovery.ts";
import { outageError } from "./rows.ts";
import { type SettledWithDependents, settleIn } from "./settle.ts";

/** Outages that a job is not charged for. A task that itself locks the database would otherwise be retried for ever. */
export const OUTAGES_MAX = 10;

/** How often to look for a job that moves between tables in the meantime. */
const ROUNDS_MAX = 10;

const NOTHING: SettledWithDependents = { settled: [], queues: [] };

function settleOutage(context: MoveContext, report: OutageReport): Promise<SettledWithDependents> {
  const { engine } = context;
  return engine.transaction(async (tx) => {
    const [row] = await tx.all<{ outages: number }>(sql`
      select count(*) as outages
        from holdfast.attempt
       where job_id = ${report.id} and outcome = 'released' and error is not null`);
    const isForgiven = (row?.outages ?? 0) < OUTAGES_MAX;
    const handsBack = isForgiven && report.gaveUp;
    const outcome = handsBack
      ? ({ kind: "released", error: outageError() } as const)
      : report.outcome;
    const settled = await settleIn(context, tx, { ...report, outcome });
    if (settled.settled.length > 0 || !isForgiven) return settled;
    return uncountCrash(engine, tx, report);
  });
}

/** Safe to repeat after an answer was lost: an outage that was settled before is only looked up. */
export async function lookUpOutage(
  context: MoveContext,
  report: OutageReport,
): Promise<SettledWithDependents> {
  const before = await settledBefore(context.engine, [report], []);
  return before.length > 0 ? { settled: before, queues: [] } : settleOutage(context, report);
}

/** A job that has ended is not changed: its end was announced. */
export async function uncountCrash(
  engine: Engine,
  tx: Transaction,
  { id, worker, epoch }: Fence,
  error = outageError(),
): Promise<SettledWithDependents> {
  const attempt = sql`job_id = ${id} and epoch = ${epoch} and worker = ${worker} and outcome = 'crashed'`;
  const [crashed] = await tx.all(
    sql`select epoch from holdfast.attempt where ${attempt} ${engine.lockRows()}`,
  );
  if (crashed === undefined) return NOTHING;
  const attempts = await correct(tx, id, await crashesFrom(tx, { id, epoch }));
  if (attempts === null) return NOTHING;
  await tx.run(sql`
    update holdfast.attempt set outcome = 'released', error = ${error} where ${attempt}`);
  const [job] = await tx.all<{ queue: string; task: string }>(
    sql`select queue, task from holdfast.job where id = ${id}`,
  );
  const { queue = "", task = "" } = job ?? {};
  const given = { id, worker, epoch, queue, task, attempts };
  return { settled: [{ ...given, status: "pending", dueAt: null }], queues: [] };
}

/** This crash and later ones. A job that counts fewer was revived after it, and does not count it any more. */
async function crashesFrom(
  tx: Transaction,
  { id, epoch }: { id: string; epoch: number },
): Promise<number> {
  const [row] = await tx.all<{ crashes: number }>(sql`
    select count(*) as crashes
      from holdfast.attempt
     where job_id = ${id} and epoch >= ${epoch} and outcome = 'crashed'`);
  return row?.crashes ?? 0;
}

/**
 * Tries the tables in the order in which a job passes through them. If a worker has claimed the job again, it knows its
 * attempt number, so only the crash is uncounted. Returns the attempts; null: the job has ended, or does not count the crash.
 */
async function correct(tx: Transaction, id: string, crashesMin: number): Promise<number | null> {
  const counts = sql`where id = ${id} and crashes >= ${crashesMin}`;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const changes = [
      sql`update holdfast.waiting set crashes = crashes - 1, attempts = attempts - 1 ${counts}`,
      sql`update holdfast.ready set crashes = crashes - 1, attempts = attempts - 1 ${counts}`,
      sql`update holdfast.lease set crashes = crashes - 1 ${counts}`,
    ];
    for (const change of changes) {
      if ((await tx.run(change)) === 0) continue;
      const [row] = await tx.all<{ attempts: number }>(
        sql`select attempts from holdfast.job_state where id = ${id}`,
      );
      return row?.attempts ?? 0;
    }
    const [left] = await tx.all<{ status: string; crashes: number }>(
      sql`select status, crashes from holdfast.job_state where id = ${id}`,
    );
    if (left === undefined) continue;
    const hasEnded = finalStatuses.some((status) => status === left.status);
    if (hasEnded || left.crashes < crashesMin) return null;
  }
  return null;
}
