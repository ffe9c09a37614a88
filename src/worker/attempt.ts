/**
 * One try at one job: runs the task and says what became of it, exactly once.
 *
 * A task that throws is an outcome like any other. The attempt also ends when its time is over, when the worker shuts
 * down, or when the task threw where nobody could catch it; what the function does after that is ignored here and
 * refused by the fence.
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

/** A renewal that takes longer than this is not waited for. */
const REST_MS_MAX = 300;

/** After its signal aborted, a task has this long to end by itself before it is left alone. */
export const ABORT_GRACE_MS = 2_000;

/** Whoever has attempts run is told of each. */
export interface AttemptOwner {
  ended(attempt: Attempt, outcome: Outcome): void;
  /** An error came when the attempt had ended already. */
  stray(attempt: Attempt, error: unknown): void;
  /** Its lease is not renewed from now on. Resolves when no renewal of it is under way. */
  stopRenewing(attempt: Attempt): Promise<void>;
  renewAgain(attempt: Attempt): void;
  /** Gives the attempt up when its lease cannot be trusted any more. */
  checkLease(attempt: Attempt): void;
}

export class Attempt {
  readonly job: ClaimedJob;
  readonly task: Task;
  /** Until when, on the monotonic clock, the lease is ours for certain. */
  trustedUntil: number;
  startedAt = 0;
  /** From its start to its end. */
  ranMs = 0;
  /** Set once, when the job turned out to be somebody else's. */
  lost = false;
  /** It has completed its job in a transaction of the user's: what became of it has to be looked up. */
  completed = false;
  /** Effects that an operator has to decide about before its job goes on. */
  readonly inDoubt: StepName[] = [];
  error: unknown = null;
  /** Its lease ended because the database did not answer: that is reported, and counts as no crash. */
  isOutage = false;
  /** Its lease could be trusted when it ended. */
  endedInTime = false;
  /** Where the application traces. */
  readonly span: OpenSpan | null;
  readonly client: Context["holdfast"];
  readonly #runtime: Runtime;
  readonly #store: AttemptStore;
  readonly #newId: () => string;
  readonly #owner: AttemptOwner;
  #steps: Steps | null = null;
  #reports: ReportBuffer | null = null;
  /** Made when it is asked for: most tasks never look at their signal, and it is the dearest part of an attempt. */
  #controller: AbortController | null = null;
  #timer: Timer | null = null;
  #ended = false;

  constructor(parts: {
    job: ClaimedJob;
    task: Task;
    trustedUntil: number;
    runtime: Runtime;
    store: AttemptStore;
    newId: () => string;
    client: Context["holdfast"];
    owner: AttemptOwner;
    span?: OpenSpan | null;
  }) {
    this.job = parts.job;
    this.span = parts.span ?? null;
    this.task = parts.task;
    this.client = parts.client;
    this.trustedUntil = parts.trustedUntil;
    this.#runtime = parts.runtime;
    this.#store = parts.store;
    this.#newId = parts.newId;
    this.#owner = parts.owner;
  }

