/**
 * The rows of the state tables, as every engine stores them, and where a row goes when an attempt ends.
 *
 * Deciding where is pure and stands here alone, so that engines differ only in how they carry the row.
 */
import type { ErrorRecord } from "../core/error-record.ts";
import type { FinalStatus, Outcome } from "../core/job.ts";
import { asRow, type Engine, type Hint, type Transaction } from "../database/engine.ts";
import type { NewJob } from "./store.ts";

/** What travels with a job from table to table. */
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

interface ReadyRow extends JobColumns {
  ready_at: number;
}

export interface WaitingRow extends JobColumns {
  status: "scheduled" | "retry" | "waiting";
  due_at: number | null;
}

export interface LeaseRow extends JobColumns {
  locked_by: string;
  locked_until: number;
  claimed_at: number;
  heartbeat_at: number;
  cancel_requested_at: number | null;
  /** Which claim took it: how a claim is found again whose answer was lost. */
  claim_id: number | null;
}

export interface FinishedRow extends JobColumns {
  status: FinalStatus;
  worker: string | null;
  started_at: number | null;
  finished_at: number;
  result: string | null;
  error: string | null;
}

/** An attempt that did not end its job. The one that did is told by `finished`. */
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

/** Where a settled job goes. A cancel that was asked for wins over whatever the attempt came to. */
export function nextRow(lease: LeaseRow, outcome: Outcome, now: number): Destination {
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

/** A crashed job is tried again after 1 s, then 2 s, 4 s … so that a killer does not meet its next worker at once. */
const CRASH_BACKOFF_MS_FIRST = 1_000;

const CRASH_BACKOFF_MS_MAX = 60_000;

/** Where a job goes whose lease ran out, or whose worker is known to be gone. */
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

/**
 * From 0.5 to 1.5, by digits of the id: jobs that were lost together come back apart, or a killer would take the same
 * neighbours with it every time.
 */
function spreadOf(id: string, crashes: number): number {
  const end = id.length - 3 * (crashes % 4);
  const drawn = Number.parseInt(id.slice(end - 3, end), 16);
  return 0.5 + (Number.isNaN(drawn) ? 0x800 : drawn) / 0x1000; // an id that is not ours may have other digits
}

function crashError(lease: LeaseRow, crashesMax: number, now: number): string {
  return JSON.stringify(crashRecord(lease, crashesMax, now));
}

function crashRecord(lease: LeaseRow, crashesMax: number, now: number): ErrorRecord {
  const { crashes, locked_by: worker, locked_until: until } = lease;
  if (crashes >= crashesMax) {
    const message = `Every one of ${crashes} workers that ran this job died or lost its lease; it is kept from the next.`;
    return { name: "PoisonJob", code: "POISON", message };
  }
  if (until < now) {
    const message = `The lease of worker ${worker} ran out: the worker died, froze or lost the database.`;
    return { name: "LeaseExpired", code: "LEASE_EXPIRED", message };
  }
  // A lease that holds is taken only from one that is known to be over.
  const message = `Its worker was killed or lost: ${worker} ended without a word, and the job was taken back from it.`;
  return { name: "WorkerGone", code: "WORKER_GONE", message };
}

/** Why an attempt ended that neither its task nor its worker is charged for. */
export function outageError(): string {
  const message =
    "The database did not answer in time to renew the lease. The worker was alive, so this counts neither as an attempt nor as a crash.";
  const record: ErrorRecord = { name: "LeaseLostError", code: "LEASE_LOST", message };
  return JSON.stringify(record);
}

/** Why a job was cancelled that gave its key to another. */
export function replacedError(by: string): string {
  const message = `Replaced by job ${by}, which has the same key.`;
  const record: ErrorRecord = { name: "Replaced", code: "REPLACED", message };
  return JSON.stringify(record);
}

function finish(
  lease: LeaseRow,
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

function retry(lease: LeaseRow, dueAt: number, attempt: AttemptRow): Destination {
  return {
    table: "waiting",
    row: { ...jobColumns(lease), status: "retry", due_at: dueAt },
    attempt,
  };
}

function attemptRow(
  lease: LeaseRow,
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
  return {
    id: row.id,
    queue: row.queue,
    task: row.task,
    rank: row.rank,
    job_key: row.job_key,
    epoch: row.epoch,
    attempts: row.attempts,
    crashes: row.crashes,
    max_attempts: row.max_attempts,
  };
}

// What all moves of jobs are made of.

/** When a new job is due; now, unless it says otherwise. */
export function dueTime({ start }: NewJob, now: number): number {
  if (start === null) return now;
  return "at" in start ? start.at : now + start.delayMs;
}

/** Makes jobs pending, from now on. */
export async function putReady(
  tx: Transaction,
  rows: readonly JobColumns[],
  now: number,
): Promise<void> {
  const ready = rows.map((row): ReadyRow => ({ ...jobColumns(row), ready_at: now }));
  await tx.insert("ready", ready.map(asRow));
}

/** Hints that these queues have jobs, which others hear of with the commit where the engine can do that. */
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
