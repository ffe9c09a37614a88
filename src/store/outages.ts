/**
 * Attempts whose leases ended because the database did not answer in time.
 *
 * That is no crash: the worker is alive and says so. Either it comes first and finds its lease, or another worker has taken
 * the lease back and counted a crash. Then the report gives it back, under the fence of the attempt, which one row of its
 * history keeps: it can be given back once.
 */
import type { Fence, OutageReport } from "../core/job.ts";
import type { Engine, Transaction } from "./engine.ts";
import type { Cared } from "./jobs.ts";
import { outageError } from "./rows.ts";
import { settleIn } from "./settle.ts";
import { sql } from "./sql.ts";
import { settledBefore } from "./unknown.ts";

/**
 * How many outages a job is forgiven. A task that locks the database itself meets one in every attempt, and has to come to
 * an end.
 */
export const OUTAGES_MAX = 10;
/** How often a job is looked for that was between two tables each time. */
const ROUNDS_MAX = 10;
const NOTHING: Cared = { settled: [], queues: [] };

export function settleOutage(engine: Engine, report: OutageReport): Promise<Cared> {
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
    const cared = await settleIn(engine, tx, { ...report, outcome });
    if (cared.settled.length > 0 || !isForgiven) return cared;
    return giveBack(engine, tx, report);
  });
}

/** After an answer was lost, or when it is reported again: it was settled or given back, or has to be now. */
export async function lookUpOutage(engine: Engine, report: OutageReport): Promise<Cared> {
  const before = await settledBefore(engine, [report], []);
  return before.length > 0 ? { settled: before, queues: [] } : settleOutage(engine, report);
}

/** Of a job that has ended nothing is changed: others were told of its end. */
async function giveBack(
  engine: Engine,
  tx: Transaction,
  { id, worker, epoch }: Fence,
): Promise<Cared> {
  const attempt = sql`job_id = ${id} and epoch = ${epoch} and worker = ${worker} and outcome = 'crashed'`;
  const [crashed] = await tx.all(
    sql`select epoch from holdfast.attempt where ${attempt} ${engine.lockRows()}`,
  );
  if (crashed === undefined) return NOTHING;
  const crashes = await crashesBut(tx, { id, epoch });
  const attempts = crashes === null ? null : await correct(tx, id, crashes);
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

/** How many crashes count without this one; null: it counts no more, for the job was revived since. */
async function crashesBut(
  tx: Transaction,
  { id, epoch }: { id: string; epoch: number },
): Promise<number | null> {
  const rows = await tx.all<{ epoch: number; outcome: string }>(sql`
    select epoch, outcome
      from holdfast.attempt
     where job_id = ${id} and outcome in ('crashed', 'failed', 'cancelled')`);
  const revivedAt = rows.filter(({ outcome }) => outcome !== "crashed").map((row) => row.epoch);
  const since = Math.max(0, ...revivedAt);
  if (epoch <= since) return null;
  return rows.filter((row) => row.outcome === "crashed" && row.epoch > since).length - 1;
}

/**
 * Wherever the job stands, in the order in which it passes through the tables. A worker that has it by now was told which
 * attempt it makes: only the crash is given back then. Returns its attempts; null: it has ended.
 */
async function correct(tx: Transaction, id: string, crashes: number): Promise<number | null> {
  const set = sql`crashes = case when crashes > ${crashes} then ${crashes} else crashes end`;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const changes = [
      sql`update holdfast.waiting set ${set}, attempts = attempts - 1 where id = ${id}`,
      sql`update holdfast.ready set ${set}, attempts = attempts - 1 where id = ${id}`,
      sql`update holdfast.lease set ${set} where id = ${id}`,
    ];
    for (const change of changes) {
      if ((await tx.run(change)) === 0) continue;
      const [row] = await tx.all<{ attempts: number }>(
        sql`select attempts from holdfast.job_state where id = ${id}`,
      );
      return row?.attempts ?? 0;
    }
    const [ended] = await tx.all(sql`select id from holdfast.finished where id = ${id}`);
    if (ended !== undefined) return null;
  }
  return null;
}
