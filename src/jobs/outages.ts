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
import { besideIn, type LeaseRow, neighbourError, outageError } from "./rows.ts";
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
async function uncountCrash(
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

/** This crash and later ones. A job that counts fewer was reopened after it, and does not count it any more. */
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

// Which job ended its worker.
//
// When a worker dies, every job that it held counts a crash, and the next worker runs each of them alone. A job that counts
// one and loses another worker, with no other job beside it, is the culprit. The jobs that ran beside it at its earlier
// crashes are then not charged for those. The record of a crash names them, so no index is needed to find them.

/** How many leases of the dead workers are read. */
const LEASES_MAX = 1_000;

/** How many crashes of a culprit are looked at. */
const CRASHES_SEEN_MAX = 10;

/** For each lease the ids of the other jobs that its worker held. */
export async function besideEach(
  engine: Engine,
  tx: Transaction,
  taken: readonly LeaseRow[],
): Promise<string[][]> {
  if (taken.length === 0) return [];
  const workers = [...new Set(taken.map(({ locked_by }) => locked_by))];
  const left = await tx.all<Pick<LeaseRow, "id" | "locked_by">>(sql`
    select id, locked_by
      from holdfast.lease
     where ${engine.among(sql`locked_by`, workers)}
     order by id
     limit ${LEASES_MAX}`);
  const held = Map.groupBy([...taken, ...left], ({ locked_by }) => locked_by);
  return taken.map(({ id, locked_by }) => {
    const together = held.get(locked_by) ?? [];
    return together.filter((other) => other.id !== id).map((other) => other.id);
  });
}

/** The leases whose job was suspected before, and ran alone. */
export function culpritsOf(taken: readonly LeaseRow[], beside: readonly string[][]): string[] {
  const isShown = ({ crashes }: LeaseRow, index: number): boolean =>
    crashes > 0 && beside[index]?.length === 0;
  return taken.filter(isShown).map(({ id }) => id);
}

/**
 * Takes back what the jobs beside the culprit were charged for its crashes. Returns their ids. Each is a transaction of its
 * own, and repeating it changes nothing: what a crash of this process leaves is done after the culprit's next crash.
 */
export async function clearNeighbours(engine: Engine, culprit: string): Promise<string[]> {
  const crashes = await engine.all<{ worker: string; error: string | null }>(sql`
    select worker, error
      from holdfast.attempt
     where job_id = ${culprit} and outcome = 'crashed'
     order by epoch desc
     limit ${CRASHES_SEEN_MAX}`);
  const cleared: string[] = [];
  for (const { worker, error } of crashes) {
    for (const id of besideIn(error)) {
      if (engine.mayBeId(id) && (await clear(engine, { id, worker }, culprit))) cleared.push(id);
    }
  }
  return cleared.toSorted();
}

function clear(
  engine: Engine,
  { id, worker }: { id: string; worker: string },
  culprit: string,
): Promise<boolean> {
  return engine.transaction(async (tx) => {
    const [crash] = await tx.all<{ epoch: number }>(sql`
      select epoch
        from holdfast.attempt
       where job_id = ${id} and worker = ${worker} and outcome = 'crashed'`);
    if (crash === undefined) return false;
    const fence = { id, worker, epoch: crash.epoch };
    const { settled } = await uncountCrash(engine, tx, fence, neighbourError(culprit));
    return settled.length > 0;
  });
}
