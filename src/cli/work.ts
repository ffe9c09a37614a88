/** `holdfast work`: runs jobs until it is told to stop. */
import { Command } from "commander";
import { isGiven } from "../config/config.ts";
import { addFlags } from "./flags.ts";
import { run, workerKeys } from "./run.ts";
import { readSettings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";

const NO_TASKS =
  "is not set. Name the module with your tasks there, with --tasks <file>, or in holdfast.config.ts.";

interface WorkOptions {
  readonly watch?: boolean;
}

export function workCommand(terminal: Terminal): Command {
  const command = new Command("work").description("run jobs until told to stop");
  addFlags(command, ["tasks", ...workerKeys, "processes", "host", "port"]);
  return command
    .option("--watch", "start anew when the tasks module or a file beside it changes")
    .addHelpText(
      "after",
      `
The log goes to stderr. With --port there is a server too.
SIGTERM or Ctrl-C finishes the running jobs, then exits with 0. A second one
ends at once; the jobs then wait for their lease to run out.
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
