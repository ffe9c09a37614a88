/**
 * The lease API, for custom workers: acquire, extend, release, reset expired, list.
 *
 * Holdfast's own worker uses the same operations, with the same guarantees: one owner at a time, every write fenced, and
 * an expired lease recorded as an attempt.
 */
import { type Duration, toMs } from "../core/duration.ts";
import { encodeError } from "../core/error-record.ts";
import { invalid, LeaseLostError } from "../core/errors.ts";
import type { Fence, Outcome, Settlement, Status } from "../core/job.ts";
import { decode, encodeOptional, RESULT } from "../core/json.ts";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { checkName, checkTaskName } from "../core/name.ts";
import {
  by,
  checkText,
  choice,
  duration,
  each,
  needed,
  optionsOf,
  passed,
  whole,
} from "../core/options.ts";
import { backoffMs, DEFAULT_RETRY } from "../core/retry.ts";
import type { Runtime } from "../core/runtime.ts";
import { DEFAULT_QUEUE } from "../core/task.ts";
import type { Database } from "../database/database.ts";
import { PAGE_MAX } from "./filter.ts";
import type { JobsStore } from "./sql-jobs.ts";
import type { LeaseRecord, LeasesFilter, Settled, Wanted } from "./store.ts";

interface Stores {
  readonly jobs: JobsStore;
  readonly workers: { noteUnregistered(program: LeaseProgram): Promise<void> };
}

/** A program that acquires leases, as the list of workers shows it. */
interface LeaseProgram extends Pick<Wanted, "queues" | "tasks"> {
  readonly id: string;
  readonly kind: "leases";
  readonly type: null;
  readonly hostname: null;
  readonly pid: null;
  readonly version: null;
}

/** How often an unregistered program is recorded. */
export const NOTE_EVERY_MS = 20_000;

export const DEFAULT_LEASE = "30s";

export const LEASE_MS_MIN = 100;

const CLAIM_MAX = 1_000;

/** After a lease expires, its owner has this long to report before the job is reclaimed. */
export const DEFAULT_GRACE = "2s";

/** A job whose lease has expired with this many workers is poison. */
export const DEFAULT_CRASHES_MAX = 3;

/** With more programs than this, the times of their last record are forgotten. */
const NOTED_MAX = 10_000;

/** Which jobs to claim, how many, and for how long. */
export interface AcquireOptions {
  /** Must be unique for every start of a process, or the fence cannot tell two of them apart. */
  readonly worker: string;
  /** The queues to claim from. Default: `default`. */
  readonly queues?: readonly string[];
  /** Only jobs of these tasks. Default: all. */
  readonly tasks?: readonly string[];
  /** The most jobs to claim. Default 1. */
  readonly limit?: number;
  /** How long the lease lasts unless it is renewed. Default 30 s. */
  readonly lease?: Duration;
}

const leaseOption = duration({ least: LEASE_MS_MIN }, DEFAULT_LEASE);

const acquireOptions = optionsOf<AcquireOptions>()({
  worker: needed(by(checkName)),
  queues: each(checkName, [DEFAULT_QUEUE]),
  tasks: each(checkTaskName),
  limit: whole(1, CLAIM_MAX, 1),
  lease: leaseOption,
});

const extendOptions = optionsOf<Pick<AcquireOptions, "lease">>()({ lease: leaseOption });

const resetOptions = optionsOf<{ readonly grace?: Duration; readonly limit?: number }>()({
  grace: duration({}, DEFAULT_GRACE),
  limit: whole(1, CLAIM_MAX, CLAIM_MAX),
});

const listOptions = optionsOf<LeasesFilter>()({
  state: choice(["active", "expired"], "active"),
  worker: passed<string>(),
  after: passed<string>(),
  limit: whole(1, PAGE_MAX, PAGE_MAX),
});