  /** What it keeps: most tasks keep nothing. */
  get steps(): Steps {
    this.#steps ??= new Steps({
      store: this.#store,
      newId: this.#newId,
      fence: this.fence,
      matching: this.task.steps,
      signal: () => this.signal,
      checkLease: () => this.#owner.checkLease(this),
      runtime: this.#runtime,
      recordsOf,
      span: this.span,
      onEffectInDoubt: (step) => this.inDoubt.push(step),
      suspend: (delayMs, waits) => this.#suspend(delayMs, waits),
    });
    return this.#steps;
  }

  /** What it tells about itself: most tasks tell nothing. */
  get reports(): ReportBuffer {
    if (this.#reports === null) {
      const { fence } = this;
      this.#reports = new ReportBuffer({ store: this.#store, runtime: this.#runtime, fence });
      // Its function goes on after its end, and is not heard.
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
    this.startedAt = this.#runtime.monotonic();
    const { timeoutMs } = this.task;
    if (timeoutMs !== null) {
      const timeout = new JobTimeoutError({ id: this.job.id, timeoutMs });
      this.#timer = this.#runtime.timer(timeoutMs, () => this.abort(timeout));
    }
    void this.#run().then((outcome) => {
      if (this.#steps === null) this.#end(outcome);
      // What the function left under way is finished first: the next attempt must not begin beside it.
      else void this.#steps.idle().then(() => this.#end(outcome));
    });
  }

  /** Asks the task to stop; if it does not, the attempt ends without it after a grace. */
  abort(reason: Error): void {
    if (this.#ended || this.#isAborted) return;
    // The task's listeners run here, called by a loop of ours: what they throw must be traced to the task.
    traced(this, () => this.#control().abort(reason));
    this.#timer?.cancel();
    this.#timer = this.#runtime.timer(ABORT_GRACE_MS, () => this.fail(reason));
  }

  /** Ends the attempt as failed, whatever the task is doing: it threw where only the process could catch it. */
  fail(error: unknown): void {
    if (this.#ended) return this.#owner.stray(this, error);
    // Before the signal aborts: a reason that is undefined would become an AbortError there.
    const outcome = this.#afterFailure(error);
    if (!this.#isAborted) this.#control().abort(error);
    this.#end(outcome);
  }

  /**
   * The lease is gone when the user's transaction is committed, and locked until then: whoever renewed it meanwhile would
   * wait, or take it for lost.
   */
  async complete<T>(tx: unknown, result: T): Promise<T> {
    const encoded = encodeReturned(result, RESULT, () => ({
      what: `result of task '${this.task.name}'`,
      consequence: "The job is not completed.",
    }));
    await this.steps.complete(async () => {
      this.completed = true;
      try {
        await unlessAborted(this.signal, () => this.#stopRenewing());
        const { db, jobs, reports } = this.#store;
        await db.inUserTransaction(tx, async (joined) => {
          await this.#reports?.handOver((last) => reports.in(joined).put(this.fence, last));
          await jobs.in(joined).complete(this.fence, encoded);
        });
      } catch (error) {
        this.completed = false;
        this.#reports?.goOn();
        this.#owner.renewAgain(this);
        throw error;
      }
    });
    return result;
  }

  /** A renewal under way may wait for the very transaction that we are called in: then the fence has to decide. */
  async #stopRenewing(): Promise<void> {
    const stopped = this.#owner.stopRenewing(this);
    await Promise.race([stopped, sleep(this.#runtime, REST_MS_MAX, { kind: "background" })]);
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
      if (parsed instanceof Promise) this.#owner.checkLease(this);
      if (this.#isAborted) this.signal.throwIfAborted();
      const result = await this.task.run(input as never, new AttemptContext(this));
      // What it gave to complete() counts, if that was committed.
      if (this.completed) return this.#afterFailure(new NotCommittedError(this.job));
      // After its time a result is too late. After any other abort it counts, if the fence lets it.
      if (this.#isAborted && this.signal.reason instanceof JobTimeoutError) {
        return this.#afterFailure(this.signal.reason);
      }
      return { kind: "done", result: this.#encoded(result) };
    } catch (error) {
      return this.#afterFailure(error);
    }
  }

  #encoded(result: unknown): string | null {
    return encodeReturned(result, RESULT, () => ({
      what: `result of task '${this.task.name}'`,
      consequence: "The work was done and is not repeated.",
    }));
  }

  /** Why the signal aborted says more than what the task threw because of it. */
  #afterFailure(thrown: unknown): Outcome {
    const reason: unknown = this.#isAborted ? this.signal.reason : thrown;
    this.error = reason;
    const ours = asOurs(reason);
    // An offer that the fence may refuse. A lost lease is charged below: its task ran, and may lose it every time.
    if (ours instanceof ShuttingDownError || ours instanceof WorkerEvictedError)
      return { kind: "released" };
    if (ours instanceof JobCancelledError) return { kind: "cancelled", error: null };
    const error = encodeError(reason);
    if (isHopeless(ours) || this.job.attempt >= this.job.maxAttempts) {
      return { kind: "failed", error };
    }
    const delayMs = backoffMs(this.task.retry, this.job.attempt, this.#runtime.random());
    return { kind: "retry", delayMs, error };
  }

  /** Its function is left where it stands. */
  #suspend(delayMs: number | null, waits: readonly Wait[]): void {
    if (this.#ended || this.#isAborted) return;
    this.#end({ kind: "suspended", delayMs, ...(waits.length === 0 ? {} : { waits }) });
    traced(this, () => this.#controller?.abort(new SuspendedError()));
  }

  #end(outcome: Outcome): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#timer?.cancel();
    if (this.#reports === null) return this.#owner.ended(this, outcome);
    // Its last words come before its end: once it is settled, nobody may write about it.
    void this.#reports.close().then(() => this.#owner.ended(this, outcome));
  }
}

/** Even asking what was thrown for its class may throw: it can be a proxy. */
function asOurs(reason: unknown): HoldfastError | null {
  try {
    return reason instanceof HoldfastError ? reason : null;
  } catch {
    return null;
  }
}

/**
 * The same input meets the same schema next time, and a task whose result cannot be stored has done its work already:
 * trying again would only do it twice.
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
