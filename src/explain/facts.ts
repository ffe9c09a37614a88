/** What is read about a job or a queue, before a reason is found in it. */
import type { AwaitedJob, Bounded, Holder, Limited } from "../core/explanation.ts";
import type { Status } from "../core/job.ts";
import type { Rate } from "../limits/rate.ts";

export interface JobFacts {
  /** By the database's clock, like all instants. */
  readonly now: number;
  readonly job: JobState;
  /** Of a job that is in retry or waiting: why its last attempt ended. */
  readonly lastError: string | null;
  /** Of a waiting job. */
  readonly waits: WaitFacts | null;
  /** Of a job that is pending or due. */
  readonly fleet: readonly FleetWorker[];
  /** Of a pending job. */
  readonly queue: QueueState | null;
  readonly limits: readonly LimitFacts[];
  /** How many jobs come before it. */
  readonly before: Bounded;
}

export interface JobState {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly lane: string | null;
  readonly status: Status;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly dueAt: number | null;
  readonly startBy: number | null;
  readonly lockedBy: string | null;
  readonly lockedUntil: number | null;
  readonly claimedAt: number | null;
  readonly cancelRequestedAt: number | null;
  readonly finishedAt: number | null;
  readonly error: string | null;
}

export interface WaitFacts {
  /** How many jobs it waits for; `jobs` are the first few. */
  readonly missing: number;
  readonly jobs: readonly AwaitedJob[];
  readonly events: readonly { readonly name: string; readonly key: string }[];
  readonly effects: readonly {
    readonly name: string;
    readonly occurrence: number;
    readonly begunAt: number;
  }[];
}

export interface FleetWorker {
  readonly id: string;
  readonly queues: readonly string[];
  /** Null: it does not say. */
  readonly tasks: readonly string[] | null;
  readonly isLive: boolean;
  readonly isPaused: boolean;
  readonly heartbeatAt: number;
  /** How many jobs it may run at once; null: it does not say. */
  readonly concurrency: number | null;
  readonly leases: number;
}

export interface QueueState {
  readonly pausedAt: number | null;
  readonly pausedBy: string | null;
  readonly pauseReason: string | null;
}

/** A limit that applies to the job, and how much of it is used. */
export interface LimitFacts extends Limited {
  readonly concurrency: number | null;
  readonly running: number;
  readonly longest: Holder | null;
  readonly rate: Rate | null;
  /** Null: the rate allows a start now. */
  readonly rateFreeAt: number | null;
}

export interface QueueFacts {
  readonly now: number;
  readonly name: string;
  readonly queue: QueueState | null;
  readonly fleet: readonly FleetWorker[];
  /** Of the queue as a whole. */
  readonly limits: readonly LimitFacts[];
  readonly running: Bounded;
  readonly pending: Bounded;
  /** The first pending job; null: none, or it has just been claimed. */
  readonly first: JobFacts | null;
}