/** A claimed job, and the right to run it until a time. */
export interface Lease extends Fence {
  /** The queue of the job. */
  readonly queue: string;
  /** The name of its task. */
  readonly task: string;
  /** What it was enqueued with. */
  readonly input: unknown;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** How many attempts the job has. */
  readonly maxAttempts: number;
  /** When the lease ends unless it is extended (ms since 1970, the database's clock). */
  readonly lockedUntil: number;
}

/** The outcome of an attempt. */
export type Release =
  | {
      /** The job is done. */
      readonly as: "done";
      /** What `job.result()` returns. Default: nothing. */
      readonly result?: unknown;
    }
  /** The job is retried while attempts remain, unless `final`. */
  | {
      /** The attempt failed. */
      readonly as: "failed";
      /** What went wrong: an error, or anything that describes it. */
      readonly error: unknown;
      /** The time until the next attempt. Default: the default back-off. */
      readonly retryIn?: Duration;
      /** No retry, even if attempts remain. Default false. */
      readonly final?: boolean;
    }
  | {
      /** The job waits, uncharged. */
      readonly as: "suspended";
      /** How long it waits. */
      readonly for: Duration;
    }
  /** Handed back uncharged, pending again at once. */
  | {
      /** The job did not run. */
      readonly as: "released";
    };

/** How a released job stands. */
export interface Released {
  /** Its status now. */
  readonly status: Status;
  /** How many attempts it has used. */
  readonly attempts: number;
  /** When the job is retried (ms since 1970); null: it is not. */
  readonly retryAt: number | null;
}

/** Claims, renews and settles jobs, for workers of your own: `holdfast.leases`. */
export class Leases {
  readonly #store: Stores;
  readonly #runtime: Runtime;
  /** When each program was last recorded. */
  readonly #notedAt = new Map<string, number>();

  /** @internal Applications get it from a Holdfast. */
  constructor(store: Stores, runtime: Runtime) {
    this.#store = store;
    this.#runtime = runtime;
  }

  /** Claims pending jobs, each under an exclusive lease. */
  async acquire(options: AcquireOptions): Promise<Lease[]> {
    const { tasks = null, ...rest } = acquireOptions.read(options);
    const wanted = { ...rest, tasks };
    await this.#note(wanted);
    const claimed = await this.#store.jobs.claim(wanted);
    const acquired: Lease[] = [];
    const unreadable: Settlement[] = [];
    for (const claim of claimed) {
      const { payload, priority: _priority, crashes: _crashes, readyAt: _readyAt, ...job } = claim;
      try {
        acquired.push({ ...job, input: decode(payload) });
      } catch (error) {
        // Throwing would leave every job of the batch under a lease that the caller does not know.
        const outcome: Outcome = { kind: "failed", error: encodeError(error) };
        unreadable.push({ ...fenceOf(job), outcome });
      }
    }
    await this.#store.jobs.settle(unreadable);
    return acquired;
  }

