/**
 * The rows of the state tables, as every engine stores them, and the next row of a job when an attempt ends.
 *
 * That decision is pure and made only here, so the engines differ only in how they move the row.
 */
import { sha256 } from "../audit/entry.ts";
import { kindIdOf } from "../core/error-kind.ts";
import type { ErrorRecord } from "../core/error-record.ts";
import type { FinalStatus, Outcome, Settlement } from "../core/job.ts";
import { asRow, type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { NewJob } from "./store.ts";

/** The columns that all state tables have. */
export interface JobColumns {
  id: string;
  queue: string;
  task: string;
  /** Minus the priority, so that an ascending scan meets the highest priority first. */
  rank: number;
  job_key: string | null;
  epoch: number;
  attempts: number;
  crashes: number;
  max_attempts: number;
  /** The lane that the job was enqueued in; null: none. In `lease`, null also: the queue has no rules. */
  lane: string | null;
}

/** The values of JobColumns in this order, for engines that read rows as arrays. */
export type JobValues = [
  id: string,
  queue: string,
  task: string,
  rank: number,
  jobKey: string | null,
  epoch: number,
  attempts: number,
  crashes: number,
  maxAttempts: number,
  lane: string | null,
];

export interface ReadyRow extends JobColumns {
  ready_at: number;
  /** With the name of the task, if that has a limit of its own. */
  lane: string;
  place: number;
  /** The job ends as expired if it has not started by then. */
  start_by: number | null;
}

export interface WaitingRow extends JobColumns {
  status: "scheduled" | "retry" | "waiting";
  due_at: number | null;
  start_by: number | null;
}

/** The columns of a lease that decide what follows an attempt. */
export interface EndingLease extends JobColumns {
  locked_by: string;
  claimed_at: number;
  cancel_requested_at: number | null;
}

export interface LeaseRow extends EndingLease {
  locked_until: number;
}

export interface FinishedRow extends JobColumns {
  status: FinalStatus;
  worker: string | null;
  started_at: number | null;
  finished_at: number;
  result: string | null;
  error: string | null;
  /** The fingerprint of the error that it failed with. */
  error_kind: string | null;
}

/** An attempt that did not end its job. `finished` has the one that did. */
export interface AttemptRow {
  job_id: string;
  epoch: number;
  attempt: number;
  worker: string;
  outcome: "retry" | "suspended" | "released" | "crashed" | "failed" | "cancelled";
  started_at: number;
  ended_at: number;
  error: string | null;
  /** The fingerprint of the error, if the attempt failed with it. */
  error_kind: string | null;
}

export type Destination =
  | { table: "finished"; row: FinishedRow }
  | { table: "waiting"; row: WaitingRow; attempt: AttemptRow }
  | { table: "ready"; row: ReadyRow; attempt: AttemptRow };

/** Done, with nothing to say beside the result. */
export function isPlainEnd(outcome: Outcome): outcome is Outcome & { readonly kind: "done" } {
  return outcome.kind === "done" && outcome.error === undefined;
}

/** The next row of a settled job. A requested cancel wins over the outcome of the attempt. */
export function nextRow(
  engine: Engine,
  lease: EndingLease,
  outcome: Outcome,
  now: number,
): Destination {
  if (lease.cancel_requested_at !== null) {
    return finish(lease, now, "cancelled", "error" in outcome ? (outcome.error ?? null) : null);
  }
  switch (outcome.kind) {
    case "done":
      return finish(lease, now, "done", outcome.error ?? null, outcome.result);
    case "failed":
    case "cancelled":
      return finish(lease, now, outcome.kind, outcome.error);
    case "retry":
      return lease.attempts < lease.max_attempts
        ? retry(lease, now + outcome.delayMs, attemptRow(lease, now, "retry", outcome.error))
        : finish(lease, now, "failed", outcome.error);
    case "suspended":
      return {
        table: "waiting",
        row: {
          ...jobColumns(lease),
          attempts: lease.attempts - 1,
          status: "waiting",
          due_at: outcome.delayMs === null ? null : now + outcome.delayMs,
          start_by: null,
        },
        attempt: attemptRow(lease, now, "suspended", outcome.error ?? null),
      };
    case "released":
      return {
        table: "ready",
        row: readyRow(engine, { ...lease, attempts: lease.attempts - 1 }, now),
        attempt: attemptRow(lease, now, "released", outcome.error ?? null),
      };
  }
}

/** A crashed job is retried after 1 s, then 2 s, 4 s … so that a poison job does not kill the next worker at once. */
const CRASH_BACKOFF_MS_FIRST = 1_000;

const CRASH_BACKOFF_MS_MAX = 60_000;

/** The next row of a job whose lease expired, or whose worker is dead. */
export function nextRowAfterCrash(
  lease: LeaseRow,
  maxCrashes: number,
  now: number,
  beside: readonly string[] = [],
): Destination {
  const crashed = { ...lease, crashes: lease.crashes + 1 };
  if (lease.cancel_requested_at !== null) return finish(crashed, now, "cancelled", null);
  const error = crashError(crashed, maxCrashes, now);
  if (crashed.crashes >= maxCrashes || lease.attempts >= lease.max_attempts) {
    return finish(crashed, now, "failed", error);
  }
  const backoffMs = Math.min(CRASH_BACKOFF_MS_MAX, CRASH_BACKOFF_MS_FIRST * 2 ** lease.crashes);
  const spreadMs = Math.floor(backoffMs * spreadOf(lease.id, lease.crashes));
  const told = beside.length === 0 ? error : withBeside(error, beside);
  return retry(crashed, now + spreadMs, attemptRow(lease, now, "crashed", told));
}

/** How many jobs the record of a crash names. */
const BESIDE_MAX = 100;

/** Adds the jobs that the dead worker held too: if this job turns out to be the culprit, they are not charged. */
function withBeside(error: string, beside: readonly string[]): string {
  const record = JSON.parse(error) as ErrorRecord;
  return JSON.stringify({ ...record, beside: beside.slice(0, BESIDE_MAX) });
}

/** The jobs that the record of a crash names. */
export function besideIn(error: string | null): string[] {
  try {
    const { beside = [] } = JSON.parse(error ?? "{}") as { beside?: unknown };
    return Array.isArray(beside) ? beside.filter((id) => typeof id === "string") : [];
  } catch {
    return []; // a record of another program
  }
}

/** The error of an attempt whose worker was ended by another job. */
export function neighbourError(culprit: string): string {
  const message = `Job ${culprit} ended its worker, and ended another one while it ran alone. Therefore this counts neither as an attempt nor as a crash.`;
  return errorText({ name: "NeighbourCrashed", code: "NEIGHBOUR_CRASHED", message });
}

/** From 0.5 to 1.5, by digits of the id: otherwise a poison job would crash together with the same jobs every time. */
function spreadOf(id: string, crashes: number): number {
  const end = id.length - 3 * (crashes % 4);
  const drawn = Number.parseInt(id.slice(end - 3, end), 16);
  return 0.5 + (Number.isNaN(drawn) ? 0x800 : drawn) / 0x1000; // an id that is not ours may have other digits
}

function crashError(lease: LeaseRow, maxCrashes: number, now: number): string {
  const { crashes, locked_by: worker, locked_until: until } = lease;
  if (crashes >= maxCrashes) {
    const message = `Every one of ${crashes} workers that ran this job died or lost its lease; it is kept from the next.`;
    return errorText({ name: "PoisonJob", code: "POISON", message });
  }
  if (until < now) {
    const message = `The lease of worker ${worker} ran out: the worker died, froze or lost the database.`;
    return errorText({ name: "LeaseExpired", code: "LEASE_EXPIRED", message });
  }
  // A lease that has not expired is taken only from a dead worker.
  const message = `The process of worker ${worker} ended without reporting an outcome, and another worker reclaimed the job.`;
  return errorText({ name: "WorkerGone", code: "WORKER_GONE", message });
}

/** The error of an attempt that ended through no fault of its task or its worker. */
export function outageError(): string {
  const message =
    "The database did not answer in time to renew the lease. The worker was alive, so this counts neither as an attempt nor as a crash.";
  return errorText({ name: "LeaseLostError", code: "LEASE_LOST", message });
}

/** The last row of a job that has not started in time. */
export function expiredRow(
  row: JobColumns & { readonly start_by: number },
  now: number,
): FinishedRow {
  const by = new Date(row.start_by).toISOString();
  const message = `It had to start by ${by}, but no worker started it in time.`;
  const error = errorText({ name: "Expired", code: "EXPIRED", message });
  const end = { worker: null, started_at: null, finished_at: now, result: null, error };
  return { ...jobColumns(row), status: "expired", ...end, error_kind: null };
}

/** The error of a job that was cancelled for a new job with the same key. */
export function replacedError(by: string): string {
  const message = `Replaced by job ${by}, which has the same key.`;
  return errorText({ name: "Replaced", code: "REPLACED", message });
}

function errorText(record: ErrorRecord): string {
  return JSON.stringify(record);
}

function finish(
  lease: EndingLease,
  now: number,
  status: FinalStatus,
  error: string | null,
  result: string | null = null,
): Destination {
  return {
    table: "finished",
    row: {
      ...jobColumns(lease),
      status,
      worker: lease.locked_by,
      started_at: lease.claimed_at,
      finished_at: now,
      result,
      error,
      error_kind: status === "failed" ? kindIdOf(lease.task, error) : null,
    },
  };
}

function retry(lease: EndingLease, dueAt: number, attempt: AttemptRow): Destination {
  return {
    table: "waiting",
    row: { ...jobColumns(lease), status: "retry", due_at: dueAt, start_by: null },
    attempt,
  };
}

function attemptRow(
  lease: EndingLease,
  now: number,
  outcome: AttemptRow["outcome"],
  error: string | null,
): AttemptRow {
  return {
    job_id: lease.id,
    epoch: lease.epoch,
    attempt: lease.attempts,
    worker: lease.locked_by,
    outcome,
    started_at: lease.claimed_at,
    ended_at: now,
    error,
    error_kind: outcome === "retry" || outcome === "crashed" ? kindIdOf(lease.task, error) : null,
  };
}

export function jobColumns(row: JobColumns): JobColumns {
  const { id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, lane } = row;
  return {
    id,
    queue,
    task,
    rank,
    job_key,
    epoch,
    attempts,
    crashes,
    max_attempts,
    lane: laneName(lane),
  };
}

/** In the `lane` of a pending job, the name of a limited task follows after this character, which no name contains. */
export const LANE_END = "\u001F";

/** The lane as the job was enqueued in it; null: in none. */
export function laneName(lane: string | null): string | null {
  const text = lane ?? "";
  if (text === "") return null;
  const end = text.indexOf(LANE_END);
  const name = end === -1 ? text : text.slice(0, end);
  return name === "" ? null : name;
}

/** A pending job. A job that has started once no longer has to start by a given time. */
export function readyRow(
  engine: Engine,
  row: JobColumns & { readonly start_by?: number | null },
  now: number,
): ReadyRow {
  const place = now + shiftOf(engine, row.queue, row.rank);
  const { start_by = null } = row;
  return { ...jobColumns(row), lane: row.lane ?? "", ready_at: now, place, start_by };
}

export function dueTime({ start }: NewJob, now: number): number {
  if (start === null) return now;
  return "at" in start ? start.at : now + start.delayMs;
}

/** The instant by which a new job must have started; null: there is none. */
export function startByTime({ startBy = null }: NewJob, now: number): number | null {
  if (startBy === null) return null;
  return "at" in startBy ? startBy.at : now + startBy.withinMs;
}

/** Whether a job is pending at once and has nothing of its own but its id and payload. */
export function isAlike(job: NewJob, other: NewJob): boolean {
  const { key, start, lane = null, startBy = null, trace, tags } = job;
  const isPlain = key === null && start === null && lane === null && startBy === null;
  return (
    isPlain &&
    trace === undefined &&
    tags === undefined &&
    job.queue === other.queue &&
    job.task === other.task &&
    job.priority === other.priority &&
    job.maxAttempts === other.maxAttempts
  );
}

/** Makes jobs pending. */
export async function putReady(
  engine: Engine,
  tx: Transaction,
  rows: readonly JobColumns[],
  now: number,
): Promise<void> {
  await tx.insert(
    "ready",
    rows.map((row) => asRow(readyRow(engine, row, now))),
  );
}

/** Hints that these queues have jobs. The commit carries them, if the engine can do that. */
export async function hintPending(
  engine: Engine,
  tx: Transaction,
  queues: readonly string[],
): Promise<Hint[]> {
  const hints = queues.map((queue): Hint => ({ kind: "pending", queue }));
  await engine.notifyInTx(tx, hints);
  return hints;
}

export function queuesOf(rows: readonly JobColumns[]): string[] {
  return [...new Set(rows.map((row) => row.queue))];
}

/** 0: at once, or after an unknown time. */
export function inMsOf(start: NewJob["start"]): number {
  return start !== null && "delayMs" in start ? Math.max(0, start.delayMs) : 0;
}

export function delayOf({ outcome }: Settlement): number {
  return outcome.kind === "retry" || outcome.kind === "suspended" ? (outcome.delayMs ?? 0) : 0;
}

// Inputs that an operator changed: the row of the job has the newest, and `job_revision` the earlier ones.

/** Changes of the input of one job. */
const REVISIONS_MAX = 1_000;

export interface Revision {
  /** From 1: the input that the job was enqueued with. */
  readonly revision: number;
  readonly payload: string;
  /** Until when it was the input of the job. */
  readonly changedAt: number;
}

/** The inputs that the job had before, oldest first. */
export function revisions(engine: Engine, id: string): Promise<Revision[]> {
  return engine.all<Revision>(sql`
    select revision, payload, changed_at as "changedAt"
      from holdfast.job_revision
     where job_id = ${id}
     order by revision
     limit ${REVISIONS_MAX}`);
}

/** In the transaction that moves the job. Returns a sentence for the audit, which proves both inputs by their hashes. */
export async function changeInput(
  tx: Transaction,
  { id, payload, now }: { readonly id: string; readonly payload: string; readonly now: number },
): Promise<string> {
  const [row] = await tx.all<{ payload: string; last: number | null }>(sql`
    select j.payload,
           (select max(v.revision) from holdfast.job_revision v where v.job_id = j.id) as last
      from holdfast.job j
     where j.id = ${id}`);
  const { payload: before, last } = row as { payload: string; last: number | null };
  const revision = (last ?? 0) + 1;
  if (before === payload) return "input unchanged";
  await tx.insert("job_revision", [{ job_id: id, revision, payload: before, changed_at: now }]);
  await tx.run(sql`update holdfast.job set payload = ${payload} where id = ${id}`);
  return `input ${revision} to ${revision + 1}, sha256 ${sha256(before)} to ${sha256(payload)}`;
}

// The position of a pending job in its lane: `ready_at + rank * ageing`. The order of two waiting jobs never changes, so the
// position can be a stored key.
//
// Ageing is how much longer a job may wait for each step of priority. Without a setting it is so long that priorities are
// strict. A queue's setting only orders jobs, so a process may use one that is a few seconds old.

/** Strict priorities: a higher one goes first, unless the other job has waited for more than four years. */
const STRICT_AGEING_MS = 2 ** 37;

/**
 * Where a job goes that an operator wants to run now: before every priority. `STRICT_AGEING_MS` times the highest priority is
 * half of it.
 */
const FIRST = -Number.MAX_SAFE_INTEGER;

/** Positions before this one are of such jobs. */
export const FIRST_UNTIL = FIRST + 2 ** 43;

/** Those that are wanted first go in the order in which they were asked for. */
export function firstPlace(now: number): number {
  return FIRST + now;
}

/** How old settings may be. */
const FRESH_MS = 5_000;

interface Known {
  readonly ageing: ReadonlyMap<string, number>;
  readonly readAt: number;
}

const known = new WeakMap<Engine, Known>();

/** Added to the instant at which a job becomes pending. */
export function shiftOf(engine: Engine, queue: string, rank: number): number {
  if (rank === 0) return 0;
  return rank * (known.get(engine)?.ageing.get(queue) ?? STRICT_AGEING_MS);
}

/** Reads the settings again, for jobs that have a priority. */
export async function readAgeing(engine: Engine): Promise<void> {
  const now = engine.runtime.monotonic();
  const last = known.get(engine);
  if (last !== undefined && now - last.readAt < FRESH_MS) return;
  const rows = await engine.all<{ name: string; ageingMs: number }>(sql`
    select name, ageing_ms as "ageingMs"
      from holdfast.queue
     where ageing_ms is not null`);
  const ageing = new Map(rows.map(({ name, ageingMs }) => [name, ageingMs]));
  known.set(engine, { ageing, readAt: now });
}

/** From now on, claims look for lanes in this queue. */
export async function markLanes(engine: Engine, tx: Transaction, queue: string): Promise<void> {
  const values = sql`(${queue}, 1, 1, ${engine.typed(await readNow(engine, tx))})`;
  const into = sql`holdfast.queue (name, governed, lanes, updated_at) values ${values}`;
  await tx.run(engine.insertOrIgnore(into));
  await tx.run(sql`
    update holdfast.queue
       set governed = 1, lanes = 1
     where name = ${queue}
       and lanes = 0`);
}

/** The rows of the jobs that have tags. */
export function tagRows(jobs: readonly NewJob[]): { tag: string; job_id: string }[] {
  return jobs.flatMap(({ id, tags = [] }) => tags.map((tag) => ({ tag, job_id: id })));
}
