/** What an application opens: it enqueues jobs, inspects them, and runs workers. */
import type { Emitted, NewEvent } from "../core/event.ts";
import type { AnyTask } from "../core/task.ts";
import { AlertHistory } from "../alerts/history.ts";
import { Audit } from "../audit/audit.ts";
import { BulkActions } from "../bulk/bulk.ts";
import type { Duration } from "../core/duration.ts";
import { ClosedError, invalid } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { guardedLogger, type Logger, silentLogger } from "../core/log.ts";
import { checkName } from "../core/name.ts";
import { by, duration, optionsOf, passed, yes } from "../core/options.ts";
import { Redaction, redactingLogger } from "../config/redaction.ts";
import { type Runtime, systemRuntime } from "../core/runtime.ts";
import { appVersion, checkNode } from "../core/version.ts";
import type { DatabaseLocation } from "../database/open.ts";
import { Errors } from "../error-kinds/errors.ts";
import { Explainer } from "../explain/explain.ts";
import { Batches, Flows } from "../flows/flows.ts";
import { Sender } from "../jobs/enqueue.ts";
import { Jobs } from "../jobs/jobs.ts";
import { Leases, Subscription } from "../jobs/leases.ts";
import { Results } from "../jobs/results.ts";
import { ENQUEUE_BATCH_MAX } from "../jobs/sql-jobs.ts";
import type { Enqueued, NewJob, QueueStats } from "../jobs/store.ts";
import { type LockBackend, lockFields, type LockMode } from "../locks/lock.ts";
import { Locks, openLocks } from "../locks/locks.ts";
import { Queues } from "../queues/queues.ts";
import { Enqueuer, type Warn } from "../registry/marks.ts";
import { inputSchemaOf } from "../registry/tasks.ts";
import { Workers } from "../registry/workers.ts";
import { Watches } from "../reports/reports.ts";
import { Schedules } from "../schedules/schedules.ts";
import { Stats } from "../stats/store.ts";
import { WorkerTimes } from "../stats/times.ts";
import { checkWorkerOptions, type WorkerOptions } from "../worker/options.ts";
import { leaveOnSignals, Worker } from "../worker/worker.ts";
import { ItemChains } from "../workflows/history.ts";
import { Workflows } from "../workflows/workflows.ts";
import { openStore, type Store } from "./store.ts";
import { Within } from "./user-transaction.ts";

const subscribeOptions = optionsOf<{ readonly poll?: Duration }>()({
  poll: duration({ least: 10 }, "10s"),
});

interface HoldfastParts {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly logger: Logger;
  /** What a user should hear without a logger too. */
  readonly warn: Warn;
  /** The build of the application. */
  readonly version: string;
  readonly redaction?: Redaction;
  readonly locks: {
    readonly mode: LockMode;
    readonly backend: LockBackend;
    readonly ttlMs: number;
    readonly waitMs: number;
  };
}

/** Settings of the database and its locks that can also be set in `holdfast.config.ts`. */
export interface ClientConfig {
  /** PostgreSQL: the schema of the tables. Default `holdfast`. */
  readonly schema?: string | undefined;
  /** A Redis server for locks and, with MySQL and MariaDB, for waking workers. Default: HOLDFAST_REDIS_URL. */
  readonly redis?: string | undefined;
  /** Where locks are stored; "off": workflows use none. Default: HOLDFAST_LOCKS, else "redis" if set, else "sql". */
  readonly locks?: LockMode | undefined;
  /** How long a lock lasts without being extended. Default 15 s. */
  readonly lockTtl?: Duration | undefined;
  /** How long to wait for a lock. Default 10 s. */
  readonly lockWait?: Duration | undefined;
}

/** How to open a database: the logger, the schema, locks, redaction. */
export interface HoldfastOptions extends ClientConfig {
  /** An object with debug, info, warn and error, such as a pino logger. Default: silent. */
  readonly logger?: Logger;
  /** False: the tables must exist already (see `holdfast migrate`). Default true. */
  readonly migrate?: boolean;
  /** SQLite: false makes a file that does not exist an error. Default true. */
  readonly create?: boolean;
  /** The build of the application. Default: the git commit, else BUILD_ID. */
  readonly version?: string;
  /** Fields that the dashboard and the API hide: names (`password`), or paths (`card.number`, `customers.*.email`). */
  readonly redact?: readonly string[];
  /** Time and randomness, for tests. */
  readonly runtime?: Runtime;
}

