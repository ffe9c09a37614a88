/** Runs `start`, `work` and `serve` until they are told to stop: in this process, or in several that this one watches over. */
import type { Config } from "../config/config.ts";
import type { Key, Settings } from "../config/schema.ts";
import { formatMs } from "../core/duration.ts";
import { InvalidArgument } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { systemRuntime, TIMER_MS_MAX } from "../core/runtime.ts";
import type { AnyTask } from "../core/task.ts";
import { flagsAgain } from "./flags.ts";
import { openLog, passOn } from "./log.ts";
import { loadParts } from "./parts.ts";
import { processLog } from "./process-log.ts";
import { Service } from "./service.ts";
import { listenForSignals, type EndSignal, type Signals } from "./signals.ts";
import { childNumber } from "./speech.ts";
import { Supervisor } from "./supervisor.ts";
import { loadTasks } from "./tasks.ts";
import type { Terminal } from "./terminal.ts";
import { compileAsUsual, growAsUsual, holdBack } from "./thrift.ts";
import { watchBeside } from "./watch.ts";

/** What one of these commands is made of. */
export interface Plan {
  readonly config: Config;
  readonly settings: Settings;
  /** The module with the tasks; null: no jobs are run here. */
  readonly tasks: string | null;
  /** The same, where only the server needs to know them: which queue their jobs go to, and what they take. */
  readonly known?: string | null;
  readonly server: boolean;
  /** Start anew when the tasks change. */
  readonly watch: boolean;
  /** Called when everything is up. */
  readonly announce?: (started: Started) => Promise<void>;
}

export interface Started {
  /** Null: several processes run jobs, and no service is needed beside them. */
  readonly service: Service | null;
  readonly logger: Logger;
  /** Null: other processes have loaded them. */
  readonly tasks: readonly AnyTask[] | null;
}

/** Settings of a worker, which those who run jobs for us are told again. */
export const workerKeys: readonly Key[] = [
  "url",
  "schema",
  "queues",
  "concurrency",
  "name",
  "poll",
  "shutdown",
  "lease",
  "upkeep",
  "grace",
  "crashes",
  "slots",
  "standby",
  "heartbeat",
  "stale",
  "hung",
  "monitor",
  "canary",
  "logLevel",
  "config",
];

/** Until it is told to stop: also where nothing but signals is waited for. */
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
  const child = childNumber();
  const logger = openLog(terminal, { level: settings.logLevel, process: child });
  processLog.use(logger);
  const load = async (): Promise<void> => {
    await loadParts(settings, { server: plan.server && child === undefined });
    compileAsUsual();
  };
  const several = child === undefined && (plan.watch || settings.processes > 1);
  if (several && plan.tasks !== null) {
    await load();
    return watchOver(terminal, plan, plan.tasks, logger);
  }
  using signals = listenForSignals((signal) => sayEnding(logger, signal, plan));
  let isUp = false;
  void signals.first.then((signal) => {
    if (!isUp) logger.info({}, `${signal} during start-up: stopping before any job is taken`);
  });
  await load();
  const tasks = plan.tasks === null ? null : await loadTasks(plan.tasks);
  const { known: module = null } = plan;
  const known = module === null ? tasks : await loadTasks(module);
  const alone = child === undefined;
  const service = await startService(plan, { logger, tasks, known, signals, alone });
  if (service === null) return;
  isUp = true;
  growAsUsual();
  if (service.url === null) {
    holdBack();
    void service.firstJob.then(compileAsUsual);
  }
  await plan.announce?.({ service, logger, tasks });
  const told = await Promise.race([signals.first, orphaned(child), workerLeft(service, logger)]);
  if (told !== null) sayStopping(logger, told, settings);
  await service.stop();
}

interface Circumstances {
  readonly logger: Logger;
  readonly tasks: readonly AnyTask[] | null;
  readonly known: readonly AnyTask[] | null;
  readonly signals: Signals;
  /** The server and the monitor are this process's, not those of one above it. */
  readonly alone: boolean;
  /** Of those that run the jobs for us. */
  readonly pids?: () => readonly number[];
}

function startService(plan: Plan, { logger, tasks, known, signals, alone, pids }: Circumstances) {
  const ending = new AbortController();
  void signals.first.then(() => ending.abort());
  const { settings, config } = plan;
  return Service.start({
    settings,
    origins: config.origins,
    logger,
    tasks,
    known,
    pids,
    signal: ending.signal,
    server: alone && plan.server,
    monitor: alone && settings.monitor > 0,
  });
}

/** Who watches over us has gone without a word. */
function orphaned(child: number | undefined): Promise<EndSignal | null> {
  if (child === undefined) return new Promise(() => {});
  return new Promise((resolve) => {
    process.once("disconnect", () => resolve("SIGTERM"));
    process.channel?.unref();
    if (!process.connected) resolve("SIGTERM"); // before we listened
  });
}

/** Somebody stopped the worker through the database. A server goes on: it is how they look at it. */
async function workerLeft(service: Service, logger: Logger): Promise<null> {
  await service.workerEnded;
  if (service.url === null) return null;
  logger.warn({}, "the worker was stopped; the server goes on");
  return new Promise(() => {});
}

function sayStopping(logger: Logger, signal: string, { shutdown }: Settings): void {
  const patience = formatMs(shutdown);
  const facts = { event: "service:stopping", signal, limitMs: shutdown };
  logger.info(facts, `${signal}: waiting up to ${patience} for running jobs; again to end at once`);
}

/** The second one. */
function sayEnding(logger: Logger, signal: string, { tasks, settings }: Plan): void {
  const lease = formatMs(settings.lease);
  const jobs = `. Jobs in hand are not waited for: other workers run them again, once their lease of ${lease} has run out at the latest`;
  logger.warn(
    { event: "service:ending", signal },
    `${signal} again: ending now${tasks === null ? "" : jobs}`,
  );
}

/** Every process would have a database of its own. */
function refuseMemory({ url }: Settings): void {
  if (url !== "sqlite::memory:") return;
  const problem = "a database in memory belongs to one process: name a file, or run one process.";
  throw new InvalidArgument({ field: "url", problem });
}

/** While developing, a module that cannot be read is waited out by those who run it. */
async function knownTasks({ watch }: Plan, module: string): Promise<readonly AnyTask[] | null> {
  const loading = loadTasks(module);
  return watch ? loading.catch(() => null) : loading;
}

/** The server and the monitor are here, the jobs in processes of their own. */
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
  growAsUsual();
  using watching = plan.watch ? watchTasks(tasks, supervisor, logger) : null;
  void watching; // until we are told to stop
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
  logger.info({}, `watching ${tasks} and the files beside it`);
  return watchBeside(tasks, {
    onChange(names) {
      logger.info({}, `${names.join(", ")} changed: starting anew`);
      void supervisor.restart();
    },
    onError: (error) => logger.warn({ err: error }, "the files cannot be watched any more"),
  });
}
