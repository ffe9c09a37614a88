/** `holdfast work`: runs jobs until it is told to stop. */
import { Command } from "commander";
import { formatMs, toMs } from "../core/duration.ts";
import type { Logger } from "../core/log.ts";
import type { WorkerOptions } from "../worker/settings.ts";
import type { Worker } from "../worker/worker.ts";
import { duration, names, wholeNumber } from "./arguments.ts";
import { openForWork, urlOption, type DatabaseOptions } from "./database.ts";
import { listenForSignals } from "./signals.ts";
import { loadTasks } from "./tasks.ts";
import type { Terminal } from "./terminal.ts";

interface WorkOptions extends DatabaseOptions {
  readonly tasks: string;
  readonly queue?: string[];
  readonly concurrency?: number;
  readonly name?: string;
  readonly lease?: string;
  readonly poll?: string;
  readonly upkeep?: string;
  readonly grace?: string;
  readonly crashes?: number;
  readonly shutdown: string;
  readonly slots?: number;
  readonly standby?: boolean;
  readonly heartbeat?: string;
  readonly stale?: string;
  readonly hung?: string;
}

const DEFAULT_SHUTDOWN = "30s";

export function workCommand(terminal: Terminal): Command {
  return new Command("work")
    .description("run jobs until told to stop")
    .addOption(urlOption())
    .requiredOption("--tasks <file>", "module that exports the tasks")
    .option(
      "--queue <names>",
      "queues to work on, comma-separated (default: the tasks' own)",
      names,
    )
    .option("--concurrency <n>", "jobs at once (default: 10)", wholeNumber)
    .option("--name <name>", "first part of the worker's id (default: worker)")
    .option(
      "--lease <duration>",
      "how long a job is ours without a sign of life (default: 30s)",
      duration,
    )
    .option("--poll <duration>", "how often to look when nothing woke us (default: 10s)", duration)
    .option("--upkeep <duration>", "how often chores are done (default: 1s)", duration)
    .option("--grace <duration>", "how long an ended lease is left alone (default: 2s)", duration)
    .option("--crashes <n>", "lost leases after which a job is poison (default: 3)", wholeNumber)
    .option("--slots <n>", "how many workers of this name may be active at once", wholeNumber)
    .option("--standby", "when all slots are taken, wait and take over instead of failing")
    .option("--heartbeat <duration>", "how often to give a sign of life (default: 10s)", duration)
    .option(
      "--stale <duration>",
      "without one for so long a worker is dead (default: 30s)",
      duration,
    )
    .option("--hung <duration>", "the same for one that is stopping (default: 60s)", duration)
    .option(
      "--shutdown <duration>",
      "how long to wait for running jobs",
      duration,
      DEFAULT_SHUTDOWN,
    )
    .addHelpText(
      "after",
      `
The log goes to stderr; HOLDFAST_LOG_LEVEL is debug, info (default), warn, error or silent.
SIGTERM or Ctrl-C finishes the running jobs, then exits with 0. A second one ends at once;
the jobs then wait for their lease to run out.`,
    )
    .action((options: WorkOptions) => work(terminal, options));
}

async function work(terminal: Terminal, options: WorkOptions): Promise<void> {
  const { openLog } = await import("./log.ts"); // No other command has a log.
  const logger = openLog(terminal);
  const tasks = await loadTasks(options.tasks);
  using signals = listenForSignals();
  await using holdfast = await openForWork(options.url, (line) => logger.info({}, line), logger);
  const starting = holdfast.startWorker({ tasks, ...settingsFrom(options) });
  // One that stands by may wait for long, and can be told to stop meanwhile.
  const worker = await Promise.race([starting, signals.first.then(() => null)]);
  if (worker === null) return void starting.catch(() => {});
  logJobs(worker, logger);
  const stopped = new Promise<null>((resolve) => worker.on("worker:stopped", () => resolve(null)));
  const signal = await Promise.race([signals.first, stopped]);
  if (signal === null) return; // somebody told it to, through the database
  const patience = formatMs(toMs("shutdown", options.shutdown));
  logger.info({}, `${signal}: waiting up to ${patience} for running jobs; again to end at once`);
  await worker.stop();
}

/** What was not given is left out, so that the worker's own defaults hold. */
function settingsFrom(options: WorkOptions): Omit<WorkerOptions, "tasks"> {
  const { url: _url, tasks: _tasks, queue, standby, ...settings } = options;
  return {
    ...settings,
    ...(queue === undefined ? {} : { queues: queue }),
    ...(standby === true ? { onConflict: "standby" } : {}),
  };
}

/** The worker itself logs its start, its end and what goes wrong; here is what goes well. */
function logJobs(worker: Worker, logger: Logger): void {
  worker.on("job:started", ({ id, task, attempt }) =>
    logger.debug({ job: id, attempt }, `${task} started`),
  );
  worker.on("job:completed", ({ id, task, attempt, durationMs }) =>
    logger.info({ job: id, attempt, took: formatMs(durationMs) }, `${task} done`),
  );
  worker.on("job:retrying", ({ id, task, attempt, error }) =>
    logger.warn({ job: id, attempt, err: error }, `${task} failed and will be tried again`),
  );
  worker.on("job:cancelled", ({ id, task }) => logger.info({ job: id }, `${task} cancelled`));
  worker.on("job:released", ({ id, task }) => logger.info({ job: id }, `${task} handed back`));
}
