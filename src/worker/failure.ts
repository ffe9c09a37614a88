/** What follows a failed attempt: another one, and when, or the end of the job. */
import { encodeError } from "../core/error-record.ts";
import {
  GiveUpError,
  HoldfastError,
  InputRejectedError,
  JobCancelledError,
  ShuttingDownError,
  WorkerEvictedError,
} from "../core/errors.ts";
import type { Outcome } from "../core/job.ts";
import { backoffMs, chosenMs, RetryIn, type RetryPolicy } from "../core/retry.ts";
import { NotSerializableError, TooLargeError } from "../core/value-errors.ts";
import { CallFailedError, StepsChangedError } from "../steps/errors.ts";

interface Failed {
  readonly job: { readonly attempt: number; readonly maxAttempts: number };
  readonly retry: RetryPolicy;
  /** Uniform in [0, 1). */
  readonly random: number;
  /** The back-off function of the task threw, or returned no duration. */
  readonly onBadBackoff: (error: unknown) => void;
}

export function outcomeOf(reason: unknown, failed: Failed): Outcome {
  const { attempt, maxAttempts } = failed.job;
  const ours = asOurs(reason);
  // The fence may refuse a release. A lost lease is charged below: the task ran, and may lose its lease every time.
  if (ours instanceof ShuttingDownError || ours instanceof WorkerEvictedError)
    return { kind: "released" };
  if (ours instanceof JobCancelledError) return { kind: "cancelled", error: null };
  const error = encodeError(reason);
  if (isHopeless(ours) || attempt >= maxAttempts) return { kind: "failed", error };
  const delayMs = ours instanceof RetryIn ? ours.delayMs : delayAfter(reason, failed);
  return { kind: "retry", delayMs, error };
}

/** A mistake in the back-off function of a task must not change the outcome. */
function delayAfter(error: unknown, { job, retry, random, onBadBackoff }: Failed): number {
  const { attempt } = job;
  if (typeof retry.delay === "function") {
    try {
      return chosenMs("retry.backoff", retry.delay({ attempt, error }));
    } catch (bad) {
      onBadBackoff(bad);
    }
  }
  return backoffMs(retry, attempt, random);
}

/** Even `instanceof` may throw: the thrown value can be a proxy. */
export function asOurs(reason: unknown): HoldfastError | null {
  try {
    return reason instanceof HoldfastError ? reason : null;
  } catch {
    return null;
  }
}

/**
 * A retry would fail at the same schema with the same input. A task whose result cannot be stored has done its work, and a
 * retry would do it twice.
 */
function isHopeless(reason: HoldfastError | null): boolean {
  return (
    reason instanceof GiveUpError ||
    reason instanceof StepsChangedError ||
    reason instanceof CallFailedError ||
    reason instanceof InputRejectedError ||
    reason instanceof NotSerializableError ||
    reason instanceof TooLargeError
  );
}
