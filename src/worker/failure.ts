/** What follows a failed attempt: another one, and when, or the end of the job. */
import { AsyncLocalStorage } from "node:async_hooks";
import { encodeError, type FailedStep } from "../core/error-record.ts";
import {
  GiveUpError,
  HoldfastError,
  InputRejectedError,
  JobCancelledError,
  ResultNotStoredError,
  ShuttingDownError,
  WorkerEvictedError,
} from "../core/errors.ts";
import type { Outcome } from "../core/job.ts";
import { NotSerializableError, TooLargeError } from "../core/json.ts";
import { backoffMs, chosenMs, RetryIn, type RetryPolicy } from "../core/retry.ts";
import { CallFailedError, StepsChangedError } from "../steps/errors.ts";

interface Failed {
  readonly job: { readonly attempt: number; readonly maxAttempts: number };
  readonly retry: RetryPolicy;
  /** The step that failed; null: none did. */
  readonly step: FailedStep | null;
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
  const error = encodeError(reason, failed.step);
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
 * A retry would fail at the same schema with the same input, and would not find the result of another job that has none. A
 * step whose result cannot be stored has done its work, and a retry would do it twice.
 */
function isHopeless(reason: HoldfastError | null): boolean {
  return (
    reason instanceof GiveUpError ||
    reason instanceof StepsChangedError ||
    reason instanceof CallFailedError ||
    reason instanceof InputRejectedError ||
    reason instanceof NotSerializableError ||
    reason instanceof ResultNotStoredError ||
    reason instanceof TooLargeError
  );
}

// Uncaught errors of a task: in a timer, in an emitter, in a promise without a handler.
//
// Node would end the process, and every other job with it. Each attempt runs in its own async context, so the error can be
// traced to the attempt, and fails only that job. Errors that belong to no attempt go to the application's own listeners, or
// end the process as usual.

/** The part of an attempt that is used here. */
interface Traced {
  fail(error: unknown): void;
}

const running = new AsyncLocalStorage<Traced>();

let guards = 0;

export function runTraced(attempt: Traced & { start(): void }): void {
  traced(attempt, () => attempt.start());
}

/** Everything that the call starts is traced to this attempt. */
export function traced(attempt: Traced, call: () => void): void {
  running.run(attempt, call);
}

/** Whether an attempt started the code that is running now. */
export function belongsToAttempt(): boolean {
  return running.getStore() !== undefined;
}

/** Catches for as long as any worker of this process runs. Returns the function that ends it. */
export function guardProcess(): () => void {
  guards += 1;
  if (guards === 1) {
    process.on("uncaughtExceptionMonitor", onMonitor);
    process.on("uncaughtException", onException);
    process.on("unhandledRejection", onRejection);
  }
  return () => {
    guards -= 1;
    if (guards > 0) return;
    process.off("uncaughtExceptionMonitor", onMonitor);
    process.off("uncaughtException", onException);
    process.off("unhandledRejection", onRejection);
  };
}

/**
 * Node calls this before it looks for listeners. Without ours it ends the process as usual and shows the line that threw; an
 * error that we rethrew would show our line.
 */
function onMonitor(): void {
  if (belongsToAttempt() || process.listenerCount("uncaughtException") > 1) return;
  process.off("uncaughtException", onException);
}

/** Errors without an attempt are for the application's own listeners; without any, this one was removed. */
function onException(error: Error): void {
  running.getStore()?.fail(error);
}

function onRejection(reason: unknown): void {
  const attempt = running.getStore();
  if (attempt !== undefined) return attempt.fail(reason);
  if (process.listenerCount("unhandledRejection") > 1) return;
  // As in Node: a rejection without a listener becomes an exception, which may have one.
  if (process.listenerCount("uncaughtException") === 1) return endAsUsual(reason);
  const error = reason instanceof Error ? reason : new Error(String(reason), { cause: reason });
  const emitter: NodeJS.EventEmitter = process;
  emitter.emit("uncaughtException", error, "unhandledRejection");
}

/** Without our listener the same rejection ends the process with Node's usual message and exit code. */
function endAsUsual(reason: unknown): void {
  process.off("unhandledRejection", onRejection);
  // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- it is whatever was rejected with
  void Promise.reject(reason);
}
