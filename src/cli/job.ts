/** `holdfast job <id>`: everything that is known about one job. */
import { Command } from "commander";
import { formatMs } from "../core/duration.ts";
import { JobNotFound } from "../core/errors.ts";
import type { LogReport, ProgressReport, Report } from "../core/report.ts";
import { systemRuntime } from "../core/runtime.ts";
import { shellWord } from "../core/shell.ts";
import type { AttemptView, JobView, StepView } from "../queue/jobs.ts";
import { isRunnable } from "../queue/workers.ts";
import { takes } from "../queue/runnable.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import { isGone } from "../worker/process-trace.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { entryLine, follow, progressText } from "./follow.ts";
import { jobId } from "./id.ts";
import { applicationStack } from "./stack.ts";
import { printable, table, type Cell } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { moment, relative, statusPaint } from "./words.ts";

export function jobCommand(terminal: Terminal): Command {
  return new Command("job")
    .description("show everything about one job")
    .argument("<id>", "the job's id, or how it begins")
    .addOption(urlOption())
    .option("--follow", "print what it reports and what becomes of it until it has ended")
    .addHelpText(
      "after",
      `
With --follow and --json it prints one JSON object a line. It exits with 1 when the job failed or
was cancelled. Ctrl-C ends it; the job goes on.`,
    )
    .action((id: string, options: Options) => job(terminal, id, options));
}

interface Options extends DatabaseOptions {
  readonly follow?: true;
}

/** Fits a screen, together with the rest. */
const LOG_LINES = 10;

async function job(terminal: Terminal, typed: string, options: Options): Promise<void> {
  await using holdfast = await openForLooking(options.url);
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
): Promise<{ readonly view: Omit<Told, "shortId">; readonly past: Past }> {
  const view = await holdfast.jobs.get(id);
  if (view === null) throw new JobNotFound({ id });
  const attempts = await holdfast.jobs.attempts(id);
  const steps = await holdfast.jobs.steps(id);
  const [progress = null] = await newest(holdfast, id, { kind: "progress", limit: 1 });
  const log = await newest(holdfast, id, { kind: "log", limit: LOG_LINES });
  const runnable = await hasWorker(holdfast, view);
  const owner = view.lockedBy === null ? null : await holdfast.workers.find(view.lockedBy);
  const workerGone = owner !== null && isGone(owner);
  return { view: { ...view, runnable, workerGone }, past: { attempts, steps, progress, log } };
}

