/** `holdfast enqueue`: enqueues one job and, with `--wait`, waits for its result. */
import { Command, Option } from "commander";
import type { Holdfast } from "../app/holdfast.ts";
import { checkOptions, conflicts, defaultsOf, unknownTask } from "../jobs/enqueue.ts";
import type { Job } from "../jobs/jobs.ts";
import { dependencyPolicies, type DependencyPolicy, type OnConflict } from "../jobs/store.ts";
import { prospectOf } from "../registry/tasks.ts";
import { dataJson, printable } from "../terminal/table.ts";
import { duration, givenJson, instant, repeated, wholeNumber } from "../terminal/arguments.ts";
import { InterruptedError } from "../terminal/failure.ts";
import { BadUsageError } from "../terminal/usage.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  listenForSignals,
  type Signals,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import { findTask, loadTasks } from "./tasks.ts";

interface Options extends DatabaseOptions {
  readonly tasks?: string;
  readonly queue?: string;
  readonly priority?: number;
  readonly delay?: string;
  readonly runAt?: Date;
  readonly startWithin?: string;
  readonly lane?: string;
  readonly maxAttempts?: number;
  readonly key?: string;
  readonly keyFor?: string;
  readonly onConflict?: OnConflict;
  readonly after?: readonly string[];
  readonly onFailed?: DependencyPolicy;
  readonly onCancelled?: DependencyPolicy;
  readonly debounce?: string;
  readonly maxWait?: string;
  readonly throttle?: string;
  readonly tag?: readonly string[];
  readonly wait?: string;
}

export function enqueueCommand(kit: CommandKit<Holdfast>): Command {
  const command = new Command("enqueue")
    .description("enqueue a job")
    .argument("<task>", "the task's name")
    .argument("[json]", "the job's input, or - to read it from stdin", "null")
    .addOption(urlOption())
    .option("--tasks <file>", "the module with the task, whose schema then validates the input")
    .option(
      "--queue <name>",
      "the queue (default: the task's queue with --tasks, otherwise 'default')",
    )
    .option("--priority <n>", "higher numbers run first (default: 0)", wholeNumber)
    .addOption(
      new Option("--delay <duration>", "wait at least this long before running the job")
        .argParser(duration)
        .conflicts("runAt"),
    )
    .option(
      "--run-at <time>",
      "do not run the job before this time, such as 2027-01-31T09:00:00Z",
      instant,
    )
    .option(
      "--start-within <duration>",
      "expire the job if it has not started after this long",
      duration,
    )
    .option("--lane <name>", "the customer or resource the job is for; lanes take turns")
    .option(
      "--max-attempts <n>",
      "maximum number of attempts (default: the task's with --tasks, otherwise 3)",
      wholeNumber,
    )
    .option("--key <key>", "allow only one live job of the task with this key")
    .option(
      "--key-for <duration>",
      "keep the key reserved for this long after the job ends",
      duration,
    )
    .addOption(
      new Option(
        "--on-conflict <what>",
        "what to do if the key is taken (default: return)",
      ).choices(conflicts),
    )
    .option("--after <id>", "a job that must end first; can be repeated", repeated)
    .addOption(
      new Option("--on-failed <what>", "what to do if one of these fails (default: fail)").choices(
        dependencyPolicies,
      ),
    )
    .addOption(
      new Option(
        "--on-cancelled <what>",
        "what to do if one of these is cancelled (default: cancel)",
      ).choices(dependencyPolicies),
    )
    .option("--tag <tag>", "a tag of the job; can be repeated", repeated)
    .option("--wait <duration>", "wait up to this long for the result", duration)
    .action((task: string, json: string, options: Options) => enqueue(kit, task, json, options));
  return withPacing(command);
}

/** Debounce and throttle. */
function withPacing(command: Command): Command {
  return command
    .addOption(
      new Option(
        "--debounce <duration>",
        "run only the last job with this key, this long after the last call",
      )
        .argParser(duration)
        .conflicts(["delay", "runAt", "keyFor", "onConflict", "throttle"]),
    )
    .option(
      "--max-wait <duration>",
      "with --debounce: the maximum wait after the first call",
      duration,
    )
    .addOption(
      new Option("--throttle <duration>", "accept only the first job with this key in this period")
        .argParser(duration)
        .conflicts(["keyFor", "onConflict"]),
    );
}

