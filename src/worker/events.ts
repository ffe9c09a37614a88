/** The events and the metrics interface of a worker. */
import { HoldfastError, invalid } from "../core/errors.ts";
import type { Status } from "../core/job.ts";
import { checkList } from "../core/options.ts";
import type { Context } from "../core/task.ts";
import { suggest } from "../core/text.ts";
import type { ClaimedJob } from "../jobs/store.ts";
import type { Ending } from "../registry/worker-record.ts";

/** What all events of jobs have. */
export interface JobEvent {
  /** The id of the job. */
  readonly id: string;
  /** The name of its task. */
  readonly task: string;
  /** The queue of the job. */
  readonly queue: string;
  /** The id of the worker. */
  readonly worker: string;
  /** The fencing token of the attempt. */
  readonly epoch: number;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** Names the attempt in logs and in the history: `<worker id>-<job id>-<attempt>`. */
  readonly traceId: string;
}

/** An attempt ended. */
export interface EndEvent extends JobEvent {
  /** How long the attempt ran, in milliseconds. */
  readonly durationMs: number;
}

/** An attempt failed. */
export interface FailureEvent extends EndEvent {
  /** What the task threw. */
  readonly error: unknown;
}

/** What events of a worker have. */
export interface WorkerEvent {
  /** The id of the worker. */
  readonly worker: string;
}

/** Events about the end of a job are emitted once it is stored. */
export interface WorkerEvents {
  /** An attempt began. */
  "job:started": JobEvent;
  /** The job is done. */
  "job:done": EndEvent;
  /** The attempt failed, and another follows. */
  "job:retrying": FailureEvent & {
    /** When the next attempt is due (ms since 1970); null: unknown. */
    readonly retryAt: number | null;
  };
  /** The attempt failed, and none follows: a dead letter. */
  "job:failed": FailureEvent;
  /** The job was cancelled while it ran. */
  "job:cancelled": EndEvent;
  /** The job was handed back, uncharged. */
  "job:released": EndEvent;
  /** It sleeps, or waits for an event or another job. */
  "job:suspended": EndEvent & {
    /** When it continues (ms since 1970); null: no time is set. */
    readonly dueAt: number | null;
  };
  /** It is unknown whether an effect happened. The job waits until an operator resolves it. */
  "job:doubt": EndEvent & {
    /** The name of the effect. */
    readonly effect: string;
    /** Counts the effects of this name in the job, from 1. */
    readonly occurrence: number;
  };
  /** Another worker owns the job; the task's signal has been aborted. */
  "lease:lost": JobEvent & {
    /** Why, in words. */
    readonly why: string;
  };
  /** Maintenance reclaimed an expired lease, most likely of a dead worker. */
  "lease:recovered": {
    /** The id of the job. */
    readonly id: string;
    /** The name of its task. */
    readonly task: string;
    /** The queue of the job. */
    readonly queue: string;
    /** The id of the worker that had the lease. */
    readonly worker: string;
    /** The fencing token of that lease. */
    readonly epoch: number;
    /** The status of the job now. */
    readonly status: Status;
  };
  /** It had to start by a time that has passed, and no worker had started it. */
  "job:expired": {
    /** The id of the job. */
    readonly id: string;
    /** The name of its task. */
    readonly task: string;
    /** The queue of the job. */
    readonly queue: string;
    /** How often it was claimed before. */
    readonly epoch: number;
  };
  /** The worker claims jobs. */
  "worker:started": WorkerEvent;
  /** An operator paused it: it claims no jobs until it is resumed. */
  "worker:paused": WorkerEvent;
  /** An operator resumed it. */
  "worker:resumed": WorkerEvent;
  /** It claims no more jobs, and waits for the running ones. */
  "worker:stopping": WorkerEvent;
  /** It has ended. */
  "worker:stopped": WorkerEvent;
  /** The worker's row was closed or deleted: it gave up its jobs and registers again under a new id. */
  "worker:evicted": WorkerEvent;
  /** This worker closed the row of a dead worker. */
  "worker:reaped": {
    /** The id of the dead worker. */
    readonly worker: string;
    /** The name that it shared with others. */
    readonly type: string;
    /** How it ended. */
    readonly ending: Ending;
  };
}

/** All names, to check listeners that are added without types. */
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
  "job:expired": true,
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
    throw invalid("listener", "must be a function.");
  }
  if (Object.hasOwn(NAMES, name)) return;
  const names = Object.keys(NAMES);
  const meant = suggest(name, names);
  const advice = meant === null ? `There are: ${names.join(", ")}.` : `Did you mean ${meant}?`;
  throw invalid("name", `a worker has no event '${name}'. ${advice}`);
}

/** A typed emitter. The error of a listener goes to `onError`, and the other listeners are still called. */
export class Events<Catalogue extends object> {
  readonly #listeners = new Map<keyof Catalogue, Set<(event: never) => void>>();
  readonly #onError: (error: unknown, name: string) => void;

