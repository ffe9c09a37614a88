/**
 * When a job that failed is tried again.
 *
 * The wait grows exponentially and is drawn with full jitter: uniform between nothing and the grown
 * wait. Jobs that failed together because something was down come back spread out, not as one wave.
 */
import { checkKnown, checkWhole, shownNumber } from "./check.ts";
import { type Duration, DURATION_MS_MAX, toMs } from "./duration.ts";
import { InvalidArgument } from "./errors.ts";

export interface RetryPolicy {
  /** How often a job may be tried in all; 1 means never again. */
  readonly attempts: number;
  /** The longest wait after the first attempt. */
  readonly firstMs: number;
  /** The longest wait after any attempt. */
  readonly mostMs: number;
  /** How much the wait grows from one attempt to the next. */
  readonly factor: number;
}

/** The policy as users write it. Whatever is left out has a default. */
export interface RetryOptions {
  attempts?: number;
  first?: Duration;
  most?: Duration;
  factor?: number;
}

export const ATTEMPTS_MAX = 1000;
export const FACTOR_MAX = 100;

const DEFAULT_ATTEMPTS = 3;
const DEFAULT_FIRST_MS = 1_000;
const DEFAULT_MOST_MS = 3_600_000;
const DEFAULT_FACTOR = 2;

const KNOWN = new Set(["attempts", "first", "most", "factor"]);

export function retryPolicy(options: RetryOptions = {}): RetryPolicy {
  checkKnown(options, KNOWN, { field: "retry", example: "{ attempts: 5 }" });
  const attempts = options.attempts ?? DEFAULT_ATTEMPTS;
  checkWhole("retry.attempts", attempts, { least: 1, most: ATTEMPTS_MAX });
  const factor = options.factor ?? DEFAULT_FACTOR;
  if (typeof factor !== "number" || !(factor >= 1 && factor <= FACTOR_MAX)) {
    throw new InvalidArgument({
      field: "retry.factor",
      problem: `must be a number from 1 to ${FACTOR_MAX}, not ${shownNumber(factor)}.`,
    });
  }
  const firstMs = toMs("retry.first", options.first ?? DEFAULT_FIRST_MS);
  // A long first wait without a `most` is a wish for long waits, not a mistake.
  const most = options.most ?? Math.max(DEFAULT_MOST_MS, firstMs);
  const mostMs = toMs("retry.most", most, { min: firstMs, max: DURATION_MS_MAX });
  return { attempts, firstMs, mostMs, factor };
}

/**
 * How long to wait after this attempt (they count from 1), in whole milliseconds: uniform in
 * [0, min(most, first × factor^(attempt − 1))]. `random` is uniform in [0, 1).
 */
export function backoffMs(policy: RetryPolicy, attempt: number, random: number): number {
  // Kept finite, because a first wait of 0 times infinity would be no number at all.
  const growth = Math.min(policy.factor ** (attempt - 1), Number.MAX_VALUE);
  const longestMs = Math.floor(Math.min(policy.mostMs, policy.firstMs * growth));
  return Math.floor(random * (longestMs + 1));
}
