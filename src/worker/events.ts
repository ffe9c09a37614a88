/** What a worker tells about: its jobs' attempts as they start and end, and itself. */
import { suggest } from "../core/did-you-mean.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import type { Status } from "../core/job.ts";
import type { ClaimedJob } from "../jobs/store.ts";
import type { Ending } from "../registry/worker-record.ts";

export interface JobEvent {
  readonly id: string;
  readonly task: string;
  readonly queue: string;
  readonly worker: string;
  readonly epoch: number;
  readonly attempt: number;
  readonly traceId: string;
}

export interface EndEvent extends JobEvent {
  readonly durationMs: number;
}

interface FailureEvent extends EndEvent {
  readonly error: unknown;
}

/** Events about a job's end are emitted once the database has it. */
export interface WorkerEvents {
  "job:started": JobEvent;
  "job:done": EndEvent;
  /** The attempt failed, and another one follows. */
  "job:retrying": FailureEvent & { readonly retryAt: number | null };
  /** The attempt failed, and no other follows: a dead letter. */
  "job:failed": FailureEvent;
  "job:cancelled": EndEvent;
  "job:released": EndEvent;
  /** It sleeps, or waits for an event or another job, and goes on later. */
  "job:suspended": EndEvent & { readonly dueAt: number | null };
  /** It is unknown whether an effect happened. The job waits until an operator resolves it. */
  "job:doubt": EndEvent & { readonly effect: string; readonly occurrence: number };
  /** The job belongs to somebody else; the task's signal has been aborted. */
  "lease:lost": JobEvent & { readonly why: string };
  /** Upkeep took back a lease that had run out: of another worker that died, most likely. */
  "lease:recovered": {
    readonly id: string;
    readonly task: string;
    readonly queue: string;
    readonly worker: string;
    readonly epoch: number;
    readonly status: Status;
  };
  "worker:started": { readonly worker: string };
  /** An operator paused it: it takes nothing new until it is resumed. */
  "worker:paused": { readonly worker: string };
  "worker:resumed": { readonly worker: string };
  "worker:stopping": { readonly worker: string };
  "worker:stopped": { readonly worker: string };
  /** The worker's row was closed by others, or deleted: it gave its jobs up and registers anew under another id. */
  "worker:evicted": { readonly worker: string };
  /** The row of another worker was closed, because that worker is dead. */
  "worker:reaped": { readonly worker: string; readonly type: string; readonly ending: Ending };
}

/** The names of all of them, for a listener that was added without the types. */
const NAMES: Readonly<Record<keyof WorkerEvents, true>> = {
  "job:started": true,
  "job:done": true,
  "job:retrying": true,
  "job:failed": true,
  "job:cancelled": true,
  "job:released": true,
  "job:suspended": true,
  "job:doubt": true,
  "lease:lost": true,
  "lease:recovered": true,
  "worker:started": true,
  "worker:paused": true,
  "worker:resumed": true,
  "worker:stopping": true,
  "worker:stopped": true,
  "worker:evicted": true,
  "worker:reaped": true,
};

/** Refuses a name that does not exist: its listener would never be called. */
export function checkListener(name: string, listener: unknown): void {
  if (typeof listener !== "function") {
    throw new InvalidArgumentError({ field: "listener", problem: "give a function." });
  }
  if (Object.hasOwn(NAMES, name)) return;
  const names = Object.keys(NAMES);
  const meant = suggest(name, names);
  const advice = meant === null ? `There are: ${names.join(", ")}.` : `Did you mean ${meant}?`;
  const problem = `a worker has no event '${name}'. ${advice}`;
  throw new InvalidArgumentError({ field: "name", problem });
}

// A typed emitter. A listener that throws harms nobody: the error goes to `onError`, the others are still called.

export class Events<Catalogue extends object> {
  readonly #listeners = new Map<keyof Catalogue, Set<(event: never) => void>>();
  readonly #onError: (error: unknown, name: string) => void;

  constructor(onError: (error: unknown, name: string) => void) {
    this.#onError = onError;
  }

  /** Returns a function that takes the listener off again. */
  on<Name extends keyof Catalogue>(
    name: Name,
    listener: (event: Catalogue[Name]) => void,
  ): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return () => void listeners.delete(listener);
  }

  /** The event is made only when somebody listens: on a busy worker most events have no listener. */
  emit<Name extends keyof Catalogue>(name: Name, make: () => Catalogue[Name]): void {
    const listeners = this.#listeners.get(name);
    if (listeners === undefined || listeners.size === 0) return;
    const event = make();
    // A copy: what a listener adds meanwhile hears of the next event, not of this one.
    const hearing = [...listeners];
    for (const listener of hearing) {
      try {
        const answer = (listener as (event: Catalogue[Name]) => unknown)(event);
        if (answer instanceof Promise)
          answer.catch((error: unknown) => this.#onError(error, String(name)));
      } catch (error) {
        this.#onError(error, String(name));
      }
    }
  }
}

// Whoever measures a worker: told of every claim and every attempt, in plain arguments, because on a busy worker an event
// for each would cost more than what it measures.

export const attemptOutcomes = [
  "done",
  "retried",
  "failed",
  "cancelled",
  "released",
  "suspended",
] as const;

export type AttemptOutcome = (typeof attemptOutcomes)[number];

export interface Meter {
  /** The store took so long to settle what had ended and to claim. */
  claimed(tookMs: number): void;
  /** `waitedMs`: since the job became pending; null: nobody knows. */
  started(job: ClaimedJob, waitedMs: number | null): void;
  /** `tookMs`: from the start of its function to its end. */
  ended(job: ClaimedJob, outcome: AttemptOutcome, tookMs: number): void;
}

/** How far a worker's loops and its lease renewer are behind. */
export interface Pulse {
  /** How often it gives a sign of life. */
  readonly heartbeatMs: number;
  /** Since the last one that the database has answered. */
  readonly heartbeatAgeMs: number;
  readonly loops: readonly LoopPulse[];
}

interface LoopPulse {
  readonly name: string;
  /** For how long its turn has been under way, or should have begun. */
  readonly lateMs: number;
}
