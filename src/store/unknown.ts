/**
 * Finds out what became of a write whose answer was lost with the connection.
 *
 * Every write can be recognised afterwards: a job by the id it was given here, a settlement by job and epoch, a claim by
 * its worker and the number its leases carry. So a write is looked up and never simply made again.
 */
import {
  IllegalMove,
  JobNotFound,
  OutcomeUnknown,
  StoreBusy,
  StoreRefused,
  StoreUnavailable,
} from "../core/errors.ts";
import type { Settlement, Status } from "../core/job.ts";
import { DoubtNotFound } from "../core/step-errors.ts";
import { sleep } from "../core/runtime.ts";
import type { AuditEntry } from "../core/audit.ts";
import type { Signature } from "./actions.ts";
import { findAction } from "./audit.ts";
import { enqueueMinding, type Accepted } from "./enqueue.ts";
import type { Claiming, Engine } from "./engine.ts";
import { revive, type Cared } from "./jobs.ts";
import { settleWithCare } from "./settle.ts";
import { sql } from "./sql.ts";
import type { ClaimedJob, Enqueued, Hint, NewJob, Settled } from "./store.ts";

/** A server that restarts is back within half a minute, or an operator knows about it. */
const LOOKS_MAX = 20;
const LOOK_PAUSE_MS_FIRST = 25;
const LOOK_PAUSE_MS_MAX = 2_000;
const LOOK_MS_MAX = 30_000;

/** Writes; if the answer is lost, looks up what became of it, as soon as the database answers again. */
export async function writeOrLookUp<T>(
  engine: Engine,
  write: () => Promise<T>,
  lookUp: () => Promise<T>,
): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!(error instanceof OutcomeUnknown)) throw error;
    return persist(engine, lookUp, error);
  }
}

async function persist<T>(
  engine: Engine,
  lookUp: () => Promise<T>,
  unknown: OutcomeUnknown,
): Promise<T> {
  const startedAt = engine.runtime.monotonic();
  for (let look = 0; look < LOOKS_MAX; look += 1) {
    if (engine.runtime.monotonic() - startedAt > LOOK_MS_MAX) break;
    const pauseMs = Math.min(LOOK_PAUSE_MS_MAX, LOOK_PAUSE_MS_FIRST * 2 ** look);
    await sleep(engine.runtime, pauseMs * (0.5 + engine.runtime.random() / 2));
    try {
      // What was lost may be on its way still, and would be committed after we looked.
      if (unknown.session !== null) await engine.endSession(unknown.session);
      return await lookUp();
    } catch (error) {
      if (!isAway(error)) throw error;
    }
  }
  throw unknown;
}

function isAway(error: unknown): boolean {
  return (
    error instanceof StoreUnavailable ||
    error instanceof StoreBusy ||
    error instanceof OutcomeUnknown
  );
}

/** An insert leaves an id alone that is there already, so making it again is how it is looked up. */
export async function lookUpEnqueued(engine: Engine, jobs: readonly NewJob[]): Promise<Enqueued[]> {
  return addedBefore(jobs, await engine.insert(jobs));
}

/**
 * The same where a key that is held is minded: what is there has replaced what it was to replace, and is not refused for
 * holding its own key.
 */
export async function lookUpMinding(engine: Engine, jobs: readonly NewJob[]): Promise<Accepted> {
  const { enqueued, hints } = await enqueueMinding(engine, jobs);
  const queues = new Set(jobs.map(({ queue }) => queue));
  const news = [...queues].map((queue): Hint => ({ kind: "pending", queue }));
  const finished: Hint[] = [{ kind: "finished" }, { kind: "waiting" }];
  return { enqueued: addedBefore(jobs, enqueued), hints: [...hints, ...news, ...finished] };
}

/** Nobody else has ids of ours: one that is there was added by the call whose answer was lost. */
function addedBefore(jobs: readonly NewJob[], found: readonly Enqueued[]): Enqueued[] {
  return found.map(({ id }, index) => ({ id, added: id === jobs[index]?.id }));
}

/** What an action is refused with that was done before. */
const REFUSALS = [StoreRefused, IllegalMove, DoubtNotFound];