async function enqueue(
  { terminal, openForWork }: CommandKit<Holdfast>,
  task: string,
  json: string,
  { url, tasks: file, wait, tag, debounce, maxWait, ...rest }: Options,
): Promise<void> {
  if (maxWait !== undefined && debounce === undefined) {
    throw new BadUsageError("--max-wait requires --debounce.");
  }
  const terms = {
    ...rest,
    ...(tag === undefined ? {} : { tags: tag }),
    ...(debounce === undefined
      ? {}
      : { debounce: { wait: debounce, ...(maxWait === undefined ? {} : { maxWait }) } }),
  };
  const input = await givenJson(json, "The input");
  const target = file === undefined ? task : findTask(await loadTasks(file), task);
  // What is wrong with the arguments is said before that the database is missing.
  checkOptions(terms, typeof target === "string" ? unknownTask(target) : defaultsOf(target));
  const notes: string[] = [];
  await using holdfast = await openForWork(url, (line) => notes.push(line));
  // From here on a job may exist, so Ctrl-C has to print its id.
  using signals = wait === undefined ? null : listenForSignals();
  const job =
    typeof target === "string"
      ? await holdfast.enqueue(target, input, terms)
      : await holdfast.enqueue(target, input, terms);
  if (!terminal.json) {
    terminal.complain(...notes);
    sayAccepted(terminal, job);
    await warnIfUnclaimable(terminal, job, holdfast);
  }
  if (signals !== null) await sayResult(terminal, job, holdfast, { timeout: wait, signals });
  else if (terminal.json) await sayState(terminal, job, holdfast);
}

function sayAccepted(terminal: Terminal, { added, task, id }: Job<unknown>): void {
  const { green, yellow } = terminal.colors;
  terminal.print(`${added ? green("Enqueued") : yellow("Already enqueued")} ${task} ${id}`);
}

/** A misspelt task name is accepted, because the database does not know all tasks; so warn about it. */
async function warnIfUnclaimable(
  terminal: Terminal,
  { id }: Job<unknown>,
  holdfast: Holdfast,
): Promise<void> {
  // The job is enqueued: a failed lookup is no reason to fail.
  const view = await holdfast.jobs.get(id).catch(() => null);
  if (view === null) return;
  const { note } = await prospectOf(holdfast.workers, view).catch(() => ({ note: null }));
  if (note !== null) terminal.complain(terminal.errorColors.yellow(printable(note)));
}

async function sayState(
  terminal: Terminal,
  { id, task, added }: Job<unknown>,
  holdfast: Holdfast,
): Promise<void> {
  const view = await holdfast.jobs.get(id);
  const { runnable } =
    view === null ? { runnable: null } : await prospectOf(holdfast.workers, view);
  terminal.printJson({ id, task, added, status: view?.status, runnable });
}

async function sayResult(
  terminal: Terminal,
  job: Job<unknown>,
  holdfast: Holdfast,
  { timeout, signals }: { timeout: string | undefined; signals: Signals },
): Promise<void> {
  const { id, task, added } = job;
  let result: unknown;
  try {
    result = await Promise.race([
      job.result(timeout === undefined ? {} : { timeout }),
      interruption(signals, id),
    ]);
  } catch (error) {
    // The job is enqueued in any case: a script needs its id.
    if (terminal.json) await sayState(terminal, job, holdfast);
    throw error;
  }
  if (terminal.json) terminal.printJson({ id, task, added, status: "done", result });
  else terminal.print(printable(dataJson(result ?? null, 2), { lines: true }));
}

async function interruption({ first }: Signals, id: string): Promise<never> {
  const signal = await first;
  const left = `Job ${id} continues; follow it with 'holdfast job ${id} --follow'.`;
  throw new InterruptedError(signal, left);
}
