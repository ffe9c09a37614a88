/** `holdfast start`: everything on one command, and in an empty folder something to look at. */
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import type { Settings } from "../config/schema.ts";
import { addFlags } from "./flags.ts";
import { run, workerKeys, type Started } from "./run.ts";
import { readSettings } from "./settings.ts";
import { isForPerson } from "./speech.ts";
import type { Terminal } from "./terminal.ts";

interface StartOptions {
  readonly watch?: boolean;
}

const EXAMPLE_EXTENSION = import.meta.url.endsWith(".ts") ? "ts" : "js";
const EXAMPLE = fileURLToPath(new URL(`./example-tasks.${EXAMPLE_EXTENSION}`, import.meta.url));

export function startCommand(terminal: Terminal): Command {
  const command = new Command("start").description(
    "run jobs, serve the API and watch the queues, in one process",
  );
  addFlags(command, ["tasks", ...workerKeys, "processes", "host", "port"]);
  return command
    .option("--watch", "start anew when the tasks module or a file beside it changes")
    .addHelpText(
      "after",
      `
Without a database it is sqlite:holdfast.db in this folder; without tasks, a few
examples with a few jobs. SIGTERM or Ctrl-C finishes the running jobs, then
exits with 0. A second one ends at once.
All settings: holdfast config --all`,
    )
    .action((options: StartOptions) => start(terminal, options));
}

async function start(terminal: Terminal, options: StartOptions): Promise<void> {
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
        started.logger.info({}, "--watch has nothing to watch: the examples do not change");
      }
    },
  });
}

/** Nothing is made up in production: there, tasks that are missing are a mistake. */
function mayNotExample({ nodeEnv }: Settings): string | null {
  if (nodeEnv !== "production") return null;
  return "is not set. With NODE_ENV=production the module with your tasks has to be named.";
}

async function sprinkleExamples({ service, logger }: Started): Promise<void> {
  if (service === null) return;
  const { sprinkle } = await import("./example-tasks.ts");
  const jobs = await sprinkle(service.holdfast);
  logger.info(
    { jobs },
    "no tasks were named: these are examples. Name your own with --tasks <file> or HOLDFAST_TASKS",
  );
}

/** Where it is, and what to try next. */
function announce(terminal: Terminal, settings: Settings, started: Started): void {
  const { service, logger } = started;
  const url = service?.url ?? null;
  const database = service?.holdfast.store.name;
  const place = url === null ? {} : { url };
  logger.info({ event: "service:ready", ...place, database }, "ready");
  if (!isForPerson(terminal)) return;
  const { colors } = terminal;
  const tasks = settings.tasks === null ? "examples" : relative(".", settings.tasks);
  const lines = [
    ["Database", database ?? ""],
    ["Tasks", tasks],
    ...(url === null
      ? []
      : [
          ["API", `${url}/api/v1`],
          ["Health", `${url}/health`],
        ]),
  ];
  terminal.print(
    "",
    ...lines.map(([title = "", text = ""]) => `  ${colors.bold(title.padEnd(9))} ${text}`),
    "",
    "  Send a job:",
    `  ${url === null ? enqueueLine(settings) : curlLine(url, settings)}`,
    "",
  );
}

const GREETING = { task: "greet", input: { name: "Ada" } };

/** To be pasted as it stands. */
export function curlLine(url: string, { token, tasks, nodeEnv }: Settings): string {
  const body = JSON.stringify(tasks === null ? GREETING : { task: "<task>", input: {} });
  // Not the token itself: what is on the screen ends up in a recording.
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