/**
 * What somebody does as an operator; if the answer is lost, it was done if its line is there. The same goes for one that is
 * refused: whoever does it again under the same id is refused a second line, or finds that things have moved on.
 */
export function actOrLookUp<T>(
  engine: Engine,
  { id }: Signature,
  act: () => Promise<T>,
  done: (line: AuditEntry) => Promise<T>,
): Promise<T> {
  const orDone = async (error: unknown): Promise<T> => {
    if (!REFUSALS.some((refusal) => error instanceof refusal)) throw error;
    const line = await findAction(engine, id);
    if (line === null) throw error;
    return done(line);
  };
  const actOnce = (): Promise<T> => act().catch(orDone);
  return writeOrLookUp(engine, actOnce, async () => {
    const line = await findAction(engine, id);
    return line === null ? actOnce() : done(line);
  });
}

/** A job that has finished was not revived; one that has not was, and may have gone on since. */
export async function lookUpRevived(engine: Engine, id: string, attempts: number): Promise<Hint[]> {
  const [finished] = await engine.all(sql`select id from holdfast.finished where id = ${id}`);
  return finished === undefined ? pendingAgain(engine, id) : revive(engine, id, attempts);
}

export async function pendingAgain(engine: Engine, id: string): Promise<Hint[]> {
  const [job] = await engine.all<{ queue: string }>(
    sql`select queue from holdfast.job where id = ${id}`,
  );
  if (job === undefined) throw new JobNotFound({ id });
  return [{ kind: "pending", queue: job.queue }];
}

export async function lookUpTurn(
  engine: Engine,
  settlements: readonly Settlement[],
  wanted: Claiming | null,
): Promise<{ settled: Settled[]; claimed: ClaimedJob[] }> {
  const claimed = wanted === null ? [] : await lookUpClaimed(engine, wanted);
  if (settlements.length === 0) return { settled: [], claimed };
  const { settled } = await engine.settleAndClaim(settlements, null);
  return { settled: [...settled, ...(await settledBefore(engine, settlements, settled))], claimed };
}

/** What was settled stays so; otherwise it is settled now. */
export async function lookUpCared(engine: Engine, settlement: Settlement): Promise<Cared> {
  const before = await settledBefore(engine, [settlement], []);
  return before.length > 0 ? { settled: before, queues: [] } : settleWithCare(engine, settlement);
}

/** A transaction of the user's that is still open is not waited for: its job's lease will run out. */
const COMPLETED_LOCK_MS = 1_000;

/** What was completed in a transaction of the user's is done, if that was committed; otherwise it is settled now. */
export async function lookUpCompleted(engine: Engine, settlement: Settlement): Promise<Cared> {
  const look = () => settledBefore(engine, [settlement], []);
  const before = await look();
  if (before.length > 0) return { settled: before, queues: [] };
  const cared = await settleWithCare(engine, settlement, { lockMs: COMPLETED_LOCK_MS });
  // None: it was committed while we waited, or the job is somebody else's.
  return cared.settled.length > 0 ? cared : { settled: await look(), queues: [] };
}

function lookUpClaimed(engine: Engine, { worker, claimId }: Claiming): Promise<ClaimedJob[]> {
  return engine.all<ClaimedJob>(sql`
    select l.id, l.locked_by as worker, l.epoch, l.queue, l.task, j.payload, -l.rank as priority,
           l.attempts as attempt, l.max_attempts as "attemptsMax", l.crashes,
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
  /** How many of them its history tells of; one more, and it ended because its lease did. */
  told: number;
  outcome: string;
  due: number | null;
}

/** What an outcome that did not end the job made of it. */
const afterwards: Readonly<Record<string, Status>> = {
  retry: "retry",
  suspended: "waiting",
  released: "pending",
};

/**
 * Of those that could not be settled now, the ones that the call settled whose answer was lost: a finished job, or the
 * row of an attempt, tells who settled it at which epoch.
 */
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
    // The job has ended under this very fence, but because its lease ran out, and not by its owner's word.
    if (ours.crashes > Math.min(ours.told, claimed?.crashes ?? ours.told)) return [];
    const { queue, task, attempts, outcome, due } = ours;
    const status = afterwards[outcome] ?? (outcome as Status);
    return [{ id, worker, epoch, queue, task, status, attempts, dueAt: due }];
  });
}
