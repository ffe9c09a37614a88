/**
 * When a job that failed is tried again.
 *
 * The wait grows exponentially and is drawn with full jitter: uniform between nothing and the grown
 * wait. Jobs that failed together because something was down come back spread out, not as one wave.
 */
import { type Duration, DURATION_MS_MAX, formatMs, toMs } from "./duration.ts";
import { HoldfastError, InvalidArgumentError } from "./errors.ts";
import { checkKnown, checkWhole, shownNumber } from "./options.ts";

/** A retry policy with its defaults. */
export interface RetryPolicy {
  /** How often a job may be tried in total; 1: no retries. */
  readonly maxAttempts: number;
  /** The longest wait after the first attempt. */
  readonly initialMs: number;
  /** The longest wait after any attempt. */
  readonly maxMs: number;
  /** How much the wait grows from one attempt to the next. */
  readonly factor: number;
  /** The task's own back-off; null: the one above. */
  readonly delay: Backoff | null;
  /** How often a job may be snoozed before it fails. */
  readonly maxSnoozes: number;
}

/** Chooses the wait after a failed attempt. It must not be asynchronous. */
export type Backoff = (failure: {
  /** The attempt that failed, from 1. */
  readonly attempt: number;
  /** What the task threw. */
  readonly error: unknown;
}) => Duration;

/** How often a failed job is tried again, and how long it waits before. */
export interface RetryOptions {
  /** How often a job may be tried in total. Default 3. */
  readonly maxAttempts?: number;
  /** The wait before the next attempt: exponential, with full jitter; or a function of your own. */
  readonly backoff?:
    | {
        /** The longest wait after the first attempt. Default 1 s. */
        readonly initial?: Duration;
        /** The longest wait after any attempt. Default 1 h. */
        readonly max?: Duration;
        /** How much the wait grows from one attempt to the next. Default 2. */
        readonly factor?: number;
      }
    | Backoff;
  /** How often a job may be snoozed in total. One more snooze fails the attempt. Default 1,000. */
  readonly maxSnoozes?: number;
}

export const ATTEMPTS_MAX = 1000;
export const FACTOR_MAX = 100;

const DEFAULT_MAX_ATTEMPTS = 3;
const DEFAULT_INITIAL_MS = 1_000;
const DEFAULT_MAX_MS = 3_600_000;
const DEFAULT_FACTOR = 2;
const DEFAULT_MAX_SNOOZES = 1_000;
const SNOOZES = { least: 0, most: 100_000 };

/** The longest wait that a task may choose. */
const CHOSEN_MS_MAX = 366 * 86_400_000;

const KNOWN = new Set(["maxAttempts", "backoff", "maxSnoozes"]);
const BACKOFF_KNOWN = new Set(["initial", "max", "factor"]);

export function retryPolicy(options: RetryOptions = {}): RetryPolicy {
  checkKnown(options, KNOWN, { field: "retry", example: "{ maxAttempts: 5 }" });
  const { maxAttempts = DEFAULT_MAX_ATTEMPTS, maxSnoozes = DEFAULT_MAX_SNOOZES } = options;
  checkWhole("retry.maxAttempts", maxAttempts, { least: 1, most: ATTEMPTS_MAX });
  checkWhole("retry.maxSnoozes", maxSnoozes, SNOOZES);
  const delay = typeof options.backoff === "function" ? options.backoff : null;
  const backoff = typeof options.backoff === "function" ? {} : (options.backoff ?? {});
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
  return { maxAttempts, initialMs, maxMs, factor, delay, maxSnoozes };
}

/** The wait that a task chose, in whole milliseconds. Refuses what is no duration, or too long. */
export function chosenMs(field: string, duration: Duration): number {
  return toMs(field, duration, { max: CHOSEN_MS_MAX });
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

/**
 * For tasks to throw or return: the job is retried after this time instead of its back-off. The attempt counts, and the
 * last one fails the job.
 */
export class RetryIn extends HoldfastError {
  /** The time until the next attempt, in milliseconds. */
  readonly delayMs: number;

  /** `reason`: a sentence, or the error that is the cause. */
  constructor(delay: Duration, reason?: unknown) {
    const delayMs = chosenMs("delay", delay);
    super("RETRY_IN", `To be retried in ${formatMs(delayMs)}${because(reason)}`, asCause(reason));
    this.delayMs = delayMs;
  }
}

/**
 * For tasks to throw or return: the job is put off for this time, and starts again from its beginning after its completed
 * steps. The attempt does not count; `maxSnoozes` of the retry policy limits how often.
 */
export class Snooze extends HoldfastError {
  /** For how long the job is put off, in milliseconds. */
  readonly delayMs: number;

  /** `reason`: a sentence, or the error that is the cause. */
  constructor(delay: Duration, reason?: unknown) {
    const delayMs = chosenMs("delay", delay);
    super("SNOOZED", `Snoozed for ${formatMs(delayMs)}${because(reason)}`, asCause(reason));
    this.delayMs = delayMs;
  }
}

/** A job was snoozed more often than its task allows. */
export class SnoozeLimitError extends HoldfastError {
  constructor(facts: { maxSnoozes: number }, cause: unknown) {
    super(
      "SNOOZE_LIMIT",
      `The job has already been snoozed ${facts.maxSnoozes} times, the limit that retry.maxSnoozes of its task sets.`,
      cause,
    );
  }
}

function because(reason: unknown): string {
  if (typeof reason === "string" && reason !== "") return `: ${reason}`;
  return reason instanceof Error && reason.message !== "" ? `: ${reason.message}` : ".";
}

function asCause(reason: unknown): unknown {
  return typeof reason === "string" ? undefined : reason;
}
