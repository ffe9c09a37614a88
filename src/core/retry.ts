/**
 * When a job that failed is tried again.
 *
 * The wait grows exponentially and is drawn with full jitter: uniform between nothing and the grown
 * wait. Jobs that failed together because something was down come back spread out, not as one wave.
 */
import { type Duration, DURATION_MS_MAX, toMs } from "./duration.ts";
import { InvalidArgumentError } from "./errors.ts";
import { checkKnown, checkWhole, shownNumber } from "./options.ts";

export interface RetryPolicy {
  /** How often a job may be tried in total; 1: no retries. */
  readonly maxAttempts: number;
  /** The longest wait after the first attempt. */
  readonly initialMs: number;
  /** The longest wait after any attempt. */
  readonly maxMs: number;
  /** How much the wait grows from one attempt to the next. */
  readonly factor: number;
}

export interface RetryOptions {
  /** How often a job may be tried in total. Default 3. */
  readonly maxAttempts?: number;
  /** The wait before the next attempt: exponential, with full jitter. */
  readonly backoff?: {
    /** The longest wait after the first attempt. Default 1 s. */
    readonly initial?: Duration;
    /** The longest wait after any attempt. Default 1 h. */
    readonly max?: Duration;
    /** How much the wait grows from one attempt to the next. Default 2. */
    readonly factor?: number;
  };
}

export const ATTEMPTS_MAX = 1000;
export const FACTOR_MAX = 100;

const DEFAULT_MAX_ATTEMPTS = 3;
const DEFAULT_INITIAL_MS = 1_000;
const DEFAULT_MAX_MS = 3_600_000;
const DEFAULT_FACTOR = 2;

const KNOWN = new Set(["maxAttempts", "backoff"]);
const BACKOFF_KNOWN = new Set(["initial", "max", "factor"]);

export function retryPolicy(options: RetryOptions = {}): RetryPolicy {
  checkKnown(options, KNOWN, { field: "retry", example: "{ maxAttempts: 5 }" });
  const { maxAttempts = DEFAULT_MAX_ATTEMPTS, backoff = {} } = options;
  checkWhole("retry.maxAttempts", maxAttempts, { least: 1, most: ATTEMPTS_MAX });
  checkKnown(backoff, BACKOFF_KNOWN, { field: "retry.backoff", example: '{ initial: "1s" }' });
  const factor = backoff.factor ?? DEFAULT_FACTOR;
  if (typeof factor !== "number" || !(factor >= 1 && factor <= FACTOR_MAX)) {
    throw new InvalidArgumentError({
      field: "retry.backoff.factor",
      problem: `must be a number from 1 to ${FACTOR_MAX}, not ${shownNumber(factor)}.`,
    });
  }
  const initialMs = toMs("retry.backoff.initial", backoff.initial ?? DEFAULT_INITIAL_MS);
  // A long initial wait without a `max` asks for long waits, not a mistake.
  const max = backoff.max ?? Math.max(DEFAULT_MAX_MS, initialMs);
  const maxMs = toMs("retry.backoff.max", max, { min: initialMs, max: DURATION_MS_MAX });
  return { maxAttempts, initialMs, maxMs, factor };
}

/**
 * How long to wait after this attempt (they count from 1), in whole milliseconds: uniform in
 * [0, min(max, initial × factor^(attempt − 1))]. `random` is uniform in [0, 1).
 */
export function backoffMs(policy: RetryPolicy, attempt: number, random: number): number {
  // Kept finite, because an initial wait of 0 times infinity would be no number at all.
  const growth = Math.min(policy.factor ** (attempt - 1), Number.MAX_VALUE);
  const longestMs = Math.floor(Math.min(policy.maxMs, policy.initialMs * growth));
  return Math.floor(random * (longestMs + 1));
}
