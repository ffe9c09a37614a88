/**
 * One attempt at one job: runs the task and reports its outcome, exactly once.
 *
 * A task that throws is an outcome like any other. The attempt also ends at its timeout, when the worker shuts down, or when
 * the task threw an uncaught error. What the function does after that is ignored here and refused by the fence.
 */
import type { Duration } from "../core/duration.ts";
import { encodeError } from "../core/error-record.ts";
import { parseInput } from "../core/input.ts";
import { JobTimeoutError, ResultNotStoredError } from "../core/errors.ts";
import type { EventType } from "../core/event.ts";
import type {
  AnyTask,
  CallOptions,
  Context,
  Effect,
  Found,
  StepName,
  Task,
  UserTransaction,
} from "../core/task.ts";
import { type Fence, type Outcome, traceId, type Wait } from "../core/job.ts";
import { decode, encodeResult, encodeReturned, RESULT } from "../core/json.ts";
import { type JobLog, logOf, type Progress } from "../core/report.ts";
import { RetryIn, Snooze, SnoozeLimitError } from "../core/retry.ts";
import { type Runtime, sleep, type Timer } from "../core/runtime.ts";
import { unlessAborted } from "../core/wait.ts";
import type { Database } from "../database/database.ts";
import type { Children } from "../isolation/children.ts";
import { IsolatedRun } from "../isolation/run.ts";
import { dependenciesOfJob, type DependencyView, resultsOf } from "../flows/results.ts";
import type { FlowsStore } from "../flows/store.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { ClaimedJob } from "../jobs/store.ts";
import { ReportBuffer } from "../reports/buffer.ts";
import type { ReportsStore } from "../reports/store.ts";
import { Steps } from "../steps/context.ts";
import { NotCommittedError, SuspendedError } from "../steps/errors.ts";
import type { StepsStore } from "../steps/store.ts";
import type { OpenSpan } from "../tracing/tracing.ts";
import { recordsOf } from "../workflows/workflows.ts";
import { asOurs, outcomeOf, traced } from "./failure.ts";
import { type RunHook, runWithHooks } from "./events.ts";

/** The parts of the store that an attempt uses. */
export interface AttemptStore {
  readonly db: Database;
  readonly jobs: JobsStore;
  readonly reports: ReportsStore;
  readonly steps: StepsStore;
  readonly flows: FlowsStore;
}

/** How long to wait for a renewal in progress. */
const RENEWAL_WAIT_MS_MAX = 300;

/** After its signal aborted, a task has this long to end before it is abandoned. */
export const ABORT_GRACE_MS = 2_000;

export interface AttemptOwner {
  ended(attempt: Attempt, outcome: Outcome): void;
  /** The task threw after the attempt had ended, or a hook after the task had succeeded. */
  stray(attempt: Attempt, error: unknown): void;
  /** The back-off function of the task threw, or returned no duration. */
  badBackoff?(attempt: Attempt, error: unknown): void;
  /** Stops renewing its lease. Resolves when no renewal of it is in progress. */
  stopRenewing(attempt: Attempt): Promise<void>;
  renewAgain(attempt: Attempt): void;
  /** Gives the attempt up when its lease is no longer trusted. */
  checkLease(attempt: Attempt): void;
}

/** What all attempts of a worker share. */
export interface AttemptParts {
  readonly runtime: Runtime;
  readonly store: AttemptStore;
  readonly newId: () => string;
  readonly client: Context["holdfast"];
  readonly owner: AttemptOwner;
  readonly hooks?: readonly RunHook[];
  /** The threads and processes of isolated tasks; without them they run here. */
  readonly children?: Children | null;
}

interface NewAttempt {
  readonly job: ClaimedJob;
  readonly task: Task;
  readonly trustedUntil: number;
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
  /** Why its result could not be stored. */
  resultError: ResultNotStoredError | null = null;
  /** Its lease expired because the database did not answer: this does not count as a crash. */
  isOutage = false;
  /** Its lease was still trusted when it ended. */
  endedInTime = false;
  readonly #parts: AttemptParts;
  #steps: Steps | null = null;
  #isolated: IsolatedRun | null = null;
  #snoozed: Snooze | null = null;
  #reports: ReportBuffer | null = null;
  /** Created on demand: most tasks never use their signal, and it is the most expensive part of an attempt. */
  #controller: AbortController | null = null;
  #timer: Timer | null = null;
  #ended = false;