const LEVELS = ["debug", "info", "warn", "error"] as const;

/** Those of the database and of locks are checked where they are used. */
const holdfastOptions = optionsOf<HoldfastOptions>()({
  logger: by(checkLogger),
  migrate: yes(true),
  create: passed<boolean>(),
  version: by(checkName),
  redact: passed<readonly string[]>(),
  runtime: passed<Runtime>(),
  schema: passed<string>(),
  redis: passed<string>(),
  locks: passed<LockMode>(),
  ...lockFields,
});

function checkLogger(field: string, logger: Logger): Logger {
  if (LEVELS.every((level) => typeof logger?.[level] === "function")) return logger;
  throw invalid(field, "must have debug, info, warn and error, such as a pino logger.");
}

/**
 * Opens a URL (`sqlite:shop.db`, `postgres://…`, `mysql://…`) or a `pg` pool of your own.
 *
 * @example
 * ```ts
 * const holdfast = await openHoldfast("postgres://localhost/shop", { logger: console });
 * ```
 */
export async function openHoldfast(
  location: DatabaseLocation,
  options?: HoldfastOptions,
): Promise<Holdfast>;

/** @internal Also takes an open store. */
export async function openHoldfast(
  location: DatabaseLocation | Store,
  options?: HoldfastOptions,
): Promise<Holdfast>;

export async function openHoldfast(
  location: DatabaseLocation | Store,
  options: HoldfastOptions = {},
): Promise<Holdfast> {
  checkNode();
  const { logger, migrate, version, redact, ...others } = holdfastOptions.read(options);
  const redaction = new Redaction(redact);
  const { locks, lockTtlMs: ttlMs, lockWaitMs: waitMs, ...rest } = others;
  const { runtime = systemRuntime } = rest;
  const store = isStore(location) ? location : await openStore(location, rest);
  try {
    await (migrate ? store.migrate() : store.checkSchema());
    const guarded = guardedLogger(redactingLogger(logger ?? silentLogger, redaction));
    const warn: Warn =
      logger === undefined
        ? (_, message) => process.emitWarning(message, { type: "HoldfastWarning" })
        : (facts, message) => guarded.warn(facts, message);
    // The application's own tables may seem to have disappeared.
    for (const hazard of await store.db.hazards()) warn({ event: "database:hazard" }, hazard);
    return new Holdfast({
      store,
      runtime,
      logger: guarded,
      warn,
      version: version ?? appVersion(systemRuntime),
      redaction,
      locks: {
        ...(await openLocks({ locks, redis: rest.redis }, { store, runtime })),
        ttlMs,
        waitMs,
      },
    });
  } catch (error) {
    await store.close();
    throw error;
  }
}

function isStore(location: DatabaseLocation | Store): location is Store {
  return typeof location === "object" && location !== null && "jobs" in location;
}

