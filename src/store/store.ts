/**
 * THE contract: what every store promises, whatever database is under it.
 *
 * A job stands in exactly one of four tables (`ready`, `waiting`, `lease`, `finished`), and that table is its
 * state. Every verb below that changes a job is one atomic move from one table to another. What holds for all:
 *
 * - When a promise resolves, the change is committed and survives a crash. When it rejects, nothing was written; when
 *   it rejects with OutcomeUnknown, the database was lost and could not be asked whether all or nothing was.
 * - Time is the database's. Callers pass spans; the store adds them to its own now.
 * - Whoever writes about a claimed job shows the fence: job, worker, epoch. A fence that is no longer current changes
 *   nothing, and is missing from what the verb returns.
 * - Everything is plural: a batch is one transaction. Every batch has a limit.
 * - Nothing here calls user code, parses a payload or knows a task's retry policy.
 */
import type { Access } from "./access.ts";
import type { Actions, Signature } from "./actions.ts";
import type { Chunk, Cursor, Looked } from "./bulk.ts";
import type { PushState } from "./engine.ts";
import type { Figures } from "./figures.ts";
import type { AlertRows } from "./alerts.ts";
import type { IdTable } from "./ids.ts";
import type { Findings } from "./findings.ts";
import type { Journal } from "./journal.ts";
import type { Loads } from "./load.ts";
import type { LockRows } from "./lock-rows.ts";
import type { LockStatRows } from "./lock-stats.ts";
import type { Registry } from "./registry.ts";
import type { Reports } from "./reports.ts";
import type { Traces } from "./traces.ts";
import type { Workflows } from "./workflows.ts";
import type { Fence, FinalStatus, OutageReport, Settlement, Status } from "../core/job.ts";
import type { TraceContext } from "../core/trace.ts";

export interface Store
  extends
    Registry,
    Actions,
    Reports,
    Journal,
    Workflows,
    LockRows,
    LockStatRows,
    Figures,
    AlertRows,
    Access,
    Loads,
    Traces,
    Findings {
  /** The engine's name and place, fit for a log line: no secrets. */
  readonly name: string;
  /** The database's own name, the same in every process that uses it, by whatever way. */
  readonly database: string;
  /** How many turns of a worker gain from being under way at once. */
  readonly lanes: number;

  /** Brings the tables up to this version, one process at a time. Safe to call from many at once. */
  migrate(): Promise<Migrated>;
  /** What `migrate` would do, as SQL for others to apply. Changes nothing. */
  planMigration(): Promise<MigrationPlan>;
  /** Throws unless the tables fit this version of the library. */
  checkSchema(): Promise<void>;

  /**
   * Accepts jobs, all or none. A job whose key is held, by a live job of the same task or by one that has ended and keeps
   * it, is not added: the holder's id comes back instead. With `onConflict` it takes the holder's place, which must not be
   * worked on, or the whole is refused: KeyTaken. An id that exists already is left as it is, so a call whose answer was
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
   * whose end would be their job's end are left alone: their owners may be alive and about to report.
   */
  reclaimExpired(chore: {
    graceMs: number;
    crashesMax: number;
    limit: number;
    spareLast?: boolean;
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
  cancel(id: string, signature?: Signature | null): Promise<Status | null>;

  /** Makes a failed or cancelled job pending again and allows it `attempts` more. An operator's leaves a line, too. */
  revive(id: string, attempts: number, signature?: Signature | null): Promise<void>;

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
  neighbours(of: IdTable, ids: readonly string[]): Promise<string[]>;
  /** Leases that are running, or that ran out and wait to be taken back. Ordered by id; `after` pages on. */
  leases(filter: LeaseFilter): Promise<LeaseRecord[]>;
  /** Which of a worker's jobs somebody wants cancelled. */
  cancelRequests(worker: string): Promise<Fence[]>;
  stats(): Promise<QueueStats[]>;
  /** Whether a queue has pending jobs. */
  hasPending(queue: string): Promise<boolean>;
  /** Pending jobs that no live worker can run, by queue and task, those that wait longest first; of one queue, if named. */
  stranded(filter?: { readonly queue?: string }): Promise<Stranded[]>;

  /**
   * Calls back soon after something changed, by this process or another. A hint and nothing more: hints may come late,
   * twice or not at all, so whoever waits for one also polls.
   */
  watch(listener: (hint: Hint) => void): () => void;
  /** Whether others' changes are pushed to this process. Null: nothing pushes here, and they are found by polling. */
  pushState(): PushState | null;

  /** How another thread opens this same store; null where it cannot (a database in memory). */
  readonly address: StoreAddress | null;

  close(): Promise<void>;
}

export interface NewJob {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly payload: string;
  readonly priority: number;
  readonly attemptsMax: number;
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
  readonly attemptsMax: number;
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
  readonly attemptsMax: number;
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

export interface Stranded {
  readonly queue: string;
  readonly task: string;
  /** How many: of each queue those are counted that would be claimed first. */
  readonly jobs: number;
  /** For how long the oldest of them has been pending. */
  readonly waitedMs: number;
}

/** What changed: jobs became pending in a queue, jobs wait for a time, … or another process wrote something. */
export type Hint =
  | { readonly kind: "pending"; readonly queue: string }
  /** The first of them will be due after so long; nothing: nobody knows, so somebody has to look. */
  | { readonly kind: "waiting"; readonly inMs?: number }
  | { readonly kind: "finished" }
  | { readonly kind: "cancel" }
  | { readonly kind: "workers" }
  /** In the process that wrote them; others are not told. */
  | { readonly kind: "reports"; readonly job: string }
  | { readonly kind: "unknown" };

export interface StoreAddress {
  readonly engine: string;
  readonly options: Record<string, unknown>;
}

export interface MigrationPlan {
  readonly from: number;
  readonly to: number;
  readonly migrations: readonly { readonly version: number; readonly name: string }[];
  /** For a driver that takes several statements at once; empty: nothing is missing. */
  readonly sql: string;
  /** For the database's own shell. */
  readonly shellSql: string;
}

export interface Migrated {
  readonly from: number;
  readonly to: number;
  readonly applied: readonly string[];
}
