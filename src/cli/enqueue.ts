/** `holdfast enqueue`: accepts one job, and waits for its result when asked to. */
import { text } from "node:stream/consumers";
import { Command, Option } from "commander";
import { conflicts, type EnqueueOptions } from "../queue/options.ts";
import type { OnConflict } from "../store/store.ts";
import type { Job } from "../queue/job.ts";
import { prospectOf } from "../queue/runnable.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import { duration, instant, parseJson, wholeNumber } from "./arguments.ts";
import { openForWork, urlOption, type DatabaseOptions } from "./database.ts";
import { Interrupted } from "./failure.ts";
import { exitCodeAfter, listenForSignals, type Signals } from "./signals.ts";
import { printable } from "./table.ts";
import { findTask, loadTasks } from "./tasks.ts";
import type { Terminal } from "./terminal.ts";

interface Options extends DatabaseOptions {
  readonly tasks?: string;
  readonly queue?: string;
  readonly priority?: number;
  readonly delay?: string;
  readonly runAt?: Date;
  readonly attempts?: number;
  readonly key?: string;
  readonly keyFor?: string;
  readonly onConflict?: OnConflict;
  readonly wait?: string;
}

export function enqueueCommand(terminal: Terminal): Command {
  return new Command("enqueue")
    .description("accept one job")
    .argument("<task>", "the task's name")
    .argument("[json]", "its input, or - to read it from stdin", "null")
    .addOption(urlOption())
    .option("--tasks <file>", "module with the task: its schema checks the input here")
    .option(
      "--queue <name>",
      "the queue to wait in (default: the task's own with --tasks, else 'default')",
    )
    .option("--priority <n>", "a higher number goes first (default: 0)", wholeNumber)
    .addOption(
      new Option("--delay <duration>", "not before this has passed")
        .argParser(duration)
        .conflicts("runAt"),
    )
    .option("--run-at <time>", "not before this moment: 2027-01-31T09:00:00Z", instant)
    .option(
      "--attempts <n>",
      "how often it may be tried in all (default: as --queue, else 3)",
      wholeNumber,
    )
    .option("--key <key>", "at most one live job of the task has this key")
    .option("--key-for <duration>", "the job keeps its key for this long after its end", duration)
    .addOption(
      new Option("--on-conflict <what>", "if the key is held (default: return)").choices(conflicts),
    )
    .option("--wait <duration>", "wait this long for the result", duration)
    .action((task: string, json: string, options: Options) =>
      enqueue(terminal, task, json, options),
    );
}

async function enqueue(
  terminal: Terminal,
  task: string,
  json: string,
  options: Options,
): Promise<void> {
  const input = await readInput(json);
  const tasks = options.tasks === undefined ? null : await loadTasks(options.tasks);
  const target = tasks === null ? task : findTask(tasks, task);
  const notes: string[] = [];
  await using holdfast = await openForWork(options.url, (line) => notes.push(line));
  const terms = termsFrom(options);
  const { wait } = options;
  // From now on there may be a job that whoever presses Ctrl-C has to hear of.
  using signals = wait === undefined ? null : listenForSignals();
  const job =
    typeof target === "string"
      ? await holdfast.enqueue(target, input, terms)
      : await holdfast.enqueue(target, input, terms);
  if (!terminal.json) {
    terminal.complain(...notes);
    sayAccepted(terminal, job);
    await warnIfStranded(terminal, job, holdfast);
  }
  if (signals !== null) await sayResult(terminal, job, holdfast, { timeout: wait, signals });
  else if (terminal.json) await sayState(terminal, job, holdfast);
}

async function readInput(json: string): Promise<unknown> {
  return json === "-"
    ? parseJson(await text(process.stdin), "What came from stdin", false)
    : parseJson(json, "The input");
}

/** What was not given is left out, so that the task's own defaults hold. */
function termsFrom(options: Options): EnqueueOptions {
  const { url: _url, tasks: _tasks, wait: _wait, ...terms } = options;
  return terms;
}

function sayAccepted(terminal: Terminal, { added, task, id }: Job<unknown>): void {
  const { green, yellow } = terminal.colors;
  terminal.print(`${added ? green("Accepted") : yellow("Already there")} ${task} ${id}`);
}

/** A task's name that is misspelt is accepted like any other: nobody here knows them all. */
async function warnIfStranded(
  terminal: Terminal,
  { id }: Job<unknown>,
  holdfast: Holdfast,
): Promise<void> {
  // It is accepted: that we cannot look any further is no reason to fail.
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
    // Accepted it was, whatever became of it: a script needs the id.
    if (terminal.json) await sayState(terminal, job, holdfast);
    throw error;
  }
  if (terminal.json) terminal.printJson({ id, task, added, status: "done", result });
  else terminal.print(printable(JSON.stringify(result ?? null, null, 2), { lines: true }));
}

async function interruption({ first }: Signals, id: string): Promise<never> {
  const signal = await first;
  const left = `The job ${id} goes on: 'holdfast job ${id} --follow'.`;
  throw new Interrupted({ signal, exitCode: exitCodeAfter(signal), left });
}
