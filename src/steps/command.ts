/** `holdfast rerun <id>`: runs an ended job again from one of its steps. */
import { Command, Option } from "commander";
import type { RerunPlan } from "../core/task.ts";
import { jobId } from "../jobs/command.ts";
import type { Jobs } from "../jobs/jobs.ts";
import {
  actorName,
  givenJson,
  reasonOption,
  type ReasonOptions,
  repeated,
  wholeNumber,
} from "../terminal/arguments.ts";
import { BadUsageError } from "../terminal/usage.ts";
import { printable } from "../terminal/table.ts";
import { type CommandKit, type DatabaseOptions, urlOption } from "../terminal/terminal.ts";

type Kit = CommandKit<{ readonly jobs: Jobs }>;

interface RerunOptions extends DatabaseOptions, ReasonOptions {
  readonly from?: string;
  readonly fromStart?: true;
  readonly occurrence: number;
  readonly confirm?: readonly string[];
  readonly input?: string;
  readonly attempts?: number;
  readonly dryRun?: true;
}

export function rerunCommand(kit: Kit): Command {
  return new Command("rerun")
    .description("rerun an ended job from one of its steps")
    .argument("<id>", "the job's id, or an unambiguous prefix")
    .addOption(new Option("--from <step>", "the step to start from").conflicts("fromStart"))
    .option("--from-start", "repeat all steps")
    .option("--occurrence <n>", "which one, if several steps have this name", wholeNumber, 1)
    .option(
      "--confirm <step>",
      "an effect, commit or call that may happen again; can be repeated",
      repeated,
    )
    .option("--input <json>", "the new input, or - to read it from stdin")
    .option("--attempts <n>", "additional attempts (default: 3)", wholeNumber)
    .option("--dry-run", "show what would run again, and change nothing")
    .addOption(reasonOption())
    .addOption(urlOption())
    .addHelpText(
      "after",
      `
Steps before it keep their results. Effects, commits and calls from there on
happen again, so you must name each with --confirm. The audit log records the
rerun.`,
    )
    .action((id: string, options: RerunOptions) => rerunJob(kit, id, options));
}

async function rerunJob(
  { terminal, open }: Kit,
  typed: string,
  { url, from: name, fromStart, occurrence, confirm, input, dryRun, ...rest }: RerunOptions,
): Promise<void> {
  if (name === undefined && fromStart !== true) {
    throw new BadUsageError("Pass --from <step> or --from-start.");
  }
  const from = name === undefined ? null : { name, occurrence };
  const given = input === undefined ? {} : { input: await givenJson(input, "--input") };
  await using holdfast = await open(url);
  const id = await jobId(holdfast, typed);
  const plan = await holdfast.jobs.planRerun(id, { from });
  if (dryRun === true) {
    if (terminal.json) terminal.printJson(plan);
    else terminal.print(...planLines(plan));
    return;
  }
  const agreed = confirm === undefined ? {} : { confirm };
  await holdfast.jobs.rerun(id, { actor: actorName(), from, ...rest, ...given, ...agreed });
  if (terminal.json) terminal.printJson({ id, status: "pending", plan });
  else terminal.print(`${terminal.colors.green("Pending again")} ${id}`, ...planLines(plan));
}

function planLines({ keeps, repeats, confirm }: RerunPlan): string[] {
  const lines = [
    `  keeps its result: ${named(keeps) || "no step"}`,
    `  runs again: ${named(repeats) || "no step"}`,
    ...(confirm.length === 0 ? [] : [`  to confirm: ${confirm.join(", ")}`]),
  ];
  return lines.map((line) => printable(line));
}

function named(steps: RerunPlan["keeps"]): string {
  return steps
    .map(
      ({ name, occurrence, kind }) =>
        `${kind} ${occurrence === 1 ? name : `${name} (${occurrence})`}`,
    )
    .join(", ");
}
