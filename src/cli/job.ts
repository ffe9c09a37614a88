/** `holdfast job <id>`: shows all details of a job. */
import type { ErrorRecord } from "../core/error-record.ts";
import { Command } from "commander";
import type { Holdfast } from "../app/holdfast.ts";
import { shellWord } from "../core/text.ts";
import { formatMs } from "../core/duration.ts";
import { JobNotFoundError } from "../core/errors.ts";
import type { LogReport, ProgressReport, Report, WatchEntry } from "../core/report.ts";
import { systemRuntime } from "../core/runtime.ts";
import { jobId } from "../jobs/command.ts";
import { jobOperations } from "../jobs/operations.ts";
import type { AttemptView, JobView, StepView } from "../jobs/jobs.ts";
import type { CommandGroup } from "../operations/command.ts";
import { isGone } from "../registry/heartbeat.ts";
import { takes } from "../registry/tasks.ts";
import { isRunnable } from "../registry/workers.ts";
import { abortOnSignal } from "../terminal/failure.ts";
import {
  applicationStack,
  type Cell,
  count,
  cut,
  facts,
  dataJson,
  moment,
  printable,
  relative,
  statusPaint,
  table,
  type TableOptions,
} from "../terminal/table.ts";
import {
  type Colors,
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";

export const jobCommands: CommandGroup<Holdfast> = {
  name: "job",
  about: "show one job, run it now, change, delete or replay it",
  parts: [showCommand, ...Object.values(jobOperations)],
};

function showCommand(kit: CommandKit<Holdfast>): Command {
  return new Command("show")
    .description("show all details of a job")
    .argument("<id>", "the job's id, or an unambiguous prefix")
    .addOption(urlOption())
    .option("--follow", "print its status and reports until it ends")
    .addHelpText(
      "after",
      `
With --follow and --json, it prints one JSON object per line. It exits with 1 if
the job failed or was cancelled. Ctrl-C stops following; the job continues.`,
    )
    .action((id: string, options: Options) => job(kit, id, options));
}

interface Options extends DatabaseOptions {
  readonly follow?: true;
}

/** Fits a screen, together with the rest. */
const LOG_LINES = 10;

async function job(
  { terminal, open }: CommandKit<Holdfast>,
  typed: string,
  options: Options,
): Promise<void> {
  await using holdfast = await open(options.url);
  const id = await jobId(holdfast, typed);
  if (options.follow === true) await follow(terminal, holdfast, id);
  else await show(terminal, holdfast, id);
}

async function show(terminal: Terminal, holdfast: Holdfast, id: string): Promise<void> {
  if (terminal.json) {
    const { view, past } = await everythingAbout(holdfast, id);
    terminal.printJson({ job: view, ...past });
  } else terminal.print(...(await jobLines(terminal, holdfast, id)));
}

/** The lines that the command prints. */
export async function jobLines(
  terminal: Terminal,
  holdfast: Holdfast,
  id: string,
): Promise<string[]> {
  const { view, past } = await everythingAbout(holdfast, id);
  const short = terminal.columns === null ? null : await holdfast.jobs.shortIds([id]);
  return story(terminal, { ...view, shortId: short?.get(id) ?? id }, past);
}

async function everythingAbout(
  holdfast: Holdfast,
  id: string,
): Promise<{ readonly view: Omit<Details, "shortId">; readonly past: Past }> {
  const view = await holdfast.jobs.get(id);
  if (view === null) throw new JobNotFoundError({ id });
  const attempts = await holdfast.jobs.attempts(id);
  const steps = await holdfast.jobs.steps(id);
  const [progress = null] = await newest(holdfast, id, { kind: "progress", limit: 1 });
  const log = await newest(holdfast, id, { kind: "log", limit: LOG_LINES });
  const runnable = await hasWorker(holdfast, view);
  const owner = view.lockedBy === null ? null : await holdfast.workers.find(view.lockedBy);
  const workerGone = owner !== null && isGone(owner);
  return { view: { ...view, runnable, workerGone }, past: { attempts, steps, progress, log } };
}

interface Details extends JobView {
  /** Whether a live worker can run it; null: it is not pending. */
  readonly runnable: boolean | null;
  /** Whether its worker ran on this host and its process has ended. */
  readonly workerGone: boolean;
  /** An unambiguous prefix of its id. */
  readonly shortId: string;
}

async function newest<Kind extends Report["kind"]>(
  { jobs }: Holdfast,
  id: string,
  of: { kind: Kind; limit: number },
): Promise<Extract<Report, { kind: Kind }>[]> {
  const reports = await jobs.reports(id, { ...of, newest: true });
  return reports as Extract<Report, { kind: Kind }>[];
}

/** Attempts, steps and reports. */
interface Past {
  /** The latest report. */
  readonly progress: ProgressReport | null;
  readonly log: readonly LogReport[];
  readonly attempts: readonly AttemptView[];
  readonly steps: readonly StepView[];
}

const WORKERS_SEEN_MAX = 1_000;

async function hasWorker({ workers }: Holdfast, view: JobView): Promise<boolean | null> {
  if (view.status !== "pending") return null;
  const live = await workers.list({ limit: WORKERS_SEEN_MAX });
  return isRunnable(view, live) || takes(view, await workers.unregistered());
}

function story(terminal: Terminal, view: Details, past: Past): string[] {
  const now = systemRuntime.now();
  return [
    `${terminal.colors.bold(printable(view.task))} ${view.id}`,
    ...factsOf(terminal, view, { progress: past.progress, now }),
    ...whatToType(terminal, view.shortId, view.inDoubt === null ? [] : past.steps),
    ...block(terminal, "input", view.input),
    ...block(terminal, "result", view.result),
    ...lastError(terminal, view),
    ...logLines(terminal, past.log),
    ...stepTable(terminal, past.steps, now),
    ...history(terminal, past.attempts, now),
    ...traces(terminal, past.attempts),
  ];
}

/** An effect in doubt blocks the job until an operator resolves it: these are the commands. */
function whatToType({ colors }: Terminal, id: string, steps: readonly StepView[]): string[] {
  const inDoubt = steps.filter(({ status }) => status === "doubt");
  if (inDoubt.length === 0) return [];
  return [
    "",
    colors.yellow("Find out whether the effect happened, then run:"),
    ...inDoubt.flatMap(({ name, occurrence }) => {
      const which = occurrence === 1 ? "" : ` --occurrence ${occurrence}`;
      const command = `  holdfast effects resolve ${id} ${printable(shellWord(name))}${which}`;
      return [`${command} --done`, `${command} --not-done`];
    }),
  ];
}

function factsOf(
  { colors }: Terminal,
  view: Details,
  { progress, now }: { progress: ProgressReport | null; now: number },
): string[] {
  const { status, attempts, maxAttempts, crashes } = view;
  const at = (instant: number | null): string | null =>
    instant === null ? null : moment(instant, now);
  const paint = statusPaint(colors, status);
  return facts(colors, {
    status: { text: view.inDoubt === null ? status : `${status} (effect in doubt)`, paint },
    waits:
      view.runnable === false ? "for a worker: no live worker runs this task in this queue" : null,
    progress: progress === null ? null : `${progressText(progress)}, ${relative(progress.at, now)}`,
    queue: view.queue,
    attempts: `${attempts} of ${maxAttempts}${crashes === 0 ? "" : `, ${crashes} crashed`}`,
    priority: view.priority === 0 ? null : String(view.priority),
    key: view.key,
    tags: view.tags.length === 0 ? null : view.tags.join(" "),
    enqueued: at(view.enqueuedAt),
    due: at(view.dueAt),
    worker: view.workerGone
      ? `${view.lockedBy} (gone: another worker will reclaim the job)`
      : view.lockedBy,
    lease: view.lockedUntil === null ? null : `until ${moment(view.lockedUntil, now)}`,
    claimed: view.lockedUntil === null ? null : at(view.claimedAt),
    heartbeat: at(view.heartbeatAt),
    cancelling: at(view.cancelRequestedAt),
    finished: at(view.finishedAt),
  });
}

function logLines(terminal: Terminal, log: readonly LogReport[]): string[] {
  if (log.length === 0) return [];
  const { colors, columns } = terminal;
  const narrow = { colors, columns: columns === null ? null : columns - 2 };
  return ["", colors.bold("log"), ...log.map((line) => `  ${entryLine(narrow, line)}`)];
}

function block({ colors }: Terminal, title: string, value: unknown): string[] {
  if (value === undefined) return [];
  const text = printable(dataJson(value, 2), { lines: true });
  return ["", colors.bold(title), ...indented(text)];
}

function lastError({ colors }: Terminal, { status, lastError: error }: JobView): string[] {
  if (error === null) return [];
  const code = error.code === undefined ? "" : ` (${error.code})`;
  const title = error.stack ?? `${error.name}${code}: ${error.message}`;
  // A later attempt succeeded: the stack of an earlier error is of no interest.
  const text = status === "done" ? (title.split("\n", 1)[0] ?? "") : applicationStack(title);
  const [first = "", ...rest] = indented(printable(text, { lines: true }));
  return ["", colors.bold("last error"), colors.red(first), ...rest.map(colors.dim)];
}

function indented(text: string): string[] {
  return text.split("\n").map((line) => `  ${line}`);
}

function stepTable(
  { colors, columns }: Terminal,
  steps: readonly StepView[],
  now: number,
): string[] {
  if (steps.length === 0) return [];
  return inset({ colors, columns }, "steps", {
    columns: [
      { title: "STEP", flexible: true },
      { title: "KIND" },
      { title: "STATUS" },
      { title: "WHEN", align: "right" },
      { title: "TOOK", align: "right" },
      { title: "RESULT", flexible: true },
    ],
    rows: steps.map((step): (string | Cell)[] => [
      stepName(step),
      step.kind,
      step.status === "doubt" ? { text: "in doubt", paint: colors.yellow } : step.status,
      relative(step.endedAt ?? step.begunAt, now),
      step.endedAt === null ? "" : formatMs(step.endedAt - step.begunAt),
      step.status === "done" ? dataJson(step.result) : "",
    ]),
  });
}

/** A table under a title, indented. */
function inset(
  { colors, columns: width }: Pick<Terminal, "colors" | "columns">,
  title: string,
  content: Pick<TableOptions, "columns" | "rows">,
): string[] {
  const style = { width: width === null ? null : width - 2, paintTitle: colors.dim };
  const lines = table({ ...content, ...style }).map((line) => `  ${line}`);
  return ["", colors.bold(title), ...lines];
}

function history(terminal: Terminal, attempts: readonly AttemptView[], now: number): string[] {
  if (attempts.length === 0) return [];
  return inset(terminal, "attempts", {
    columns: [
      { title: "ATTEMPT", align: "right" },
      { title: "OUTCOME" },
      { title: "STARTED", align: "right" },
      { title: "TOOK", align: "right" },
      { title: "WORKER", flexible: true },
      { title: "ERROR", flexible: true },
    ],
    rows: attempts.map((attempt): (string | Cell)[] => [
      String(attempt.attempt),
      attempt.outcome,
      relative(attempt.startedAt, now),
      attempt.endedAt === null ? "" : formatMs(attempt.endedAt - attempt.startedAt),
      attempt.worker,
      attempt.error === null ? "" : errorText(attempt.error),
    ]),
  });
}

/** "at shipping label: CarrierTimeout: no answer". */
function errorText({ name, message, step }: ErrorRecord): string {
  const at = step === undefined ? "" : `at ${stepName(step)}: `;
  return `${at}${name}: ${message}`;
}

function stepName({ name, occurrence }: { name: string; occurrence: number }): string {
  return occurrence === 1 ? name : `${name} (${occurrence})`;
}

/** Fits a screen; --json prints all of them. */
const TRACES_MAX = 10;

/** Complete and on separate lines: a truncated trace id cannot be found in a log. */
function traces({ colors }: Terminal, attempts: readonly AttemptView[]): string[] {
  if (attempts.length === 0) return [];
  const lines = attempts
    .slice(-TRACES_MAX)
    .map(({ attempt, traceId }) => `  ${attempt}  ${printable(traceId)}`);
  return ["", colors.bold("trace ids"), ...lines.map(colors.dim)];
}

// `holdfast job <id> --follow`: prints the reports of a job, line by line, until it ends.

/** Ends when the job ends. A failed job is an error, as it is for a caller that waits for its result. */
async function follow(terminal: Terminal, { jobs }: Holdfast, id: string): Promise<void> {
  using ending = abortOnSignal();
  const signal = AbortSignal.any([ending.signal, terminal.gone]);
  for await (const entry of jobs.watch(id, { signal })) {
    if (terminal.json) terminal.printJsonLine(entry);
    else terminal.print(entryLine(terminal, entry));
  }
  ending.signal.throwIfAborted();
  if (terminal.gone.aborted) return;
  const result = await jobs.result(id);
  if (terminal.json || result === null || result === undefined) return;
  terminal.print(printable(dataJson(result, 2), { lines: true }));
}

/** `12:03:04  progress  42 %, 420 of 1,000, reading`, cut to the width of the terminal. */
function entryLine(
  { colors, columns }: Pick<Terminal, "colors" | "columns">,
  entry: WatchEntry,
): string {
  const clock = new Date(entry.at).toTimeString().slice(0, CLOCK_WIDTH);
  const { what, words, paint } = partsOf(colors, entry);
  const label = printable(what).padEnd(LABEL_WIDTH);
  const taken = CLOCK_WIDTH + label.length + 4;
  const text = printable(words);
  const shown = columns === null ? text : cut(text, Math.max(1, columns - taken));
  return `${colors.dim(clock)}  ${paint(label)}  ${shown}`.trimEnd();
}

const CLOCK_WIDTH = "12:03:04".length;
const LABEL_WIDTH = "processing".length;

function partsOf(colors: Colors, entry: WatchEntry) {
  switch (entry.kind) {
    case "status": {
      const words = entry.attempts > 1 ? `attempt ${entry.attempts}` : "";
      return { what: entry.status, words, paint: statusPaint(colors, entry.status) };
    }
    case "progress":
      return { what: "progress", words: progressText(entry), paint: colors.cyan };
    case "log":
      return { ...levels(colors)[entry.level], words: `${entry.text}${dataText(entry.data)}` };
    case "report":
      return { what: entry.name, words: dataText(entry.data).trimStart(), paint: colors.dim };
    case "dropped":
      return { what: "dropped", words: `${count(entry.count)} more`, paint: colors.yellow };
  }
}

/** A line that is neither a warning nor an error is just a line. */
function levels({ dim, yellow, red }: Colors) {
  return {
    info: { what: "log", paint: dim },
    warn: { what: "warn", paint: yellow },
    error: { what: "error", paint: red },
  };
}

/** `42 %, 420 of 1,000, reading`. */
function progressText({ share, done, total, text }: ProgressReport): string {
  const parts = [
    `${Math.floor(share * 100)} %`,
    ...(done === null || total === null ? [] : [`${count(done)} of ${count(total)}`]),
    ...(text === null ? [] : [text]),
  ];
  return parts.join(", ");
}

function dataText(data: unknown): string {
  return data === undefined ? "" : `  ${dataJson(data)}`;
}
