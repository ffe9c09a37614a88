/**
 * The moves of jobs that are not hot: each is one transaction that takes rows from one table and puts them into
 * another. Taking is what decides: whoever took the row moves it, and nobody else can.
 */
import {
  finalStatuses,
  mayMove,
  moves,
  type FinalStatus,
  type Outcome,
  type Settlement,
  type Status,
} from "../core/job.ts";
import { formatMs } from "../core/duration.ts";
import { subjects } from "../core/audit.ts";
import { IllegalMove, JobNotFound } from "../core/errors.ts";
import { isCalled } from "../core/id.ts";
import { JOB_ENDED } from "../core/step.ts";
import type { Signature } from "./actions.ts";
import { noteAction } from "./audit.ts";
import type { Engine, Transaction } from "./engine.ts";
import { pruneEvents, wake } from "./events.ts";
import { tellItems } from "./item-due.ts";
import { holdAgain } from "./keys.ts";
import { asRow, hintPending, putReady, queuesOf, readNow } from "./moving.ts";
import {
  land,
  landAfterCrash,
  traveller,
  type AttemptRow,
  type FinishedRow,
  type Landing,
  type LeaseRow,
  type Traveller,
  type WaitingRow,
} from "./rows.ts";
import { sql, type Sql } from "./sql.ts";
import type { Hint, Settled, Upcoming } from "./store.ts";

export interface Promoted extends Touched {
  readonly moved: number;
}

/** Somebody else may have promoted them meanwhile: of those who look, all see the same job that is due. */
export async function promoteDue(engine: Engine, limit: number): Promise<Promoted> {
  const rows = await engine.transaction(async (tx) => {
    const taken = await tx.take<WaitingRow>({
      table: "waiting",
      where: sql`due_at <= ${engine.now()}`,
      orderBy: sql`due_at, id`,
      limit,
      skipLocked: true,
    });
    if (taken.length === 0) return [];
    await stopWaiting(engine, tx, taken);
    await putReady(tx, taken, await readNow(engine, tx));
    return taken;
  });
  return { moved: rows.length, queues: queuesOf(rows) };
}

/** The first of the index on due times: for a minimum, some engines read all of it, others the whole table. */
export async function upcoming(engine: Engine): Promise<Upcoming> {
  const [row] = await engine.all<Upcoming>(sql`
    select (select due_at from holdfast.waiting where due_at is not null order by due_at limit 1) - ${engine.now()} as "dueInMs",
           (select min(locked_until) from holdfast.lease) - ${engine.now()} as "leaseEndsInMs"`);
  return row as Upcoming;
}

/** The queues in which jobs became pending: the store tells those who watch. */
export interface Touched {
  readonly queues: readonly string[];
}

export async function reclaimExpired(
  engine: Engine,
  chore: { graceMs: number; crashesMax: number; limit: number; spareLast?: boolean },
): Promise<Cared> {
  const ended = sql`locked_until < ${engine.now()} - ${chore.graceMs}`;
  const [any] = await engine.all(sql`select id from holdfast.lease where ${ended} limit 1`);
  if (any === undefined) return { settled: [], queues: [] };
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    // Asked again under the row's lock: a lease extended in between is not ours to take.
    const { limit, crashesMax, spareLast = false } = chore;
    const isLast = sql`cancel_requested_at is null and (crashes + 1 >= ${crashesMax} or attempts >= max_attempts)`;
    const spared = spareLast ? sql` and not (${isLast})` : sql``;
    const where = sql`locked_until < ${now - chore.graceMs}${spared}`;
    return landCrashed(engine, tx, { where, limit, crashesMax, now });
  });
}

export function reclaimFrom(
  engine: Engine,
  chore: { workers: readonly string[]; crashesMax: number; limit: number },
): Promise<Cared> {
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const where = engine.among(sql`locked_by`, chore.workers);
    const { limit, crashesMax } = chore;
    return landCrashed(engine, tx, { where, limit, crashesMax, now });
  });
}

