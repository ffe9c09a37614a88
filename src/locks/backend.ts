/**
 * A backend stores locks.
 *
 * Every backend promises: of two holders that ask for a key, one gets it. Tokens of a key only grow. No holder gets a lock
 * that has not expired, or that is reserved for another process at this moment. Time is the backend's own. All methods are
 * idempotent, so a call whose answer was lost may be repeated. A backend that is unreachable throws StoreUnavailableError,
 * StoreBusyError or OutcomeUnknownError.
 */
import { checkLabel } from "../core/name.ts";

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
  readonly key: string;
  readonly token: number;
}

/** A held lock. */
export interface LockRecord extends LockHold {
  readonly owner: string;
  readonly trace: string | null;
  readonly acquiredAt: number;
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
