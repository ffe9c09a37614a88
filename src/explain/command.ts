/** `holdfast explain`: why a job does not run, or why the jobs of a queue do not start. */
import { Command } from "commander";
import { InvalidArgumentError } from "../core/errors.ts";
import { jobId } from "../jobs/command.ts";
import type { Jobs } from "../jobs/jobs.ts";
import type { Queues } from "../queues/queues.ts";
import { type CommandKit, type DatabaseOptions, urlOption } from "../terminal/terminal.ts";
import { printable } from "../terminal/table.ts";

interface App {
  readonly jobs: Jobs;
  readonly queues: Queues;
}

interface Options extends DatabaseOptions {
  readonly queue?: string;
}

export function explainCommand(kit: CommandKit<App>): Command {
  return new Command("explain")
    .description("explain in one sentence why a job or a queue does not run")
    .argument("[id]", "the job's id, or an unambiguous prefix")
    .addOption(urlOption())
    .option("--queue <name>", "explain a queue instead of a job")
    .action((id: string | undefined, options: Options) => explain(kit, id, options));
}

async function explain(
  { terminal, open }: CommandKit<App>,
  typed: string | undefined,
  { url, queue }: Options,
): Promise<void> {
  if ((typed === undefined) === (queue === undefined)) {
    const problem = "Pass either the id of a job, or --queue with the name of a queue.";
    throw new InvalidArgumentError({ field: "id", problem });
  }
  await using holdfast = await open(url);
  if (queue !== undefined) {
    const explanation = await holdfast.queues.explain(queue);
    if (terminal.json) terminal.printJson({ queue, ...explanation });
    else terminal.print(printable(explanation.sentence));
    return;
  }
  const job = await jobId(holdfast, typed ?? "");
  const explanation = await holdfast.jobs.explain(job);
  if (terminal.json) terminal.printJson({ job, ...explanation });
  else terminal.print(printable(explanation.sentence));
}
