/** What can go wrong with locks. */
import { HoldfastError } from "../core/errors.ts";

/** Somebody else had the lock for as long as the caller was willing to wait, or nobody could be asked for it. */
export class LockNotAcquiredError extends HoldfastError {
  readonly key: string;
  readonly waitedMs: number;
  /** Who had it when last seen; null: nobody knows. */
  readonly owner: string | null;

  constructor(facts: { key: string; waitedMs: number; owner: string | null }, cause?: unknown) {
    const waitedMs = Math.round(facts.waitedMs);
    super("LOCK_NOT_ACQUIRED", sentence({ ...facts, waitedMs }, cause), cause);
    this.key = facts.key;
    this.waitedMs = waitedMs;
    this.owner = facts.owner;
  }
}

function sentence(
  { key, waitedMs, owner }: { key: string; waitedMs: number; owner: string | null },
  cause: unknown,
): string {
  if (cause instanceof Error) {
    return `The lock '${key}' could not be asked for within ${waitedMs} ms: ${cause.message}`;
  }
  const whose = owner === null ? "others want it, too" : `${owner} has it`;
  return (
    `The lock '${key}' did not become free within ${waitedMs} ms: ${whose}. ` +
    `Try again later, wait longer (wait), or hold it for a shorter time. See: holdfast locks`
  );
}

/** The reason of a lock's signal: others may have it by now. */
export class LockLostError extends HoldfastError {
  readonly key: string;
  readonly token: number;

  constructor(facts: { key: string; token: number; problem: string }, cause?: unknown) {
    super(
      "LOCK_LOST",
      `The lock '${facts.key}' (token ${facts.token}) is lost: ${facts.problem} ` +
        `Stop what was done under it; others may have it by now.`,
      cause,
    );
    this.key = facts.key;
    this.token = facts.token;
  }
}
