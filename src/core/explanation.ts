/** Why a job does not run, or why a queue does not move: one reason with its facts, and the same as a sentence. */
import type { FinalStatus, Status } from "./job.ts";

/** The facts of what keeps a queue, or one of its jobs, from running. Instants are ms since 1970, by the database's clock. */
export interface Obstacles {
  /** Its queue is paused, or its lane. */
  paused: {
    /** The name of the queue. */
    readonly queue: string;
    /** The lane that is paused; null: the whole queue is. */
    readonly lane: string | null;
    /** Who paused it. */
    readonly by: string;
    /** When it was paused. */
    readonly at: number;
    /** The reason that was given; null: none. */
    readonly why: string | null;
  };
  /** No live worker can run it. */
  "no-worker": {
    /** What no live worker has. */
    readonly missing: "worker" | "queue" | "task" | "version";
    /** The queue of the job. */
    readonly queue: string;
    /** The name of the task that no worker has; null: the queue is explained, not a job. */
    readonly task: string | null;
    /** A worker that could run it, but counts as dead. */
    readonly silent: {
      /** The id of the worker. */
      readonly worker: string;
      /** When it was last heard of. */
      readonly heartbeatAt: number;
    } | null;
    /** The queues in which live workers know the task, or the versions that they know. */
    readonly known: readonly string[];
  };
  /** All workers that could run it are paused. */
  "workers-paused": {
    /** Their ids. */
    readonly workers: readonly string[];
  };
  /** As many jobs run as a limit allows. */
  "concurrency-limit": Limited & {
    /** How many may run at once. */
    readonly limit: number;
    /** How many run. */
    readonly running: number;
    /** The running job that was claimed first. */
    readonly longest: Holder | null;
  };
  /** As many jobs were started as a limit allows in its period. */
  "rate-limit": Limited & {
    /** How many may start in a period. */
    readonly count: number;
    /** The length of the period, in milliseconds. */
    readonly periodMs: number;
    /** When the next may start. */
    readonly freeAt: number;
  };
  /** It is the next, but each worker that could run it runs as many jobs as it may. */
  "workers-busy": Busy;
}

/** The facts of each reason. Instants are milliseconds since 1970, by the database's clock. */
export interface JobReasons extends Obstacles {
  /** A worker runs it. */
  running: Claim;
  /** A worker runs it, and was asked to cancel it. */
  cancelling: Claim & {
    /** When the cancellation was requested (ms since 1970). */
    readonly requestedAt: number;
  };
  /** Its worker died or lost the database; the next worker takes the job back. */
  "lease-expired": Claim;
  /** It has ended, so it does not run again by itself. */
  ended: {
    /** How it ended. */
    readonly status: Exclude<FinalStatus, "expired">;
    /** When it ended. */
    readonly finishedAt: number;
    /** How many attempts it used. */
    readonly attempts: number;
    /** How many it had. */
    readonly maxAttempts: number;
    /** The message of its last error; null: none. */
    readonly error: string | null;
  };
  /** No worker started it in time. `finishedAt` null: it is about to be marked. */
  expired: {
    /** By when it had to start; null: unknown. */
    readonly startBy: number | null;
    /** When it was marked as expired. */
    readonly finishedAt: number | null;
  };
  /** Its time has not come. */
  scheduled: {
    /** When it becomes pending. */
    readonly dueAt: number;
  };
  /** Its time has come, and a worker is about to make it pending. */
  due: {
    /** When it was to become pending. */
    readonly dueAt: number;
  };
  /** An attempt failed, and the next one waits for its back-off. */
  "backing-off": {
    /** When the next attempt is due. */
    readonly until: number;
    /** The number of the failed attempt. */
    readonly attempt: number;
    /** How many attempts it has. */
    readonly maxAttempts: number;
    /** The message of the error; null: none was recorded. */
    readonly error: string | null;
  };
  /** The first few of `count` jobs. A status of null: the job was deleted. */
  "waits-for-jobs": {
    /** How many jobs it waits for. */
    readonly count: number;
    /** The first few of them. */
    readonly jobs: readonly AwaitedJob[];
    /** It continues then in any case; null: it has no such limit. */
    readonly until: number | null;
  };
  /** It waits in `ctx.event()`, or for the end of a job that it called. */
  "waits-for-event": {
    /** Any one of them lets it continue. */
    readonly events: readonly {
      /** The name of the event. */
      readonly name: string;
      /** The key that it must be emitted with. */
      readonly key: string;
    }[];
    /** It continues then in any case; null: it has no such limit. */
    readonly until: number | null;
  };
  /** It sleeps, or was snoozed. */
  sleeping: {
    /** When it continues. */
    readonly until: number;
    /** The reason of the snooze; null: none. */
    readonly why: string | null;
  };
  /** It waits until an operator says whether an effect happened. */
  "effect-in-doubt": {
    /** The effects in question. */
    readonly effects: readonly {
      /** The name of the effect. */
      readonly name: string;
      /** Counts the effects of this name in the job, from 1. */
      readonly occurrence: number;
      /** When it began. */
      readonly begunAt: number;
    }[];
  };
  /** It waits for nothing that is known. */
  stuck: object;
  /** Other jobs go first. */
  behind: {
    /** The queue of the job. */
    readonly queue: string;
    /** The lane of the job; null: it has none. */
    readonly lane: string | null;
    /** At most 1,000; more are not counted. */
    readonly before: number;
    /** Whether there are more than that. */
    readonly isMore: boolean;
    /** The workers that could run it, if each runs as many jobs as it may; null: one of them has room. */
    readonly busy: Busy | null;
  };
  /** It is the next job that a worker takes. */
  next: {
    /** The queue of the job. */
    readonly queue: string;
  };
}

