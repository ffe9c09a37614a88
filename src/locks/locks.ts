/**
 * Locks for applications: `locks.with("order:42", {}, async (lock) => …)`.
 *
 * A lock keeps other processes from doing the same work at the same time. It cannot guarantee it: a process may be
 * suspended for longer than its lock lasts. For correctness, use a constraint of the database, or compare the token.
 */
import { hostname } from "node:os";
import { anyOperator, type OperatorOptions, operatorOptions, subjects } from "../audit/entry.ts";
import type { AuditStore } from "../audit/store.ts";
import type { Duration } from "../core/duration.ts";
import { type InvalidArgumentError, ClosedError, invalid } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { checkLabel } from "../core/name.ts";
import { by, duration, optionsOf, passed, whole } from "../core/options.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import { answerWithin } from "../core/wait.ts";
import { Acquisition, LockLine } from "./acquisition.ts";
import {
  Contention,
  contendedLocks,
  type ContendedLock,
  CONTENDED_MAX,
  CONTENDED_SHOWN,
} from "./contention.ts";
import {
  checkLockKey,
  Lock,
  type LockBackend,
  type LockHold,
  LockLostError,
  type LockMode,
  lockModes,
  LockNotAcquiredError,
  lockType,
  type LockRecord,
  type LockRequest,
  TRACE_LENGTH_MAX,
  extendOptions,
  ttlOption,
} from "./lock.ts";
import {
  type HeatRange,
  type LockHeat,
  type LockStatistics,
  LockStats,
  type LockStatsOptions,
  type LockTotals,
  withHeld,
} from "./stats.ts";
import { type LocksStore, SqlLock } from "./store.ts";

/** A lock is extended when this share of its time is over, and again after the second share when that failed. */
const EXTEND_AT = 1 / 3;

const EXTEND_AGAIN = 1 / 10;

/** How long `close` waits for the last statistics to be written. */
const COUNTS_MS_MAX = 2_000;

const LISTED_MAX = 1_000;

const WITH_CALL = { field: "options", example: "{}: with(key, {}, async (lock) => …)" };

/** How long a lock lasts, how long to wait for it, and a signal that ends the wait. */
export interface LockOptions {
  /** How long it lasts unless it is extended. Default 15 s. */
  readonly ttl?: Duration;
  /** How long to wait for it. Default 10 s. */
  readonly wait?: Duration;
  /** For people: what the lock is for. */
  readonly trace?: string;
  /** Ends the wait. */
  readonly signal?: AbortSignal;
}

/** Options of `locks.with()`: those of a lock, and how long it may be held. */
export interface WithLockOptions extends LockOptions {
  /** For how long it is extended while the function runs. Default 10 minutes. */
  readonly longest?: Duration;
}

const lockFields = {
  ttl: ttlOption,
  wait: duration({}),
  trace: by((field, trace: string) => checkLabel(field, trace, TRACE_LENGTH_MAX)),
  signal: passed<AbortSignal>(),
};

const acquireOptions = optionsOf<LockOptions>()(lockFields);

const withOptions = optionsOf<WithLockOptions>()({ ...lockFields, longest: duration({}, "10m") });

const listOptions = optionsOf<{ readonly type?: string; readonly limit?: number }>()({
  type: by(checkLockKey),
  limit: whole(1, LISTED_MAX, 100),
});

const contendedOptions = optionsOf<{ readonly limit?: number }>()({
  limit: whole(1, CONTENDED_MAX, CONTENDED_SHOWN),
});

interface LocksParts {
  readonly backend: LockBackend;
  /** For statistics and audit, whatever the backend is. */
  readonly store: { readonly locks: LocksStore; readonly audit: AuditStore };
  readonly mode: LockMode;
  /** The defaults. */
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly newId: () => string;
}

/** Distributed locks with fencing tokens: `holdfast.locks`. */
export class Locks {
  /** Where locks are stored; "off": workflows do not use locks, and locks here are rows of the database. */
  readonly mode: LockMode;
  readonly #parts: LocksParts;
  readonly #stats: LockStats;
  readonly #line = new LockLine();
  readonly #owner = `${hostname()}-${process.pid}`;
  /** Identifies this process to the backend. */
  readonly #contender: string;
  /** @internal */
  readonly acquisitions = new Set<Acquisition>();
  readonly #held = new Set<Lock>();
  readonly #contention: Contention;
  #closed = false;

