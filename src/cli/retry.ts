/** `holdfast retry <id…>`, or by filter: makes failed or cancelled jobs pending again. */
import { Command } from "commander";
import { actorName, reasonOption, type ReasonOptions } from "./actor.ts";
import { wholeNumber } from "./arguments.ts";
import { bulk, bulkOptions, splitBulk, type BulkCliOptions } from "./bulk.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { eachJob, type Handled } from "./each-job.ts";
import { unknownJobNames } from "./known-names.ts";
import type { Terminal } from "./terminal.ts";

interface Options extends DatabaseOptions, ReasonOptions, BulkCliOptions {
  readonly attempts?: number;
  readonly withCalled?: true;
}

export function retryCommand(terminal: Terminal): Command {
  const command = new Command("retry")
    .description("make failed or cancelled jobs pending again")
    .argument("[id...]", "the jobs' ids, or how they begin")
    .addOption(urlOption())
    .option("--attempts <n>", "how many more tries each gets (default: 3)", wholeNumber)
    .option("--with-called", "retry the jobs that they called and that failed them, too")
    .addOption(reasonOption());
  return bulkOptions(command, { when: "that ended" })
    .addHelpText(
      "after",
      `
Without ids, it retries the failed jobs that fit all of the options given
(--status cancelled: those). Ctrl-C ends it between two chunks and says how far
it got. Each retry is in the audit.`,
    )
    .action((ids: string[], options: Options) => retry(terminal, ids, options));
}

async function retry(
  terminal: Terminal,
  ids: readonly string[],
  { url, ...given }: Options,
): Promise<void> {
  const { filter, dryRun, rest } = splitBulk(ids, given);
  const options = { actor: actorName(), ...rest };
  await using holdfast = await openForLooking(url);
  if (filter !== null) {
    await bulk(terminal, {
      done: "Retried",
      dryRun,
      unknownNames: () => unknownJobNames(holdfast, filter),
      next: (cursor) =>
        holdfast.jobs.retryMany(filter, {
          ...options,
          dryRun,
          ...(cursor === undefined ? {} : { cursor }),
        }),
    });
    return;
  }
  await eachJob({ terminal, holdfast }, ids, {
    async act(id) {
      const called = await holdfast.jobs.retry(id, options);
      return { id, status: "pending", ...(called.length === 0 ? {} : { called }) };
    },
    say: ({ id, called = [] }: Handled & { readonly called?: readonly string[] }) =>
      `${terminal.colors.green("Pending again")} ${[id, ...called].join(", ")}`,
  });
}