async function landCrashed(
  engine: Engine,
  tx: Transaction,
  { where, limit, crashesMax, now }: { where: Sql; limit: number; crashesMax: number; now: number },
): Promise<Cared> {
  const taken = await tx.take<LeaseRow>({ table: "lease", where, limit, skipLocked: true });
  const landings = taken.map((lease) => landAfterCrash(lease, crashesMax, now));
  const queues = await put(engine, tx, landings);
  return {
    settled: taken.map((lease, index) => settled(lease, landings[index] as Landing)),
    queues,
  };
}

/** How often a cancel looks again for a job that was between two tables each time. */
const CANCEL_ROUNDS_MAX = 10;

export interface Cancelled extends Touched {
  /** What it is now; null: there is no such job. */
  readonly status: Status | null;
  /** What it was; null: nothing was changed. */
  readonly from: Status | null;
}

export async function cancel(
  engine: Engine,
  id: string,
  signature: Signature | null = null,
): Promise<Cancelled> {
  for (let round = 0; round < CANCEL_ROUNDS_MAX; round += 1) {
    const found = await engine.transaction(async (tx) => {
      const stood = await cancelWhereItStands(engine, tx, id);
      const { status: newStatus, from: oldStatus } = stood;
      if (signature === null || oldStatus === null) return stood;
      const action = { action: "job.cancel", subject: subjects.job(id), oldStatus, newStatus };
      await noteAction(engine, tx, signature, action);
      return stood;
    });
    if (found.status !== null) return found;
    const [known] = await engine.all(sql`select id from holdfast.job where id = ${id}`);
    if (known === undefined) break;
  }
  return { status: null, from: null, queues: [] };
}

/** Tables in the order in which a job passes through them, so that it cannot slip by behind our back. */
export async function cancelWhereItStands(
  engine: Engine,
  tx: Transaction,
  id: string,
): Promise<Cancelled> {
  const now = await readNow(engine, tx);
  const unclaimed = await cancelUnclaimed(engine, tx, id, { now, error: null });
  if (unclaimed !== null) return { status: "cancelled", ...unclaimed };
  const marked = await tx.run(sql`
    update holdfast.lease
       set cancel_requested_at = coalesce(cancel_requested_at, ${now})
     where id = ${id}`);
  if (marked > 0) return { status: "processing", from: "processing", queues: [] };
  const [ended] = await tx.all<FinishedRow>(
    sql`select status from holdfast.finished where id = ${id}`,
  );
  return { status: ended?.status ?? null, from: null, queues: [] };
}

/** Cancels a job that nobody works on: tells what it was, and in which queues others waited for its end. Null: it is not one. */
export async function cancelUnclaimed(
  engine: Engine,
  tx: Transaction,
  id: string,
  because: { readonly now: number; readonly error: string | null },
): Promise<({ readonly from: Status } & Touched) | null> {
  for (const table of ["ready", "waiting"] as const) {
    const [row] = await tx.take<Traveller & Partial<WaitingRow>>({ table, where: sql`id = ${id}` });
    if (row === undefined) continue;
    await stopWaiting(engine, tx, [row]);
    const queues = await put(engine, tx, [{ table: "finished", row: cancelled(row, because) }]);
    return { from: row.status ?? "pending", queues };
  }
  return null;
}

function cancelled(
  row: Traveller,
  { now, error }: { readonly now: number; readonly error: string | null },
): FinishedRow {
  const never = { worker: null, started_at: null, result: null };
  return { ...traveller(row), ...never, status: "cancelled", finished_at: now, error };
}

export function revive(
  engine: Engine,
  id: string,
  attempts: number,
  signature: Signature | null = null,
): Promise<Hint[]> {
  return engine.transaction(async (tx) => {
    const row = await reviveIn(engine, tx, { id, attempts, now: await readNow(engine, tx) });
    if (row === null) throw await whyNotRevived(engine, tx, id);
    if (signature !== null) {
      const moved = { oldStatus: row.status, newStatus: "pending" };
      const action = { action: "job.retry", subject: subjects.job(id), ...moved };
      await noteAction(engine, tx, signature, action);
    }
    return hintPending(engine, tx, [row.queue]);
  });
}