  constructor(parts: AttemptParts, { job, task, trustedUntil, span = null }: NewAttempt) {
    this.#parts = parts;
    this.job = job;
    this.task = task;
    this.client = parts.client;
    this.span = span;
    this.trustedUntil = trustedUntil;
  }

  /** Created on demand: most tasks have no steps. */
  get steps(): Steps {
    this.#steps ??= new Steps({
      ...this.#parts,
      runtime: this.#runtimeOfSteps(),
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

  /** A task in another thread or process needs longer to continue after a step. */
  #runtimeOfSteps(): Runtime {
    const { runtime } = this.#parts;
    const isolated = this.#isolated;
    if (isolated === null) return runtime;
    return { ...runtime, afterIo: (call) => isolated.afterTurn(call) };
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

  /** Whether it runs in a thread or process of its own. */
  get #isApart(): boolean {
    return (this.#parts.children ?? null) !== null && (this.task.isolation ?? null) !== null;
  }

  get flows(): FlowsStore {
    return this.#parts.store.flows;
  }

  get #isAborted(): boolean {
    return this.#controller?.signal.aborted ?? false;
  }

  start(): void {
    const { runtime } = this.#parts;
    this.startedAt = runtime.monotonic();
    if (!this.#isApart) this.#startTimeout();
    void this.#run().then((outcome) => {
      if (this.#steps === null) this.#end(outcome);
      // Steps in progress finish first: the next attempt must not begin while they run.
      else void this.#steps.idle().then(() => this.#end(outcome));
    });
  }

  /** The start of a thread or process does not count. */
  #startTimeout(): void {
    const { timeoutMs } = this.task;
    if (timeoutMs === null || this.#ended || this.#isAborted) return;
    const timeout = new JobTimeoutError({ id: this.job.id, timeoutMs });
    this.#timer = this.#parts.runtime.timer(timeoutMs, () => this.abort(timeout));
  }

