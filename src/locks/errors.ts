/** Errors of locks. */
import { HoldfastError } from "../core/errors.ts";

/** Another process held the lock for as long as the caller was willing to wait, or the backend did not answer. */
export class LockNotAcquiredError extends HoldfastError {
  readonly key: string;
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
  readonly key: string;
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