/**
 * Revives a finished job. Its last attempt stays in the history, and its epoch goes on from where it was. Null: it is not one
 * that can be revived.
 */
export async function reviveIn(
  engine: Engine,
  tx: Transaction,
  { id, attempts, now }: { readonly id: string; readonly attempts: number; readonly now: number },
): Promise<FinishedRow | null> {
  const [row] = await tx.take<FinishedRow>({
    table: "finished",
    where: sql`id = ${id} and ${engine.among(sql`status`, moves.revive.from)}`,
  });
  if (row === undefined) return null;
  await holdAgain(tx, row, now);
  await forgetFailedCalls(tx, id);
  if (row.worker !== null) await tx.insert("attempt", [asRow(lastAttempt(row))]);
  const allowed = Math.max(row.max_attempts, row.attempts + attempts);
  await putReady(tx, [{ ...row, crashes: 0, max_attempts: allowed }], now);
  return row;
}

/** Whoever waits for it waits for its next end; and it asks again for the ends of those that failed it. */
async function forgetFailedCalls(tx: Transaction, id: string): Promise<void> {
  if (isCalled(id)) {
    await tx.run(sql`
      update holdfast.event set emitted_at = null where name = ${JOB_ENDED} and event_key = ${id}`);
    await tx.run(sql`update holdfast.item_job set status = null where job_id = ${id}`);
  }
  await tx.run(sql`
    update holdfast.step set status = 'begun', ended_at = null
     where job_id = ${id} and kind = 'call' and status = 'failed'`);
}

async function whyNotRevived(engine: Engine, tx: Transaction, id: string): Promise<Error> {
  const [row] = await tx.all<{ status: Status; attempts: number; most: number; inMs: number }>(sql`
    select status, attempts, max_attempts as most, due_at - ${engine.now()} as "inMs"
      from holdfast.job_state
     where id = ${id}`);
  if (row === undefined || mayMove("revive", row.status)) return new JobNotFound({ id });
  const { status, attempts, most, inMs } = row;
  if (status !== "retry") return new IllegalMove({ id, status, move: "revive" });
  const due = inMs > 0 ? `in ${formatMs(inMs)}` : "now";
  const detail = `is waiting for its next attempt (${attempts + 1} of ${most}, ${due})`;
  return new IllegalMove({ id, status, move: "revive", detail });
}

function lastAttempt(row: FinishedRow): AttemptRow {
  return {
    job_id: row.id,
    epoch: row.epoch,
    attempt: row.attempts,
    worker: row.worker ?? "",
    outcome: row.status === "cancelled" ? "cancelled" : "failed",
    started_at: row.started_at ?? row.finished_at,
    ended_at: row.finished_at,
    error: row.error,
  };
}

export function prune(
  engine: Engine,
  chore: { keepMs: Record<FinalStatus, number>; limit: number },
): Promise<number> {
  return engine.transaction(async (tx) => {
    let left = chore.limit;
    await pruneEvents(engine, tx, Math.max(...Object.values(chore.keepMs)));
    for (const status of finalStatuses) {
      if (left === 0) break;
      const rows = await tx.take<{ id: string }>({
        table: "finished",
        where: sql`status = ${status} and finished_at < ${engine.now()} - ${chore.keepMs[status]}`,
        limit: left,
        skipLocked: true,
      });
      if (rows.length === 0) continue;
      left -= rows.length;
      const ids = rows.map((row) => row.id);
      await tx.run(sql`delete from holdfast.attempt where ${engine.among(sql`job_id`, ids)}`);
      await tx.run(sql`delete from holdfast.step where ${engine.among(sql`job_id`, ids)}`);
      await tx.run(sql`delete from holdfast.report where ${engine.among(sql`job_id`, ids)}`);
      await tx.run(sql`delete from holdfast.kept_key where ${engine.among(sql`job_id`, ids)}`);
      await tx.run(sql`delete from holdfast.job_trace where ${engine.among(sql`job_id`, ids)}`);
      await tx.run(sql`delete from holdfast.job where ${engine.among(sql`id`, ids)}`);
    }
    return chore.limit - left;
  });
}

