/**
 * One process of a service: a worker, a server, the monitor, or all of them, on one database.
 *
 * The worker is started after the server, so that a port that is taken is noticed before a job is claimed, and before the monitor, which would miss it
 * and raise an alert. What did start is closed when another part does not. At the end the worker hands its jobs back before the database goes.
 */
import { formatMs } from "../core/duration.ts";
import { HoldfastError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { sleep, systemRuntime } from "../core/runtime.ts";
import type { AnyTask } from "../core/task.ts";
import type { Origins } from "../config/config.ts";
import type { Settings } from "../config/schema.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import type { WorkerOptions } from "../worker/settings.ts";
import type { Worker } from "../worker/worker.ts";
import { openForService } from "./database.ts";
import { logJobs } from "./job-log.ts";
import { whyNotListening } from "./listening.ts";
import {
  openAlerts,
  openExamination,
  openHealth,
  openMetrics,
  openMonitor,
  openServer,
  tasksWithCanary,
  workflowsOf,
  type Alerts,
  type Ground,
  type Monitor,
  type Server,
} from "./parts.ts";

export interface ServiceOptions {
  readonly settings: Settings;
  readonly origins: Origins;
  readonly logger: Logger;
  /** Null: no worker. */
  readonly tasks: readonly AnyTask[] | null;
  /** Those that the server knows, whoever runs them; null: it takes any job as it comes. */
  readonly known: readonly AnyTask[] | null;
  readonly server: boolean;
  readonly monitor: boolean;
  /** Of the processes that run the jobs, where they are not run in this one. */
  readonly pids?: (() => readonly number[]) | undefined;
  /** Aborts when nobody waits for the service to start any more. */
  readonly signal: AbortSignal;
}

/** Beyond the time that jobs are given: to write down what became of them, and to close. */
const CLOSE_MS_MAX = 5_000;

export class NotClosed extends HoldfastError {
  constructor(facts: { limitMs: number }) {
    const limit = formatMs(facts.limitMs);
    super(
      "NOT_CLOSED",
      `Not everything was closed within ${limit}. What was running is taken over when its lease runs out.`,
    );
  }
}

interface Open {
  readonly holdfast: Holdfast;
  readonly alerts: Alerts | null;
  readonly monitor: Monitor | null;
  readonly server: Server | null;
  readonly worker: Worker | null;
}

export class Service {
  readonly #open: Open;
  readonly #options: ServiceOptions;
  #isStopping = false;

  /** Null: it was told to stop before it had started. */
  static async start(options: ServiceOptions): Promise<Service | null> {
    const { settings, logger } = options;
    const holdfast = await openForService(settings, logger);
    try {
      const open = await openAll(options, { holdfast, logger, settings });
      if (open !== null) return new Service(open, options);
    } catch (error) {
      await holdfast.close();
      throw error;
    }
    await holdfast.close();
    return null;
  }

  private constructor(open: Open, options: ServiceOptions) {
    this.#open = open;
    this.#options = options;
  }

  get holdfast(): Holdfast {
    return this.#open.holdfast;
  }

  /** Where the server is; null: there is none. */
  get url(): string | null {
    return this.#open.server?.url ?? null;
  }

  /** Resolves when the worker has had a job. */
  get firstJob(): Promise<void> {
    const { worker } = this.#open;
    if (worker === null) return new Promise(() => {});
    const { running, completed } = worker.status();
    if (running + completed > 0) return Promise.resolve();
    return new Promise((resolve) => {
      const stopListening = worker.on("job:started", () => {
        stopListening();
        resolve();
      });
    });
  }

  /** Resolves when somebody stopped the worker through the database. */
  get workerEnded(): Promise<void> {
    const { worker } = this.#open;
    if (worker === null) return new Promise(() => {});
    return new Promise((resolve) =>
      worker.on("worker:stopped", () => {
        if (!this.#isStopping) resolve();
      }),
    );
  }

  /** Nothing more is accepted or claimed; what runs may finish; what does not is handed back. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const limitMs = this.#options.settings.shutdown + CLOSE_MS_MAX;
    const late = sleep(systemRuntime, limitMs, { kind: "background" }).then(() => {
      throw new NotClosed({ limitMs });
    });
    await Promise.race([this.#close(), late]);
  }

  async #close(): Promise<void> {
    const { holdfast, server, worker, monitor, alerts } = this.#open;
    try {
      await Promise.all([server?.close(), monitor?.stop(), worker?.stop()]);
      await alerts?.stop();
    } finally {
      await holdfast.close();
    }
  }
}

async function openAll(options: ServiceOptions, ground: Ground): Promise<Open | null> {
  const { logger, signal, tasks } = options;
  const { holdfast } = ground;
  await using started = new AsyncDisposableStack();
  let monitor: Monitor | null = null;
  const seen = options.monitor ? { latest: () => monitor?.latest() ?? null } : null;
  const served = options.server ? await serve(options, ground, seen) : null;
  started.defer(() => served?.server.close());
  const worker = tasks === null ? null : await openWorker(options, ground, tasks);
  if (signal.aborted) return null;
  if (worker !== null) {
    logJobs(worker, logger);
    served?.tellAbout(worker);
  }
  const alerts = options.monitor ? await openAlerts(ground) : null;
  monitor = options.monitor ? await watch(ground, alerts) : null;
  started.move(); // all of it goes on
  return { holdfast, alerts, monitor, server: served?.server ?? null, worker };
}

interface Served {
  readonly server: Server;
  /** Metrics and health tell about this worker too. */
  readonly tellAbout: (worker: Worker) => void;
}

async function serve(
  { tasks, known, settings, origins, pids }: ServiceOptions,
  ground: Ground,
  monitor: Pick<Monitor, "latest"> | null,
): Promise<Served> {
  const metrics = await openMetrics(ground);
  const health = await openHealth(ground, { awaitsWorker: tasks !== null, pids });
  const tellAbout = (worker: Worker): void => {
    metrics.watch(worker);
    health.watch(worker);
  };
  try {
    const server = await openServer({ ...ground, tasks: known, metrics, health, monitor });
    return { server, tellAbout };
  } catch (error) {
    throw whyNotListening(error, settings, origins);
  }
}

/** One that stands by may wait for long, and can be told to stop meanwhile. */
async function openWorker(
  { signal }: ServiceOptions,
  { holdfast, settings }: Ground,
  tasks: readonly AnyTask[],
): Promise<Worker | null> {
  const all = await tasksWithCanary(tasks, settings);
  const workflows = await workflowsOf(settings);
  const starting = holdfast.startWorker({ tasks: all, workflows, ...workerOptions(settings) });
  starting.catch(() => {}); // closing says what became of it
  const stopped = new Promise<null>((resolve) => {
    signal.addEventListener("abort", () => resolve(null), { once: true });
  });
  return Promise.race([starting, stopped]);
}

async function watch(ground: Ground, alerts: Alerts | null): Promise<Monitor> {
  const { monitor, canary } = ground.settings;
  const examine = await openExamination(ground);
  return openMonitor(ground, {
    interval: monitor,
    examine,
    ...(canary === 0 ? {} : { canary: { interval: canary } }),
    onObservation: async (observation) => alerts?.observe(observation),
  });
}

export function workerOptions(settings: Settings): Omit<WorkerOptions, "tasks"> {
  const { name, concurrency, lease, poll, upkeep, grace, crashes, shutdown, heartbeat } = settings;
  const { queues, slots, stale, hung, standby, keepDone, keepFailed, keepCancelled } = settings;
  return {
    name,
    concurrency,
    lease,
    poll,
    upkeep,
    grace,
    crashes,
    shutdown,
    heartbeat,
    ...(queues === null ? {} : { queues }),
    ...(slots === null ? {} : { slots }),
    ...(stale === null ? {} : { stale }),
    ...(hung === null ? {} : { hung }),
    ...(standby ? { onConflict: "standby" as const } : {}),
    keep: { done: keepDone, failed: keepFailed, cancelled: keepCancelled },
  };
}
