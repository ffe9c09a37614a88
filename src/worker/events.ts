/** What a worker tells about: its jobs' attempts as they start and end, and itself. */
import { suggest } from "../core/did-you-mean.ts";
import { InvalidArgument } from "../core/errors.ts";
import type { Status } from "../core/job.ts";
import type { Ending } from "../core/worker-state.ts";

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

export interface FailureEvent extends EndEvent {
  readonly error: unknown;
}

/** Events about a job's end are emitted once the database has it. */
export interface WorkerEvents {
  "job:started": JobEvent;
  "job:completed": EndEvent;
  /** Every failed attempt; `job:retrying` or `job:dead` follows. */
  "job:failed": FailureEvent;
  "job:retrying": FailureEvent & { readonly retryAt: number | null };
  "job:dead": FailureEvent;
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
  "worker:deposed": { readonly worker: string };
  /** The row of another worker was closed, because that worker is dead. */
  "worker:buried": { readonly worker: string; readonly type: string; readonly ending: Ending };
}

/** The names of all of them, for a listener that was added without the types. */
const NAMES: Readonly<Record<keyof WorkerEvents, true>> = {
  "job:started": true,
  "job:completed": true,
  "job:failed": true,
  "job:retrying": true,
  "job:dead": true,
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
  "worker:deposed": true,
  "worker:buried": true,
};

/** Refuses a name that does not exist: its listener would never be called. */
export function checkListener(name: string, listener: unknown): void {
  if (typeof listener !== "function") {
    throw new InvalidArgument({ field: "listener", problem: "give a function." });
  }
  if (Object.hasOwn(NAMES, name)) return;
  const names = Object.keys(NAMES);
  const meant = suggest(name, names);
  const advice = meant === null ? `There are: ${names.join(", ")}.` : `Did you mean ${meant}?`;
  const problem = `a worker has no event '${name}'. ${advice}`;
  throw new InvalidArgument({ field: "name", problem });
}
