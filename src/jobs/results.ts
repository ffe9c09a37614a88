/**
 * Waiting for results: all waiters of a process share one query.
 *
 * Hints say when to look; a slow poll makes sure that a missed hint costs time and nothing else.
 */
import type { Duration } from "../core/duration.ts";
import { decodeError } from "../core/error-record.ts";
import {
  CalledFailedError,
  type CalledJob,
  ClosedError,
  JobCancelledError,
  JobFailedError,
  JobNotFoundError,
  NoWorkerError,
  ResultNotStoredError,
  ResultTimeoutError,
} from "../core/errors.ts";
import { decode } from "../core/json.ts";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { checkText, duration, optionsOf } from "../core/options.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import type { StepRecord } from "../core/task.ts";
import type { Database } from "../database/database.ts";
import type { JobsStore } from "./sql-jobs.ts";
import type { FinishedRecord } from "./store.ts";

interface Stores {
  readonly db: Database;
  readonly jobs: JobsStore;
}

interface ResultOptions {
  readonly timeout?: Duration;
}

const resultOptions = optionsOf<ResultOptions>()({ timeout: duration({}) });

const POLL_MS = 1_000;

/** Ids in one query; more take several queries. */
const ASK_MAX = 500;

interface Waiter {
  readonly settle: (finished: FinishedRecord) => void;
  readonly reject: (error: unknown) => void;
  readonly timers: Timer[];
}

export class Results {
  readonly #parts: { store: Stores; runtime: Runtime; logger: Logger };
  readonly #waiters = new Map<string, Set<Waiter>>();
  #loop: Loop | null = null;
  #unwatch: (() => void) | null = null;
  #stopped = false;

  constructor(parts: { store: Stores; runtime: Runtime; logger: Logger }) {
    this.#parts = parts;
  }

  async of(id: string, options: ResultOptions): Promise<unknown> {
    const { store } = this.#parts;
    checkText("id", id);
    const { timeoutMs = null } = resultOptions.read(options);
    const [finished] = await store.jobs.findFinished([id]);
    if (finished !== undefined) return valueOf(finished);
    if ((await store.jobs.find(id)) === null) throw new JobNotFoundError({ id });
    return valueOf(await this.#wait(id, timeoutMs));
  }

  /** `isLeaving`: the process is about to exit. An error now would only look like the reason. */
  async stop({ isLeaving }: { readonly isLeaving: boolean }): Promise<void> {
    this.#stopped = true;
    for (const waiter of [...this.#waiters.values()].flatMap((set) => [...set])) {
      cancelAll(waiter);
      if (!isLeaving) waiter.reject(new ClosedError({ what: "Holdfast" }));
    }
    this.#waiters.clear();
    await this.#idle();
  }

  #wait(id: string, timeoutMs: number | null): Promise<FinishedRecord> {
    return new Promise((settle, reject) => {
      // It was closed while we looked: this waiter would never be answered.
      if (this.#stopped) return reject(new ClosedError({ what: "Holdfast" }));
      const waiter: Waiter = { settle, reject, timers: [] };
      const waiters = this.#waiters.get(id) ?? new Set();
      this.#waiters.set(id, waiters.add(waiter));
      if (timeoutMs !== null) {
        const timer = this.#parts.runtime.timer(timeoutMs, () => {
          this.#forget(id, waiter);
          void this.#tooLate(id, timeoutMs).then(reject, reject);
        });
        waiter.timers.push(timer);
      }
      // A failing database is no reason to stop waiting: the loop asks it again.
      const look = (): void => void this.#lookStill(id, waiter).catch(() => {});
      const still = this.#parts.runtime.whileStill?.(look);
      if (still !== undefined) waiter.timers.push(still);
      this.#start();
    });
  }

