/**
 * Locks for applications: `locks.with("order:42", {}, async (lock) => …)`.
 *
 * A lock keeps others from doing the same work at the same time. It cannot promise that they do not: a process may stand
 * still for longer than its lock lasts. What must be right stands in a constraint of the database, or compares the token.
 */
import { hostname } from "node:os";
import { subjects } from "../core/audit.ts";
import { checkKnown, checkWhole } from "../core/check.ts";
import { toMs, type Duration } from "../core/duration.ts";
import { Closed, InvalidArgument } from "../core/errors.ts";
import { LockLost, LockNotAcquired } from "../core/lock-errors.ts";
import {
  checkLockKey,
  TRACE_LENGTH_MAX,
  type LockHold,
  type LockMode,
  type LockRecord,
  type LockRequest,
} from "../core/lock.ts";
import type { Logger } from "../core/log.ts";
import { checkLabel } from "../core/name.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import type { LockPlace } from "../locks/lock.ts";
import type { Actions } from "../store/actions.ts";
import type { LockStatRows } from "../store/lock-stats.ts";
import { answerWithin } from "./answer-within.ts";
import { Contest } from "./lock-contest.ts";
import { LockLine } from "./lock-line.ts";
import {
  LockStats,
  type LockTotals,
  type LockStatistics,
  type LockStatsOptions,
} from "./lock-stats.ts";
import { Lock, TTL_RANGE } from "./lock.ts";
import { anyOperator, OPERATOR_OPTIONS, type ByOperator } from "./signature.ts";

const DEFAULT_TTL = "15s";
const DEFAULT_WAIT = "10s";
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

export interface LocksParts {
  readonly place: LockPlace;
  /** For what is known of their use, wherever they are kept. */
  readonly store: LockStatRows & Actions;
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
  readonly #contests = new Set<Contest>();
  readonly #held = new Set<Lock>();
  #closed = false;

  readonly #ttl: Duration;
  readonly #wait: Duration;

  constructor(parts: LocksParts) {
    this.#parts = parts;
    this.mode = parts.mode;
    this.#ttl = parts.ttl ?? DEFAULT_TTL;
    this.#wait = parts.wait ?? DEFAULT_WAIT;
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
      throw new InvalidArgument({
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

  /** Waits for the lock. Whoever gets it extends it in time, and releases it. Throws LockNotAcquired. */
  async acquire(key: string, options: LockOptions = {}): Promise<Lock> {
    checkKnown(options, ACQUIRE_OPTIONS);
    const request = this.#request(key, options);
    const waitMs = toMs("wait", options.wait ?? this.#wait);
    if (this.#closed) throw new Closed({ what: "Holdfast" });
    const { place, runtime } = this.#parts;
    const { signal } = options;
    const contest = new Contest({ request, waitMs, signal, place, line: this.#line, runtime });
    this.#contests.add(contest);
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
      if (error instanceof LockNotAcquired) this.#stats.timedOut(key);
      throw error;
    } finally {
      this.#contests.delete(contest);
    }
  }

  /** Keeps a lock for `ttl` from now, also one that another process acquired. Throws LockLost. */
  async extend(lock: LockHold, options: { readonly ttl?: Duration } = {}): Promise<void> {
    if (lock instanceof Lock) return lock.extend(options);
    checkKnown(options, EXTEND_OPTIONS);
    const ttlMs = toMs("ttl", options.ttl ?? this.#ttl, TTL_RANGE);
    const hold = holdOf(lock);
    if (await this.#parts.place.extend(hold, ttlMs)) return;
    throw new LockLost({ ...hold, problem: "it ran out, or was released." });
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
   * Takes a lock away from whoever has it, as an operator may want to; the audit keeps who wished it. Returns who had it; null:
   * nobody. Whoever had it is told when it next extends the lock.
   */
  async forceRelease(key: string, options: ByOperator = {}): Promise<LockRecord | null> {
    checkKnown(options, FORCE_OPTIONS);
    const { place, store, newId } = this.#parts;
    const operator = anyOperator(options, newId);
    const record = await this.inspect(key);
    if (record === null) return null;
    const action = { action: "lock.release", subject: subjects.lock(key) };
    await store.noteAction(operator, { ...action, detail: JSON.stringify(record) });
    return (await place.release(record)) ? record : null;
  }

  /** Whoever waits is told; what is held runs out, because what is done under it may still be going on. */
  async close(): Promise<void> {
    const { place, runtime } = this.#parts;
    this.#closed = true;
    for (const contest of this.#contests) contest.end(new Closed({ what: "Holdfast" }));
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
    throw new InvalidArgument({ field: "lock", problem: "give what acquire() returned." });
  }
  const { key, token } = lock;
  return { key: checkLockKey("key", key), token };
}