/** The facts of each reason why the jobs of a queue do not run. */
export interface QueueReasons extends Obstacles {
  /** No job is pending. */
  empty: {
    /** How many jobs of the queue run. */
    readonly running: Bounded;
  };
  /** The first pending job cannot start. */
  held: {
    /** The id of that job. */
    readonly job: string;
    /** Why it cannot start. */
    readonly because: Explanation;
    /** How many jobs are pending. */
    readonly pending: Bounded;
  };
  /** Jobs start. */
  moving: {
    /** How many jobs of the queue run. */
    readonly running: Bounded;
    /** How many jobs are pending. */
    readonly pending: Bounded;
  };
}

/** Which worker runs a job, and until when. */
export interface Claim {
  /** The id of the worker. */
  readonly worker: string;
  /** When it claimed the job. */
  readonly claimedAt: number;
  /** When its lease ends unless it is renewed. */
  readonly lockedUntil: number;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** How many attempts the job has. */
  readonly maxAttempts: number;
}

/** A job that another one waits for. */
export interface AwaitedJob {
  /** The id of the job. */
  readonly id: string;
  /** The name of its task; null: the job was deleted. */
  readonly task: string | null;
  /** Its state now; null: the job was deleted. */
  readonly status: Status | null;
}

/** What a limit is for: the queue, or a lane or a task in it. */
export interface Limited {
  /** The queue that has the limit. */
  readonly queue: string;
  /** Whether it limits the queue, each lane, or a task. */
  readonly of: "queue" | "lane" | "task";
  /** Of the lane or the task. */
  readonly name: string | null;
}

/** The job that has held a slot of a limit for longest. */
export interface Holder {
  /** The id of the job. */
  readonly job: string;
  /** The name of its task. */
  readonly task: string;
  /** The id of the worker that runs it. */
  readonly worker: string;
  /** When it was claimed. */
  readonly claimedAt: number;
}

/** The workers that are busy, and how many jobs they can run at once. */
export interface Busy {
  /** Their ids. */
  readonly workers: readonly string[];
  /** How many jobs they may run at once, all together. */
  readonly places: number;
}

/** At most 1,000; more are not counted. */
export interface Bounded {
  /** The number, up to the limit. */
  readonly count: number;
  /** Whether there are more than that. */
  readonly isMore: boolean;
}

/** A reason, its facts, and the sentence that says it. */
export type Explained<Reasons> = {
  [Reason in keyof Reasons]: {
    /** A word for programs to compare. */
    readonly reason: Reason;
    /** In English, with the facts. */
    readonly sentence: string;
    /** What the sentence says, as data. */
    readonly facts: Reasons[Reason];
  };
}[keyof Reasons];

/** Why a job does not run, in a sentence, with the facts. */
export type Explanation = Explained<JobReasons>;
/** Why the jobs of a queue do not run, in a sentence, with the facts. */
export type QueueExplanation = Explained<QueueReasons>;