/** Ends the attempts whose leases were taken under their fences. */
export async function settleTaken(
  engine: Engine,
  tx: Transaction,
  taken: { leases: readonly LeaseRow[]; settlements: readonly Settlement[]; now: number },
): Promise<Settled[]> {
  const outcomes = new Map(
    taken.settlements.map(({ id, epoch, outcome }) => [`${id} ${epoch}`, outcome]),
  );
  const landings = taken.leases.map((lease) =>
    // By the epoch too: the batch may hold a stale settlement of the same job.
    land(lease, outcomes.get(`${lease.id} ${lease.epoch}`) as Outcome, taken.now),
  );
  await put(engine, tx, landings);
  return taken.leases.map((lease, index) => settled(lease, landings[index] as Landing));
}

/** They go on, or end, without what they wait for. */
export async function stopWaiting(
  engine: Engine,
  tx: Transaction,
  rows: readonly (Traveller & Partial<WaitingRow>)[],
): Promise<void> {
  const ids = rows.filter(({ status }) => status === "waiting").map(({ id }) => id);
  if (ids.length === 0) return;
  await tx.run(sql`delete from holdfast.wait where ${engine.among(sql`job_id`, ids)}`);
}

/**
 * Puts settled rows where they go, lets go of the keys of jobs that ended, and lets those go on that wait for their end.
 * Returns the queues of these.
 */
export async function put(
  engine: Engine,
  tx: Transaction,
  landings: readonly Landing[],
): Promise<string[]> {
  for (const table of ["ready", "waiting", "finished"] as const) {
    const rows = landings.filter((landing) => landing.table === table);
    await tx.insert(
      table,
      rows.map(({ row }) => asRow(row)),
    );
  }
  const attempts = landings.flatMap((landing) =>
    landing.table === "finished" ? [] : [asRow(landing.attempt)],
  );
  await tx.insert("attempt", attempts);
  const ended = landings.flatMap(({ table, row }) => (table === "finished" ? [row] : []));
  const keyed = ended.filter(({ job_key }) => job_key !== null).map(({ id }) => id);
  if (keyed.length > 0) {
    await tx.run(sql`delete from holdfast.job_key where ${engine.among(sql`job_id`, keyed)}`);
  }
  return tellEnded(engine, tx, ended);
}

/** Somebody waits for the end of jobs that were called. */
async function tellEnded(
  engine: Engine,
  tx: Transaction,
  ended: readonly FinishedRow[],
): Promise<string[]> {
  const called = ended.filter(({ id }) => isCalled(id));
  if (called.length === 0) return [];
  const now = await readNow(engine, tx);
  const of = called.map(({ id }) => ({ event: JOB_ENDED, key: id }));
  for (const { event, key } of of) {
    await tx.run(sql`
      update holdfast.event set emitted_at = ${now}
       where name = ${event} and event_key = ${key} and emitted_at is null`);
  }
  await tellItems(engine, tx, { ended: called, now });
  return queuesOf(await wake(engine, tx, { of, now }));
}

/** What became of the jobs, and the queues in which others go on. */
export interface Cared {
  readonly settled: Settled[];
  readonly queues: readonly string[];
}

export function settled(lease: LeaseRow, landing: Landing): Settled {
  return {
    id: lease.id,
    worker: lease.locked_by,
    epoch: lease.epoch,
    queue: lease.queue,
    task: lease.task,
    status: landing.table === "ready" ? "pending" : landing.row.status,
    attempts: landing.row.attempts,
    dueAt: landing.table === "waiting" ? landing.row.due_at : null,
  };
}
