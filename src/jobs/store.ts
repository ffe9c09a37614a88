/** What the job store takes and returns. Its methods, with what they promise, are in sql-jobs.ts. */
import type { AttemptState, Fence, FinalStatus, Settlement, Status } from "../core/job.ts";
import type { Transaction, WaitLimits } from "../database/engine.ts";
import type { Sql } from "../database/sql.ts";
import type { TraceContext } from "../tracing/tracing.ts";

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
  /** The job ends as expired if its first attempt has not started by then. `withinMs` counts from the database's clock. */
  readonly startBy?: { readonly withinMs: number } | { readonly at: number } | null;
  /** Jobs of different lanes take turns, and limits can apply to each lane. */
  readonly lane?: string | null;
  readonly trace?: TraceContext;
  /** Each once, in order. */
  readonly tags?: readonly string[];
  /** Debounce or throttle; the job has no `key` then. */
  readonly pace?: Pace;
  /** Set for a job that waits for others or belongs to a flow. Its id is marked as that of a called job. */
  readonly member?: Member;
}

export const dependencyPolicies = ["fail", "cancel", "ignore"] as const;
/** What becomes of a job when a job that it waits for fails or is cancelled. */
export type DependencyPolicy = (typeof dependencyPolicies)[number];

export interface Dependency {
  readonly id: string;
  readonly onFailed: DependencyPolicy;
  readonly onCancelled: DependencyPolicy;
}

export interface Member {
  readonly flow: string | null;
  /** Unique in its flow. */
  readonly name: string | null;
  /** Jobs that exist, or come before it in the same call. */
  readonly after: readonly Dependency[];
  /** Waiting jobs that shall wait for it, too. */
  readonly before: readonly Dependency[];
}

/** Its key is that of a task, without its version. */
export type Pace =
  /** The last call wins, after so long without another; `maxWaitMs` after the first call at the latest. */
  | {
      readonly kind: "debounce";
      readonly key: string;
      readonly waitMs: number;
      readonly maxWaitMs: number | null;
    }
  /** The first call wins, for so long. */
  | { readonly kind: "throttle"; readonly key: string; readonly periodMs: number };

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
  /** How many of these are claimed ahead of a free slot. Queues with a slow rate give none ahead. Default 0. */
  readonly ahead?: number;
  readonly leaseMs: number;
  /** Claim only while the worker is registered and active: a worker that lost its slot must not take jobs. */
  readonly guarded?: boolean;
}

/** A job that a worker has claimed. */
export interface ClaimedJob extends Fence {
  /** The queue it was claimed from. */
  readonly queue: string;
  /** The name of its task. */
  readonly task: string;
  /** Its input as JSON. */
  readonly payload: string;
  /** A higher number goes first. */
  readonly priority: number;
  /** Which charged try this is, from 1. */
  readonly attempt: number;
  /** How many attempts it has. */
  readonly maxAttempts: number;
  /** How many workers lost their lease while they ran it. */
  readonly crashes: number;
  /** When it was enqueued (ms since 1970). */
  readonly enqueuedAt: number;
  /** When the job became pending; null: unknown, because the answer to the claim was lost. */
  readonly readyAt: number | null;
  /** When the lease ends unless it is renewed (ms since 1970). */
  readonly lockedUntil: number;
  /** Set by callers that read the trace; a claim does not. */
  readonly trace?: TraceContext;
}

/** How a job stands after an attempt ended. */
export interface Settled extends Fence {
  /** The queue of the job. */
  readonly queue: string;
  /** The name of its task. */
  readonly task: string;
  /** Its status now. */
  readonly status: Status;
  /** How many attempts it has used. */
  readonly attempts: number;
  /** When a retried or waiting job is due; null: no time is set. */
  readonly dueAt: number | null;
  /** The job has ended its worker while it ran alone. These ran beside it at earlier crashes, and are not charged. */
  readonly cleared?: readonly string[];
}

/** What one poll cycle of a worker did: it settles attempts, then claims jobs. */
export interface CycleResult {
  readonly settled: Settled[];
  readonly claimed: ClaimedJob[];
  /** Queues that turned out to have rules, or to have none any more. Nothing was claimed from them. */
  readonly governed: readonly string[];
  /** When a rate allows the next start; null or omitted: no rate stands in the way. */
  readonly lookInMs?: number | null;
}

/** A claim from queues with rules, in the transaction of a cycle. */
export interface GovernedTurn {
  /** Before the claim from other queues, or after it. */
  readonly first: boolean;
  claim<J extends LockedJob>(claims: LaneClaims<J>, limit: number): Promise<ClaimedJob[]>;
}

