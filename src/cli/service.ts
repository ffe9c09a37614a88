/**
 * One process of a service: a worker, a server, the monitor, or all of them, on one database.
 *
 * The worker starts after the server, so that a port in use is noticed before a job is claimed. It starts before the monitor,
 * which would otherwise raise an alert about missing workers. If one part cannot start, the others are closed. At the end the
 * worker releases its jobs before the database closes.
 */
import type { Alerts } from "../alerts/alerts.ts";
import type { Holdfast } from "../app/holdfast.ts";
import type { Server } from "../app/server.ts";
import type { Origins, Settings } from "../app/settings.ts";
import type { Origin } from "../config/resolve.ts";
import { formatMs } from "../core/duration.ts";
import { HoldfastError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { type Runtime, sleep, systemRuntime, type Timer } from "../core/runtime.ts";
import type { AnyTask } from "../core/task.ts";
import type { Monitor } from "../monitoring/monitor.ts";
import { workerOptionsFrom } from "../worker/options.ts";
import type { Worker, WorkerStatus } from "../worker/worker.ts";
import { openForService } from "./database.ts";
import { logJobs } from "./log.ts";
import { loadHooks, loadSchedules, loadWorkflows } from "./tasks.ts";

interface ServiceOptions {
  readonly settings: Settings;
  readonly origins: Origins;
  readonly logger: Logger;
  /** Null: no worker. */
  readonly tasks: readonly AnyTask[] | null;
  /** The tasks that the server validates jobs against; null: it accepts any job. */
  readonly known: readonly AnyTask[] | null;
  readonly server: boolean;
  readonly monitor: boolean;
  /** Of the child processes that run the jobs, if this one does not. */
  readonly pids?: (() => readonly number[]) | undefined;
  /** Aborts when the service should stop before it has started. */
  readonly signal: AbortSignal;
}

/** After the shutdown timeout of jobs: to record their outcomes, and to close. */
const CLOSE_MS_MAX = 5_000;

const NO_WORKER = { claimed: 0, running: 0, buffered: 0 };

class NotClosedError extends HoldfastError {
  constructor(facts: { limitMs: number }) {
    const limit = formatMs(facts.limitMs);
    super(
      "NOT_CLOSED",
      `The service did not shut down within ${limit}. Other workers take over its jobs when their leases expire.`,
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
  readonly #idleMemory: IdleMemory;
  #isStopping = false;

  /** Null: a signal arrived before it had started. */
  static async start(options: ServiceOptions): Promise<Service | null> {
    const { settings, logger } = options;
    const holdfast = await openForService(settings, logger);
    try {
      const open = await openAll(options, holdfast);
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
    const status = () => open.worker?.status() ?? NO_WORKER;
    this.#idleMemory = new IdleMemory({ runtime: systemRuntime, status });
  }

  get holdfast(): Holdfast {
    return this.#open.holdfast;
  }

  /** The address of the server; null: there is none. */
  get url(): string | null {
    return this.#open.server?.url ?? null;
  }

  /** Resolves when an operator has stopped the worker through the database. */
  get workerEnded(): Promise<void> {
    const { worker } = this.#open;
    if (worker === null) return new Promise(() => {});
    return new Promise((resolve) =>
      worker.on("worker:stopped", () => {
        if (!this.#isStopping) resolve();
      }),
    );
  }

  /** Accepts and claims nothing more, lets running jobs finish, and releases those that do not finish in time. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#idleMemory.stop();
    const limitMs = this.#options.settings.shutdown + CLOSE_MS_MAX;
    const late = sleep(systemRuntime, limitMs, { kind: "background" }).then(() => {
      throw new NotClosedError({ limitMs });
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

// The parts are loaded on demand: a worker without a server does not load one.

async function openAll(options: ServiceOptions, holdfast: Holdfast): Promise<Open | null> {
  const { logger, signal, tasks } = options;
  await using started = new AsyncDisposableStack();
  let monitor: Monitor | null = null;
  const latest = { latest: () => monitor?.latest() ?? null };
  const served = options.server ? await serve(options, holdfast, latest) : null;
  started.defer(() => served?.server.close());
  const worker = tasks === null ? null : await openWorker(options, holdfast, tasks);
  if (signal.aborted) return null;
  if (worker !== null) {
    logJobs(worker, logger);
    served?.include(worker);
  }
  const alerts = options.monitor ? await openAlerts(options, holdfast) : null;
  monitor = alerts === null ? null : await openMonitor(options, holdfast, alerts);
  started.move(); // everything started: keep it open
  return { holdfast, alerts, monitor, server: served?.server ?? null, worker };
}

interface Served {
  readonly server: Server;
  /** Includes this worker in metrics and health. */
  readonly include: (worker: Worker) => void;
}

async function serve(
  options: ServiceOptions,
  holdfast: Holdfast,
  monitor: Pick<Monitor, "latest">,
): Promise<Served> {
  const { settings, logger, known, pids } = options;
  const { host, port, basePath, token, nodeEnv, heartbeat: heartbeatMs } = settings;
  const { Metrics } = await import("../monitoring/metrics.ts");
  const { Health } = await import("../monitoring/health.ts");
  const { startServer } = await import("../app/server.ts");
  const metrics = new Metrics({ holdfast, counts: () => holdfast.store.stats.counts() });
  const health = new Health({
    holdfast,
    awaitsWorker: options.tasks !== null,
    ...(pids === undefined ? {} : { children: { pids, heartbeatMs } }),
  });
  try {
    const server = await startServer({
      holdfast,
      logger,
      host,
      port,
      basePath,
      production: nodeEnv === "production",
      metrics,
      health,
      ...(token === null ? {} : { token }),
      // With --watch, a broken tasks module is not an error: the server starts without its tasks and workflows.
      ...(known === null ? {} : { tasks: known, workflows: await workflowsOf(settings) }),
      ...(options.monitor ? { monitor } : {}),
    });
    const include = (worker: Worker): void => {
      metrics.watch(worker);
      health.watch(worker);
    };
    return { server, include };
  } catch (error) {
    throw whyNotListening(error, settings, options.origins);
  }
}

/** Guards are functions, so moving items requires the code of their workflows. */
async function workflowsOf({ tasks }: Settings): ReturnType<typeof loadWorkflows> {
  return tasks === null ? [] : loadWorkflows(tasks);
}

/** A standby may wait for a long time, so it must react to a stop while it waits. */
async function openWorker(
  { signal, settings }: ServiceOptions,
  holdfast: Holdfast,
  tasks: readonly AnyTask[],
): Promise<Worker | null> {
  // While canaries are sent, every worker runs the canary's task.
  const all =
    settings.canary === 0 ? tasks : (await import("../monitoring/canary.ts")).withCanary(tasks);
  const workflows = await workflowsOf(settings);
  const hooks = settings.tasks === null ? [] : await loadHooks(settings.tasks);
  const schedules = settings.tasks === null ? [] : await loadSchedules(settings.tasks);
  const options = {
    tasks: all,
    workflows,
    hooks,
    // Without any, it leaves those of other services alone: their workers may have the same name.
    ...(schedules.length === 0 ? {} : { schedules }),
    ...workerOptionsFrom(settings),
  };
  const starting = holdfast.startWorker(options);
  starting.catch(() => {}); // its error surfaces when the service closes
  const stopped = new Promise<null>((resolve) => {
    signal.addEventListener("abort", () => resolve(null), { once: true });
  });
  return Promise.race([starting, stopped]);
}

async function openAlerts({ settings }: ServiceOptions, holdfast: Holdfast): Promise<Alerts> {
  const { webhookUrls: urls, webhookSecret: secret, webhookPrivate: allowPrivate } = settings;
  const { Alerts } = await import("../alerts/alerts.ts");
  if (urls === null) return new Alerts({ holdfast });
  const webhooks = { urls, allowPrivate, ...(secret === null ? {} : { secret }) };
  return new Alerts({ holdfast, webhooks });
}

async function openMonitor(
  { settings: { monitor: interval, canary } }: ServiceOptions,
  holdfast: Holdfast,
  alerts: Alerts,
): Promise<Monitor> {
  const { Doctor } = await import("../doctor/doctor.ts");
  const { startMonitor } = await import("../monitoring/monitor.ts");
  const doctor = new Doctor(holdfast);
  return startMonitor(holdfast, {
    interval,
    examine: () => doctor.quick(),
    ...(canary === 0 ? {} : { canary: { interval: canary } }),
    onObservation: (observation) => alerts.observe(observation),
  });
}

// Why a server cannot listen, in a sentence that names the setting and the remedy.

/** The settings are valid, but the system refuses them; it may accept them later. */
class CannotListenError extends HoldfastError {}

const PORTS = "--port or HEALTH_CHECK_PORT (0 picks a free one)";
const HOSTS = "127.0.0.1 for this machine only, 0.0.0.0 for all interfaces";

type Words = (settings: Settings, origins: Origins) => string;

const noSuchHost: Words = ({ host }, { host: origin }) =>
  `${named("Host", host, origin)}: this machine has no such address. ` +
  `Choose another with --host or HOLDFAST_HOST: ${HOSTS}.`;

/** By error code of the system. */
const REASONS: Readonly<Record<string, { code: string; words: Words }>> = {
  EADDRINUSE: {
    code: "PORT_TAKEN",
    words: ({ host, port }, { port: origin }) =>
      `${named("Port", port, origin)} is in use by another process on ${host}. ` +
      `Stop that process, or choose another port with ${PORTS}.`,
  },
  EACCES: {
    code: "PORT_REFUSED",
    words: ({ port }, { port: origin }) =>
      `${named("Port", port, origin)} is privileged, and this user may not listen on it. ` +
      `Choose one from 1024 on with ${PORTS}.`,
  },
  EADDRNOTAVAIL: { code: "HOST_UNKNOWN", words: noSuchHost },
  ENOTFOUND: { code: "HOST_UNKNOWN", words: noSuchHost },
  EAI_AGAIN: { code: "HOST_UNKNOWN", words: noSuchHost },
  EINVAL: { code: "HOST_UNKNOWN", words: noSuchHost },
};

/** Replaces a known system error with a sentence; returns any other error unchanged. */
function whyNotListening(error: unknown, settings: Settings, origins: Origins): unknown {
  const { code } = error as NodeJS.ErrnoException;
  const reason = REASONS[code ?? ""];
  if (reason === undefined) return error;
  return new CannotListenError(reason.code, reason.words(settings, origins), error);
}

/** `PORT 8080 (environment)`; `Port 8080 (the default)`. */
function named(title: string, value: string | number, { name, source }: Origin): string {
  return `${name ?? title} ${value} (${source ?? "the default"})`;
}

// An idle service gives memory back. V8 keeps room for garbage that it needed while modules were loaded or jobs ran, and does
// not collect as long as nothing is allocated: 5 MB in a worker, 18 MB in a service with a server.

const LOOK_EVERY_MS = 20_000;

/** Collecting stops the process: for 50 ms with the heap of an idle service, for longer with the data of tasks. */
const HEAP_BYTES_MAX = 64 * 1_024 * 1_024;

interface Parts {
  readonly runtime: Runtime;
  readonly status: () => Pick<WorkerStatus, "claimed" | "running" | "buffered">;
  readonly lookEveryMs?: number;
  readonly collect?: () => Promise<void>;
}

/** Collects once after the start and once after each busy time. */
export class IdleMemory {
  readonly #parts: Parts;
  #claimed: number | null = null;
  #isCollected = false;
  #timer: Timer | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#lookLater();
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #lookLater(): void {
    const { runtime, lookEveryMs = LOOK_EVERY_MS } = this.#parts;
    this.#timer = runtime.timer(lookEveryMs, () => this.#look(), "background");
  }

  #look(): void {
    const { status, collect = collectGarbage } = this.#parts;
    const { claimed, running, buffered } = status();
    const isIdle = claimed === this.#claimed && running + buffered === 0;
    if (!isIdle) this.#isCollected = false;
    else if (!this.#isCollected) {
      this.#isCollected = true;
      collect().catch(() => {}); // some builds of Node have no inspector
    }
    this.#claimed = claimed;
    this.#lookLater();
  }
}

/** The inspector is the only way that needs no flag at the start of the process. */
async function collectGarbage(): Promise<void> {
  if (process.memoryUsage().heapUsed > HEAP_BYTES_MAX) return;
  const { Session } = await import("node:inspector/promises");
  const session = new Session();
  session.connect();
  try {
    await session.post("HeapProfiler.collectGarbage");
  } finally {
    session.disconnect();
  }
}
