/**
 * Attempts whose leases ended because the database did not answer in time.
 *
 * That is no crash: the worker is alive and says so. Either it comes first and finds its lease, or another worker has taken
 * the lease back and counted a crash. Then the report gives it back, under the fence of the attempt, which one row of its
 * history keeps: it can be given back once.
 */
import { type Fence, finalStatuses, type OutageReport } from "../core/job.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { MoveContext } from "./hooks.ts";
import { settledBefore } from "./recovery.ts";
import { outageError } from "./rows.ts";
import { type SettledWithDependents, settleIn } from "./settle.ts";

/**
 * How many outages a job is forgiven. A task that locks the database itself meets one in every attempt, and has to come to
 * an end.
 */
export const OUTAGES_MAX = 10;

/** How often a job is looked for that was between two tables each time. */
const ROUNDS_MAX = 10;

const NOTHING: SettledWithDependents = { settled: [], queues: [] };

export function settleOutage(
  context: MoveContext,
  report: OutageReport,
): Promise<SettledWithDependents> {
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
    const cared = await settleIn(context, tx, { ...report, outcome });
    if (cared.settled.length > 0 || !isForgiven) return cared;
    return giveBack(engine, tx, report);
  });
}

/** After an answer was lost, or when it is reported again: it was settled or given back, or has to be now. */
export async function lookUpOutage(
  context: MoveContext,
  report: OutageReport,
): Promise<SettledWithDependents> {
  const before = await settledBefore(context.engine, [report], []);
  return before.length > 0 ? { settled: before, queues: [] } : settleOutage(context, report);
}

/** Of a job that has ended nothing is changed: others were told of its end. */
async function giveBack(
  engine: Engine,
  tx: Transaction,
  { id, worker, epoch }: Fence,
): Promise<SettledWithDependents> {
  const attempt = sql`job_id = ${id} and epoch = ${epoch} and worker = ${worker} and outcome = 'crashed'`;
  const [crashed] = await tx.all(
    sql`select epoch from holdfast.attempt where ${attempt} ${engine.lockRows()}`,
  );
  if (crashed === undefined) return NOTHING;
  const attempts = await correct(tx, id, await crashesFrom(tx, { id, epoch }));
  if (attempts === null) return NOTHING;
  await tx.run(sql`
    update holdfast.attempt set outcome = 'released', error = ${outageError()} where ${attempt}`);
  const [job] = await tx.all<{ queue: string; task: string }>(
    sql`select queue, task from holdfast.job where id = ${id}`,
  );
  const { queue = "", task = "" } = job ?? {};
  const given = { id, worker, epoch, queue, task, attempts };
  return { settled: [{ ...given, status: "pending", dueAt: null }], queues: [] };
}

/** This crash and those since. A job that counts fewer was revived after it, and counts it no more. */
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
 * Wherever the job stands, in the order in which it passes through the tables. A worker that has it by now was told which
 * attempt it makes: only the crash is given back then. Returns its attempts; null: it has ended, or does not count the crash.
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
