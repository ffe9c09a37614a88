/**
 * Looks up writes whose answer was lost with the connection.
 *
 * Every write can be recognised afterwards: a job by the id it was given here, a settlement by job and epoch, a claim by
 * its worker and the number its leases carry. So a write is looked up and never simply repeated.
 */
import { JobNotFoundError } from "../core/errors.ts";
import type { Settlement, Status } from "../core/job.ts";
import type { Database } from "../database/database.ts";
import type { Engine, Hint } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { retry } from "./cancel.ts";
import { type Accepted, enqueueWithPolicy } from "./enqueue-policy.ts";
import type { MoveContext } from "./hooks.ts";
import { type SettledWithDependents, settleWithDependents } from "./settle.ts";
import type {
  ClaimedJob,
  Claiming,
  CycleResult,
  Enqueued,
  JobStatements,
  NewJob,
  Settled,
} from "./store.ts";

/** An insert leaves an existing id alone, so repeating it looks it up. */
export async function lookUpEnqueued(
  statements: JobStatements,
  jobs: readonly NewJob[],
): Promise<Enqueued[]> {
  return addedBefore(jobs, await statements.insert(jobs));
}

/** The same for jobs with a conflict policy: a job that exists has replaced the holder, and is not refused for its own key. */
export async function lookUpWithPolicy(
  context: MoveContext,
  jobs: readonly NewJob[],
): Promise<Accepted> {
  const { enqueued, hints } = await enqueueWithPolicy(context, jobs);
  const queues = new Set(jobs.map(({ queue }) => queue));
  const pending = [...queues].map((queue): Hint => ({ kind: "pending", queue }));
  const others: Hint[] = [{ kind: "finished" }, { kind: "waiting" }];
  return { enqueued: addedBefore(jobs, enqueued), hints: [...hints, ...pending, ...others] };
}

/** The ids are unique, so a job that exists was added by the call whose answer was lost. */
function addedBefore(jobs: readonly NewJob[], found: readonly Enqueued[]): Enqueued[] {
  return found.map(({ id }, index) => ({ id, added: id === jobs[index]?.id }));
}

/** A call that found all its jobs has committed nothing, so it has not waited until they are durable either. */
export async function confirmed(db: Database, enqueued: Enqueued[]): Promise<Enqueued[]> {
  if (enqueued.every(({ added }) => !added)) await db.confirmFound();
  return enqueued;
}

/** A finished job was not retried. An unfinished job was, and may have moved on since. */
export async function lookUpRetried(
  context: MoveContext,
  id: string,
  attempts: number,
): Promise<Hint[]> {
  const { engine } = context;
  const [finished] = await engine.all(sql`select id from holdfast.finished where id = ${id}`);
  return finished === undefined ? pendingAgain(engine, id) : retry(context, id, { attempts });
}

export async function pendingAgain(engine: Engine, id: string): Promise<Hint[]> {
  const [job] = await engine.all<{ queue: string }>(
    sql`select queue from holdfast.job where id = ${id}`,
  );
  if (job === undefined) throw new JobNotFoundError({ id });
  return [{ kind: "pending", queue: job.queue }];
}

export async function lookUpCycle(
  { engine, statements }: { engine: Engine; statements: JobStatements },
  settlements: readonly Settlement[],
  wanted: Claiming | null,
): Promise<CycleResult> {
  const claimed = wanted === null ? [] : await lookUpClaimed(engine, wanted);
  if (settlements.length === 0) return { settled: [], claimed, governed: [] };
  const { settled } = await statements.settleAndClaim(settlements, null);
  const before = await settledBefore(engine, settlements, settled);
  return { settled: [...settled, ...before], claimed, governed: [] };
}

/** Settles the attempt unless it has been settled before. */
export async function lookUpSettled(
  context: MoveContext,
  settlement: Settlement,
): Promise<SettledWithDependents> {
  const before = await settledBefore(context.engine, [settlement], []);
  return before.length > 0
    ? { settled: before, queues: [] }
    : settleWithDependents(context, settlement);
}

