/** An acquired lock, and how long it can be trusted. */
import { configured, DAY, oneOf, setting, settingsOf } from "../config/kind.ts";
import type { Duration } from "../core/duration.ts";
import { HoldfastError } from "../core/errors.ts";
import { checkLabel } from "../core/name.ts";
import { duration, optionsOf } from "../core/options.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import { answerWithin, unlessAborted } from "../core/wait.ts";

// A backend stores locks.
//
// Every backend promises: of two holders that ask for a key, one gets it. Tokens of a key only grow. No holder gets a lock
// that has not expired, or that is reserved for another process at this moment. Time is the backend's own. All methods are
// idempotent, so a call whose answer was lost may be repeated. A backend that is unreachable throws StoreUnavailableError,
// StoreBusyError or OutcomeUnknownError.

export interface LockBackend {
  readonly kind: "sql" | "redis";

  /**
   * Takes the lock if it is free. If not, it is reserved for this process for a moment after it becomes free, unless it is
   * reserved for another: a process that releases a lock and asks again at once must not starve the others. `again`: this
   * is a repeated request.
   */
  take(request: LockRequest, again: boolean): Promise<LockAnswer>;

  /** Moves its end to now + `ttlMs`, never backwards. False: the lock is no longer ours. */
  extend(hold: LockHold, ttlMs: number): Promise<boolean>;

  /** False: the lock was no longer ours. */
  release(hold: LockHold): Promise<boolean>;

  /** Releases a lock that its holder may have got without an answer. */
  abandon(key: string, holder: string): Promise<void>;

  /** Null: it is free. */
  find(key: string): Promise<LockRecord | null>;
  /** Oldest first. */
  list(filter: LockFilter): Promise<LockRecord[]>;

  /** Calls `wake` when the lock is released. A hint: it may be missed. Returns a function that stops it. */
  onRelease?(key: string, wake: () => void): () => void;

  close(): Promise<void>;
}

/** How long a lock stays reserved after the last request of that process, which asks much more often. */
export const NEXT_MS = 100;

// A lock is a name that one process at a time has, until an instant, with a number that only grows.
//
// The number is the fencing token. A process that writes under a lock passes it on, and the receiver refuses a smaller
// token than it has seen. Without that, a lock saves work and promises nothing: a process may be suspended for longer than
// its lock lasts.

export const LOCK_KEY_LENGTH_MAX = 255;

export const TRACE_LENGTH_MAX = 255;

export interface LockRequest {
  readonly key: string;
  /** Unique for every acquisition, so that a repeated request is recognised. */
  readonly holder: string;
  /** For people: the process, and its purpose. */
  readonly owner: string;
  readonly trace: string | null;
  readonly ttlMs: number;
  /** Unique for each process: a process asks for one acquisition at a time. */
  readonly contender: string;
}

export type LockAnswer =
  | { readonly taken: true; readonly token: number }
  | {
      readonly taken: false;
      /** Null: unknown. */
      readonly owner: string | null;
      /** Whether it is reserved for us when it becomes free. */
      readonly isNext: boolean;
    };

/** Proves that a lock is ours. */
export interface LockHold {
  /** The name of the lock. */
  readonly key: string;
  /** The fencing token: larger at every acquisition. */
  readonly token: number;
}

/** A held lock. */
export interface LockRecord extends LockHold {
  /** The host and the process that hold it. */
  readonly owner: string;
  /** What the holder gave as `trace`; null: nothing. */
  readonly trace: string | null;
  /** When it was acquired (ms since 1970, the backend's clock). */
  readonly acquiredAt: number;
  /** When it ends unless it is extended (ms since 1970, the backend's clock). */
  readonly expiresAt: number;
  /** How long that is from now, by the backend's clock. */
  readonly expiresInMs: number;
}

export interface LockFilter {
  /** Only keys that begin with `<type>:`, or are the type itself. */
  readonly type?: string;
  readonly limit: number;
}

