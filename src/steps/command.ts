/** `holdfast effects`: lists effects in doubt, and records whether they happened. `holdfast rerun`: runs a job again. */
import { Command, Option } from "commander";
import { systemRuntime } from "../core/runtime.ts";
import type { EffectInDoubt, RerunPlan } from "../core/task.ts";
import { jobId } from "../jobs/command.ts";
import type { Jobs } from "../jobs/jobs.ts";
import {
  actorName,
  parseJson,
  reasonOption,
  type ReasonOptions,
  repeated,
  wholeNumber,
} from "../terminal/arguments.ts";
import { BadUsageError } from "../terminal/failure.ts";
import { counted, printable, relative, table } from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";

type Kit = CommandKit<{ readonly jobs: Jobs }>;

interface ListOptions extends DatabaseOptions {
  readonly limit: number;
}

interface ResolveOptions extends DatabaseOptions, ReasonOptions {
  readonly done?: boolean;
  readonly notDone?: boolean;
  readonly result?: string;
  readonly occurrence: number;
}

const LIMIT_DEFAULT = 50;

export function effectsCommand(kit: Kit): Command {
  const command = new Command("effects").description("list and resolve effects in doubt");
  command.addCommand(listCommand(kit), { isDefault: true });
  command.addCommand(resolveCommand(kit));
  return command;
}

function listCommand(kit: Kit): Command {
  return new Command("list")
    .description("list effects that may or may not have happened, oldest first")
    .addOption(urlOption())
    .option("--limit <n>", "maximum number of effects", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(kit, options));
}

function resolveCommand(kit: Kit): Command {
  return new Command("resolve")
    .description("record whether an effect happened, and continue its job")
    .argument("<job>", "the job's id, or an unambiguous prefix")
    .argument("<step>", "the effect's name")
    .addOption(urlOption())
    .addOption(new Option("--done", "the effect happened").conflicts("notDone"))
    .option("--not-done", "it did not happen: the job performs it again")
    .option("--result <json>", "with --done: the result of the effect")
    .option("--occurrence <n>", "which one, if several effects have this name", wholeNumber, 1)
    .addOption(reasonOption())
    .action((job: string, name: string, options: ResolveOptions) =>
      resolve(kit, { job, name }, options),
    );
}

async function list({ terminal, open }: Kit, { url, limit }: ListOptions): Promise<void> {
  await using holdfast = await open(url);
  const effectsInDoubt = await holdfast.jobs.effectsInDoubt({ limit });
  if (terminal.json) terminal.printJson({ effects: effectsInDoubt });
  else if (effectsInDoubt.length === 0) terminal.print("No effects in doubt.");
  else {
    const ids = effectsInDoubt.map(({ job }) => job);
    const short = terminal.columns === null ? null : await holdfast.jobs.shortIds(ids);
    const shown = effectsInDoubt.map((doubt) => ({
      ...doubt,
      job: short?.get(doubt.job) ?? doubt.job,
    }));
    terminal.print(...effectTable(shown, terminal), "", ...hints(effectsInDoubt, terminal));
  }
}

function effectTable(
  effectsInDoubt: readonly EffectInDoubt[],
  { columns, colors }: Terminal,
): string[] {
  const now = systemRuntime.now();
  return table({
    columns: [
      { title: "JOB" },
      { title: "BEGUN", align: "right" },
      { title: "EFFECT", flexible: true },
      { title: "TASK", flexible: true },
    ],
    rows: effectsInDoubt.map(({ job, begunAt, name, occurrence, task }) => [
      job,
      relative(begunAt, now),
      occurrence === 1 ? name : `${name} (${occurrence})`,
      task,
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

function hints(effectsInDoubt: readonly EffectInDoubt[], { colors }: Terminal): string[] {
  return [
    `${counted(effectsInDoubt.length, "effect")} in doubt. Find out whether it happened, then run:`,
    "holdfast effects resolve <job> <effect> --done [--result <json>]  or  --not-done",
  ].map(colors.dim);
}

async function resolve(
  { terminal, open }: Kit,
  typed: { readonly job: string; readonly name: string },
  { url, done = false, notDone = false, result, occurrence, ...reason }: ResolveOptions,
): Promise<void> {
  if (done === notDone) throw new BadUsageError("Pass either --done or --not-done.");
  if (notDone && result !== undefined) throw new BadUsageError("--result requires --done.");
  const given = result === undefined ? {} : { result: parseJson(result, "--result") };
  await using holdfast = await open(url);
  const step = { ...typed, job: await jobId(holdfast, typed.job) };
  await holdfast.jobs.resolve(
    { ...step, occurrence },
    { done, ...given },
    { actor: actorName(), ...reason },
  );
  if (terminal.json) terminal.printJson({ ...step, occurrence, done });
  else
    terminal.print(
      `Job ${step.job} continues: ${step.name} ${done ? "happened" : "did not happen"}`,
    );
}

// `holdfast rerun <id>`: runs an ended job again from one of its steps.

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
    .option("--input <json>", "the new input")
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
  const given = input === undefined ? {} : { input: parseJson(input, "--input") };
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