/** An open database: enqueues jobs, inspects and changes them, and runs workers. Made by `openHoldfast()`. */
export class Holdfast extends Sender implements AsyncDisposable {
  /** @internal */
  readonly store: Store;
  /** Time and randomness, as given to `openHoldfast()`. */
  readonly runtime: Runtime;
  /** As given to `openHoldfast()`. */
  readonly logger: Logger;
  /** The build of the application. */
  readonly version: string;
  /** @internal */
  readonly redaction: Redaction;
  /** Reads, retries and cancels jobs. */
  readonly jobs: Jobs;
  /** Changes of all jobs that match a filter. */
  readonly bulk: BulkActions;
  /** The errors of failed attempts, by kind. */
  readonly errors: Errors;
  /** Lists alerts; acknowledges and silences them. */
  readonly alerts: AlertHistory;
  /** Claims and settles jobs, for workers of your own. */
  readonly leases: Leases;
  /** Lists, pauses, drains and stops workers. */
  readonly workers: Workers;
  /** Pauses and limits queues. */
  readonly queues: Queues;
  /** Starts and moves items of workflows. */
  readonly workflows: Workflows;
  /** Enqueues jobs that wait for each other. */
  readonly flows: Flows;
  /** Enqueues groups of jobs with a callback when all have ended. */
  readonly batches: Batches;
  /** Distributed locks with fencing tokens. */
  readonly locks: Locks;
  /** Reads and verifies the audit log. */
  readonly audit: Audit;
  /** Counts of jobs, by minute and by status. */
  readonly metrics: Stats;
  /** Creates and edits schedules. */
  readonly schedules: Schedules;
  /** @internal */
  protected readonly newId: () => string;
  readonly #results: Results;
  readonly #watches: Watches;
  readonly #enqueuer: Enqueuer;
  readonly #subscriptions = new Set<Subscription>();
  readonly #started = new Set<Promise<Worker>>();
  /** Writes that are left when workers have stopped. */
  readonly #lastTimes = new Set<Promise<void>>();
  /** Its signal aborts when standby workers must stop waiting for a slot. */
  readonly #closing = new AbortController();
  /** A signal ends the process after close(), so waiting for results ends without an error. */
  #isLeaving = false;

