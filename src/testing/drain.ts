/**
 * Runs the jobs that are due, without a worker, those of schedules included.
 *
 * Each is promoted, claimed, attempted and settled by the code that a worker uses, one at a time and in claim order, so a
 * test sees what production would do, always in the same order. With `skipTime` the test's clock jumps to the next job
 * that is scheduled.
 */
import { type Holdfast, openHoldfast, taskClient, type TaskClient } from "../app/holdfast.ts";
import type { Store } from "../app/store.ts";
import type { ErrorRecord } from "../core/error-record.ts";
import { HoldfastError, invalid } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { type Outcome, type Status, statuses } from "../core/job.ts";
import type { Logger } from "../core/log.ts";
import { by, optionsOf, passed, whole, yes } from "../core/options.ts";
import { type AnyTask, type Task, taskMap } from "../core/task.ts";
import type { JobFilter } from "../jobs/filter.ts";
import type { ClaimedJob, JobSummary } from "../jobs/store.ts";
import type { Schedule } from "../schedules/schedule.ts";
import { checkSchedules, declareSchedules } from "../schedules/schedules.ts";
import { Attempt, type AttemptOwner } from "../worker/attempt.ts";
import { guardProcess, runTraced } from "../worker/failure.ts";
import { TestClock, testClock } from "./clock.ts";

/** By default, a drain with more attempts than this counts as an endless loop. */
export const DRAIN_ATTEMPTS_MAX = 10_000;

/** It is not renewed, so it is longer than any attempt in a test. */
const LEASE_MS = 24 * 3_600_000;

const PROMOTE_BATCH = 500;

const PAGE = 500;

/** The name under which schedules are declared. */
const DECLARED_BY = "drain";

const WAITING = ["scheduled", "retry", "waiting"] as const satisfies readonly Status[];

const LIVE = ["pending", "processing", ...WAITING] as const satisfies readonly Status[];

/** Options of `drain()`. */
export interface DrainOptions {
  /** Let the test's clock jump to the next retry or delayed job until all are finished. Default false. */
  readonly skipTime?: boolean;
  /**
   * Declares these schedules first, as a worker would when it starts. The clock does not jump to their ticks: advance it,
   * and drain again.
   */
  readonly schedules?: readonly Schedule[];
  /** The most attempts, before the drain throws DrainLimitError. Default 10,000. */
  readonly attempts?: number;
}

const drainOptions = optionsOf<DrainOptions>()({
  skipTime: yes(false),
  schedules: by((_field, schedules: readonly Schedule[]) => checkSchedules(schedules)),
  attempts: whole(1, Number.MAX_SAFE_INTEGER, DRAIN_ATTEMPTS_MAX),
});

/** A job that ran in a drain, or was left. */
export interface DrainedJob {
  /** The id of the job. */
  readonly id: string;
  /** The name of its task. */
  readonly task: string;
  /** Its status after the drain. */
  readonly status: Status;
  /** How many attempts it has used. */
  readonly attempts: number;
  /** The error of the last attempt; absent when the job is done, unless its result could not be stored. */
  readonly error?: ErrorRecord;
}

/** What a drain did. */
export interface Drained {
  /** The jobs that ran, in the order of their first attempt, with their current status. */
  readonly jobs: readonly DrainedJob[];
  /**
   * All jobs that are not finished, oldest first: jobs of other tasks, jobs that are not due yet or that a worker holds,
   * and jobs that ran and now wait for a retry, an event or another job.
   */
  readonly left: readonly DrainedJob[];
  /** How many of `jobs` have each status. */
  readonly totals: Readonly<Record<Status, number>>;
  /** How many attempts were made, of all jobs. */
  readonly attempts: number;
}

/** The drain made more attempts than allowed. */
export class DrainLimitError extends HoldfastError {
  /** How many attempts were made. */
  readonly attempts: number;

  constructor(facts: { attempts: number; task: string }) {
    super(
      "DRAIN_LIMIT",
      `The drain ran ${facts.attempts} attempts, and jobs are left; the next is one of '${facts.task}'. ` +
        `Look for a task that enqueues itself, or call drain() again.`,
    );
    this.attempts = facts.attempts;
  }
}

/** Runs every job of these tasks that is due, until none is pending, and returns the result of each. */
export async function drain(
  holdfast: Holdfast,
  tasks: readonly AnyTask[],
  options: DrainOptions = {},
): Promise<Drained> {
  const { skipTime, attempts, schedules } = drainOptions.read(options);
  const clock = skipTime ? checkClock(holdfast) : null;
  const run = new Drain(holdfast, taskMap(tasks), attempts);
  if (schedules !== undefined)
    await declareSchedules(DECLARED_BY, schedules, holdfast.store.schedules);
  const unguard = guardProcess();
  const runAll = async (): Promise<void> => {
    await run.runDue();
    if (clock !== null) while (await run.skipTime(clock)) await run.runDue();
  };
  const { runtime } = holdfast;
  try {
    await (runtime instanceof TestClock ? runtime.whileMoving(runAll) : runAll());
  } finally {
    unguard();
  }
  return run.summary();
}

