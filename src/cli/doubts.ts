/** `holdfast doubts`: effects of which nobody knows whether they happened, and what a person says about them. */
import { Command, Option } from "commander";
import { systemRuntime } from "../core/runtime.ts";
import type { Doubt } from "../store/journal.ts";
import { actorName, reasonOption, type ReasonOptions } from "./actor.ts";
import { parseJson, wholeNumber } from "./arguments.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { BadUsage } from "./failure.ts";
import { jobId } from "./id.ts";
import { table } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { counted, relative } from "./words.ts";

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

export function doubtsCommand(terminal: Terminal): Command {
  const command = new Command("doubts").description(
    "list effects in doubt, and say what became of them",
  );
  command.addCommand(listCommand(terminal), { isDefault: true });
  command.addCommand(resolveCommand(terminal));
  return command;
}

function listCommand(terminal: Terminal): Command {
  return new Command("list")
    .description("list effects that may have happened, those that wait longest first")
    .addOption(urlOption())
    .option("--limit <n>", "how many at most", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(terminal, options));
}

function resolveCommand(terminal: Terminal): Command {
  return new Command("resolve")
    .description("say whether an effect happened; its job goes on")
    .argument("<job>", "the job's id, or how it begins")
    .argument("<step>", "the effect's name")
    .addOption(urlOption())
    .addOption(new Option("--done", "it happened").conflicts("notDone"))
    .option("--not-done", "it did not: it is made")
    .option("--result <json>", "with --done: what the effect came to")
    .option("--occurrence <n>", "which of several of that name", wholeNumber, 1)
    .addOption(reasonOption())
    .action((job: string, name: string, options: ResolveOptions) =>
      resolve(terminal, { job, name }, options),
    );
}

async function list(terminal: Terminal, { url, limit }: ListOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
  const doubts = await holdfast.jobs.doubts({ limit });
  if (terminal.json) terminal.printJson({ doubts });
  else if (doubts.length === 0) terminal.print("Nothing is in doubt.");
  else {
    const ids = doubts.map(({ job }) => job);
    const short = terminal.columns === null ? null : await holdfast.jobs.shortIds(ids);
    const shown = doubts.map((doubt) => ({ ...doubt, job: short?.get(doubt.job) ?? doubt.job }));
    terminal.print(...doubtTable(shown, terminal), "", ...hints(doubts, terminal));
  }
}

function doubtTable(doubts: readonly Doubt[], { columns, colors }: Terminal): string[] {
  const now = systemRuntime.now();
  return table({
    columns: [
      { title: "JOB" },
      { title: "BEGUN", align: "right" },
      { title: "EFFECT", flexible: true },
      { title: "TASK", flexible: true },
    ],
    rows: doubts.map(({ job, begunAt, name, occurrence, task }) => [
      job,
      relative(begunAt, now),
      occurrence === 1 ? name : `${name} (${occurrence})`,
      task,
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

function hints(doubts: readonly Doubt[], { colors }: Terminal): string[] {
  return [
    `${counted(doubts.length, "effect")} in doubt. Look outside whether it happened, then say so:`,
    "holdfast doubts resolve <job> <effect> --done [--result <json>]  or  --not-done",
  ].map(colors.dim);
}

async function resolve(
  terminal: Terminal,
  typed: { readonly job: string; readonly name: string },
  { url, done = false, notDone = false, result, occurrence, ...reason }: ResolveOptions,
): Promise<void> {
  if (done === notDone) throw new BadUsage("Say one: --done, or --not-done.");
  if (notDone && result !== undefined) throw new BadUsage("--result goes with --done.");
  const happened = done
    ? {
        done: true as const,
        ...(result === undefined ? {} : { result: parseJson(result, "--result") }),
      }
    : { done: false as const };
  await using holdfast = await openForLooking(url);
  const step = { ...typed, job: await jobId(holdfast, typed.job) };
  await holdfast.jobs.resolve({ ...step, occurrence }, happened, { actor: actorName(), ...reason });
  if (terminal.json) terminal.printJson({ ...step, occurrence, done });
  else terminal.print(`${step.job} goes on: ${step.name} ${done ? "happened" : "did not happen"}`);
}
