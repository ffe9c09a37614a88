/** Runs `start`, `work` and `serve` until a signal: in this process, or in several processes that this one supervises. */
import { watch } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { type Config, type Key, keys, settingOf, type Settings } from "../app/settings.ts";
import { formatMs } from "../core/duration.ts";
import { invalid } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { systemRuntime, type Timer, TIMER_MS_MAX } from "../core/runtime.ts";
import type { AnyTask } from "../core/task.ts";
import { childNumber } from "../terminal/log-line.ts";
import {
  type EndSignal,
  listenForSignals,
  type Signals,
  type Terminal,
} from "../terminal/terminal.ts";
import { openLog, passOn, processLog } from "./log.ts";
import { Service } from "./service.ts";
import { flagsAgain } from "./settings.ts";
import { Supervisor } from "./supervisor.ts";
import { loadTasks } from "./tasks.ts";

interface Plan {
  readonly config: Config;
  readonly settings: Settings;
  /** The module with the tasks; null: this process runs no jobs. */
  readonly tasks: string | null;
  /** The same, if only the server needs them: for the queues and inputs of their jobs. */
  readonly known?: string | null;
  readonly server: boolean;
  /** Restart when the tasks change. */
  readonly watch: boolean;
  /** Called when everything is up. */
  readonly announce?: (started: Started) => Promise<void>;
}

export interface Started {
  /** Null: several processes run the jobs, and no service is needed besides them. */
  readonly service: Service | null;
  readonly logger: Logger;
  /** Null: child processes have loaded them. */
  readonly tasks: readonly AnyTask[] | null;
}

/** The other flags of a service. */
const OF_SERVICE = new Set<Key>(["tasks", "processes", "host", "port", "basePath"]);

/** Settings of a worker, which are passed on to child processes: a new setting with a flag is one of them. */
export const workerKeys: readonly Key[] = keys.filter(
  (key) => settingOf(key).flag !== null && !OF_SERVICE.has(key),
);

/** The timer keeps the process alive while it waits for nothing but signals. */
export async function run(terminal: Terminal, plan: Plan): Promise<void> {
  const staying = systemRuntime.timer(TIMER_MS_MAX, () => {});
  try {
    await runPlan(terminal, plan);
  } finally {
    staying.cancel();
  }
}

async function runPlan(terminal: Terminal, plan: Plan): Promise<void> {
  const { settings } = plan;
  const logger = openLog(terminal, { level: settings.logLevel, process: childNumber });
  processLog.use(logger);
  const alone = childNumber === undefined;
  const several = alone && (plan.watch || settings.processes > 1);
  if (several && plan.tasks !== null) return watchOver(terminal, plan, plan.tasks, logger);
  using signals = listenForSignals((signal) => sayEnding(logger, signal, plan));
  let isUp = false;
  void signals.first.then((signal) => {
    if (!isUp) logger.info({}, `${signal} during start-up: stopping before any job is claimed`);
  });
  const tasks = plan.tasks === null ? null : await loadTasks(plan.tasks);
  const { known: module = null } = plan;
  const known = module === null ? tasks : await loadTasks(module);
  const service = await startService(plan, { logger, tasks, known, signals, alone });
  if (service === null) return;
  isUp = true;
  await plan.announce?.({ service, logger, tasks });
  const signal = await Promise.race([signals.first, orphaned(), workerLeft(service, logger)]);
  if (signal !== null) sayStopping(logger, signal, settings);
  await service.stop();
}

interface Circumstances {
  readonly logger: Logger;
  readonly tasks: readonly AnyTask[] | null;
  readonly known: readonly AnyTask[] | null;
  readonly signals: Signals;
  /** The server and the monitor run in this process and not in its supervisor. */
  readonly alone: boolean;
  /** Of the child processes that run the jobs. */
  readonly pids?: () => readonly number[];
}

function startService(plan: Plan, { signals, alone, ...others }: Circumstances) {
  const ending = new AbortController();
  void signals.first.then(() => ending.abort());
  const { settings, config } = plan;
  return Service.start({
    ...others,
    settings,
    origins: config.origins,
    signal: ending.signal,
    server: alone && plan.server,
    monitor: alone && settings.monitor > 0,
  });
}

/** Resolves when the supervisor has crashed. */
function orphaned(): Promise<EndSignal> {
  if (childNumber === undefined) return new Promise(() => {});
  return new Promise((end) => {
    process.once("disconnect", () => end("SIGTERM"));
    process.channel?.unref();
    if (!process.connected) end("SIGTERM"); // it crashed before we listened
  });
}

