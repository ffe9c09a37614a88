/** `holdfast start`: runs everything with one command, and in an empty folder with example tasks. */
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import type { Settings } from "../app/settings.ts";
import { isGiven } from "../config/resolve.ts";
import { programFile } from "../core/version.ts";
import type { CommandKit, Terminal } from "../terminal/terminal.ts";
import { isForPerson } from "../terminal/log-line.ts";
import { run, type Started, workerKeys } from "./run.ts";
import { addFlags, readSettings } from "./settings.ts";

interface WorkOptions {
  readonly watch?: boolean;
}

const EXAMPLE = fileURLToPath(programFile("cli/example-tasks"));

export function startCommand({ terminal }: CommandKit<unknown>): Command {
  return withWorkerFlags(new Command("start"))
    .description("run jobs, serve the dashboard and the API, and monitor the queues")
    .addHelpText(
      "after",
      `
If no database is set, it uses sqlite:holdfast.db in this folder. If no tasks
are set, it runs example tasks and jobs. On SIGTERM or Ctrl-C it finishes the
running jobs, then exits with 0; a second signal stops it immediately.
All settings: holdfast config --all`,
    )
    .action((options: WorkOptions) => start(terminal, options));
}

function withWorkerFlags(command: Command): Command {
  addFlags(command, ["tasks", ...workerKeys, "processes", "host", "port", "basePath"]);
  return command.option(
    "--watch",
    "restart when the tasks module or another file in its folder changes",
  );
}

async function start(terminal: Terminal, options: WorkOptions): Promise<void> {
  const { config, settings } = await readSettings({ ...options }, { tasks: mayNotExample });
  const isExample = settings.tasks === null;
  await run(terminal, {
    config,
    settings,
    tasks: settings.tasks ?? EXAMPLE,
    server: true,
    watch: options.watch === true && !isExample,
    async announce(started) {
      announce(terminal, settings, started);
      if (isExample) await sprinkleExamples(started);
      if (isExample && options.watch === true) {
        started.logger.info({}, "--watch is ignored: the example tasks do not change");
      }
    },
  });
}

/** In production, missing tasks are a mistake: the examples never run there. */
function mayNotExample({ nodeEnv }: Settings): string | null {
  if (nodeEnv !== "production") return null;
  return "not set. Name the module with your tasks: it is required when NODE_ENV=production.";
}

async function sprinkleExamples({ service, logger }: Started): Promise<void> {
  if (service === null) return;
  const { sprinkle } = await import("./example-tasks.ts");
  const jobs = await sprinkle(service.holdfast);
  logger.info(
    { jobs },
    "running example tasks. Name your own with --tasks <file> or HOLDFAST_TASKS",
  );
}

/** Prints the addresses, and a command to try next. */
function announce(terminal: Terminal, settings: Settings, { service, logger }: Started): void {
  const url = service?.url ?? null;
  const database = service?.holdfast.store.db.name;
  logger.info({ event: "service:ready", ...(url === null ? {} : { url }), database }, "ready");
  if (!isForPerson(terminal)) return;
  const { colors } = terminal;
  const tasks = settings.tasks === null ? "examples" : relative(".", settings.tasks);
  const lines = [
    ["Database", database ?? ""],
    ["Tasks", tasks],
    ...(url === null
      ? []
      : [
          ["Dashboard", `${url}${settings.basePath}`],
          ["API", `${url}/api/v1`],
          ["Health", `${url}/health`],
        ]),
  ];
  terminal.print(
    "",
    ...lines.map(([title = "", text = ""]) => `  ${colors.bold(title.padEnd(10))} ${text}`),
    "",
    "  Enqueue a job:",
    `  ${url === null ? enqueueLine(settings) : curlLine(url, settings)}`,
    "",
  );
}

const GREETING = { task: "greet", input: { name: "Ada" } };

/** Can be pasted into a shell unchanged. */
function curlLine(url: string, { token, tasks, nodeEnv }: Settings): string {
  const body = JSON.stringify(tasks === null ? GREETING : { task: "<task>", input: {} });
  // Not the token itself: screens are recorded and shared.
  const isOpen = token === null && nodeEnv !== "production";
  const key = isOpen ? "" : ' -H "authorization: Bearer $HOLDFAST_TOKEN"';
  return `curl -X POST ${url}/api/v1/jobs -H 'content-type: application/json'${key} -d '${body}'`;
}

function enqueueLine({ tasks, url }: Settings): string {
  const where = url === "sqlite:holdfast.db" ? "" : " --url …";
  return tasks === null
    ? `holdfast enqueue greet '{"name":"Ada"}' --wait 10s${where}`
    : `holdfast enqueue <task> '{}' --wait 10s${where}`;
}

// `holdfast serve`: the server and the monitor, without a worker.

export function serveCommand({ terminal }: CommandKit<unknown>): Command {
  const command = new Command("serve").description(
    "serve the dashboard and the API and monitor the queues, without running jobs",
  );
  addFlags(command, [
    "url",
    "schema",
    "host",
    "port",
    "basePath",
    "tasks",
    "monitor",
    "canary",
    "shutdown",
    "logLevel",
    "config",
  ]);
  return command.action((options: object) => serve(terminal, options));
}

async function serve(terminal: Terminal, options: object): Promise<void> {
  const { config, settings } = await readSettings({ ...options });
  await run(terminal, {
    config,
    settings,
    tasks: null,
    known: settings.tasks,
    server: true,
    watch: false,
    async announce({ service, logger }) {
      const url = service?.url ?? null;
      if (url === null) return;
      logger.info({ event: "service:ready", url }, "serving");
      if (isForPerson(terminal))
        terminal.print("", `  ${terminal.colors.bold("Dashboard")} ${url}`, "");
    },
  });
}

// `holdfast work`: runs jobs until a signal stops it.

const NO_TASKS =
  "not set. Name the module with your tasks here, with --tasks <file> or in holdfast.config.ts.";

export function workCommand({ terminal }: CommandKit<unknown>): Command {
  return withWorkerFlags(new Command("work"))
    .description("run jobs until stopped by a signal")
    .addHelpText(
      "after",
      `
The log goes to stderr. With --port, it also starts a server.
On SIGTERM or Ctrl-C it finishes the running jobs, then exits with 0. A second
signal stops it immediately; other workers then take over its jobs when their
leases expire.
All settings: holdfast config --all`,
    )
    .action((options: WorkOptions) => work(terminal, options));
}

async function work(terminal: Terminal, options: WorkOptions): Promise<void> {
  const { config, settings } = await readSettings({ ...options }, { tasks: () => NO_TASKS });
  const { tasks } = settings;
  const server = isGiven(config, "port");
  await run(terminal, { config, settings, tasks, server, watch: options.watch === true });
}