  /** @internal Applications get it from a Holdfast. */
  constructor(parts: LocksParts) {
    this.#parts = parts;
    this.mode = parts.mode;
    this.#contender = parts.newId();
    const { store, runtime } = parts;
    const source = this.#contender;
    this.#stats = new LockStats({ store, runtime, source });
    const { acquisitions } = this;
    this.#contention = new Contention({
      store: store.locks,
      runtime,
      source,
      owner: this.#owner,
      acquisitions,
    });
  }

  /**
   * Runs the function under the lock, and releases it. The lock is extended meanwhile; if it is lost nevertheless,
   * `lock.signal` aborts, and the function's result is returned as usual.
   */
  async with<T>(
    key: string,
    options: WithLockOptions,
    run: (lock: Lock) => T | Promise<T>,
  ): Promise<T> {
    const { longestMs, ttlMs = this.#parts.ttlMs } = withOptions.read(options, WITH_CALL);
    if (typeof run !== "function") {
      throw invalid("run", "pass a function to run under the lock.");
    }
    const { longest: _longest, ...rest } = options;
    const lock = await this.acquire(key, rest);
    const stop = this.#keep(lock, ttlMs, longestMs);
    try {
      return await run(lock);
    } finally {
      stop();
      await lock.release().catch((err: unknown) => {
        const { token } = lock;
        this.#parts.logger.warn({ key, token, err }, `lock ${key} not released: it will expire`);
      });
    }
  }

  /** Waits for the lock. The caller must extend it in time, and release it. Throws LockNotAcquiredError. */
  async acquire(key: string, options: LockOptions = {}): Promise<Lock> {
    const { waitMs = this.#parts.waitMs, signal, ...rest } = acquireOptions.read(options);
    const request = this.#request(key, rest);
    if (this.#closed) throw new ClosedError({ what: "Holdfast" });
    const { backend, runtime } = this.#parts;
    const line = this.#line;
    const acquisition = new Acquisition({ request, waitMs, signal, backend, line, runtime });
    this.acquisitions.add(acquisition);
    this.#contention.watch();
    try {
      const { token, leave, ...won } = await acquisition.win();
      this.#stats.acquired(key, won.waitedMs);
      const onGone = (heldMs: number): void => {
        this.#stats.held(key, heldMs);
        this.#held.delete(lock);
        leave();
      };
      const lock = new Lock({ ...request, ...won, hold: { key, token }, backend, runtime, onGone });
      this.#held.add(lock);
      return lock;
    } catch (error) {
      if (error instanceof LockNotAcquiredError) {
        this.#stats.timedOut(key);
        this.#contention.timedOut(key);
      }
      throw error;
    } finally {
      this.acquisitions.delete(acquisition);
    }
  }

  /** Keeps a lock for `ttl` from now, even if another process acquired it. Throws LockLostError. */
  async extend(
    lock: LockHold,
    options: {
      /** How long it lasts from now on. Default: `lockTtl` of the Holdfast. */
      readonly ttl?: Duration;
    } = {},
  ): Promise<void> {
    if (lock instanceof Lock) return lock.extend(options);
    const { ttlMs = this.#parts.ttlMs } = extendOptions.read(options);
    const hold = holdOf(lock);
    if (await this.#parts.backend.extend(hold, ttlMs)) return;
    throw new LockLostError({ ...hold, problem: "it expired or was released." });
  }

  /** False: it was no longer ours. */
  async release(lock: LockHold): Promise<boolean> {
    return lock instanceof Lock ? lock.release() : this.#parts.backend.release(holdOf(lock));
  }

  /** Null: the lock is free. */
  inspect(key: string): Promise<LockRecord | null> {
    return this.#parts.backend.find(checkLockKey("key", key));
  }

  /** Held locks, of one type or all, oldest first. */
  list(
    filter: {
      /** The part of the key before its first colon. Default: all types. */
      readonly type?: string;
      /** The length of the list. Default 100, at most 1,000. */
      readonly limit?: number;
    } = {},
  ): Promise<LockRecord[]> {
    return this.#parts.backend.list(listOptions.read(filter));
  }

  /** The use of locks by this process since it started, by type. */
  totals(): readonly LockTotals[] {
    return this.#stats.totals;
  }

  /** The keys that processes wait for, or waited for within the last hour until they gave up; the worst first. */
  async contended(
    options: {
      /** The length of the list. Default 20, at most 100. */
      readonly limit?: number;
    } = {},
  ): Promise<ContendedLock[]> {
    const { limit } = contendedOptions.read(options);
    const { backend, store } = this.#parts;
    await this.#contention.report();
    return contendedLocks(await store.locks.waits(), limit, (key) => backend.find(key));
  }

  /** The use of locks by all processes, by type and minute. */
  async stats(options?: LockStatsOptions): Promise<LockStatistics> {
    const { types, ...rest } = await this.#stats.read(options);
    return { ...rest, types: withHeld(types, await this.#heldForType()) };
  }

  /** How locks were contended over time, by type. */
  async heat(range: HeatRange): Promise<LockHeat> {
    const { types, ...rest } = await this.#parts.store.locks.heat(range);
    return { ...rest, types: withHeld(types, await this.#heldForType()) };
  }

  /** For how long the locks that are held now have been held, at most, by type. */
  async #heldForType(): Promise<ReadonlyMap<string, number>> {
    const held = await this.list({ limit: LISTED_MAX });
    const longest = new Map<string, number>();
    for (const { key, acquiredAt, expiresAt, expiresInMs } of held) {
      const heldMs = expiresAt - expiresInMs - acquiredAt;
      longest.set(lockType(key), Math.max(heldMs, longest.get(lockType(key)) ?? 0));
    }
    return longest;
  }

  /**
   * Releases a lock by force, and records the operator in the audit. Returns the lock as it was; null: it was free. Its
   * holder learns of it at its next extension.
   */
  async forceRelease(key: string, options: OperatorOptions = {}): Promise<LockRecord | null> {
    const { backend, store, newId } = this.#parts;
    const operator = anyOperator(operatorOptions.read(options), newId);
    const record = await this.inspect(key);
    if (record === null) return null;
    const action = { action: "lock.release", subject: subjects.lock(key) };
    await store.audit.note(operator, { ...action, detail: JSON.stringify(record) });
    return (await backend.release(record)) ? record : null;
  }

  /** Ends all acquisitions; held locks expire by themselves, because the work that they protect may still run. */
  async close(): Promise<void> {
    const { backend, runtime } = this.#parts;
    this.#closed = true;
    for (const acquisition of this.acquisitions)
      acquisition.end(new ClosedError({ what: "Holdfast" }));
    for (const lock of this.#held) lock.forsake("Holdfast was closed.");
    const told = Promise.all([this.#stats.stop(), this.#contention.stop()]);
    await answerWithin(runtime, COUNTS_MS_MAX, told).catch(() => {});
    await backend.close();
  }

  #request(
    key: string,
    { ttlMs = this.#parts.ttlMs, trace }: { readonly ttlMs?: number; readonly trace?: string },
  ): LockRequest {
    return {
      key: checkLockKey("key", key),
      holder: this.#parts.newId(),
      owner: this.#owner,
      trace: trace ?? null,
      ttlMs,
      contender: this.#contender,
    };
  }

  /** Extends a lock until the returned function is called or the lock is lost, at most for `longestMs`. */
  #keep(lock: Lock, ttlMs: number, longestMs: number): () => void {
    const { runtime } = this.#parts;
    const endsAt = runtime.monotonic() + longestMs;
    const stopped = new AbortController();
    const later = (share: number): Timer =>
      runtime.timer(ttlMs * share, () => void extend(), "background");
    const extend = async (): Promise<void> => {
      if (runtime.monotonic() >= endsAt) return; // It will expire.
      const isDone = await answerWithin(runtime, ttlMs * EXTEND_AT, lock.extend()).then(
        () => true,
        () => false,
      );
      if (!stopped.signal.aborted && !lock.signal.aborted)
        timer = later(isDone ? EXTEND_AT : EXTEND_AGAIN);
    };
    let timer = later(EXTEND_AT);
    return () => {
      stopped.abort();
      timer.cancel();
    };
  }
}

function holdOf(lock: LockHold): LockHold {
  if (typeof lock !== "object" || lock === null || !Number.isInteger(lock.token)) {
    throw invalid("lock", "pass what acquire() returned.");
  }
  const { key, token } = lock;
  return { key: checkLockKey("key", key), token };
}

interface LockChoice {
  readonly locks?: LockMode | undefined;
  /** Default: HOLDFAST_REDIS_URL. */
  readonly redis?: string | undefined;
}

/**
 * Opens the backend that an option names, else an environment variable, else Redis if configured. With "off", locks that
 * an application acquires itself are rows.
 */
export async function openLocks(
  choice: LockChoice,
  parts: {
    readonly store: { readonly locks: LocksStore; readonly db: { readonly database: string } };
    readonly runtime: Runtime;
  },
): Promise<{ mode: LockMode; backend: LockBackend }> {
  const { store, runtime } = parts;
  const url = choice.redis ?? process.env["HOLDFAST_REDIS_URL"] ?? "";
  const mode = modeOf(choice.locks, url);
  if (mode !== "redis") return { mode, backend: new SqlLock(store.locks) };
  if (!/^rediss?:\/\//.test(url)) throw badUrl(url);
  const { RedisLock } = await import("./redis.ts");
  return { mode, backend: await RedisLock.open({ url, database: store.db.database, runtime }) };
}

function modeOf(option: LockMode | undefined, redis: string): LockMode {
  const field = option === undefined ? "HOLDFAST_LOCKS" : "locks";
  const given = option ?? process.env["HOLDFAST_LOCKS"] ?? "";
  if (given === "") return redis === "" ? "sql" : "redis";
  const mode = lockModes.find((each) => each === given);
  if (mode !== undefined) return mode;
  const problem = `must be one of ${lockModes.join(", ")}, not ${JSON.stringify(given).slice(0, 20)}.`;
  throw invalid(field, problem);
}

/** Does not repeat the URL, which may contain a password. */
function badUrl(url: string): InvalidArgumentError {
  const problem =
    url === ""
      ? 'with locks: "redis", pass the URL of a Redis server, or set HOLDFAST_REDIS_URL.'
      : "a Redis URL has the form redis://host:6379 or rediss://user:password@host:6379.";
  return invalid("redis", problem);
}