/**
 * Claims hold gates that other claims wait for, and outcomes wait with them: both for a fraction of the lease, so that one
 * frozen process cannot stop a queue.
 */
export function gateLimits({ leaseMs }: Wanted): Required<WaitLimits> {
  const lockMs = Math.min(GATE_WAIT_MS_MAX, Math.max(GATE_WAIT_MS_MIN, leaseMs / 4));
  const idleMs = Math.min(GATE_IDLE_MS_MAX, Math.max(GATE_IDLE_MS_MIN, leaseMs / 8));
  return { lockMs: Math.ceil(lockMs), idleMs: Math.ceil(idleMs) };
}

/** With more workers than this allows for, some of them look again instead of waiting. */
const GATE_WAIT_MS_MAX = 2_000;

const GATE_WAIT_MS_MIN = 250;

const GATE_IDLE_MS_MAX = 2_000;

/** A process on a busy machine may pause for less than this at any time. */
const GATE_IDLE_MS_MIN = 500;

/** A pending job that a claim has locked. */
export interface LockedJob {
  readonly id: string;
  readonly task: string;
  readonly lane: string;
}

/** How an engine claims from lanes, in the transaction of a cycle. */
export interface LaneClaims<J extends LockedJob> {
  readonly tx: Transaction;
  /** Locks the first jobs of each lane, in their order. Jobs that another claim has locked are left out. */
  lock(wanted: LanesWanted): Promise<J[]>;
  /** Moves these jobs under leases that begin at `nowMs`. */
  lease(jobs: readonly J[], claiming: Claiming, nowMs: number): Promise<ClaimedJob[]>;
  /** Both at once. Omitted: the engine needs two statements. */
  readonly take?: (wanted: LanesWanted, claiming: Claiming) => Promise<TakenJob<J>[]>;
  /** Runs these at the end of the transaction. */
  runLast(queries: readonly Sql[]): Promise<unknown>;
}

export interface TakenJob<J extends LockedJob> {
  readonly locked: J;
  readonly claimed: ClaimedJob;
}

export interface LanesWanted {
  readonly queue: string;
  readonly tasks: readonly string[] | null;
  readonly lanes: readonly { readonly lane: string; readonly limit: number }[];
  readonly nowMs: number;
}

/** The claim from queues with rules and the plain one, each for the places that the other has left. */
export async function claimBoth<J extends LockedJob>(
  limit: number,
  claims: LaneClaims<J>,
  turn: GovernedTurn,
  plain: (limit: number) => ClaimedJob[] | Promise<ClaimedJob[]>,
): Promise<ClaimedJob[]> {
  const governed = (places: number): Promise<ClaimedJob[]> => turn.claim(claims, places);
  const claimed: ClaimedJob[] = [];
  for (const claim of turn.first ? [governed, plain] : [plain, governed]) {
    if (claimed.length < limit) claimed.push(...(await claim(limit - claimed.length)));
  }
  return claimed;
}

export interface Extended extends Fence {
  readonly lockedUntil: number;
  readonly cancelRequested: boolean;
}

/** Milliseconds by the database's clock, negative if in the past; null: there is none. */
export interface Upcoming {
  readonly dueInMs: number | null;
  readonly leaseEndsInMs: number | null;
  /** When the first pending, or waiting, job must have started. */
  readonly pendingUntilMs: number | null;
  readonly waitingUntilMs: number | null;
  /** Background work of features: waits that maintenance looks at, bulk actions, ticks of schedules. */
  readonly flowsInMs: number | null;
  readonly bulkInMs: number | null;
  readonly schedulesInMs: number | null;
}