  #forget(id: string, waiter: Waiter): void {
    cancelAll(waiter);
    const waiters = this.#waiters.get(id);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.#waiters.delete(id);
  }

  /** In a test whose clock stands still: rejects unless a job is running. */
  async #lookStill(id: string, waiter: Waiter): Promise<void> {
    const { store } = this.#parts;
    const [running] = await store.jobs.list({ status: "processing", limit: 1 });
    const job = running === undefined ? await store.jobs.find(id) : null;
    if (job === null || ["done", "failed", "cancelled"].includes(job.status)) return;
    this.#forget(id, waiter);
    waiter.reject(new NoWorkerError(job));
  }

  async #tooLate(id: string, waitedMs: number): Promise<ResultTimeoutError> {
    const { status = "gone", inDoubt = null } = (await this.#parts.store.jobs.find(id)) ?? {};
    return new ResultTimeoutError({ id, waitedMs, status, inDoubt });
  }

  #start(): void {
    const { store, runtime, logger } = this.#parts;
    if (this.#loop !== null) return this.#loop.wake();
    const loop = new Loop({ name: "results", runtime, logger, once: () => this.#look() });
    this.#loop = loop;
    this.#unwatch = store.db.watch((hint) => {
      if (hint.kind === "finished" || hint.kind === "unknown") loop.wake();
    });
  }

  async #look(): Promise<number> {
    const ids = [...this.#waiters.keys()];
    for (let start = 0; start < ids.length; start += ASK_MAX) {
      const found = await this.#parts.store.jobs.findFinished(ids.slice(start, start + ASK_MAX));
      for (const finished of found) this.#answer(finished);
    }
    if (this.#waiters.size === 0) void this.#idle();
    return POLL_MS;
  }

  #answer(finished: FinishedRecord): void {
    for (const waiter of this.#waiters.get(finished.id) ?? []) {
      cancelAll(waiter);
      waiter.settle(finished);
    }
    this.#waiters.delete(finished.id);
  }

  /** Stops the loop when there are no waiters, so that a process that only enqueues can exit. */
  async #idle(): Promise<void> {
    this.#unwatch?.();
    this.#unwatch = null;
    const loop = this.#loop;
    this.#loop = null;
    await loop?.stop();
  }
}

function cancelAll({ timers }: Waiter): void {
  for (const timer of timers) timer.cancel();
}

function valueOf(finished: FinishedRecord): unknown {
  const { id, task, status, attempts, result, error } = finished;
  if (status === "cancelled") throw new JobCancelledError({ id });
  if (status === "failed")
    throw new JobFailedError({ id, task, attempts, error: decodeError(error ?? "") });
  if (error !== null && status === "done")
    throw new ResultNotStoredError({ id, task, problem: decodeError(error).message });
  return result === null ? undefined : decode(result);
}

// Retrying a job that failed because a called job failed: without the called job it would fail again at once.

/** What decides which called jobs are retried with a job. */
export interface RetryStores {
  readonly jobs: Pick<JobsStore, "find" | "findFinished" | "retry">;
  readonly steps: { list(job: string): Promise<readonly StepRecord[]> };
}

/** An operator must retry a longer chain of calls from its end. */
const CALLS_MAX = 100;

/** The called jobs whose failure failed this job, and that have not been retried since. */
async function failedCalls(store: RetryStores, id: string): Promise<CalledJob[]> {
  const job = await store.jobs.find(id);
  if (job?.status !== "failed" || job.lastError === null) return [];
  // A job that caught the failure of a call and failed for another reason catches it again.
  if (decodeError(job.lastError).code !== "CALL_FAILED") return [];
  const steps = await store.steps.list(id);
  const called = steps
    .filter(({ kind, status }) => kind === "call" && status === "failed")
    .flatMap(({ result }) => calledBy(result));
  const ended = await store.jobs.findFinished(called);
  return ended
    .filter(({ status }) => status !== "done")
    .map(({ id: one, task, status }) => ({ id: one, task, status }));
}

function calledBy(result: string | null): string[] {
  const facts = result === null ? null : (decode(result) as { readonly id?: unknown } | null);
  return typeof facts?.id === "string" ? [facts.id] : [];
}

/**
 * The called jobs to retry before this one, the last called first. Throws CalledFailedError if there are any and the caller
 * does not say whether to retry them.
 */
export async function calledFirst(
  store: RetryStores,
  id: string,
  withCalled: boolean | undefined,
): Promise<string[]> {
  if (withCalled === false) return [];
  const order: string[] = [];
  const toLookAt = [id];
  for (let looked = 0; looked < CALLS_MAX; looked += 1) {
    const one = toLookAt.shift();
    if (one === undefined) break;
    const called = await failedCalls(store, one);
    if (called.length > 0 && withCalled === undefined) throw new CalledFailedError({ id, called });
    order.unshift(...called.map((job) => job.id));
    toLookAt.push(...called.map((job) => job.id));
  }
  return [...new Set(order)];
}
