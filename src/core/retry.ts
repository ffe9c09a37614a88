/**
 * When a job that failed is tried again.
 *
 * The wait grows exponentially and is drawn with full jitter: uniform between nothing and the grown
 * wait. Jobs that failed together because something was down come back spread out, not as one wave.
 */
import { type Duration, formatMs, toMs } from "./duration.ts";
import { HoldfastError, invalid } from "./errors.ts";
import { by, duration, optionsOf, passed, shownNumber, whole } from "./options.ts";

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

/** The default of the longest wait. */
const MAX_MS = 3_600_000;

/** The longest wait that a task may choose. */
const CHOSEN_MS_MAX = 366 * 86_400_000;

type GivenBackoff = NonNullable<RetryOptions["backoff"]>;

const exponentialOptions = optionsOf<Exclude<GivenBackoff, Backoff>>()({
  initial: duration({}, "1s"),
  max: passed<Duration>(),
  factor: by(checkFactor, 2),
});

const retryOptions = optionsOf<RetryOptions>()({
  maxAttempts: whole(1, ATTEMPTS_MAX, 3),
  backoff: by(backoffOf, {}),
  maxSnoozes: whole(0, 100_000, 1_000),
});

export function retryPolicy(options: RetryOptions = {}): RetryPolicy {
  const around = { field: "retry", example: "{ maxAttempts: 5 }" };
  const { backoff, ...limits } = retryOptions.read(options, around);
  return { ...limits, ...backoff };
}

function backoffOf(field: string, given: GivenBackoff) {
  const delay = typeof given === "function" ? given : null;
  const exponential = typeof given === "function" ? {} : given;
  const around = { field, example: '{ initial: "1s" }' };
  const { initialMs, max, factor } = exponentialOptions.read(exponential, around);
  // A long initial wait without a `max` asks for long waits, not a mistake.
  const longest = max ?? Math.max(MAX_MS, initialMs);
  return { delay, initialMs, factor, maxMs: toMs(`${field}.max`, longest, { min: initialMs }) };
}

function checkFactor(field: string, factor: number): number {
  if (typeof factor === "number" && factor >= 1 && factor <= FACTOR_MAX) return factor;
  throw invalid(field, `must be a number from 1 to ${FACTOR_MAX}, not ${shownNumber(factor)}.`);
}

/** Of tasks that declare none, and of tasks that only their name is known of. */
export const DEFAULT_RETRY = retryPolicy();

/** The wait that a task chose, in whole milliseconds. Refuses what is no duration, or too long. */
export function chosenMs(field: string, chosen: Duration): number {
  return toMs(field, chosen, { max: CHOSEN_MS_MAX });
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
