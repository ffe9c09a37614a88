/**
 * A place where locks are kept.
 *
 * What every place promises: of two that ask for a key, one gets it. Tokens of a key only grow. Nobody gets a lock whose time
 * is not over, or that is kept for somebody else at this moment. Time is the place's own. Every verb may be called again when
 * its answer was lost, and means the same. A place that cannot be asked throws StoreUnavailableError, StoreBusyError or OutcomeUnknownError.
 */
import { checkLabel } from "../core/name.ts";

export interface LockBackend {
  readonly kind: "sql" | "redis";

  /**
   * Takes the lock if it is free. If not, it is kept for whoever asked, for a moment after it becomes free, unless it is
   * kept for another: so that nobody who lets go and asks again at once has it all the time. `again`: we asked before.
   */
  take(request: LockRequest, again: boolean): Promise<LockAnswer>;

  /** Moves its end to now + `ttlMs`, never backwards. False: it is not ours any more. */
  extend(hold: LockHold, ttlMs: number): Promise<boolean>;

  /** False: it was not ours any more. */
  release(hold: LockHold): Promise<boolean>;

  /** Gives back what somebody may have got without hearing of it. */
  abandon(key: string, holder: string): Promise<void>;

  /** Null: it is free. */
  find(key: string): Promise<LockRecord | null>;
  /** Those that were taken first first. */
  list(filter: LockFilter): Promise<LockRecord[]>;

  /** Calls `wake` when the lock is released, as far as this place can know. A hint: it may be missed. Returns how to stop. */
  onRelease?(key: string, wake: () => void): () => void;

  close(): Promise<void>;
}

/** For how long a lock is kept for whoever asked for it, after they last did. They ask much more often. */
export const NEXT_MS = 100;

// What a lock is, wherever it is kept: a name that one process at a time has, until an instant, under a number that only
// ever grows.
//
// The number is the fence. Whoever writes under a lock shows it to what they write to, which refuses a smaller one than it
// has seen. Without that, a lock saves work and promises nothing: a process may stand still for longer than its lock lasts.

export const LOCK_KEY_LENGTH_MAX = 255;

export const TRACE_LENGTH_MAX = 255;

/** Who wants which lock. */
export interface LockRequest {
  readonly key: string;
  /** Unique for every acquisition, so that one whose answer was lost can be recognised. */
  readonly holder: string;
  /** For people: which process that is, and what it does it for. */
  readonly owner: string;
  readonly trace: string | null;
  readonly ttlMs: number;
  /** Unique for every process. Of those in it that want a lock, one asks at a time. */
  readonly contender: string;
}

export type LockAnswer =
  | { readonly taken: true; readonly token: number }
  | {
      readonly taken: false;
      /** Who has it, if anybody knows. */
      readonly owner: string | null;
      /** Whether it is kept for us for a moment when it becomes free. */
      readonly isNext: boolean;
    };

/** What shows that a lock is ours. */
export interface LockHold {
  readonly key: string;
  readonly token: number;
}

/** A lock that somebody has. */
export interface LockRecord extends LockHold {
  readonly owner: string;
  readonly trace: string | null;
  readonly acquiredAt: number;
  readonly expiresAt: number;
  /** How long that is from now, by the clock of where it is kept. */
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

/** What sort of lock it is: `order` of `order:42`. */
export function lockType(key: string): string {
  const end = key.indexOf(":");
  return end <= 0 ? key : key.slice(0, end);
}