/** Returns the key of a lock, or throws InvalidArgumentError that names the field. */
export function checkLockKey(field: string, key: string): string {
  return checkLabel(field, key, LOCK_KEY_LENGTH_MAX);
}

/** `order` of `order:42`. */
export function lockType(key: string): string {
  const end = key.indexOf(":");
  return end <= 0 ? key : key.slice(0, end);
}

/** Another process held the lock for as long as the caller was willing to wait, or the backend did not answer. */
export class LockNotAcquiredError extends HoldfastError {
  /** The name of the lock. */
  readonly key: string;
  /** How long the caller waited, in milliseconds. */
  readonly waitedMs: number;
  /** The last known owner; null: unknown. */
  readonly owner: string | null;

  constructor(facts: { key: string; waitedMs: number; owner: string | null }, cause?: unknown) {
    const { key, owner } = facts;
    const waitedMs = Math.round(facts.waitedMs);
    const whose = owner === null ? "other processes are waiting for it too" : `${owner} holds it`;
    super(
      "LOCK_NOT_ACQUIRED",
      cause instanceof Error
        ? `The lock '${key}' could not be acquired within ${waitedMs} ms: ${cause.message}`
        : `The lock '${key}' did not become free within ${waitedMs} ms: ${whose}. ` +
            `Try again later, wait longer (wait), or hold it for a shorter time. See: holdfast locks`,
      cause,
    );
    this.key = key;
    this.waitedMs = waitedMs;
    this.owner = owner;
  }
}

/** The reason of a lock's signal: another process may have the lock by now. */
export class LockLostError extends HoldfastError {
  /** The name of the lock. */
  readonly key: string;
  /** The fencing token of the lost acquisition. */
  readonly token: number;

  constructor(facts: { key: string; token: number; problem: string }, cause?: unknown) {
    super(
      "LOCK_LOST",
      `The lock '${facts.key}' (token ${facts.token}) is lost: ${facts.problem} ` +
        `Stop the work that it protects: another process may hold it now.`,
      cause,
    );
    this.key = facts.key;
    this.token = facts.token;
  }
}

/** The share of a lock's time that is trusted: clocks drift a little, and work under way must end. */
export const TRUSTED = 0.9;

/** How long to wait for the answer to a release. The lock expires by itself. */
const RELEASE_MS_MAX = 2_000;

interface LockParts {
  readonly hold: LockHold;
  readonly owner: string;
  readonly trace: string | null;
  readonly waitedMs: number;
  readonly ttlMs: number;
  /** When the request was sent: the lock's time began later. */
  readonly sentAt: number;
  readonly backend: LockBackend;
  readonly runtime: Runtime;
  /** Called once, when it is released or lost. */
  readonly onGone: (heldMs: number) => void;
}

/** A lock that this process holds, with its fencing token. */
export class Lock implements AsyncDisposable {
  /** Its name. */
  readonly key: string;
  /** Larger than those of all earlier holders: pass it to systems that can compare it. */
  readonly token: number;
  /** The host and the process, as other processes see them. */
  readonly owner: string;
  /** What the caller gave as `trace`; null: nothing. */
  readonly trace: string | null;
  /** How long the acquisition took. */
  readonly waitedMs: number;
  readonly #parts: LockParts;
  readonly #acquiredAt: number;
  readonly #lost = new AbortController();
  #trustedUntil = 0;
  #timer: Timer | null = null;
  #released: Promise<boolean> | null = null;
  #isGone = false;

  /** @internal Applications get it from a Holdfast. */
  constructor(parts: LockParts) {
    this.#parts = parts;
    this.key = parts.hold.key;
    this.token = parts.hold.token;
    this.owner = parts.owner;
    this.trace = parts.trace;
    this.waitedMs = parts.waitedMs;
    this.#acquiredAt = parts.runtime.monotonic();
    this.#trust(parts.sentAt, parts.ttlMs);
  }

