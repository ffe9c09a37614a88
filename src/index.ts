/**
 * Holdfast: durable jobs in the SQL database you already have.
 *
 * What an application imports every day. The rest has entries of its own: `holdfast/workflows`, `holdfast/flows`,
 * `holdfast/schedules`, `holdfast/locks`, `holdfast/ops`, `holdfast/dashboard` and `holdfast/testing`. Errors without a
 * class here or there are recognised by their `code`.
 */

export {
  openHoldfast,
  type Holdfast,
  type HoldfastOptions,
  type TaskClient,
} from "./app/holdfast.ts";
export { defineConfig, type HoldfastConfig } from "./app/settings.ts";
export type { Within } from "./app/user-transaction.ts";
export type { Duration } from "./core/duration.ts";
export {
  GiveUpError,
  HoldfastError,
  InvalidArgumentError,
  JobCancelledError,
  JobFailedError,
  JobNotFoundError,
  KeyTakenError,
  LeaseLostError,
  ResultTimeoutError,
  StoreUnavailableError,
  WorkerRefusedError,
} from "./core/errors.ts";
export { defineEvent, type EventType } from "./core/event.ts";
export type { Status } from "./core/job.ts";
export type { Logger } from "./core/log.ts";
export { RetryIn, Snooze, type RetryOptions } from "./core/retry.ts";
export {
  defineTask,
  type AnyTask,
  type Context,
  type Effect,
  type InputOf,
  type ResultOf,
  type Task,
  type TaskOptions,
  type UserTransaction,
} from "./core/task.ts";
export type { DatabaseLocation } from "./database/open.ts";
export type { EnqueueOptions, TaskCall } from "./jobs/enqueue.ts";
export type { Job, JobView } from "./jobs/jobs.ts";
export { NotDoneError } from "./steps/errors.ts";
export { traceOf } from "./tracing/tracing.ts";
export type { RunHook } from "./worker/events.ts";
export type { WorkerOptions } from "./worker/options.ts";
export type { Worker } from "./worker/worker.ts";