/** An operator stopped the worker through the database. A server keeps running, so that the operator can still use it. */
async function workerLeft(service: Service, logger: Logger): Promise<null> {
  await service.workerEnded;
  if (service.url === null) return null;
  logger.warn({}, "the worker was stopped; the server keeps running");
  return new Promise(() => {});
}

function sayStopping(logger: Logger, signal: string, { shutdown }: Settings): void {
  logger.info(
    { event: "service:stopping", signal, limitMs: shutdown },
    `${signal}: waiting up to ${formatMs(shutdown)} for running jobs; repeat the signal to stop immediately`,
  );
}

/** After the second signal. */
function sayEnding(logger: Logger, signal: string, { tasks, settings }: Plan): void {
  const lease = formatMs(settings.lease);
  const jobs = ` without waiting for running jobs; other workers retry them when their lease of ${lease} expires, or sooner`;
  logger.warn(
    { event: "service:ending", signal },
    `${signal} again: stopping immediately${tasks === null ? "" : jobs}`,
  );
}

/** Each process would have its own database. */
function refuseMemory({ url }: Settings): void {
  if (url !== "sqlite::memory:") return;
  const problem =
    "an in-memory database belongs to a single process. Use a file, or run one process.";
  throw invalid("url", problem);
}

/** With --watch, a broken module is not an error: its processes wait until it is fixed. */
async function knownTasks(
  { watch: isWatching }: Plan,
  module: string,
): Promise<readonly AnyTask[] | null> {
  const loading = loadTasks(module);
  return isWatching ? loading.catch(() => null) : loading;
}

/** The server and the monitor run in this process, the jobs in child processes. */
async function watchOver(
  terminal: Terminal,
  plan: Plan,
  tasks: string,
  logger: Logger,
): Promise<void> {
  const { settings } = plan;
  refuseMemory(settings);
  let supervisor: Supervisor | null = null;
  using signals = listenForSignals((signal) => {
    sayEnding(logger, signal, plan);
    supervisor?.killAll();
  });
  const known = plan.server ? await knownTasks(plan, tasks) : null;
  const pids = (): readonly number[] => supervisor?.pids ?? [];
  const beside = { tasks: null, known, alone: true, pids };
  const service = await startService(plan, { logger, signals, ...beside });
  if (service === null) return;
  supervisor = new Supervisor({
    count: settings.processes,
    args: ["work", ...flagsAgain(plan.config, workerKeys), `--tasks=${tasks}`],
    logger,
    passOn: (line) => passOn(terminal, line),
    shutdownMs: settings.shutdown,
    onCrash: plan.watch ? "wait" : "restart",
  });
  using watching = plan.watch ? watchTasks(tasks, supervisor, logger) : null;
  void watching; // disposed of at the end
  let signal: EndSignal | null = null;
  try {
    await plan.announce?.({ service, logger, tasks: null });
    signal = await Promise.race([signals.first, supervisor.over.then(() => null)]);
    if (signal !== null) sayStopping(logger, signal, settings);
  } finally {
    await Promise.all([supervisor.stop(signal ?? "SIGTERM"), service.stop()]);
  }
}

function watchTasks(tasks: string, supervisor: Supervisor, logger: Logger): Disposable {
  logger.info({}, `watching ${tasks} and the other files in its folder`);
  return watchBeside(tasks, {
    onChange(names) {
      logger.info({}, `${names.join(", ")} changed: restarting`);
      void supervisor.restart();
    },
    onError: (error) => logger.warn({ err: error }, "can no longer watch the files"),
  });
}

// Reports changes of a module or of files in its folder, debounced: an editor writes a file in several steps.

const SETTLE_MS = 100;
const NAMES_MAX = 20;

/** Only source files: a database in the same folder changes all the time. */
const SOURCES = /^[^.].*\.(?:[cm]?[jt]sx?|json)$/;

interface WatchOptions {
  /** The names of the files, without their folder. */
  readonly onChange: (names: readonly string[]) => void;
  readonly onError: (error: unknown) => void;
}

function watchBeside(file: string, { onChange, onError }: WatchOptions): Disposable {
  const path = resolve(file);
  const changed = new Set<string>();
  let timer: Timer | null = null;
  const report = (): void => {
    timer = null;
    const names = [...changed];
    changed.clear();
    onChange(names);
  };
  const note = (_event: string, name: string | null): void => {
    const which = name ?? basename(path);
    if (!SOURCES.test(which) && which !== basename(path)) return;
    if (changed.size < NAMES_MAX) changed.add(which);
    timer?.cancel();
    timer = systemRuntime.timer(SETTLE_MS, report);
  };
  const watcher = watch(dirname(path), note);
  watcher.on("error", onError);
  return {
    [Symbol.dispose]() {
      timer?.cancel();
      watcher.close();
    },
  };
}
