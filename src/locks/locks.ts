/**
 * Locks for applications: `locks.with("order:42", {}, async (lock) => …)`.
 *
 * A lock keeps others from doing the same work at the same time. It cannot promise that they do not: a process may stand
 * still for longer than its lock lasts. What must be right stands in a constraint of the database, or compares the token.
 */
import { hostname } from "node:os";
import { subjects } from "../audit/entry.ts";
import { anyOperator, OPERATOR_OPTIONS, type OperatorOptions } from "../audit/operator.ts";
import type { AuditStore } from "../audit/store.ts";
import { type Duration, toMs } from "../core/duration.ts";
import { ClosedError, InvalidArgumentError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { checkLabel } from "../core/name.ts";
import { checkKnown, checkWhole } from "../core/options.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import { answerWithin } from "../core/wait.ts";
import { Acquisition, LockLine } from "./acquisition.ts";
import {
  checkLockKey,
  type LockBackend,
  type LockHold,
  type LockRecord,
  type LockRequest,
  TRACE_LENGTH_MAX,
} from "./backend.ts";
import { LockLostError, LockNotAcquiredError } from "./errors.ts";
import { Lock } from "./lock.ts";
import { type LockMode, lockModes, lockSettings, TTL_RANGE } from "./options.ts";
import { type LockStatistics, LockStats, type LockStatsOptions, type LockTotals } from "./stats.ts";
import { type LockRows, type LocksStore, SqlLock } from "./store.ts";

/** For how long `with` goes on extending a lock. */
const DEFAULT_LONGEST = "10m";

/** A lock is extended when this share of its time is over, and tried again after the other when that failed. */
const EXTEND_AT = 1 / 3;

const EXTEND_AGAIN = 1 / 10;

/** Nobody waits longer than this for the last counts to be written. */
const COUNTS_MS_MAX = 2_000;

const LISTED_MAX = 1_000;

const LISTED = 100;

const ACQUIRE_OPTIONS = new Set(["ttl", "wait", "trace", "signal"]);

const WITH_OPTIONS = new Set([...ACQUIRE_OPTIONS, "longest"]);

const EXTEND_OPTIONS = new Set(["ttl"]);

const LIST_OPTIONS = new Set(["type", "limit"]);

const FORCE_OPTIONS = new Set<string>(OPERATOR_OPTIONS);

export interface LockOptions {
  /** How long it lasts unless it is extended. Default 15 s. */
  readonly ttl?: Duration;
  /** How long to wait for it. Default 10 s. */
  readonly wait?: Duration;
  /** What it is for, for people who look at it. */
  readonly trace?: string;
  /** Ends the wait. */
  readonly signal?: AbortSignal;
}

export interface WithLockOptions extends LockOptions {
  /** For how long it is extended while the function runs. Default 10 minutes. */
  readonly longest?: Duration;
}

interface LocksParts {
  readonly place: LockBackend;
  /** For what is known of their use, wherever they are kept. */
  readonly store: { readonly locks: LocksStore; readonly audit: AuditStore };
  readonly mode: LockMode;
  /** Of those that say nothing about it. */
  readonly ttl?: Duration;
  readonly wait?: Duration;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly newId: () => string;
}

export class Locks {
  /** Where locks are kept; "off": workflows do without them, and here they are rows of the database. */
  readonly mode: LockMode;
  readonly #parts: LocksParts;
  readonly #stats: LockStats;
  readonly #line = new LockLine();
  readonly #owner = `${hostname()}-${process.pid}`;
  /** By this, others tell us from other processes. */
  readonly #contender: string;
  readonly acquisitions = new Set<Acquisition>();
  readonly #held = new Set<Lock>();
  #closed = false;

  readonly #ttl: Duration;
  readonly #wait: Duration;

  constructor(parts: LocksParts) {
    this.#parts = parts;
    this.mode = parts.mode;
    this.#ttl = parts.ttl ?? lockSettings.lockTtl.initial;
    this.#wait = parts.wait ?? lockSettings.lockWait.initial;
    toMs("lockTtl", this.#ttl, TTL_RANGE);
    toMs("lockWait", this.#wait);
    this.#contender = parts.newId();
    const { store, runtime } = parts;
    this.#stats = new LockStats({ store, runtime, source: this.#contender });
  }

  /**
   * Runs the function while the lock is ours, and gives it back. The lock is extended meanwhile; when it is lost all the same,
   * `lock.signal` aborts, and what the function comes to counts as ever.
   */
  async with<T>(
    key: string,
    options: WithLockOptions,
    run: (lock: Lock) => T | Promise<T>,
  ): Promise<T> {
    checkKnown(options, WITH_OPTIONS);
    if (typeof run !== "function") {
      throw new InvalidArgumentError({
        field: "run",
        problem: "give a function to run under the lock.",
      });
    }
    const { longest = DEFAULT_LONGEST, ...rest } = options;
    const longestMs = toMs("longest", longest);
    const lock = await this.acquire(key, rest);
    const stop = this.#keep(lock, toMs("ttl", options.ttl ?? this.#ttl), longestMs);
    try {
      return await run(lock);
    } finally {
      stop();
      await lock.release().catch((error: unknown) => this.#left(lock, error));
    }
  }

  /** Waits for the lock. Whoever gets it extends it in time, and releases it. Throws LockNotAcquiredError. */
  async acquire(key: string, options: LockOptions = {}): Promise<Lock> {
    checkKnown(options, ACQUIRE_OPTIONS);
    const request = this.#request(key, options);
    const waitMs = toMs("wait", options.wait ?? this.#wait);
    if (this.#closed) throw new ClosedError({ what: "Holdfast" });
    const { place, runtime } = this.#parts;
    const { signal } = options;
    const contest = new Acquisition({ request, waitMs, signal, place, line: this.#line, runtime });
    this.acquisitions.add(contest);
    try {
      const { token, leave, ...won } = await contest.win();
      this.#stats.acquired(key, won.waitedMs);
      const onGone = (heldMs: number): void => {
        this.#stats.held(key, heldMs);
        this.#held.delete(lock);
        leave();
      };
      const lock = new Lock({ ...request, ...won, hold: { key, token }, place, runtime, onGone });
      this.#held.add(lock);
      return lock;
    } catch (error) {
      if (error instanceof LockNotAcquiredError) this.#stats.timedOut(key);
      throw error;
    } finally {
      this.acquisitions.delete(contest);
    }
  }

  /** Keeps a lock for `ttl` from now, also one that another process acquired. Throws LockLostError. */
  async extend(lock: LockHold, options: { readonly ttl?: Duration } = {}): Promise<void> {
    if (lock instanceof Lock) return lock.extend(options);
    checkKnown(options, EXTEND_OPTIONS);
    const ttlMs = toMs("ttl", options.ttl ?? this.#ttl, TTL_RANGE);
    const hold = holdOf(lock);
    if (await this.#parts.place.extend(hold, ttlMs)) return;
    throw new LockLostError({ ...hold, problem: "it ran out, or was released." });
  }

  /** Lets others have it. False: it was not ours any more. */
  async release(lock: LockHold): Promise<boolean> {
    return lock instanceof Lock ? lock.release() : this.#parts.place.release(holdOf(lock));
  }

  /** Who has a lock; null: nobody. */
  inspect(key: string): Promise<LockRecord | null> {
    return this.#parts.place.find(checkLockKey("key", key));
  }

  /** The locks that somebody has, of one type or of all, those that were taken first first. */
  list(filter: { readonly type?: string; readonly limit?: number } = {}): Promise<LockRecord[]> {
    checkKnown(filter, LIST_OPTIONS);
    const { type } = filter;
    const limit = checkWhole("limit", filter.limit ?? LISTED, { least: 1, most: LISTED_MAX });
    return this.#parts.place.list({
      limit,
      ...(type === undefined ? {} : { type: checkLockKey("type", type) }),
    });
  }

  /** What this process has done with locks since it began, by type. */
  totals(): readonly LockTotals[] {
    return this.#stats.totals;
  }

  /** How locks were used, in all processes, by type and minute. */
  stats(options?: LockStatsOptions): Promise<LockStatistics> {
    return this.#stats.read(options);
  }

  /**
   * Takes a lock away from whoever has it, as an operator may want to; the audit says who asked for it. Returns who had it; null:
   * nobody. Whoever had it is told when it next extends the lock.
   */
  async forceRelease(key: string, options: OperatorOptions = {}): Promise<LockRecord | null> {
    checkKnown(options, FORCE_OPTIONS);
    const { place, store, newId } = this.#parts;
    const operator = anyOperator(options, newId);
    const record = await this.inspect(key);
    if (record === null) return null;
    const action = { action: "lock.release", subject: subjects.lock(key) };
    await store.audit.note(operator, { ...action, detail: JSON.stringify(record) });
    return (await place.release(record)) ? record : null;
  }

  /** Whoever waits is told; what is held runs out, because what is done under it may still be going on. */
  async close(): Promise<void> {
    const { place, runtime } = this.#parts;
    this.#closed = true;
    for (const contest of this.acquisitions) contest.end(new ClosedError({ what: "Holdfast" }));
    for (const lock of this.#held) lock.forsake("Holdfast was closed.");
    await answerWithin(runtime, COUNTS_MS_MAX, this.#stats.stop()).catch(() => {});
    await place.close();
  }

  #request(key: string, { ttl = this.#ttl, trace }: LockOptions): LockRequest {
    return {
      key: checkLockKey("key", key),
      holder: this.#parts.newId(),
      owner: this.#owner,
      trace: trace === undefined ? null : checkLabel("trace", trace, TRACE_LENGTH_MAX),
      ttlMs: toMs("ttl", ttl, TTL_RANGE),
      contender: this.#contender,
    };
  }

  /** Extends a lock until it is stopped, or lost, or for `longestMs`. */
  #keep(lock: Lock, ttlMs: number, longestMs: number): () => void {
    const { runtime } = this.#parts;
    const endsAt = runtime.monotonic() + longestMs;
    const stopped = new AbortController();
    const later = (share: number): Timer =>
      runtime.timer(ttlMs * share, () => void extend(), "background");
    const extend = async (): Promise<void> => {
      if (runtime.monotonic() >= endsAt) return; // from now on it runs out
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

  #left({ key, token }: Lock, error: unknown): void {
    const { logger } = this.#parts;
    logger.warn({ key, token, err: error }, `the lock ${key} could not be released, and runs out`);
  }
}

function holdOf(lock: LockHold): LockHold {
  if (typeof lock !== "object" || lock === null || !Number.isInteger(lock.token)) {
    throw new InvalidArgumentError({ field: "lock", problem: "give what acquire() returned." });
  }
  const { key, token } = lock;
  return { key: checkLockKey("key", key), token };
}

// Where locks are kept: as an option says, else an environment variable, else in Redis if there is one.

interface LockChoice {
  readonly locks?: LockMode | undefined;
  /** Default: HOLDFAST_REDIS_URL. */
  readonly redis?: string | undefined;
}

interface LockGround {
  /** The part of a store that has locks, and its database. */
  readonly store: { readonly locks: LockRows; readonly db: { readonly database: string } };
  readonly runtime: Runtime;
}

/** With "off", locks that an application asks for itself are rows. */
export async function openLocks(
  choice: LockChoice,
  { store, runtime }: LockGround,
): Promise<{ mode: LockMode; place: LockBackend }> {
  const url = choice.redis ?? process.env["HOLDFAST_REDIS_URL"] ?? "";
  const mode = modeOf(choice.locks, url);
  if (mode !== "redis") return { mode, place: new SqlLock(store.locks) };
  if (!/^rediss?:\/\//.test(url)) throw badUrl(url);
  const { RedisLock } = await import("./redis.ts");
  return { mode, place: await RedisLock.open({ url, database: store.db.database, runtime }) };
}

function modeOf(option: LockMode | undefined, redis: string): LockMode {
  const field = option === undefined ? "HOLDFAST_LOCKS" : "locks";
  const said = option ?? process.env["HOLDFAST_LOCKS"] ?? "";
  if (said === "") return redis === "" ? "sql" : "redis";
  const mode = lockModes.find((each) => each === said);
  if (mode !== undefined) return mode;
  const problem = `must be one of ${lockModes.join(", ")}, not ${JSON.stringify(said).slice(0, 20)}.`;
  throw new InvalidArgumentError({ field, problem });
}

/** Without repeating it: it may hold a password. */
function badUrl(url: string): InvalidArgumentError {
  const problem =
    url === ""
      ? 'with locks: "redis", give the URL of a Redis, or set HOLDFAST_REDIS_URL.'
      : "a Redis URL reads redis://host:6379 or rediss://user:password@host:6379.";
  return new InvalidArgumentError({ field: "redis", problem });
}
