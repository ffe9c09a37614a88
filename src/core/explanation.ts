/** Why a job does not run, or why a queue does not move: one reason with its facts, and the same as a sentence. */
import type { FinalStatus, Status } from "./job.ts";

/** The facts of each reason. Instants are milliseconds since 1970, by the database's clock. */
export interface JobReasons {
  /** A worker runs it. */
  running: Claim;
  /** A worker runs it, and was asked to cancel it. */
  cancelling: Claim & { readonly requestedAt: number };
  /** Its worker died or lost the database; the next worker takes the job back. */
  "lease-expired": Claim;
  ended: {
    readonly status: Exclude<FinalStatus, "expired">;
    readonly finishedAt: number;
    readonly attempts: number;
    readonly maxAttempts: number;
    readonly error: string | null;
  };
  /** No worker started it in time. `finishedAt` null: it is about to be marked. */
  expired: { readonly startBy: number | null; readonly finishedAt: number | null };
  scheduled: { readonly dueAt: number };
  /** Its time has come, and a worker is about to make it pending. */
  due: { readonly dueAt: number };
  "backing-off": {
    readonly until: number;
    readonly attempt: number;
    readonly maxAttempts: number;
    readonly error: string | null;
  };
  /** The first few of `count` jobs. A status of null: the job was deleted. */
  "waits-for-jobs": {
    readonly count: number;
    readonly jobs: readonly AwaitedJob[];
    /** It continues then in any case; null: it has no such limit. */
    readonly until: number | null;
  };
  "waits-for-event": {
    readonly events: readonly { readonly name: string; readonly key: string }[];
    readonly until: number | null;
  };
  sleeping: { readonly until: number; readonly why: string | null };
  "effect-in-doubt": {
    readonly effects: readonly {
      readonly name: string;
      readonly occurrence: number;
      readonly begunAt: number;
    }[];
  };
  /** It waits for nothing that is known. */
  stuck: object;
  paused: {
    readonly queue: string;
    readonly by: string;
    readonly at: number;
    readonly why: string | null;
  };
  "no-worker": {
    /** What no live worker has. */
    readonly missing: "worker" | "queue" | "task" | "version";
    readonly queue: string;
    readonly task: string | null;
    /** A worker that could run it, but counts as dead. */
    readonly silent: { readonly worker: string; readonly heartbeatAt: number } | null;
    /** The queues in which live workers know the task, or the versions that they know. */
    readonly known: readonly string[];
  };
  "workers-paused": { readonly workers: readonly string[] };
  "concurrency-limit": Limited & {
    readonly limit: number;
    readonly running: number;
    /** The running job that was claimed first. */
    readonly longest: Holder | null;
  };
  "rate-limit": Limited & {
    readonly count: number;
    readonly periodMs: number;
    readonly freeAt: number;
  };
  /** It is the next, but each worker that could run it runs as many jobs as it may. */
  "workers-busy": Busy;
  behind: {
    readonly queue: string;
    readonly lane: string | null;
    /** At most 1,000; more are not counted. */
    readonly before: number;
    readonly isMore: boolean;
  };
  next: { readonly queue: string };
}

/** The facts of each reason why the jobs of a queue do not run. */
export interface QueueReasons extends Pick<
  JobReasons,
  "paused" | "no-worker" | "workers-paused" | "concurrency-limit" | "rate-limit" | "workers-busy"
> {
  /** No job is pending. */
  empty: { readonly running: Bounded };
  /** The first pending job cannot start. */
  held: { readonly job: string; readonly because: Explanation; readonly pending: Bounded };
  moving: { readonly running: Bounded; readonly pending: Bounded };
}

/** Which worker runs a job, and until when. */
export interface Claim {
  readonly worker: string;
  readonly claimedAt: number;
  readonly lockedUntil: number;
  readonly attempt: number;
  readonly maxAttempts: number;
}

/** A job that another one waits for. */
export interface AwaitedJob {
  readonly id: string;
  readonly task: string | null;
  readonly status: Status | null;
}

/** What a limit is for: the queue, or a lane or a task in it. */
export interface Limited {
  readonly queue: string;
  readonly of: "queue" | "lane" | "task";
  /** Of the lane or the task. */
  readonly name: string | null;
}

/** The job that has held a slot of a limit for longest. */
export interface Holder {
  readonly job: string;
  readonly task: string;
  readonly worker: string;
  readonly claimedAt: number;
}

/** The workers that are busy, and how many jobs they can run at once. */
export interface Busy {
  readonly workers: readonly string[];
  /** How many jobs they may run at once, all together. */
  readonly places: number;
}

/** At most 1,000; more are not counted. */
export interface Bounded {
  readonly count: number;
  readonly isMore: boolean;
}

/** A reason, its facts, and the sentence that says it. */
export type Explained<Reasons> = {
  [Reason in keyof Reasons]: {
    readonly reason: Reason;
    /** In English, with the facts. */
    readonly sentence: string;
    readonly facts: Reasons[Reason];
  };
}[keyof Reasons];

/** Why a job does not run, in a sentence, with the facts. */
export type Explanation = Explained<JobReasons>;
/** Why the jobs of a queue do not run, in a sentence, with the facts. */
export type QueueExplanation = Explained<QueueReasons>;

export const jobReasons = [
  "running",
  "cancelling",
  "lease-expired",
  "ended",
  "expired",
  "scheduled",
  "due",
  "backing-off",
  "waits-for-jobs",
  "waits-for-event",
  "sleeping",
  "effect-in-doubt",
  "stuck",
  "paused",
  "no-worker",
  "workers-paused",
  "concurrency-limit",
  "rate-limit",
  "workers-busy",
  "behind",
  "next",
] as const satisfies readonly (keyof JobReasons)[];

export const queueReasons = [
  "paused",
  "empty",
  "no-worker",
  "workers-paused",
  "concurrency-limit",
  "rate-limit",
  "workers-busy",
  "held",
  "moving",
] as const satisfies readonly (keyof QueueReasons)[];
