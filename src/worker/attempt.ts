/**
 * One attempt at one job: runs the task and reports its outcome, exactly once.
 *
 * A task that throws is an outcome like any other. The attempt also ends at its timeout, when the worker shuts down, or when
 * the task threw an uncaught error. What the function does after that is ignored here and refused by the fence.
 */
import type { Duration } from "../core/duration.ts";
import { encodeError } from "../core/error-record.ts";
import {
  GiveUpError,
  HoldfastError,
  InputRejectedError,
  JobCancelledError,
  JobTimeoutError,
  ShuttingDownError,
  WorkerEvictedError,
} from "../core/errors.ts";
import type { EventType } from "../core/event.ts";
import { type Fence, type Outcome, traceId, type Wait } from "../core/job.ts";
import { decode, encodeReturned, RESULT } from "../core/json.ts";
import type { Progress } from "../core/report.ts";
import { backoffMs } from "../core/retry.ts";
import { type Runtime, sleep, type Timer } from "../core/runtime.ts";
import {
  type CallOptions,
  type Context,
  type Effect,
  type Found,
  parseInput,
  type StepName,
  type Task,
  type UserTransaction,
} from "../core/task.ts";
import { NotSerializableError, TooLargeError } from "../core/value-errors.ts";
import { unlessAborted } from "../core/wait.ts";
import type { Database } from "../database/database.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { ClaimedJob } from "../jobs/store.ts";
import { ReportBuffer } from "../reports/buffer.ts";
import type { ReportsStore } from "../reports/store.ts";
import { Steps } from "../steps/context.ts";
import {
  CallFailedError,
  NotCommittedError,
  StepsChangedError,
  SuspendedError,
} from "../steps/errors.ts";
import type { StepsStore } from "../steps/store.ts";
import type { OpenSpan } from "../tracing/spans.ts";
import { recordsOf } from "../workflows/workflows.ts";
import { traced } from "./uncaught.ts";

/** The parts of the store that an attempt uses. */
export interface AttemptStore {
  readonly db: Database;
  readonly jobs: JobsStore;
  readonly reports: ReportsStore;
  readonly steps: StepsStore;
}

/** How long to wait for a renewal in progress. */
const RENEWAL_WAIT_MS_MAX = 300;

/** After its signal aborted, a task has this long to end before it is abandoned. */
export const ABORT_GRACE_MS = 2_000;

export interface AttemptOwner {
  ended(attempt: Attempt, outcome: Outcome): void;
  /** The task threw after the attempt had ended. */
  stray(attempt: Attempt, error: unknown): void;
  /** Stops renewing its lease. Resolves when no renewal of it is in progress. */
  stopRenewing(attempt: Attempt): Promise<void>;
  renewAgain(attempt: Attempt): void;
  /** Gives the attempt up when its lease is no longer trusted. */
  checkLease(attempt: Attempt): void;
}

interface AttemptParts {
  readonly job: ClaimedJob;
  readonly task: Task;
  readonly trustedUntil: number;
  readonly runtime: Runtime;
  readonly store: AttemptStore;
  readonly newId: () => string;
  readonly client: Context["holdfast"];
  readonly owner: AttemptOwner;
  /** Null without tracing. */
  readonly span?: OpenSpan | null;
}

export class Attempt {
  readonly job: ClaimedJob;
  readonly task: Task;
  readonly client: Context["holdfast"];
  readonly span: OpenSpan | null;
  /** Until when, on the monotonic clock, the lease is certainly ours. */
  trustedUntil: number;
  startedAt = 0;
  ranMs = 0;
  /** Set once, when another worker turned out to own the job. */
  lost = false;
  /** It completed its job in a transaction of the user's: whether that was committed has to be looked up. */
  completed = false;
  /** Effects that an operator has to resolve before the job continues. */
  readonly inDoubt: StepName[] = [];
  error: unknown = null;
  /** Its lease expired because the database did not answer: this does not count as a crash. */
  isOutage = false;
  /** Its lease was still trusted when it ended. */
  endedInTime = false;
  readonly #parts: AttemptParts;
  #steps: Steps | null = null;
  #reports: ReportBuffer | null = null;
  /** Created on demand: most tasks never use their signal, and it is the most expensive part of an attempt. */
  #controller: AbortController | null = null;
  #timer: Timer | null = null;
  #ended = false;

  constructor(parts: AttemptParts) {
    this.#parts = parts;
    this.job = parts.job;
    this.task = parts.task;
    this.client = parts.client;
    this.span = parts.span ?? null;
    this.trustedUntil = parts.trustedUntil;
  }

