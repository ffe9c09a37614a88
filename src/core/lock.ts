/**
 * What a lock is, wherever it is kept: a name that one process at a time has, until an instant, under a number that only
 * ever grows.
 *
 * The number is the fence. Whoever writes under a lock shows it to what they write to, which refuses a smaller one than it
 * has seen. Without that, a lock saves work and promises nothing: a process may stand still for longer than its lock lasts.
 */
import { checkLabel } from "./name.ts";

export const LOCK_KEY_LENGTH_MAX = 255;
export const TRACE_LENGTH_MAX = 255;

/** Where locks are kept: in rows of the database, or in Redis. With "off", workflows do without. */
export const lockModes = ["off", "sql", "redis"] as const;
export type LockMode = (typeof lockModes)[number];

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

/** Returns the key of a lock, or throws InvalidArgument that names the field. */
export function checkLockKey(field: string, key: string): string {
  return checkLabel(field, key, LOCK_KEY_LENGTH_MAX);
}

/** What sort of lock it is: `order` of `order:42`. */
export function lockType(key: string): string {
  const end = key.indexOf(":");
  return end <= 0 ? key : key.slice(0, end);
}
