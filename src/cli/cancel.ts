/** `holdfast cancel <id…>`: keeps jobs from running, or asks the worker that runs them to stop. */
import { Command } from "commander";
import { IllegalMove } from "../core/errors.ts";
import { actorName, reasonOption, type ReasonOptions } from "./actor.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { eachJob } from "./each-job.ts";
import type { Terminal } from "./terminal.ts";

type Options = DatabaseOptions & ReasonOptions;

export function cancelCommand(terminal: Terminal): Command {
  return new Command("cancel")
    .description("cancel jobs that have not finished")
    .argument("<id...>", "the jobs' ids, or how they begin")
    .addOption(urlOption())
    .addOption(reasonOption())
    .action((ids: string[], options: Options) => cancel(terminal, ids, options));
}

async function cancel(
  terminal: Terminal,
  ids: readonly string[],
  { url, ...reason }: Options,
): Promise<void> {
  const { colors } = terminal;
  await using holdfast = await openForLooking(url);
  await eachJob({ terminal, holdfast }, ids, {
    async act(id) {
      const status = await holdfast.jobs.cancel(id, { actor: actorName(), ...reason });
      if (status === "done" || status === "failed") {
        throw new IllegalMove({ id, status, move: "cancel" });
      }
      return { id, status };
    },
    say: ({ id, status }) =>
      status === "processing"
        ? `${colors.yellow("Running")} ${id}: its worker is told to stop`
        : `${colors.green("Cancelled")} ${id}`,
  });
}
