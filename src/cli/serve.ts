/** `holdfast serve`: the server and the monitor, without a worker. */
import { Command } from "commander";
import { addFlags } from "./flags.ts";
import { run } from "./run.ts";
import { readSettings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";

export function serveCommand(terminal: Terminal): Command {
  const command = new Command("serve").description(
    "serve the API and watch the queues, without running jobs",
  );
  addFlags(command, [
    "url",
    "schema",
    "host",
    "port",
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
      if (service?.url !== null)
        logger.info({ event: "service:ready", url: service?.url }, "serving");
    },
  });
}
