/** `holdfast retry <id…>`: makes failed or cancelled jobs pending again. */
import { Command } from "commander";
import { actorName, reasonOption, type ReasonOptions } from "./actor.ts";
import { wholeNumber } from "./arguments.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { eachJob, type Handled } from "./each-job.ts";
import type { Terminal } from "./terminal.ts";

interface Options extends DatabaseOptions, ReasonOptions {
  readonly attempts?: number;
  readonly withCalled?: true;
}

export function retryCommand(terminal: Terminal): Command {
  return new Command("retry")
    .description("make failed or cancelled jobs pending again")
    .argument("<id...>", "the jobs' ids, or how they begin")
    .addOption(urlOption())
    .option("--attempts <n>", "how many more tries each gets (default: 3)", wholeNumber)
    .option("--with-called", "retry the jobs that they called and that failed them, too")
    .addOption(reasonOption())
    .action((ids: string[], options: Options) => retry(terminal, ids, options));
}

async function retry(
  terminal: Terminal,
  ids: readonly string[],
  { url, ...options }: Options,
): Promise<void> {
  await using holdfast = await openForLooking(url);
  await eachJob({ terminal, holdfast }, ids, {
    async act(id) {
      const called = await holdfast.jobs.retry(id, { actor: actorName(), ...options });
      return { id, status: "pending", ...(called.length === 0 ? {} : { called }) };
    },
    say: ({ id, called = [] }: Handled & { readonly called?: readonly string[] }) =>
      `${terminal.colors.green("Pending again")} ${[id, ...called].join(", ")}`,
  });
}
