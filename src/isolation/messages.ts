/**
 * What a worker and the thread or process of an isolated task say to each other.
 *
 * Values cross as the JSON texts that are stored anyway. Functions do not cross: the child names them by a number, and the
 * worker asks it to call them. So every write is made by the worker, under the fence.
 */
import { describeError, type ErrorRecord } from "../core/error-record.ts";
import {
  GiveUpError,
  HoldfastError,
  InputRejectedError,
  InvalidArgumentError,
  IsolationError,
  JobCancelledError,
  JobTimeoutError,
  LeaseLostError,
  ResultNotStoredError,
  ShuttingDownError,
  WorkerEvictedError,
} from "../core/errors.ts";
import { NotSerializableError, TooLargeError } from "../core/json.ts";
import { RetryIn, Snooze } from "../core/retry.ts";
import type { DependencyView } from "../flows/results.ts";
import {
  CallFailedError,
  EventTimeoutError,
  NotDoneError,
  StepsChangedError,
} from "../steps/errors.ts";

/** A pipe on which a process says that it is not frozen. Its contents mean nothing. */
export const HEARTBEAT_FD = 4;

/** The job that a child runs. */
export interface IsolatedJob {
  readonly id: string;
  readonly task: string;
  readonly queue: string;
  readonly worker: string;
  readonly epoch: number;
  readonly attempt: number;
  readonly maxAttempts: number;
  /** A JSON text. */
  readonly payload: string;
}

/** A call of a method of `ctx`. `functions` are the numbers of the functions among its arguments. */
export interface ContextCall {
  readonly call: number;
  readonly method:
    | "step"
    | "effect"
    | "commit"
    | "sleep"
    | "event"
    | "call"
    | "query"
    | "results"
    | "dependencies";
  readonly args: readonly unknown[];
  readonly functions: readonly (number | null)[];
}

/** Some of the jobs that a job waited for. */
export interface DependenciesRead {
  readonly values: readonly DependencyView[];
  readonly isOver: boolean;
}

/** `run` counts the jobs of a child: messages about an earlier one are ignored. */
export type ToChild =
  | {
      readonly kind: "run";
      readonly run: number;
      readonly module: string;
      readonly job: IsolatedJob;
    }
  | { readonly kind: "abort"; readonly run: number; readonly reason: SentError }
  | { readonly kind: "over"; readonly run: number }
  /** Calls a function of the task. */
  | {
      readonly kind: "invoke";
      readonly run: number;
      readonly invoke: number;
      readonly function: number;
      readonly arg: unknown;
    }
  | {
      readonly kind: "answer";
      readonly run: number;
      readonly call: number;
      readonly value?: unknown;
      readonly error?: SentError;
      /** It is the error that the task's own function threw. */
      readonly isTheirs?: boolean;
    }
  /** Answered when the task had a chance to continue. */
  | { readonly kind: "turn"; readonly run: number; readonly turn: number };

export type FromChild =
  | { readonly kind: "started"; readonly run: number }
  /** Calls that the task made at once: their order counts. */
  | { readonly kind: "calls"; readonly run: number; readonly calls: readonly ContextCall[] }
  | {
      readonly kind: "invoked";
      readonly run: number;
      readonly invoke: number;
      /** A JSON text; null: undefined. */
      readonly value?: string | null;
      readonly error?: SentError;
    }
  | {
      readonly kind: "say";
      readonly run: number;
      readonly method: "progress" | "log" | "report";
      readonly args: readonly unknown[];
    }
  | { readonly kind: "turned"; readonly run: number; readonly turn: number }
  | {
      readonly kind: "done";
      readonly run: number;
      readonly result: string | null;
      /** Why the result cannot be stored. */
      readonly problem: string | null;
    }
  | {
      readonly kind: "failed";
      readonly run: number;
      readonly error: SentError;
      /** Nothing caught it, so the child may be in any state. */
      readonly isUncaught?: boolean;
    };

/** An error on its way. Of our own, the class and the facts arrive too. */
export interface SentError {
  readonly record: ErrorRecord;
  readonly facts: Readonly<Record<string, unknown>> | null;
}

type Class = { readonly prototype: HoldfastError };

/** The errors that a task, or the worker, tells apart by class. */
const CLASSES: ReadonlyMap<string, Class> = new Map<string, Class>([
  ["CALL_FAILED", CallFailedError],
  ["EVENT_TIMEOUT", EventTimeoutError],
  ["GIVE_UP", GiveUpError],
  ["INPUT_REJECTED", InputRejectedError],
  ["INVALID_ARGUMENT", InvalidArgumentError],
  ["ISOLATION", IsolationError],
  ["JOB_CANCELLED", JobCancelledError],
  ["JOB_TIMEOUT", JobTimeoutError],
  ["LEASE_LOST", LeaseLostError],
  ["NOT_DONE", NotDoneError],
  ["NOT_SERIALIZABLE", NotSerializableError],
  ["RESULT_NOT_STORED", ResultNotStoredError],
  ["RETRY_IN", RetryIn],
  ["SHUTTING_DOWN", ShuttingDownError],
  ["SNOOZED", Snooze],
  ["STEPS_CHANGED", StepsChangedError],
  ["TOO_LARGE", TooLargeError],
  ["WORKER_EVICTED", WorkerEvictedError],
]);

export function sendError(error: unknown): SentError {
  return { record: describeError(error), facts: factsOf(error) };
}

/** The plain fields of an error of ours; null: it is another's. Never throws: it may be a proxy. */
function factsOf(error: unknown): Record<string, unknown> | null {
  try {
    if (!(error instanceof HoldfastError)) return null;
    const facts = Object.entries(error).filter(([, value]) => typeof value !== "object");
    return Object.fromEntries(facts.filter(([, value]) => typeof value !== "function"));
  } catch {
    return null;
  }
}

export function receiveError({ record, facts }: SentError): Error {
  const { name, message, code, stack, cause } = record;
  const error =
    facts === null ? new Error(message, { cause }) : new HoldfastError(code ?? "", message, cause);
  const found = facts === null ? undefined : CLASSES.get(code ?? "");
  if (found !== undefined) Object.setPrototypeOf(error, found.prototype);
  // The stack of where it was thrown, not of where it arrived.
  Object.defineProperty(error, "stack", { value: stack ?? `${name}: ${message}`, writable: true });
  return Object.assign(error, facts ?? (code === undefined ? {} : { code }), { name });
}

/** Marks the thread or process of an isolated task, for every copy of the library in it. */
const MARK = Symbol.for("holdfast.isolated");

export function markIsolated(): void {
  Object.defineProperty(globalThis, MARK, { value: true });
}

/** A module that starts a worker when it is imported would start one in every child. */
export function isIsolated(): boolean {
  return MARK in globalThis;
}