  /** Asks the task to stop; if it does not, the attempt ends after a grace period anyway. */
  abort(reason: Error): void {
    if (this.#ended || this.#isAborted) return;
    // The task's listeners run here, called by a loop of ours: their errors must be traced to the task.
    traced(this, () => this.#control().abort(reason));
    this.#timer?.cancel();
    this.#timer = this.#parts.runtime.timer(ABORT_GRACE_MS, () => this.fail(reason));
  }

  /** The job is put off when the function ends, even if that catches the error. */
  snooze(delay: Duration, reason: unknown): never {
    this.#snoozed = new Snooze(delay, reason);
    throw this.#snoozed;
  }

  /** Ends the attempt as failed, even if the task still runs, for example after an uncaught error. */
  fail(error: unknown): void {
    if (this.#ended) return this.#parts.owner.stray(this, error);
    if (!this.#isAborted && asOurs(error) instanceof Snooze)
      return void this.#endSnoozed(error as Snooze);
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
    const what = `result of task '${this.task.name}'`;
    const consequence = "The job is not completed.";
    const encoded = encodeReturned(result, RESULT, () => ({ what, consequence }));
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
      const { hooks = [] } = this.#parts;
      const ctx = new AttemptContext(this);
      const result = await (hooks.length === 0 ? this.#call(ctx) : this.#callWithHooks(hooks, ctx));
      // The result given to complete() counts, if that was committed.
      if (this.completed) return this.#afterFailure(new NotCommittedError(this.job));
      // After the timeout a result is too late. After any other abort it counts, if the fence accepts it.
      if (this.#isAborted && this.signal.reason instanceof JobTimeoutError) {
        return this.#afterFailure(this.signal.reason);
      }
      const isPutOff = result instanceof RetryIn || result instanceof Snooze;
      if (isPutOff || this.#snoozed !== null) throw this.#snoozed ?? result;
      return this.#done(result);
    } catch (thrown) {
      const error = this.#snoozed ?? thrown;
      const isSnooze = !this.#isAborted && asOurs(error) instanceof Snooze;
      return isSnooze ? this.#putOff(error as Snooze) : this.#afterFailure(error);
    }
  }

  #callWithHooks(hooks: readonly RunHook[], ctx: AttemptContext): unknown {
    const onLate = (error: unknown): void => this.#parts.owner.stray(this, error);
    return runWithHooks(hooks, ctx, { run: () => this.#call(ctx), onLate });
  }

  /** Calls the function of the task, here or in a thread or process of its own. */
  #call(ctx: AttemptContext): unknown {
    const { children = null } = this.#parts;
    const { isolation = null } = this.task;
    if (isolation !== null && children !== null) {
      if (this.#isAborted) this.signal.throwIfAborted();
      const onStarted = (): void => this.#startTimeout();
      this.#isolated = new IsolatedRun(children, { isolation, job: this.job, ctx, onStarted });
      return this.#isolated.result;
    }
    const parsed = parseInput(this.task, decode(this.job.payload));
    const run = (input: unknown): unknown => {
      if (this.#isAborted) this.signal.throwIfAborted();
      return this.task.run(input as never, ctx);
    };
    if (!(parsed instanceof Promise)) return run(parsed);
    return parsed.then((input) => {
      // A slow schema may have outlived the lease, and another worker may own the job: do not begin.
      this.#parts.owner.checkLease(this);
      return run(input);
    });
  }

  async #endSnoozed(snooze: Snooze): Promise<void> {
    this.#end(await this.#putOff(snooze));
  }

  /** If the database does not tell how often the job was snoozed, the next snooze will find out. */
  async #putOff(snooze: Snooze): Promise<Outcome> {
    const { maxSnoozes } = this.task.retry;
    const { jobs } = this.#parts.store;
    const snoozes =
      this.job.epoch > this.job.attempt ? await jobs.snoozes(this.job.id).catch(() => 0) : 0;
    if (snoozes >= maxSnoozes)
      return this.#afterFailure(new SnoozeLimitError({ maxSnoozes }, snooze));
    return { kind: "suspended", delayMs: snooze.delayMs, error: encodeError(snooze) };
  }

  #done(result: unknown): Outcome {
    const encoded = encodeResult(result, this.job);
    const problem = this.#isolated?.resultProblem ?? encoded.problem;
    if (problem === null) return { kind: "done", result: encoded.result };
    const error = new ResultNotStoredError({ ...this.job, problem });
    this.resultError = error;
    return { kind: "done", result: null, error: encodeError(error) };
  }

  /** The reason of an aborted signal is more informative than the error that the task threw because of it. */
  #afterFailure(thrown: unknown): Outcome {
    const reason: unknown = this.#isAborted ? this.signal.reason : thrown;
    this.error = reason;
    const { owner, runtime } = this.#parts;
    return outcomeOf(reason, {
      job: this.job,
      retry: this.task.retry,
      step: this.#steps?.failedBy(reason, this.#isAborted) ?? null,
      random: runtime.random(),
      onBadBackoff: (error) => owner.badBackoff?.(this, error),
    });
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
    if (this.#reports === null && this.#isolated === null) return owner.ended(this, outcome);
    void this.#close(outcome).then(() => owner.ended(this, outcome));
  }

  /** When it is settled, nothing of an isolated task runs any more, and its last reports are stored. */
  async #close({ kind }: Outcome): Promise<void> {
    await this.#isolated?.end({ isSuspended: kind === "suspended" });
    // A settled job accepts no reports.
    await this.#reports?.close();
  }
}

class AttemptContext implements Context {
  readonly #attempt: Attempt;
  #log: JobLog | null = null;

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
  snooze(delay: Duration, reason?: unknown): never {
    return this.#attempt.snooze(delay, reason);
  }
  event<Payload>(
    event: EventType<Payload>,
    key: string,
    options?: { readonly timeout?: Duration },
  ): Promise<Payload> {
    return this.#attempt.steps.event(event, key, options);
  }
  call(task: AnyTask, input?: unknown, options?: CallOptions): Promise<never> {
    return this.#attempt.steps.call(task, input, options);
  }

  results<Input, Result>(task: Task<Input, Result>): Promise<Result[]> {
    return resultsOf(this.#attempt.flows, this.id, task);
  }
  dependencies(): AsyncGenerator<DependencyView, void, undefined> {
    return dependenciesOfJob(this.#attempt.flows, this.id);
  }

  progress(value: Progress, text?: string): void {
    this.#attempt.reports.progress(value, text);
  }
  /** Most tasks write no line. */
  get log(): JobLog {
    this.#log ??= logOf((level, text, data) => this.#attempt.reports.log(text, data, level));
    return this.#log;
  }
  report(name: string, data?: unknown): void {
    this.#attempt.reports.report(name, data);
  }
}
