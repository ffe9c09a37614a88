/** What the job store takes and returns. Its methods, with what they promise, are in sql-jobs.ts. */
import type { OperatorEntry } from "../audit/operator.ts";
import type { ErrorRecord } from "../core/error-record.ts";
import type { Fence, FinalStatus, Settlement, Status } from "../core/job.ts";
import type { TraceContext } from "../tracing/trace.ts";

export interface NewJob {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly payload: string;
  readonly priority: number;
  readonly maxAttempts: number;
  readonly key: string | null;
  /** How long the job keeps its key after it ends; null: not at all. */
  readonly keyForMs?: number | null;
  /** What happens if the key is held. Default: return. */
  readonly onConflict?: OnConflict;
  /** Null: now. `delayMs` counts from the database's clock; `at` is an instant the caller chose. */
  readonly start: { readonly delayMs: number } | { readonly at: number } | null;
  readonly trace?: TraceContext;
}

/** If another job holds the key: return that job, replace it, or reject the whole call. */
export type OnConflict = "return" | "replace" | "reject";

export interface Enqueued {
  /** The job's own id, or the id of the job that holds its key. */
  readonly id: string;
  readonly added: boolean;
}

export interface Wanted {
  readonly worker: string;
  readonly queues: readonly string[];
  /** Only jobs of these tasks; null: of any. */
  readonly tasks: readonly string[] | null;
  readonly limit: number;
  readonly leaseMs: number;
  /** Claim only while the worker is registered and active: a worker that lost its slot must not take jobs. */
  readonly guarded?: boolean;
}

export interface ClaimedJob extends Fence {
  readonly queue: string;
  readonly task: string;
  readonly payload: string;
  readonly priority: number;
  /** Which charged try this is, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly crashes: number;
  readonly enqueuedAt: number;
  /** When the job became pending; null: unknown, because the answer to the claim was lost. */
  readonly readyAt: number | null;
  readonly lockedUntil: number;
  /** Set by callers that read the trace; a claim does not. */
  readonly trace?: TraceContext;
}

export interface Settled extends Fence {
  readonly queue: string;
  readonly task: string;
  readonly status: Status;
  readonly attempts: number;
  /** When a retried or waiting job is due; null: no time is set. */
  readonly dueAt: number | null;
}

/** What one poll cycle of a worker did: it settles attempts, then claims jobs. */
export interface CycleResult {
  readonly settled: Settled[];
  readonly claimed: ClaimedJob[];
}

export interface Extended extends Fence {
  readonly lockedUntil: number;
  readonly cancelRequested: boolean;
}

/** Milliseconds by the database's clock, negative if in the past; null: there is none. */
export interface Upcoming {
  readonly dueInMs: number | null;
  readonly leaseEndsInMs: number | null;
}

export interface JobSummary {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly status: Status;
  readonly priority: number;
  readonly key: string | null;
  readonly epoch: number;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly crashes: number;
  readonly enqueuedAt: number;
  readonly dueAt: number | null;
  readonly lockedBy: string | null;
  readonly lockedUntil: number | null;
  /** When the running or the last attempt was claimed. */
  readonly claimedAt: number | null;
  /** When the worker last renewed the lease. */
  readonly heartbeatAt: number | null;
  /** Of the running or the last attempt: `<worker id>-<job id>-<attempt>`. */
  readonly traceId: string | null;
  readonly finishedAt: number | null;
  /** Of the latest failed attempt. */
  readonly lastError: string | null;
  /** The effect in doubt: the job waits until an operator says whether it happened. */
  readonly inDoubt: string | null;
}

export interface JobRecord extends JobSummary {
  readonly payload: string;
  readonly result: string | null;
  readonly cancelRequestedAt: number | null;
}

export interface FinishedRecord {
  readonly id: string;
  readonly task: string;
  readonly status: FinalStatus;
  readonly attempts: number;
  readonly result: string | null;
  readonly error: string | null;
}

export interface AttemptRecord {
  readonly epoch: number;
  readonly attempt: number;
  readonly worker: string;
  readonly outcome: string;
  readonly startedAt: number;
  readonly endedAt: number | null;
  readonly error: string | null;
}

export interface LeaseRecord extends Fence {
  readonly queue: string;
  readonly task: string;
  readonly attempt: number;
  /** As in the view `leases`. */
  readonly traceId: string;
  readonly claimedAt: number;
  readonly heartbeatAt: number;
  readonly lockedUntil: number;
  readonly cancelRequestedAt: number | null;
}

export interface ListFilter {
  readonly status?: Status;
  readonly queue?: string;
  readonly task?: string;
  readonly key?: string;
  /** The first characters of the id, in either case, with or without dashes. */
  readonly prefix?: string;
  readonly before?: string;
  readonly limit: number;
}

export interface LeaseFilter {
  readonly state: "active" | "expired";
  readonly worker?: string;
  readonly after?: string;
  readonly limit: number;
}

export interface QueueStats {
  readonly queue: string;
  readonly counts: Record<Status, number>;
  /** When the longest pending job became pending; null: none is. */
  readonly oldestPendingAt: number | null;
}

export interface Unclaimable {
  readonly queue: string;
  readonly task: string;
  /** Counted among the first jobs that a claim of the queue would see. */
  readonly jobs: number;
  /** How long the oldest has been pending. */
  readonly waitedMs: number;
}

/** The leases carry the claim's number, so the claim can be looked up if its answer is lost. */
export interface Claiming extends Wanted {
  readonly claimId: number;
}

export interface NewcomerRecord {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly enqueuedAt: number;
}

export interface EndedRecord {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly status: FinalStatus;
  readonly epoch: number;
  readonly attempts: number;
  readonly worker: string | null;
  readonly finishedAt: number;
}

export interface Reclaim {
  /** A job that has crashed this many workers fails. */
  readonly crashesMax: number;
  readonly limit: number;
}

export interface ReclaimExpired extends Reclaim {
  readonly graceMs: number;
  /** Leaves alone leases whose end would end their job: their owners may be alive and about to report. */
  readonly spareLast?: boolean;
  readonly queue?: string;
}

export interface ReclaimFrom extends Reclaim {
  readonly workers: readonly string[];
}

export interface Prune {
  readonly keepMs: Record<FinalStatus, number>;
  readonly limit: number;
}

/**
 * The hot operations of one engine, for jobs that no other job waits for. They throw OutcomeUnknownError if the answer
 * to a commit was lost; the caller looks up what happened.
 */
export interface JobStatements {
  insert(jobs: readonly NewJob[]): Promise<Enqueued[]>;
  settleAndClaim(settlements: readonly Settlement[], wanted: Claiming | null): Promise<CycleResult>;
  extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]>;
}

// Bulk changes walk over the jobs of one kind, newest first.

export type Walk = "failed" | "cancelled" | "waiting" | "pending" | "processing";

/** The jobs before this id come next; null: the newest. */
export interface Cursor {
  readonly walk: Walk;
  readonly before: string | null;
}

export interface Looked {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly status: Status;
  /** When it ended, or, if it has not, when it was enqueued. */
  readonly at: number;
  /** Of the latest failed attempt. */
  readonly error: ErrorRecord | null;
}

/** Jobs that are changed in one transaction. */
export interface Chunk {
  readonly ids: readonly string[];
  /** One audit entry per job; null: the program acts by itself and writes none. */
  readonly operators: readonly OperatorEntry[] | null;
}