  /** Makes the program visible to operators, even while it is idle. A failure must not prevent it from acquiring. */
  async #note(wanted: Pick<Wanted, "worker" | "queues" | "tasks">): Promise<void> {
    const { worker: id, queues, tasks } = wanted;
    const now = this.#runtime.monotonic();
    if (now - (this.#notedAt.get(id) ?? Number.NEGATIVE_INFINITY) < NOTE_EVERY_MS) return;
    if (this.#notedAt.size >= NOTED_MAX) this.#notedAt.clear();
    this.#notedAt.set(id, now);
    const unknown = { type: null, hostname: null, pid: null, version: null };
    const program: LeaseProgram = { id, kind: "leases", queues, tasks, ...unknown };
    await this.#store.workers.noteUnregistered(program).catch(() => {});
  }

  /** Moves the end of the lease to `lease` from now. Throws LeaseLostError if the lease was lost. */
  async extend(
    fence: Fence,
    options: {
      /** How long the lease lasts from now on. Default 30 s. */
      readonly lease?: Duration;
    } = {},
  ): Promise<{
    /** When the lease ends now (ms since 1970, the database's clock). */
    lockedUntil: number;
    /** Whether an operator asked to cancel the job: stop, and release it. */
    cancelRequested: boolean;
  }> {
    const { leaseMs } = extendOptions.read(options);
    const [extended] = await this.#store.jobs.extend([fenceOf(fence)], leaseMs);
    if (extended === undefined) throw new LeaseLostError(fence);
    const { lockedUntil, cancelRequested } = extended;
    return { lockedUntil, cancelRequested };
  }

  /**
   * Ends the attempt and returns the job's new status: for a failed attempt, `retry` with the time, or `failed` if no
   * attempt is left. Throws LeaseLostError, without a write, if the lease was lost.
   */
  async release(
    lease: Fence & {
      /** The number of the attempt, from which the back-off follows. Default 1. */
      readonly attempt?: number;
    },
    release: Release,
  ): Promise<Released> {
    const fence = fenceOf(lease);
    const outcome = this.#outcome(release, lease.attempt ?? 1);
    const [settled] = await this.#store.jobs.settle([{ ...fence, outcome }]);
    if (settled === undefined) throw new LeaseLostError(lease);
    const { status, attempts, dueAt } = settled;
    return { status, attempts, retryAt: status === "retry" ? dueAt : null };
  }

  /** Reclaims expired leases. A running worker does this automatically. */
  async resetExpired(
    options: {
      /** How long a lease must have been over. Default 2 s. */
      readonly grace?: Duration;
      /** How many leases at most. Default and maximum 1,000. */
      readonly limit?: number;
    } = {},
  ): Promise<Settled[]> {
    const maxCrashes = DEFAULT_CRASHES_MAX;
    return this.#store.jobs.reclaimExpired({ ...resetOptions.read(options), maxCrashes });
  }

  /** Leases that have not expired, or those that have and that no worker has reclaimed. Ordered by job. */
  async list(filter: LeasesFilter = {}): Promise<LeaseRecord[]> {
    return this.#store.jobs.leases(listOptions.read(filter));
  }

  #outcome(release: Release, attempt: number): Outcome {
    switch (release?.as) {
      case "done":
        return { kind: "done", result: encodeOptional(release.result, RESULT) };
      case "released":
        return { kind: "released" };
      case "suspended":
        return { kind: "suspended", delayMs: toMs("for", release.for) };
      case "failed": {
        const error = encodeError(release.error);
        if (release.final === true) return { kind: "failed", error };
        const delayMs =
          release.retryIn === undefined
            ? backoffMs(DEFAULT_RETRY, attempt, this.#runtime.random())
            : toMs("retryIn", release.retryIn);
        return { kind: "retry", delayMs, error };
      }
      default:
        throw invalid("as", "must be 'done', 'failed', 'suspended' or 'released'.");
    }
  }
}

function fenceOf(lease: Fence): Fence {
  if (typeof lease !== "object" || lease === null || !Number.isInteger(lease.epoch)) {
    throw invalid("lease", "pass what acquire() returned.");
  }
  const { id, worker, epoch } = lease;
  return { id: checkText("id", id), worker: checkText("worker", worker), epoch };
}

interface SubscriptionOptions {
  readonly queue: string;
  readonly onPending: (queue: string) => void | Promise<void>;
  readonly pollMs: number;
}

/** Calls back when a queue has pending jobs. */
export class Subscription {
  readonly #loop: Loop;
  readonly #unwatch: () => void;

  constructor(
    parts: { store: { db: Database; jobs: JobsStore }; runtime: Runtime; logger: Logger },
    { queue, onPending, pollMs }: SubscriptionOptions,
  ) {
    const { store, runtime, logger } = parts;
    this.#loop = new Loop({
      name: `subscription to ${queue}`,
      runtime,
      logger,
      once: async () => {
        if (await store.jobs.hasPending(queue)) await onPending(queue);
        return pollMs;
      },
    });
    this.#unwatch = store.db.watch((hint) => {
      if (hint.kind === "unknown" || (hint.kind === "pending" && hint.queue === queue)) {
        this.#loop.wake();
      }
    });
  }

  stop(): Promise<void> {
    this.#unwatch();
    return this.#loop.stop();
  }
}