interface Told extends JobView {
  /** Whether a worker is alive that can run it; null: it is not pending. */
  readonly runnable: boolean | null;
  /** Whether the process of its worker has ended on this host. */
  readonly workerGone: boolean;
  /** What can be typed for its id. */
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

/** What it has done and said, and how often it was tried. */
interface Past {
  /** The last that it said. */
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

function story(terminal: Terminal, view: Told, past: Past): string[] {
  const now = systemRuntime.now();
  return [
    `${terminal.colors.bold(printable(view.task))} ${view.id}`,
    ...facts(terminal, view, { progress: past.progress, now }),
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

/** An effect in doubt holds the job up until an operator decides: with which command. */
function whatToType({ colors }: Terminal, id: string, steps: readonly StepView[]): string[] {
  const inDoubt = steps.filter(({ status }) => status === "doubt");
  if (inDoubt.length === 0) return [];
  return [
    "",
    colors.yellow("Find out whether the effect happened, then type:"),
    ...inDoubt.flatMap(({ name, occurrence }) => {
      const which =
        occurrence === 1
          ? printable(shellWord(name))
          : `${printable(shellWord(name))} --occurrence ${occurrence}`;
      const command = `  holdfast doubts resolve ${id} ${which}`;
      return [`${command} --done`, `${command} --not-done`];
    }),
  ];
}

function facts(
  { colors }: Terminal,
  view: Told,
  { progress, now }: { progress: ProgressReport | null; now: number },
): string[] {
  const { status, attempts, attemptsMax, crashes } = view;
  const at = (instant: number | null): string | null =>
    instant === null ? null : moment(instant, now);
  const lines: Record<string, string | null> = {
    status: statusPaint(
      colors,
      status,
    )(view.inDoubt === null ? status : `${status} (effect in doubt)`),
    waits: view.runnable === false ? "for a worker: none that is alive runs it" : null,
    progress: progress === null ? null : `${said(progress)}, ${relative(progress.at, now)}`,
    queue: view.queue,
    attempts: `${attempts} of ${attemptsMax}${crashes === 0 ? "" : `, ${crashes} crashed`}`,
    priority: view.priority === 0 ? null : String(view.priority),
    key: view.key,
    enqueued: at(view.enqueuedAt),
    due: at(view.dueAt),
    worker: view.workerGone
      ? `${view.lockedBy} (gone: the next worker takes the job back)`
      : view.lockedBy,
    lease: view.lockedUntil === null ? null : `until ${moment(view.lockedUntil, now)}`,
    claimed: view.lockedUntil === null ? null : at(view.claimedAt),
    heartbeat: at(view.heartbeatAt),
    cancelling: at(view.cancelRequestedAt),
    finished: at(view.finishedAt),
  };
  return Object.entries(lines).flatMap(([name, text]) =>
    text === null ? [] : [`  ${colors.dim(name.padEnd(10))}  ${text}`],
  );
}

function said(progress: ProgressReport): string {
  return printable(progressText(progress));
}

function logLines(terminal: Terminal, log: readonly LogReport[]): string[] {
  if (log.length === 0) return [];
  const { colors, columns } = terminal;
  const narrow = { colors, columns: columns === null ? null : columns - 2 };
  return ["", colors.bold("log"), ...log.map((line) => `  ${entryLine(narrow, line)}`)];
}

function block({ colors }: Terminal, title: string, value: unknown): string[] {
  if (value === undefined) return [];
  const text = printable(JSON.stringify(value, null, 2), { lines: true });
  return ["", colors.bold(title), ...indented(text)];
}

function lastError({ colors }: Terminal, { status, lastError: error }: JobView): string[] {
  if (error === null) return [];
  const code = error.code === undefined ? "" : ` (${error.code})`;
  const title = error.stack ?? `${error.name}${code}: ${error.message}`;
  // It was tried again and is done: where that error came from explains nothing any more.
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
  const lines = table({
    columns: [
      { title: "STEP", flexible: true },
      { title: "KIND" },
      { title: "STATUS" },
      { title: "WHEN", align: "right" },
      { title: "RESULT", flexible: true },
    ],
    rows: steps.map((step): (string | Cell)[] => [
      step.occurrence === 1 ? step.name : `${step.name} (${step.occurrence})`,
      step.kind,
      step.status === "doubt" ? { text: "in doubt", paint: colors.yellow } : step.status,
      relative(step.endedAt ?? step.begunAt, now),
      step.status === "done" ? (JSON.stringify(step.result) ?? "") : "",
    ]),
    width: columns === null ? null : columns - 2,
    paintTitle: colors.dim,
  });
  return ["", colors.bold("steps"), ...lines.map((line) => `  ${line}`)];
}

function history(
  { colors, columns }: Terminal,
  attempts: readonly AttemptView[],
  now: number,
): string[] {
  if (attempts.length === 0) return [];
  const lines = table({
    columns: [
      { title: "TRY", align: "right" },
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
      attempt.error === null ? "" : `${attempt.error.name}: ${attempt.error.message}`,
    ]),
    width: columns === null ? null : columns - 2,
    paintTitle: colors.dim,
  });
  return ["", colors.bold("attempts"), ...lines.map((line) => `  ${line}`)];
}

/** Fits a screen; --json has them all. */
const TRACES_MAX = 10;

/** Whole and in lines of their own: a trace that was cut finds nothing in a log. */
function traces({ colors }: Terminal, attempts: readonly AttemptView[]): string[] {
  if (attempts.length === 0) return [];
  const lines = attempts
    .slice(-TRACES_MAX)
    .map(({ attempt, traceId }) => `  ${attempt}  ${printable(traceId)}`);
  return ["", colors.bold("trace ids"), ...lines.map(colors.dim)];
}