  /** Created on demand: most tasks have no steps. */
  get steps(): Steps {
    this.#steps ??= new Steps({
      ...this.#parts,
      fence: this.fence,
      matching: this.task.steps,
      signal: () => this.signal,
      checkLease: () => this.#parts.owner.checkLease(this),
      recordsOf,
      span: this.span,
      onEffectInDoubt: (step) => this.inDoubt.push(step),
      suspend: (delayMs, waits) => this.#suspend(delayMs, waits),
    });
    return this.#steps;
  }

  /** Created on demand: most tasks report nothing. */
  get reports(): ReportBuffer {
    if (this.#reports === null) {
      this.#reports = new ReportBuffer({ ...this.#parts, fence: this.fence });
      // The function continues after the attempt's end: its reports are ignored.
      if (this.#ended) void this.#reports.close();
    }
    return this.#reports;
  }

  get fence(): Fence {
    const { id, worker, epoch } = this.job;
    return { id, worker, epoch };
  }

  get signal(): AbortSignal {
    return this.#control().signal;
  }

  get #isAborted(): boolean {
    return this.#controller?.signal.aborted ?? false;
  }

  start(): void {
    const { runtime } = this.#parts;
    this.startedAt = runtime.monotonic();
    const { timeoutMs } = this.task;
    if (timeoutMs !== null) {
      const timeout = new JobTimeoutError({ id: this.job.id, timeoutMs });
      this.#timer = runtime.timer(timeoutMs, () => this.abort(timeout));
    }
    void this.#run().then((outcome) => {
      if (this.#steps === null) this.#end(outcome);
      // Steps in progress finish first: the next attempt must not begin while they run.
      else void this.#steps.idle().then(() => this.#end(outcome));
    });
  }

  /** Asks the task to stop; if it does not, the attempt ends after a grace period anyway. */
  abort(reason: Error): void {
    if (this.#ended || this.#isAborted) return;
    // The task's listeners run here, called by a loop of ours: their errors must be traced to the task.
    traced(this, () => this.#control().abort(reason));
    this.#timer?.cancel();
    this.#timer = this.#parts.runtime.timer(ABORT_GRACE_MS, () => this.fail(reason));
  }

  /** Ends the attempt as failed, even if the task still runs, for example after an uncaught error. */
  fail(error: unknown): void {
    if (this.#ended) return this.#parts.owner.stray(this, error);
    // Before the signal aborts: an undefined reason would become an AbortError there.
    const outcome = this.#afterFailure(error);
    if (!this.#isAborted) this.#control().abort(error);
    this.#end(outcome);
  }

  /**
   * The lease is locked until the user's transaction is committed, and gone afterwards: a renewal meanwhile would wait, or
   * report the lease as lost.
   */
  async complete<T>(tx: unknown, result: T): Promise<T> {
    const encoded = this.#encoded(result, "The job is not completed.");
    await this.steps.complete(async () => {
      this.completed = true;
      try {
        await unlessAborted(this.signal, () => this.#stopRenewing());
        const { db, jobs, reports } = this.#parts.store;
        await db.inUserTransaction(tx, async (joined) => {
          await this.#reports?.handOver((last) => reports.in(joined).put(this.fence, last));
          await jobs.in(joined).complete(this.fence, encoded);
        });
      } catch (error) {
        this.completed = false;
        this.#reports?.goOn();
        this.#parts.owner.renewAgain(this);
        throw error;
      }
    });
    return result;
  }

  /** A renewal in progress may wait for the transaction that we are called in: then the fence decides. */
  async #stopRenewing(): Promise<void> {
    const { owner, runtime } = this.#parts;
    const timeout = sleep(runtime, RENEWAL_WAIT_MS_MAX, { kind: "background" });
    await Promise.race([owner.stopRenewing(this), timeout]);
  }

  #control(): AbortController {
    this.#controller ??= new AbortController();
    return this.#controller;
  }

  async #run(): Promise<Outcome> {
    try {
      const parsed = parseInput(this.task, decode(this.job.payload));
      const input: unknown = parsed instanceof Promise ? await parsed : parsed;
      // A slow schema may have outlived the lease, and another worker may own the job: do not begin.
      if (parsed instanceof Promise) this.#parts.owner.checkLease(this);
      if (this.#isAborted) this.signal.throwIfAborted();
      const result = await this.task.run(input as never, new AttemptContext(this));
      // The result given to complete() counts, if that was committed.
      if (this.completed) return this.#afterFailure(new NotCommittedError(this.job));
      // After the timeout a result is too late. After any other abort it counts, if the fence accepts it.
      if (this.#isAborted && this.signal.reason instanceof JobTimeoutError) {
        return this.#afterFailure(this.signal.reason);
      }
      return {
        kind: "done",
        result: this.#encoded(result, "The work was done and is not repeated."),
      };
    } catch (error) {
      return this.#afterFailure(error);
    }
  }

  #encoded(result: unknown, consequence: string): string | null {
    const { name } = this.task;
    return encodeReturned(result, RESULT, () => ({
      what: `result of task '${name}'`,
      consequence,
    }));
  }

  /** The reason of an aborted signal is more informative than the error that the task threw because of it. */
  #afterFailure(thrown: unknown): Outcome {
    const reason: unknown = this.#isAborted ? this.signal.reason : thrown;
    this.error = reason;
    const ours = asOurs(reason);
    // The fence may refuse a release. A lost lease is charged below: the task ran, and may lose its lease every time.
    if (ours instanceof ShuttingDownError || ours instanceof WorkerEvictedError)
      return { kind: "released" };
    if (ours instanceof JobCancelledError) return { kind: "cancelled", error: null };
    const error = encodeError(reason);
    if (isHopeless(ours) || this.job.attempt >= this.job.maxAttempts) {
      return { kind: "failed", error };
    }
    const delayMs = backoffMs(this.task.retry, this.job.attempt, this.#parts.runtime.random());
    return { kind: "retry", delayMs, error };
  }

  /** Abandons its function at the pause. */
  #suspend(delayMs: number | null, waits: readonly Wait[]): void {
    if (this.#ended || this.#isAborted) return;
    this.#end({ kind: "suspended", delayMs, ...(waits.length === 0 ? {} : { waits }) });
    traced(this, () => this.#controller?.abort(new SuspendedError()));
  }

  #end(outcome: Outcome): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#timer?.cancel();
    const { owner } = this.#parts;
    if (this.#reports === null) return owner.ended(this, outcome);
    // Its last reports come before its end: a settled job accepts none.
    void this.#reports.close().then(() => owner.ended(this, outcome));
  }
}

/** Even `instanceof` may throw: the thrown value can be a proxy. */
function asOurs(reason: unknown): HoldfastError | null {
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

class AttemptContext implements Context {
  readonly #attempt: Attempt;

  constructor(attempt: Attempt) {
    this.#attempt = attempt;
  }

  get id(): string {
    return this.#attempt.job.id;
  }
  get task(): string {
    return this.#attempt.job.task;
  }
  get queue(): string {
    return this.#attempt.job.queue;
  }
  get attempt(): number {
    return this.#attempt.job.attempt;
  }
  get maxAttempts(): number {
    return this.#attempt.job.maxAttempts;
  }
  get signal(): AbortSignal {
    return this.#attempt.signal;
  }
  get fence(): Fence {
    return this.#attempt.fence;
  }
  get traceId(): string {
    return traceId(this.#attempt.job);
  }
  get idempotencyKey(): string {
    return this.#attempt.job.id;
  }
  get holdfast(): Context["holdfast"] {
    return this.#attempt.client;
  }

  step<T>(name: string, body: () => T | Promise<T>): Promise<T> {
    return this.#attempt.steps.step(name, body);
  }
  effect<T>(
    name: string,
    act: (effect: Effect) => T | Promise<T>,
    options?: { readonly verify?: (effect: Effect) => Found<T> | Promise<Found<T>> },
  ): Promise<T> {
    return this.#attempt.steps.effect(name, act, options);
  }
  commit(name: string, body: (tx: UserTransaction) => unknown): Promise<never> {
    return this.#attempt.steps.commit(name, body) as Promise<never>;
  }
  complete<T>(tx: unknown, result: T): Promise<T> {
    return this.#attempt.complete(tx, result);
  }
  sleep(name: string, duration: Duration): Promise<void> {
    return this.#attempt.steps.sleep(name, duration);
  }
  event<Payload>(
    event: EventType<Payload>,
    key: string,
    options?: { readonly timeout?: Duration },
  ): Promise<Payload> {
    return this.#attempt.steps.event(event, key, options);
  }
  call<Input, Result>(
    task: Task<Input, Result>,
    input: Input,
    options?: CallOptions,
  ): Promise<Result> {
    return this.#attempt.steps.call(task, input, options);
  }

  progress(value: Progress, text?: string): void {
    this.#attempt.reports.progress(value, text);
  }
  log(text: string, data?: unknown): void {
    this.#attempt.reports.log(text, data);
  }
  report(name: string, data?: unknown): void {
    this.#attempt.reports.report(name, data);
  }
}