/** What every form of a job has: where it stands, without input, result and error. */
export interface JobFacts {
  /** Its id, a UUIDv7: ids sort by the time of enqueueing. */
  readonly id: string;
  /** The queue that it is in. */
  readonly queue: string;
  /** The name of its task. */
  readonly task: string;
  /** Its state now. */
  readonly status: Status;
  /** A higher number goes first. */
  readonly priority: number;
  /** Its key; null: it has none. */
  readonly key: string | null;
  /** The lane it was enqueued in; null: none. */
  readonly lane: string | null;
  /** How often it was claimed: its fencing token. */
  readonly epoch: number;
  /** How many attempts it has used. */
  readonly attempts: number;
  /** How many attempts it has. */
  readonly maxAttempts: number;
  /** How many workers lost their lease while they ran it. */
  readonly crashes: number;
  /** When it was enqueued (ms since 1970). */
  readonly enqueuedAt: number;
  /** When it becomes pending (ms since 1970); null: no time is set. */
  readonly dueAt: number | null;
  /** The id of the worker that holds its lease; null: none does. */
  readonly lockedBy: string | null;
  /** When that lease ends unless it is renewed (ms since 1970); null: no worker holds one. */
  readonly lockedUntil: number | null;
  /** When the running or the last attempt was claimed. */
  readonly claimedAt: number | null;
  /** When the worker last renewed the lease. */
  readonly heartbeatAt: number | null;
  /** Of the running or the last attempt: `<worker id>-<job id>-<attempt>`. */
  readonly traceId: string | null;
  /** When it ended (ms since 1970); null: it has not. */
  readonly finishedAt: number | null;
  /** The effect in doubt: the job waits until an operator says whether it happened. */
  readonly inDoubt: string | null;
  /** The words that it was enqueued with. */
  readonly tags: readonly string[];
}

/** A job without input and result, as it is stored. */
export interface JobSummary extends JobFacts {
  /** The error of the latest failed attempt, as JSON; null: none failed. */
  readonly lastError: string | null;
}

/** A job, as it is stored. */
export interface JobRecord extends JobSummary {
  /** Its input as JSON. */
  readonly payload: string;
  /** Its result as JSON; null: it has none. */
  readonly result: string | null;
  /** When its cancellation was requested while it ran (ms since 1970); null: it was not. */
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

/** When an attempt ran, and how it ended. */
export interface AttemptFacts {
  /** The fencing token of the claim. */
  readonly epoch: number;
  /** The number of the attempt; those that were not charged repeat it. */
  readonly attempt: number;
  /** The id of the worker that ran it. */
  readonly worker: string;
  /** How it ended; `running` until then. */
  readonly outcome: AttemptState;
  /** When it was claimed (ms since 1970, the database's clock). */
  readonly startedAt: number;
  /** When its outcome was stored (ms since 1970); null: it has none. */
  readonly endedAt: number | null;
}

/** One attempt at a job, as it is stored. */
export interface AttemptRecord extends AttemptFacts {
  /** Its error as JSON; null: none. */
  readonly error: string | null;
}

/** A lease that a worker holds. */
export interface LeaseRecord extends Fence {
  /** The queue of the job. */
  readonly queue: string;
  /** The name of its task. */
  readonly task: string;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** As in the view `leases`. */
  readonly traceId: string;
  /** When the job was claimed (ms since 1970). */
  readonly claimedAt: number;
  /** When the lease was last renewed (ms since 1970). */
  readonly heartbeatAt: number;
  /** When it ends unless it is renewed (ms since 1970). */
  readonly lockedUntil: number;
  /** When an operator asked to cancel the job (ms since 1970); null: none did. */
  readonly cancelRequestedAt: number | null;
}

/** Which leases to list, and how many. */
export interface LeasesFilter {
  /** Leases that have expired, or that have not (the default). */
  readonly state?: "active" | "expired";
  /** Leases of this worker. */
  readonly worker?: string;
  /** The last one of the page before. */
  readonly after?: string;
  /** The most leases of the page. Default and maximum 1,000. */
  readonly limit?: number;
}

export interface LeaseFilter extends LeasesFilter {
  readonly state: "active" | "expired";
  readonly limit: number;
}

/** How many jobs of a queue have each status. */
export interface QueueStats {
  /** The name of the queue. */
  readonly queue: string;
  /** How many of its jobs are in each status. */
  readonly counts: Record<Status, number>;
  /** When the longest pending job became pending; null: none is. */
  readonly oldestPendingAt: number | null;
}

/** Pending jobs that no live worker can run. */
export interface Unclaimable {
  /** The queue that they wait in. */
  readonly queue: string;
  /** The name of their task. */
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
  readonly maxCrashes: number;
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
  readonly retention: Record<FinalStatus, number>;
  readonly limit: number;
}

/**
 * The hot operations of one engine, for jobs that no other job waits for. They throw OutcomeUnknownError if the answer
 * to a commit was lost; the caller looks up what happened.
 */
export interface JobStatements {
  insert(jobs: readonly NewJob[]): Promise<Enqueued[]>;
  settleAndClaim(
    settlements: readonly Settlement[],
    wanted: Claiming | null,
    turn?: GovernedTurn,
  ): Promise<CycleResult>;
  extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]>;
}