  /** @internal Applications call openHoldfast(). */
  constructor({ store, runtime, logger, warn, version, redaction, locks }: HoldfastParts) {
    super();
    this.redaction = redaction ?? new Redaction();
    this.store = store;
    this.runtime = runtime;
    this.logger = logger;
    this.version = version;
    this.leases = new Leases(store, runtime);
    this.workers = new Workers(store, runtime);
    this.metrics = new Stats(store.stats);
    const newId = makeIds(runtime);
    this.newId = newId;
    const explainer = new Explainer(store.explain);
    this.queues = new Queues(store.queues, newId, {
      explain: (queue) => explainer.queue(queue),
      running: () => store.dashboard.running(),
      runtime,
    });
    this.locks = new Locks({ ...locks, store, runtime, logger, newId });
    this.#results = new Results({ store, runtime, logger });
    this.#enqueuer = new Enqueuer({ store, workers: this.workers, runtime, logger, warn, version });
    this.#watches = new Watches({ store, runtime });
    const parts = { results: this.#results, watches: this.#watches, newId, explainer };
    this.jobs = new Jobs(store, parts);
    const onNamed = (tasks: readonly string[]): void => this.onNamed(tasks);
    const flows = { store, jobs: this.jobs, newId, write: store.flows, onNamed };
    this.flows = new Flows(flows);
    this.batches = new Batches(flows);
    this.bulk = new BulkActions({ store, runtime, logger, newId });
    this.errors = new Errors({ store: store.errorKinds, newId });
    this.alerts = new AlertHistory(store, newId);
    // The first layer of every change of an item, unless locks are off.
    const layer = locks.mode === "off" ? null : this.locks;
    this.workflows = new Workflows({ store, runtime, newId, locks: layer });
    const chains = [new ItemChains(store.items)];
    this.schedules = new Schedules({ store, newId });
    this.audit = new Audit({ store: store.audit, chains, newId });
  }

  /**
   * Writes inside your own transaction (a `pg` client, a `mysql2` connection, a `DatabaseSync`), if and when you commit.
   *
   * @example
   * ```ts
   * await client.query("begin");
   * await client.query("insert into orders (id) values ($1)", ["7"]);
   * await holdfast.within(client).enqueue(charge, { order: "7", cents: 1999 });
   * await client.query("commit");
   * ```
   */
  within(tx: unknown): Within {
    const { store, jobs, runtime, workflows, newId } = this;
    const onNamed = (tasks: readonly string[]): void => this.onNamed(tasks);
    return new Within({ store, jobs, runtime, workflows, newId, tx, onNamed });
  }

  /**
   * Calls `onPending` when a queue has pending jobs: soon after they arrive, and again every `poll` while some are left. For
   * your own workers on `leases`. Returns a function that ends the subscription.
   */
  subscribe(
    queue: string,
    onPending: (queue: string) => void | Promise<void>,
    options: {
      /** How often it calls again while jobs are pending. Default 10 s, at least 10 ms. */
      readonly poll?: Duration;
    } = {},
  ): () => Promise<void> {
    this.#checkOpen();
    const { pollMs } = subscribeOptions.read(options);
    if (typeof onPending !== "function") {
      throw invalid("onPending", "pass a function to call.");
    }
    const subscription = new Subscription(this, {
      queue: checkName("queue", queue),
      onPending,
      pollMs,
    });
    this.#subscriptions.add(subscription);
    return async () => {
      this.#subscriptions.delete(subscription);
      await subscription.stop();
    };
  }

  /** Counts jobs by queue and status. */
  stats(): Promise<QueueStats[]> {
    return this.store.jobs.stats();
  }

  /**
   * Starts a worker in this process.
   *
   * @example
   * ```ts
   * const worker = await holdfast.startWorker({ tasks: [charge], concurrency: 10 });
   * worker.on("job:failed", ({ id, error }) => console.error(id, error));
   * ```
   */
  async startWorker(options: WorkerOptions): Promise<Worker> {
    this.#checkOpen();
    const settings = checkWorkerOptions(options, this.version);
    const { store, runtime, logger, workflows } = this;
    const { signal } = this.#closing;
    const ignoreSignals = settings.signals ? leaveOnSignals(this.#leave) : () => {};
    const client = taskClient(this);
    const starting = Worker.start({ store, runtime, logger, settings, workflows, client, signal });
    // Registered at once, so that a close() meanwhile waits for it and stops it.
    this.#started.add(starting);
    try {
      const worker = await starting;
      const times = this.#measure(worker, settings.version);
      this.#noteTasks(settings.tasks);
      worker.on("worker:stopped", () => {
        const last = times.stop().finally(() => this.#lastTimes.delete(last));
        this.#lastTimes.add(last);
        this.#started.delete(starting);
        ignoreSignals();
      });
      return worker;
    } catch (error) {
      this.#started.delete(starting);
      ignoreSignals();
      // The process is about to end, and not because of this error.
      if (this.#isLeaving) return new Promise(() => {});
      throw error;
    }
  }

  /** For forms. No caller waits for it or fails with it. */
  #noteTasks(tasks: ReadonlyMap<string, AnyTask>): void {
    const records = [...tasks].map(([name, task]) => ({ name, inputSchema: inputSchemaOf(task) }));
    const noting = this.store.dashboard
      .noteTasks(records, this.version)
      .catch((error: unknown) => {
        this.logger.debug({ err: error }, "could not record the tasks of a worker");
      })
      .finally(() => this.#lastTimes.delete(noting));
    this.#lastTimes.add(noting);
  }

  /** Charts show how long jobs wait, and what is usual for a task. */
  #measure(worker: Worker, build: string): WorkerTimes {
    const { store, runtime } = this;
    const put = store.stats.putTimes.bind(store.stats);
    const times = new WorkerTimes({ put, runtime, source: () => worker.id, build });
    worker.measure(times);
    return times;
  }

  readonly #leave = async (): Promise<void> => {
    this.#isLeaving = true;
    await this.close();
  };

  /** What continues in the background must not be started any more. */
  #checkOpen(): void {
    if (this.#closing.signal.aborted) throw new ClosedError({ what: "Holdfast" });
  }

  /**
   * Stops gracefully: claims no more jobs, waits for running jobs (up to each worker's `shutdown`, then they are aborted and
   * handed back uncharged), writes what is left to write, and closes the database. Safe to call twice.
   */
  async close(): Promise<void> {
    this.#closing.abort();
    const starts = await Promise.allSettled(this.#started);
    const workers = starts.flatMap((start) => (start.status === "fulfilled" ? [start.value] : []));
    try {
      await Promise.all(workers.map((worker) => worker.stop()));
    } finally {
      await Promise.all([...this.#subscriptions].map((subscription) => subscription.stop()));
      this.#watches.stop();
      await this.#results.stop({ isLeaving: this.#isLeaving });
      await Promise.all([this.#enqueuer.stop(), ...this.#lastTimes]);
      await this.locks.close();
      await this.store.close();
    }
  }

  /** The same as `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal In batches, one after the other and in their order. Each is accepted or refused as a whole. */
  protected async writeJobs(news: readonly NewJob[]): Promise<Enqueued[]> {
    const accepted: Enqueued[] = [];
    for (let at = 0; at < news.length; at += ENQUEUE_BATCH_MAX) {
      try {
        accepted.push(...(await this.store.jobs.enqueue(news.slice(at, at + ENQUEUE_BATCH_MAX))));
      } catch (error) {
        if (at > 0 && error instanceof Error) error.message += ` (${at} jobs were accepted.)`;
        throw error;
      }
      // A large call must not block the event loop.
      await new Promise<void>((resolve) => this.runtime.afterIo(resolve));
    }
    this.#enqueuer.note();
    return accepted;
  }

  /** @internal */
  protected onNamed(tasks: readonly string[]): void {
    this.#enqueuer.noteNames(tasks);
  }

  /** @internal */
  protected writeEvent(event: NewEvent): Promise<Emitted> {
    return this.store.steps.emit(event);
  }
}

const TASK_PARTS = [
  "jobs",
  "bulk",
  "errors",
  "alerts",
  "workflows",
  "flows",
  "batches",
  "locks",
  "leases",
  "workers",
  "audit",
  "metrics",
  "schedules",
] as const;
const TASK_CALLS = ["enqueue", "enqueueMany", "emit", "within", "stats"] as const;

/** The compiler compares it with the client of a task. */
type Copied = Pick<Holdfast, (typeof TASK_PARTS | typeof TASK_CALLS)[number]>;

/** The client of a task: the Holdfast of its worker, without close() and startWorker(). */
export interface TaskClient {
  /** Reads, retries and cancels jobs. */
  readonly jobs: Jobs;
  /** Changes of all jobs that match a filter. */
  readonly bulk: BulkActions;
  /** The errors of failed attempts, by kind. */
  readonly errors: Errors;
  /** Lists alerts; acknowledges and silences them. */
  readonly alerts: AlertHistory;
  /** Starts and moves items of workflows. */
  readonly workflows: Workflows;
  /** Enqueues jobs that wait for each other. */
  readonly flows: Flows;
  /** Enqueues groups of jobs with a callback when all have ended. */
  readonly batches: Batches;
  /** Distributed locks with fencing tokens. */
  readonly locks: Locks;
  /** Claims and settles jobs, for workers of your own. */
  readonly leases: Leases;
  /** Lists, pauses, drains and stops workers. */
  readonly workers: Workers;
  /** Reads and verifies the audit log. */
  readonly audit: Audit;
  /** Counts of jobs, by minute and by status. */
  readonly metrics: Stats;
  /** Creates and edits schedules. */
  readonly schedules: Schedules;
  /** Enqueues a job at once, whatever becomes of this attempt. With `key: ctx.idempotencyKey` only once. */
  readonly enqueue: Holdfast["enqueue"];
  /** Enqueues many jobs at once, whatever becomes of this attempt. */
  readonly enqueueMany: Holdfast["enqueueMany"];
  /** Emits an event at once; each key of an event can be emitted only once. */
  readonly emit: Holdfast["emit"];
  /** Writes inside the transaction of `ctx.commit()`, or one of your own. */
  readonly within: Holdfast["within"];
  /** Counts jobs by queue and status. */
  readonly stats: Holdfast["stats"];
}

// Declared here, because core/ does not know the client. The worker sets it.
declare module "../core/task.ts" {
  interface Context {
    /** The client of the worker. Inside of `commit`, use its `within(tx)`. */
    readonly holdfast: TaskClient;
  }
}

export function taskClient(client: Holdfast): TaskClient {
  const parts = TASK_PARTS.map((name) => [name, client[name]]);
  const calls = TASK_CALLS.map((name) => [name, client[name].bind(client)]);
  return Object.freeze(Object.fromEntries([...parts, ...calls])) as Copied;
}
