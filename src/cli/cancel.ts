/** `holdfast cancel <id…>`, or by filter: keeps jobs from running, or asks the worker that runs them to stop. */
import { Command } from "commander";
import { IllegalMove } from "../core/errors.ts";
import { actorName, reasonOption, type ReasonOptions } from "./actor.ts";
import { bulk, bulkOptions, splitBulk, type BulkCliOptions } from "./bulk.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { eachJob } from "./each-job.ts";
import { unknownJobNames } from "./known-names.ts";
import type { Terminal } from "./terminal.ts";

type Options = DatabaseOptions & ReasonOptions & BulkCliOptions;

export function cancelCommand(terminal: Terminal): Command {
  const command = new Command("cancel")
    .description("cancel jobs that have not finished")
    .argument("[id...]", "the jobs' ids, or how they begin")
    .addOption(urlOption())
    .addOption(reasonOption());
  return bulkOptions(command, { when: "that were enqueued" })
    .addHelpText(
      "after",
      `
Without ids, it cancels the jobs that have not ended and fit all of the options
given; those that run are told to stop. Ctrl-C ends it between two chunks and
says how far it got. Each cancellation is in the audit.`,
    )
    .action((ids: string[], options: Options) => cancel(terminal, ids, options));
}

async function cancel(
  terminal: Terminal,
  ids: readonly string[],
  { url, ...given }: Options,
): Promise<void> {
  const { colors } = terminal;
  const { filter, dryRun, rest } = splitBulk(ids, given);
  const options = { actor: actorName(), ...rest };
  await using holdfast = await openForLooking(url);
  if (filter !== null) {
    await bulk(terminal, {
      done: "Cancelled",
      dryRun,
      unknownNames: () => unknownJobNames(holdfast, filter),
      next: (cursor) =>
        holdfast.jobs.cancelMany(filter, {
          ...options,
          dryRun,
          ...(cursor === undefined ? {} : { cursor }),
        }),
    });
    return;
  }
  await eachJob({ terminal, holdfast }, ids, {
    async act(id) {
      const status = await holdfast.jobs.cancel(id, options);
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