  constructor(onError: (error: unknown, name: string) => void) {
    this.#onError = onError;
  }

  /** Returns a function that removes the listener. */
  on<Name extends keyof Catalogue>(
    name: Name,
    listener: (event: Catalogue[Name]) => void,
  ): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return () => void listeners.delete(listener);
  }

  /** Creates the event only if it has a listener: on a busy worker most events have none. */
  emit<Name extends keyof Catalogue>(name: Name, make: () => Catalogue[Name]): void {
    const listeners = this.#listeners.get(name);
    if (listeners === undefined || listeners.size === 0) return;
    const event = make();
    // A copy: a listener that is added meanwhile receives the next event, not this one.
    const current = [...listeners];
    for (const listener of current) {
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

export const attemptOutcomes = [
  "done",
  "retried",
  "failed",
  "cancelled",
  "released",
  "suspended",
] as const;

/** How an attempt ended. */
export type AttemptOutcome = (typeof attemptOutcomes)[number];

/** Receives every claim and attempt, as plain arguments: on a busy worker, event objects would be too expensive. */
export interface Meter {
  /** How long the store took to settle and claim. */
  claimed(tookMs: number): void;
  /** `waitedMs`: since the job became pending; null: unknown. */
  started(job: ClaimedJob, waitedMs: number | null): void;
  /** `tookMs`: from the start of its function to its end. */
  ended(job: ClaimedJob, outcome: AttemptOutcome, tookMs: number): void;
}

/** How far a worker's loops and its lease renewer are behind. */
export interface Pulse {
  /** The heartbeat interval. */
  readonly heartbeatMs: number;
  /** Since the last heartbeat that the database answered. */
  readonly heartbeatAgeMs: number;
  /** `lateMs`: how long the current iteration has been running, or how long the next is overdue. */
  readonly loops: readonly {
    /** What the loop does, such as `heartbeat`. */
    readonly name: string;
    /** In milliseconds; 0: it is on time. */
    readonly lateMs: number;
  }[];
}

// Hooks around the function of a task: for logging, metrics and async context.
//
// The first is the outermost. A hook sees the outcome and cannot hide it: a failure stays one, and a success that is stored
// must not be repeated because a hook failed after it.

/** Calls `next` once, and awaits it. Throws to fail the attempt instead; `next` rejects with what the task threw. */
export type RunHook = (ctx: Context, next: () => Promise<unknown>) => unknown;

/** How many hooks a worker may have. */
const HOOKS_MAX = 32;

class HookError extends HoldfastError {
  constructor(hook: RunHook, problem: string) {
    super("HOOK_MISUSED", `The hook '${hook.name || "without a name"}' ${problem}`);
  }
}

export function checkHooks(hooks: readonly RunHook[]): readonly RunHook[] {
  if (checkList("hooks", hooks).length > HOOKS_MAX) {
    throw invalid("hooks", `at most ${HOOKS_MAX} are allowed.`);
  }
  if (hooks.every((hook) => typeof hook === "function")) return [...hooks];
  const problem = "pass functions, such as async (ctx, next) => { await next(); }.";
  throw invalid("hooks", problem);
}

type Ended = { readonly value: unknown } | { readonly error: unknown };

/** The result of the task. What a hook throws after a success goes to `onLate`. */
export async function runWithHooks(
  hooks: readonly RunHook[],
  ctx: Context,
  { run, onLate }: { run: () => unknown; onLate: (error: unknown) => void },
): Promise<unknown> {
  let ended: Ended | null = null;
  const call = async (index: number): Promise<unknown> => {
    const hook = hooks[index];
    if (hook === undefined) {
      try {
        ended = { value: await run() };
        return ended.value;
      } catch (error) {
        ended = { error };
        throw error;
      }
    }
    let inner: Promise<unknown> | null = null;
    const next = (): Promise<unknown> => {
      if (inner !== null) throw new HookError(hook, "called next() twice. The task runs once.");
      inner = call(index + 1);
      inner.catch(() => {}); // A hook need not await it.
      return inner;
    };
    try {
      await hook(ctx, next);
    } catch (error) {
      // The attempt must not end while its task runs.
      await (inner as Promise<unknown> | null)?.catch(() => {});
      throw error;
    }
    if (inner === null) {
      const remedy = "Call it once, or throw an error to fail the attempt.";
      throw new HookError(hook, `did not call next(). ${remedy}`);
    }
    // Whatever the hook made of it: a failure cannot be hidden.
    return inner;
  };
  try {
    return await call(0);
  } catch (error) {
    const outcome = ended as Ended | null;
    if (outcome === null || !("value" in outcome)) throw error;
    onLate(error);
    return outcome.value;
  }
}
