/**
 * THE contract: what every store promises, whatever database is under it.
 *
 * A job stands in exactly one of four tables (`ready`, `waiting`, `lease`, `finished`), and that table is its
 * state. Every verb below that changes a job is one atomic move from one table to another. What holds for all:
 *
 * - When a promise resolves, the change is committed and survives a crash. When it rejects, nothing was written; when
 *   it rejects with OutcomeUnknownError, the database was lost and could not be asked whether all or nothing was.
 * - Time is the database's. Callers pass spans; the store adds them to its own now.
 * - Whoever writes about a claimed job shows the fence: job, worker, epoch. A fence that is no longer current changes
 *   nothing, and is missing from what the verb returns.
 * - Everything is plural: a batch is one transaction. Every batch has a limit.
 * - Nothing here calls user code, parses a payload or knows a task's retry policy.
 */
import type { OperatorEntry } from "../audit/operator.ts";
import type { Fence, FinalStatus, OutageReport, Settlement, Status } from "../core/job.ts";
import type { JoinedTransaction } from "../database/database.ts";
import type { TraceContext } from "../tracing/trace.ts";

export interface NewJob {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly payload: string;
  readonly priority: number;
  readonly maxAttempts: number;
  readonly key: string | null;
  /** For how long it keeps its key after its end; null: not at all. */
  readonly keyForMs?: number | null;
  /** What happens if the key is held. Default: return. */
  readonly onConflict?: OnConflict;
  /** Now (null), after a span from the database's now, or at an instant the caller chose. */
  readonly start: { readonly delayMs: number } | { readonly at: number } | null;
  /** The trace that it belongs to, if there is one. */
  readonly trace?: TraceContext;
}

/**
 * Of a job whose key is held: the holder comes back; or the new job takes its place; or nothing of the call is accepted.
 */
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
  /** Only while the worker is registered and active: without, whoever lost a slot could still take jobs. */
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
  /** Since when it was pending; null: the claim's answer was lost, and nobody knows any more. */
  readonly readyAt: number | null;
  readonly lockedUntil: number;
  /** The trace that it belongs to, where somebody has looked: a claim does not. */
  readonly trace?: TraceContext;
}

export interface Settled extends Fence {
  readonly queue: string;
  readonly task: string;
  readonly status: Status;
  readonly attempts: number;
  /** When a job that will be retried or goes on waiting is due; null: no time was set. */
  readonly dueAt: number | null;
}

export interface Extended extends Fence {
  readonly lockedUntil: number;
  readonly cancelRequested: boolean;
}

/** In milliseconds by the database's clock, below zero when it is past; null: there is none. */
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
  /** When the attempt that runs, or the one that ended the job, was claimed. */
  readonly claimedAt: number | null;
  /** When the worker that runs it last renewed its lease. */
  readonly heartbeatAt: number | null;
  /** Of the attempt that runs, or that ended the job: `<worker id>-<job id>-<attempt>`. */
  readonly traceId: string | null;
  readonly finishedAt: number | null;
  /** Of its latest attempt that failed. */
  readonly lastError: string | null;
  /** The effect of which an operator has to say whether it happened before the job goes on. */
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
  /** Only jobs that were enqueued with this key. */
  readonly key?: string;
  /** Only jobs whose id begins so: in either case, with or without dashes. */
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
  /** Since when the longest pending job has been pending; null: none is. */
  readonly oldestPendingAt: number | null;
}

export interface Unclaimable {
  readonly queue: string;
  readonly task: string;
  /** How many: of each queue those are counted that would be claimed first. */
  readonly jobs: number;
  /** For how long the oldest of them has been pending. */
  readonly waitedMs: number;
}

/** A claim that can be found again when its answer is lost: its leases carry the number. */
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

export interface JobsStore {
  /**
   * Accepts jobs, all or none. A job whose key is held, by a live job of the same task or by one that has ended and keeps
   * it, is not added: the holder's id comes back instead. With `onConflict` it takes the holder's place, which must not be
   * worked on, or the whole is refused: KeyTakenError. An id that exists already is left as it is, so a call whose answer was
   * lost can be repeated.
   */
  enqueue(jobs: readonly NewJob[]): Promise<Enqueued[]>;

  /**
   * Takes up to `limit` pending jobs under leases for one worker: higher priority first, then the longest pending.
   * Two claims never return the same job at the same epoch. The attempt is charged here.
   */
  claim(wanted: Wanted): Promise<ClaimedJob[]>;

  /**
   * Ends attempts. Returns those that were still ours, and what their jobs became: an attempt that failed with
   * none left is `failed`, and a job whose cancelling was asked for is `cancelled` whatever the outcome says.
   */
  settle(settlements: readonly Settlement[]): Promise<Settled[]>;

  /** Settles, then claims, in one transaction: one commit for a busy worker's whole turn. */
  settleAndClaim(
    settlements: readonly Settlement[],
    wanted: Wanted,
  ): Promise<{ settled: Settled[]; claimed: ClaimedJob[] }>;