function checkClock({ runtime }: Holdfast): TestClock {
  if (runtime instanceof TestClock) return runtime;
  const problem = "only a test clock can skip time: open with openTestHoldfast() or testClock().";
  throw invalid("skipTime", problem);
}

interface Ended {
  readonly attempt: Attempt;
  readonly outcome: Outcome;
}

class Drain {
  readonly #holdfast: Holdfast;
  readonly #tasks: ReadonlyMap<string, Task>;
  readonly #maxAttempts: number;
  readonly #newId: () => string;
  readonly #client: TaskClient;
  readonly #worker: string;
  readonly #ran = new Set<string>();
  #queues: readonly string[] = [];
  #attempts = 0;

  constructor(holdfast: Holdfast, tasks: ReadonlyMap<string, Task>, maxAttempts: number) {
    this.#maxAttempts = maxAttempts;
    this.#holdfast = holdfast;
    this.#tasks = tasks;
    this.#newId = makeIds(holdfast.runtime);
    this.#client = taskClient(holdfast);
    this.#worker = `drain-${this.#newId()}`;
  }

  async runDue(): Promise<void> {
    do {
      for (let job = await this.#claim(); job !== null; job = await this.#claim()) {
        this.#attempts += 1;
        this.#ran.add(job.id);
        await this.#attempt(job);
      }
      // What the ends of jobs leave to maintenance.
    } while (await this.#releaseWaiting());
  }

  /** Starts jobs that waited for jobs outside of flows. False: there were none. */
  async #releaseWaiting(): Promise<boolean> {
    const page = { after: null, limit: PROMOTE_BATCH, all: true };
    return (await this.#holdfast.store.flows.sweep(page)).ended > 0;
  }

  /** Moves the clock to the next scheduled job; false: these tasks have none. */
  async skipTime(clock: TestClock): Promise<boolean> {
    let next: number | null = null;
    for (const task of this.#tasks.keys()) {
      for (const status of WAITING) {
        for await (const { dueAt } of pages(this.#holdfast.store, { task, status })) {
          if (dueAt !== null && (next === null || dueAt < next)) next = dueAt;
        }
      }
    }
    if (next === null) return false;
    await clock.advance(Math.max(0, next - clock.now()));
    return true;
  }

  async summary(): Promise<Drained> {
    const jobs: DrainedJob[] = [];
    for (const id of this.#ran) jobs.push(...(await this.#describe(id)));
    const left: DrainedJob[] = [];
    for (const id of await this.#unfinished()) left.push(...(await this.#describe(id)));
    return { jobs, left, totals: countByStatus(jobs), attempts: this.#attempts };
  }

  async #claim(): Promise<ClaimedJob | null> {
    const { store } = this.#holdfast;
    while ((await store.jobs.promoteDue({ limit: PROMOTE_BATCH })) === PROMOTE_BATCH);
    let job = (await this.#claimFrom(this.#queues)) ?? (await this.#claimAnywhere());
    if (job === null && (await this.#fireSchedules())) job = await this.#claimAnywhere();
    if (job === null || this.#attempts < this.#maxAttempts) return job;
    await store.jobs.release([job]);
    throw new DrainLimitError({ attempts: this.#attempts, task: job.task });
  }

  /** Handles the ticks that are due, as a worker would. Whether there were any. */
  async #fireSchedules(): Promise<boolean> {
    const { schedules } = this.#holdfast.store;
    const { due, queued } = await schedules.due({ limit: PAGE });
    let fired = 0;
    for (const name of due) if ((await schedules.fire(name)) !== null) fired += 1;
    for (const name of queued) if ((await schedules.release(name)) !== null) fired += 1;
    return fired > 0;
  }

  /** A job may be in a queue that no task names. To find these means counting rows, so it is done last. */
  async #claimAnywhere(): Promise<ClaimedJob | null> {
    const stats = await this.#holdfast.store.jobs.stats();
    this.#queues = stats.map(({ queue }) => queue);
    return this.#claimFrom(this.#queues);
  }

  async #claimFrom(queues: readonly string[]): Promise<ClaimedJob | null> {
    const tasks = [...this.#tasks.keys()];
    const wanted = { worker: this.#worker, queues, tasks, limit: 1, leaseMs: LEASE_MS };
    const [job = null] = await this.#holdfast.store.jobs.claim(wanted);
    return job;
  }

  async #attempt(job: ClaimedJob): Promise<void> {
    const { store, runtime, logger } = this.#holdfast;
    const { attempt, outcome } = await new Promise<Ended>((resolve) => {
      const task = this.#tasks.get(job.task) as Task;
      const trustedUntil = Number.POSITIVE_INFINITY;
      const owner: AttemptOwner = {
        ended: (ended, became) => resolve({ attempt: ended, outcome: became }),
        stray: (_attempt, error) =>
          logger.warn({ job: job.id, err: error }, "a task threw after its attempt ended"),
        badBackoff: (_attempt, error) =>
          logger.warn({ job: job.id, err: error }, "the backoff function of a task failed"),
        // The lease is never renewed.
        stopRenewing: () => Promise.resolve(),
        renewAgain: () => {},
        checkLease: () => {},
      };
      const [newId, client] = [this.#newId, this.#client];
      runTraced(new Attempt({ runtime, store, newId, client, owner }, { job, task, trustedUntil }));
    });
    const { id, worker, epoch } = job;
    const settlements = [{ id, worker, epoch, outcome }];
    await (attempt.completed
      ? store.jobs.settleCompleted(settlements)
      : store.jobs.settle(settlements));
  }

  async #unfinished(): Promise<string[]> {
    const ids: string[] = [];
    for (const status of LIVE)
      for await (const { id } of pages(this.#holdfast.store, { status })) ids.push(id);
    return ids.toSorted(); // Ids grow with time.
  }

  /** Empty if the job was pruned meanwhile. */
  async #describe(id: string): Promise<DrainedJob[]> {
    const job = await this.#holdfast.jobs.get(id);
    if (job === null) return [];
    const { task, status, attempts, lastError } = job;
    const summary = { id, task, status, attempts };
    const isOver = status === "done" && lastError?.code !== "RESULT_NOT_STORED";
    return [isOver || lastError === null ? summary : { ...summary, error: lastError }];
  }
}

async function* pages(
  store: Store,
  filter: Pick<JobFilter, "task" | "status">,
): AsyncGenerator<JobSummary> {
  let page = await store.jobs.list({ ...filter, limit: PAGE });
  while (page.length > 0) {
    yield* page;
    const last = page.at(-1) as JobSummary;
    page =
      page.length < PAGE ? [] : await store.jobs.list({ ...filter, limit: PAGE, before: last.id });
  }
}

function countByStatus(jobs: readonly DrainedJob[]): Drained["totals"] {
  const count = (status: Status): number => jobs.filter((job) => job.status === status).length;
  return Object.fromEntries(statuses.map((status) => [status, count(status)])) as Drained["totals"];
}

// A Holdfast for one test: a database in memory, with a clock that the test moves.

const CLOSE_STEP_MS = 1_000;

/** A constant, so that a test does not depend on the application's version. */
const NO_VERSION = "build-0";

/** Options of `openTestHoldfast()`. */
export interface TestHoldfastOptions {
  /** The initial time. Default: an instant in January 2027. */
  readonly start?: Date | number;
  /** The same seed gives the same run. Default 1. */
  readonly seed?: number;
  /** Default: silent. */
  readonly logger?: Logger;
}

const testOptions = optionsOf<TestHoldfastOptions>()({
  start: passed<Date | number>(),
  seed: passed<number>(),
  logger: passed<Logger>(),
});

/** A Holdfast for one test, with its clock. */
export interface TestHoldfast extends AsyncDisposable {
  /** A Holdfast in memory that shares nothing with others. */
  readonly holdfast: Holdfast;
  /** Its clock. */
  readonly clock: TestClock;
  /** `drain()` on this Holdfast. */
  drain(tasks: readonly AnyTask[], options?: DrainOptions): Promise<Drained>;
}

/**
 * Opens a Holdfast that shares nothing with others; `await using` closes it, with its workers.
 *
 * @example
 * ```ts
 * await using bench = await openTestHoldfast();
 * await bench.holdfast.enqueue(ping);
 * const { totals } = await bench.drain([ping], { skipTime: true });
 * assert.equal(totals.done, 1);
 * ```
 */
export async function openTestHoldfast(options: TestHoldfastOptions = {}): Promise<TestHoldfast> {
  const { start, logger, ...rest } = testOptions.read(options);
  const clock = testClock(start, rest);
  const holdfast = await openHoldfast("sqlite::memory:", {
    runtime: clock,
    version: NO_VERSION,
    locks: "sql", // Ignores the environment.
    ...(logger === undefined ? {} : { logger }),
  });
  return {
    holdfast,
    clock,
    drain: (tasks, given) => drain(holdfast, tasks, given),
    [Symbol.asyncDispose]: () => close(holdfast, clock),
  };
}

/** A stopping worker waits for its jobs by this clock, so the clock runs until it has stopped. */
async function close(holdfast: Holdfast, clock: TestClock): Promise<void> {
  const closed = new AbortController();
  const closing = holdfast.close().finally(() => closed.abort());
  const passing = (async () => {
    while (!closed.signal.aborted) await clock.advance(CLOSE_STEP_MS);
  })();
  await Promise.all([closing, passing]);
}
