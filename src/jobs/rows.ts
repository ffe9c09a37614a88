/**
 * The rows of the state tables, as every engine stores them, and the next row of a job when an attempt ends.
 *
 * That decision is pure and made only here, so the engines differ only in how they move the row.
 */
import type { ErrorRecord } from "../core/error-record.ts";
import type { FinalStatus, Outcome } from "../core/job.ts";
import { asRow, type Engine, type Hint, type Transaction } from "../database/engine.ts";
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
];

interface ReadyRow extends JobColumns {
  ready_at: number;
}

export interface WaitingRow extends JobColumns {
  status: "scheduled" | "retry" | "waiting";
  due_at: number | null;
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
}

export type Destination =
  | { table: "finished"; row: FinishedRow }
  | { table: "waiting"; row: WaitingRow; attempt: AttemptRow }
  | { table: "ready"; row: ReadyRow; attempt: AttemptRow };

/** The next row of a settled job. A requested cancel wins over the outcome of the attempt. */
export function nextRow(lease: EndingLease, outcome: Outcome, now: number): Destination {
  if (lease.cancel_requested_at !== null) {
    return finish(lease, now, "cancelled", "error" in outcome ? (outcome.error ?? null) : null);
  }
  switch (outcome.kind) {
    case "done":
      return finish(lease, now, "done", null, outcome.result);
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
        },
        attempt: attemptRow(lease, now, "suspended", null),
      };
    case "released":
      return {
        table: "ready",
        row: { ...jobColumns(lease), attempts: lease.attempts - 1, ready_at: now },
        attempt: attemptRow(lease, now, "released", outcome.error ?? null),
      };
  }
}

/** A crashed job is retried after 1 s, then 2 s, 4 s … so that a poison job does not kill the next worker at once. */
const CRASH_BACKOFF_MS_FIRST = 1_000;

const CRASH_BACKOFF_MS_MAX = 60_000;

/** The next row of a job whose lease expired, or whose worker is dead. */
export function nextRowAfterCrash(lease: LeaseRow, crashesMax: number, now: number): Destination {
  const crashed = { ...lease, crashes: lease.crashes + 1 };
  if (lease.cancel_requested_at !== null) return finish(crashed, now, "cancelled", null);
  const error = crashError(crashed, crashesMax, now);
  if (crashed.crashes >= crashesMax || lease.attempts >= lease.max_attempts) {
    return finish(crashed, now, "failed", error);
  }
  const backoffMs = Math.min(CRASH_BACKOFF_MS_MAX, CRASH_BACKOFF_MS_FIRST * 2 ** lease.crashes);
  const spreadMs = Math.floor(backoffMs * spreadOf(lease.id, lease.crashes));
  return retry(crashed, now + spreadMs, attemptRow(lease, now, "crashed", error));
}

/** From 0.5 to 1.5, by digits of the id: otherwise a poison job would crash together with the same jobs every time. */
function spreadOf(id: string, crashes: number): number {
  const end = id.length - 3 * (crashes % 4);
  const drawn = Number.parseInt(id.slice(end - 3, end), 16);
  return 0.5 + (Number.isNaN(drawn) ? 0x800 : drawn) / 0x1000; // an id that is not ours may have other digits
}

function crashError(lease: LeaseRow, crashesMax: number, now: number): string {
  const { crashes, locked_by: worker, locked_until: until } = lease;
  if (crashes >= crashesMax) {
    const message = `Every one of ${crashes} workers that ran this job died or lost its lease; it is kept from the next.`;
    return errorText({ name: "PoisonJob", code: "POISON", message });
  }
  if (until < now) {
    const message = `The lease of worker ${worker} ran out: the worker died, froze or lost the database.`;
    return errorText({ name: "LeaseExpired", code: "LEASE_EXPIRED", message });
  }
  // A lease that has not expired is taken only from a dead worker.
  const message = `Its worker was killed or lost: ${worker} ended without a word, and the job was taken back from it.`;
  return errorText({ name: "WorkerGone", code: "WORKER_GONE", message });
}

/** The error of an attempt that ended through no fault of its task or its worker. */
export function outageError(): string {
  const message =
    "The database did not answer in time to renew the lease. The worker was alive, so this counts neither as an attempt nor as a crash.";
  return errorText({ name: "LeaseLostError", code: "LEASE_LOST", message });
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
    },
  };
}

function retry(lease: EndingLease, dueAt: number, attempt: AttemptRow): Destination {
  return {
    table: "waiting",
    row: { ...jobColumns(lease), status: "retry", due_at: dueAt },
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
  };
}

export function jobColumns(row: JobColumns): JobColumns {
  const { id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts } = row;
  return { id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts };
}

export function dueTime({ start }: NewJob, now: number): number {
  if (start === null) return now;
  return "at" in start ? start.at : now + start.delayMs;
}

/** Makes jobs pending. */
export async function putReady(
  tx: Transaction,
  rows: readonly JobColumns[],
  now: number,
): Promise<void> {
  const ready = rows.map((row): ReadyRow => ({ ...jobColumns(row), ready_at: now }));
  await tx.insert("ready", ready.map(asRow));
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