/** An open user transaction is not waited for longer: the lease of its job will expire. */
const COMPLETED_LOCK_MS = 1_000;

/** A job completed in a user transaction is done if that was committed; otherwise it is settled now. */
export async function lookUpCompleted(
  context: MoveContext,
  settlement: Settlement,
): Promise<SettledWithDependents> {
  const look = () => settledBefore(context.engine, [settlement], []);
  const before = await look();
  if (before.length > 0) return { settled: before, queues: [] };
  const now = await settleWithDependents(context, settlement, { lockMs: COMPLETED_LOCK_MS });
  // None: it was committed while we waited, or the job belongs to another worker.
  return now.settled.length > 0 ? now : { settled: await look(), queues: [] };
}

function lookUpClaimed(engine: Engine, { worker, claimId }: Claiming): Promise<ClaimedJob[]> {
  return engine.all<ClaimedJob>(sql`
    select l.id, l.locked_by as worker, l.epoch, l.queue, l.task, j.payload, -l.rank as priority,
           l.attempts as attempt, l.max_attempts as "maxAttempts", l.crashes,
           j.enqueued_at as "enqueuedAt", null as "readyAt", l.locked_until as "lockedUntil"
      from holdfast.lease l
      join holdfast.job j on j.id = l.id
     where l.locked_by = ${worker}
       and l.claim_id = ${claimId}
     order by l.rank, l.id`);
}

interface Trace {
  id: string;
  epoch: number;
  worker: string;
  queue: string;
  task: string;
  attempts: number;
  crashes: number;
  /** Crashes in the job's history; one less than `crashes` if its last lease expired. */
  told: number;
  outcome: string;
  due: number | null;
}

/** The job's status after an outcome that did not end it. */
const afterwards: Readonly<Record<string, Status>> = {
  retry: "retry",
  suspended: "waiting",
  released: "pending",
};

/** The settlements that the lost call made: a finished job, or the row of an attempt, has the worker and epoch. */
export async function settledBefore(
  engine: Engine,
  settlements: readonly Settlement[],
  settledNow: readonly Settled[],
): Promise<Settled[]> {
  const known = new Set(settledNow.map(({ id }) => id));
  const fences = settlements.filter(({ id }) => !known.has(id));
  if (fences.length === 0) return [];
  const ids = fences.map(({ id }) => id);
  const traces = await engine.all<Trace>(sql`
    select f.id, f.epoch, f.worker, f.queue, f.task, f.attempts, f.crashes,
           (select count(*) from holdfast.attempt c where c.job_id = f.id and c.outcome = 'crashed') as told,
           f.status as outcome, null as due
      from holdfast.finished f
     where ${engine.among(sql`f.id`, ids)}
     union all
    select a.job_id, a.epoch, a.worker, j.queue, j.task,
           case when a.outcome = 'retry' then a.attempt else a.attempt - 1 end, 0, 0, a.outcome, w.due_at
      from holdfast.attempt a
      join holdfast.job j on j.id = a.job_id
      left join holdfast.waiting w on w.id = a.job_id and w.epoch = a.epoch
     where ${engine.among(sql`a.job_id`, ids)}
       and a.outcome <> 'crashed'`);
  return fences.flatMap(({ id, worker, epoch, claimed }) => {
    const ours = traces.find(
      (trace) => trace.id === id && trace.epoch === epoch && trace.worker === worker,
    );
    if (ours === undefined) return [];
    // The job ended under this fence, but because its lease expired, not because its owner settled it.
    if (ours.crashes > Math.min(ours.told, claimed?.crashes ?? ours.told)) return [];
    const { queue, task, attempts, outcome, due } = ours;
    const status = afterwards[outcome] ?? (outcome as Status);
    return [{ id, worker, epoch, queue, task, status, attempts, dueAt: due }];
  });
}