  /** Moves the end of leases to now + `leaseMs`, never backwards. Returns those that were still ours, each once. */
  extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]>;

  /** Hands jobs back uncharged: they are pending again at once. Returns those that were still ours. */
  release(fences: readonly Fence[]): Promise<Settled[]>;

  /**
   * Ends attempts that completed their jobs inside of transactions of the user's: those that were committed are done; of
   * the others, the outcome counts. Returns those that are settled. One whose transaction is still open is not.
   */
  settleCompleted(settlements: readonly Settlement[]): Promise<Settled[]>;

  /**
   * Ends attempts whose leases ended because the database did not answer. A lease that is still there is settled; when the
   * attempt was given up for the outage, it is handed back uncharged. One that another worker took back since counted as a
   * crash: that is given back, unless the job has ended. Beyond `OUTAGES_MAX` such attempts a job is charged like any other.
   */
  settleOutages(reports: readonly OutageReport[]): Promise<Settled[]>;

  /**
   * Takes back leases that ended more than `graceMs` ago. The crash is counted and leaves an attempt row; the job will
   * be retried, or is failed when no attempt is left or it has crashed `crashesMax` workers. With `spareLast`, leases
   * whose end would be their job's end are left alone: their owners may be alive and about to report. With `queue`, only
   * leases on jobs of that queue are taken back.
   */
  reclaimExpired(chore: {
    graceMs: number;
    crashesMax: number;
    limit: number;
    spareLast?: boolean;
    queue?: string;
  }): Promise<Settled[]>;

  /** Takes back all leases of these workers, which are known to be dead. What becomes of the jobs is as above. */
  reclaimFrom(chore: {
    workers: readonly string[];
    crashesMax: number;
    limit: number;
  }): Promise<Settled[]>;

  /** Makes waiting jobs pending whose time has come, longest due first. Returns how many. */
  promoteDue(chore: { limit: number }): Promise<number>;

  /** How long until there is something to promote, and to take back. */
  upcoming(): Promise<Upcoming>;

  /**
   * Cancels a job in whatever state it is. One that is being worked on is marked, and its owner learns it with the
   * next extension; the answer is then `processing`. A finished job stays what it is. Null: there is no such job.
   * What an operator does leaves a line in the audit, in the same transaction.
   */
  cancel(id: string, signature?: OperatorEntry | null): Promise<Status | null>;

  /** Makes a failed or cancelled job pending again and allows it `attempts` more. An operator's leaves a line, too. */
  revive(id: string, attempts: number, signature?: OperatorEntry | null): Promise<void>;

  /** The next jobs of a walk over all of one kind, newest first; see bulk.ts. */
  lookAt(at: Cursor, limit: number): Promise<Looked[]>;

  /** As `revive` of each, in one transaction: those that cannot be revived any more are left out. */
  reviveAll(chunk: Chunk, attempts: number): Promise<readonly string[]>;

  /** As `cancel` of each, in one transaction: those that have ended are left out. */
  cancelAll(chunk: Chunk): Promise<readonly string[]>;

  /** Deletes jobs that finished longer ago than their status is kept. Returns how many; call again on a full batch. */
  prune(chore: { keepMs: Record<FinalStatus, number>; limit: number }): Promise<number>;

  find(id: string): Promise<JobRecord | null>;
  /** The attempts of a job, oldest first; of very many, the newest thousand. */
  attempts(id: string): Promise<AttemptRecord[]>;
  /** Those of the given jobs that have finished, with their results. */
  findFinished(ids: readonly string[]): Promise<FinishedRecord[]>;
  /** Jobs newest first, a page at a time: pass the last id of one page as `before` of the next. */
  list(filter: ListFilter): Promise<JobSummary[]>;
  /** The ids directly before and after each of these: no others decide how short they can be written. */
  neighbours(ids: readonly string[]): Promise<string[]>;
  /** Leases that are running, or that ran out and wait to be taken back. Ordered by id; `after` pages on. */
  leases(filter: LeaseFilter): Promise<LeaseRecord[]>;
  /** Which of a worker's jobs somebody wants cancelled. */
  cancelRequests(worker: string): Promise<Fence[]>;
  stats(): Promise<QueueStats[]>;
  /** Whether a queue has pending jobs. */
  hasPending(queue: string): Promise<boolean>;

  /** Jobs whose ids come behind this one, in order. */
  after(filter: { readonly after: string; readonly limit: number }): Promise<NewcomerRecord[]>;
  /** Jobs that ended at this instant or later, in order. */
  endedSince(filter: { readonly at: number; readonly limit: number }): Promise<EndedRecord[]>;

  in(joined: JoinedTransaction): JobsInTransaction;
}

/** What it writes is there if, and when, the user commits; no worker is woken before. */
export interface JobsInTransaction {
  /** All of them or none, unless another transaction takes one of their keys at this moment: then the user begins again. */
  enqueue(jobs: readonly NewJob[]): Promise<Enqueued[]>;
  cancel(id: string): Promise<Status | null>;
  /**
   * Ends a claimed job as done under its fence. Throws LeaseLostError when it is not ours any more and JobCancelledError when its
   * cancelling was asked for, before anything is written.
   */
  complete(fence: Fence, result: string | null): Promise<void>;
}

/**
 * Of jobs that concern no others; what each promises is written above. Where the answer to a commit was lost they
 * throw OutcomeUnknownError, and the caller looks up what became of it.
 */
export interface JobStatements {
  insert(jobs: readonly NewJob[]): Promise<Enqueued[]>;
  settleAndClaim(
    settlements: readonly Settlement[],
    wanted: Claiming | null,
  ): Promise<{ settled: Settled[]; claimed: ClaimedJob[] }>;
  extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]>;
}

// Walks over many jobs.

export type Walk = "failed" | "cancelled" | "waiting" | "pending" | "processing";

/** Where a walk stands: the jobs of this walk before this id come next; null: its newest. */
export interface Cursor {
  readonly walk: Walk;
  readonly before: string | null;
}

export interface Looked {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly status: Status;
  /** When it ended; of a job that has not, when it was enqueued. */
  readonly at: number;
  /** Of its latest attempt that failed. */
  readonly error: {
    readonly name: string;
    readonly message: string;
    readonly code?: string;
  } | null;
}

/** A chunk of jobs that are changed in one transaction. */
export interface Chunk {
  readonly ids: readonly string[];
  /** Of the line in the audit for each of them; null: the program's own doing, which leaves none. */
  readonly signatures: readonly OperatorEntry[] | null;
}