  /** Aborts with LockLostError when another process may have the lock. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** Whether it can be trusted now: after a process was suspended, this may run before the signal could abort. */
  get held(): boolean {
    if (this.#released !== null) return false;
    if (this.#parts.runtime.monotonic() >= this.#trustedUntil)
      this.#lose("it was not extended in time.");
    return !this.signal.aborted;
  }

  /** Keeps it for `ttl` from now. Throws LockLostError when it is no longer ours. */
  async extend(
    options: {
      /** How long it lasts from now on. Default: as at its acquisition. */
      readonly ttl?: Duration;
    } = {},
  ): Promise<void> {
    const { backend, runtime, hold, ttlMs } = this.#parts;
    const { ttlMs: moreMs = ttlMs } = extendOptions.read(options);
    if (!this.held) throw this.#reason();
    const sentAt = runtime.monotonic();
    const isOurs = await unlessAborted(this.signal, () => backend.extend(hold, moreMs));
    if (!isOurs) this.#lose("it expired or was released, and is no longer ours.");
    if (!this.held) throw this.#reason();
    this.#trust(sentAt, moreMs);
  }

  /** False: it was no longer ours. */
  release(): Promise<boolean> {
    this.#released ??= this.#release();
    return this.#released;
  }

  /** Stops extending it. It is not released, because the work that it protects may still run. */
  forsake(problem: string): void {
    if (this.#released === null) this.#lose(problem);
  }

  /** The same as `release()`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  async #release(): Promise<boolean> {
    const { backend, runtime, hold } = this.#parts;
    this.#timer?.cancel();
    try {
      return await answerWithin(runtime, RELEASE_MS_MAX, backend.release(hold));
    } finally {
      this.#gone();
    }
  }

  /** Counts from the request, which was sent before the lock's time began. */
  #trust(sentAt: number, ttlMs: number): void {
    this.#trustedUntil = Math.max(this.#trustedUntil, sentAt + ttlMs * TRUSTED);
    this.#timer?.cancel();
    const leftMs = this.#trustedUntil - this.#parts.runtime.monotonic();
    const check = (): void => {
      if (this.held) this.#trust(Number.NEGATIVE_INFINITY, 0); // The timer was early.
    };
    this.#timer = this.#parts.runtime.timer(leftMs, check, "background");
  }

  #lose(problem: string): void {
    if (this.signal.aborted) return;
    this.#timer?.cancel();
    this.#lost.abort(new LockLostError({ key: this.key, token: this.token, problem }));
    this.#gone();
  }

  #reason(): Error {
    if (this.signal.aborted) return this.signal.reason as LockLostError;
    return new LockLostError({ key: this.key, token: this.token, problem: "it was released." });
  }

  #gone(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#parts.onGone(this.#parts.runtime.monotonic() - this.#acquiredAt);
  }
}

/** Where locks are stored: in rows of the database, or in Redis. With "off", workflows run without locks. */
export const lockModes = ["off", "sql", "redis"] as const;

/** Where locks are stored: in the database, in Redis, or not at all. */
export type LockMode = (typeof lockModes)[number];

/** Limits of a lock's time to live. */
const TTL_RANGE = { least: 100, most: DAY } as const;

export const ttlOption = duration(TTL_RANGE);

export const extendOptions = optionsOf<{ readonly ttl?: Duration }>()({ ttl: ttlOption });

/** The options of openHoldfast() that all locks share. */
export const lockFields = {
  lockTtl: configured(duration(TTL_RANGE, "15s"), {
    env: "HOLDFAST_LOCK_TTL",
    about: "How long a lock lasts unless it is extended.",
  }),
  lockWait: configured(duration({}, "10s"), {
    env: "HOLDFAST_LOCK_WAIT",
    about: "How long to wait for a lock.",
  }),
};

export const lockSettings = {
  locks: setting<LockMode>({
    group: "Database",
    env: ["HOLDFAST_LOCKS"],
    flag: null,
    file: "locks",
    kind: oneOf(lockModes),
    initial: null,
    about:
      "Where locks are stored; off: workflows run without locks (default: redis if configured, otherwise sql).",
  }),
  ...settingsOf("Database", lockFields),
};
