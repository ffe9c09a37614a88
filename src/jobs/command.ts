/** `holdfast jobs`: lists jobs, newest first, without their inputs and results. */
import { Command } from "commander";
import { knownNames } from "../core/text.ts";
import { JobNotFoundError } from "../core/errors.ts";
import { idRange, isId } from "../core/id.ts";
import { OTHER_QUEUES } from "../core/name.ts";
import { systemRuntime } from "../core/runtime.ts";
import { wholeNumber } from "../terminal/arguments.ts";
import { wholeId } from "../terminal/ids.ts";
import { exitCodeOf, exitCodes, SomeFailed } from "../terminal/failure.ts";
import {
  type Cell,
  type Column,
  counted,
  printable,
  relative,
  statusPaint,
  table,
} from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import { type FilterFlags, filterFlags } from "./filter-flags.ts";
import { PAGE_MAX } from "./filter.ts";
import type { Jobs, JobSummary } from "./jobs.ts";
import { pairsOf } from "./shapes.ts";

/** Workers and counts know names of queues and tasks that no job has. */
export interface App {
  readonly jobs: Jobs;
  readonly workers: {
    list(options: { limit: number; all: boolean }): Promise<readonly Names[]>;
  };
  readonly metrics: {
    counts(): Promise<{ readonly queues: readonly { readonly queue: string }[] } | null>;
  };
}

interface Names {
  readonly queues: readonly string[];
  readonly tasks: readonly string[];
}

type Kit = CommandKit<App>;

interface Options extends DatabaseOptions, FilterFlags {
  readonly limit: number;
  readonly before?: string;
  readonly count?: true;
}

/** Fits a screen. */
const LIMIT_DEFAULT = 20;

/** Rows of each kind that are searched for known names. */
const NAMES_SEEN_MAX = 200;

/** From this width on, there is room for all columns. */
const WIDE = 100;

export function jobsCommand(kit: Kit): Command {
  const command = new Command("jobs").description("list jobs, newest first").addOption(urlOption());
  return filterFlags(command)
    .option("--limit <n>", "maximum number of jobs", wholeNumber, LIMIT_DEFAULT)
    .option("--before <id>", "only jobs older than this one (next page)")
    .option("--count", "only how many jobs match")
    .action((options: Options) => list(kit, options));
}

async function list({ terminal, open }: Kit, { url, ...options }: Options): Promise<void> {
  await using holdfast = await open(url);
  const { limit, before: typed, count, ...flags } = options;
  const fields = await holdfast.jobs.readFilter(pairsOf(flags));
  if (count === true) {
    const matching = await holdfast.jobs.count(fields);
    if (terminal.json) terminal.printJson({ count: matching });
    else terminal.print(counted(matching, "job"));
    return;
  }
  const before = typed === undefined ? undefined : await jobId(holdfast, typed);
  const filter = { ...fields, limit, ...(before === undefined ? {} : { before }) };
  // One extra row tells whether there are more jobs, without counting them.
  const more = limit > 0 && limit < PAGE_MAX ? limit + 1 : limit;
  const found = await holdfast.jobs.list({ ...filter, limit: more });
  const shown = found.slice(0, limit);
  const mayBeMore = found.length === Math.min(limit + 1, PAGE_MAX);
  const next = mayBeMore ? (shown.at(-1)?.id ?? null) : null;
  if (terminal.json) {
    terminal.printJson({ jobs: shown, next });
    return;
  }
  if (shown.length === 0) {
    const nothing = before === undefined ? "No jobs." : "No older jobs.";
    terminal.print(printable(`${nothing}${await unknownNames(holdfast, filter)}`));
    return;
  }
  // A pipe gets full ids, a screen the shortest unambiguous prefixes.
  const short = terminal.columns === null ? null : await holdfast.jobs.shortIds(idsOf(shown));
  terminal.print(...page(shown, { ...filter, next, short }, terminal));
}

interface ShownPage {
  readonly before?: string;
  /** Where the next page begins; null: there is none. */
  readonly next: string | null;
  /** By id; null: whole ids are shown. */
  readonly short: ReadonlyMap<string, string> | null;
}

function idsOf(found: readonly JobSummary[]): string[] {
  return found.map(({ id }) => id);
}

function page(shown: readonly JobSummary[], place: ShownPage, terminal: Terminal): string[] {
  const { colors } = terminal;
  return [
    ...jobTable(shown, place.short, terminal),
    "",
    ...inDoubt(shown).map(colors.yellow),
    colors.dim(footer(shown, place)),
  ];
}

/** A table of jobs. Columns that are empty or equal for all of them are omitted. */
export function jobTable(
  found: readonly JobSummary[],
  short: ReadonlyMap<string, string> | null,
  { columns, colors }: Pick<Terminal, "columns" | "colors">,
): string[] {
  const now = systemRuntime.now();
  const narrow = columns !== null && columns < WIDE;
  const hasErrors = found.some((job) => errorText(job) !== "");
  const shown = (when: boolean, column: Shown): Shown[] => (when ? [column] : []);
  const all: Shown[] = [
    { title: "ID", cell: ({ id }) => short?.get(id) ?? id },
    {
      title: "STATUS",
      cell: (job) => ({
        text: statusText(job, narrow),
        paint: job.inDoubt === null ? statusPaint(colors, job.status) : colors.yellow,
      }),
    },
    {
      title: "WHEN", // it ended, is due, or was enqueued
      align: "right",
      cell: (job) => relative(job.finishedAt ?? job.dueAt ?? job.enqueuedAt, now),
    },
    { title: "TASK", flexible: true, cell: ({ task }) => task },
    // In a narrow terminal, the error is more useful than the queue.
    ...shown(new Set(found.map(({ queue }) => queue)).size > 1 && !(narrow && hasErrors), {
      title: "QUEUE",
      flexible: true,
      cell: ({ queue }) => queue,
    }),
    ...shown(
      found.some(({ key }) => key !== null),
      { title: "KEY", flexible: true, cell: ({ key }) => key ?? "" },
    ),
    ...shown(
      found.some(({ tags }) => tags.length > 0),
      { title: "TAGS", flexible: true, cell: ({ tags }) => tags.join(" ") },
    ),
    ...shown(hasErrors, { title: "ERROR", flexible: true, cell: errorText }),
  ];
  return table({
    columns: all,
    rows: found.map((job) => all.map(({ cell }) => cell(job))),
    width: columns,
    paintTitle: colors.bold,
  });
}

interface Shown extends Column {
  readonly cell: (job: JobSummary) => string | Cell;
}

/** Attempts are shown only if there was more than one. */
function statusText({ status, attempts, inDoubt: effect }: JobSummary, narrow: boolean): string {
  if (effect !== null) return narrow ? "in doubt" : `${status} (in doubt)`;
  return attempts > 1 ? `${status} ×${attempts}` : status;
}

/** The error that explains the status: a done job has none, even if an attempt failed. */
function errorText({ status, lastError }: JobSummary): string {
  if (lastError === null || !["failed", "retry", "cancelled"].includes(status)) return "";
  const { name, message } = lastError;
  const [first = ""] = message.split("\n");
  return name === "Error" ? first : `${name}: ${first}`;
}

function inDoubt(shown: readonly JobSummary[]): string[] {
  const held = shown.filter((job) => job.inDoubt !== null).length;
  if (held === 0) return [];
  const are = held === 1 ? "is" : "are";
  return [`${counted(held, "effect")} ${are} in doubt. List them with 'holdfast effects'.`];
}

/** Makes clear when a page is not the whole list. */
function footer(shown: readonly JobSummary[], { before, next, short }: ShownPage): string {
  const queues = new Set(shown.map(({ queue }) => queue));
  const where = queues.size === 1 ? ` in queue ${shown[0]?.queue ?? ""}` : "";
  const said = `${counted(shown.length, "job")}${where}`;
  if (next !== null) return `Showing ${said}. Older: --before ${short?.get(next) ?? next}`;
  return before === undefined ? said : `Showing ${said}, the oldest.`;
}

// Commands on several jobs: a failure with one does not stop the others.

export interface Handled {
  readonly id: string;
  readonly status: string;
}

/** Prints what was done to each job, then throws the errors of the others. */
export async function eachJob<One extends Handled>(
  { terminal, holdfast }: { readonly terminal: Terminal; readonly holdfast: Pick<App, "jobs"> },
  typed: readonly string[],
  parts: { act: (id: string) => Promise<One>; say: (handled: One) => string },
): Promise<void> {
  const handled: One[] = [];
  const errors: unknown[] = [];
  const seen = new Set<string>();
  for (const prefix of typed) {
    try {
      const id = await jobId(holdfast, prefix);
      if (seen.has(id)) continue;
      seen.add(id);
      handled.push(await parts.act(id));
    } catch (error) {
      // If the database is unavailable, the others would fail for the same reason.
      if (exitCodeOf(error) === exitCodes.database) throw error;
      errors.push(error);
    }
  }
  if (terminal.json) terminal.printJson({ jobs: handled });
  else terminal.print(...handled.map(parts.say));
  const [first, ...more] = errors;
  if (errors.length > 0) throw new SomeFailed([first, ...more]);
}

// Names and ids that were typed.

export async function jobId(
  { jobs }: { readonly jobs: Pick<Jobs, "list"> },
  typed: string,
): Promise<string> {
  if (isId(typed)) return typed;
  return wholeId(typed, {
    what: "job",
    find: async (prefix, limit) => {
      const found = idRange(prefix) === null ? [] : await jobs.list({ id: prefix, limit });
      return found.map(({ id, status, task, key }) => ({
        id,
        about: `${status} ${task}${key === null ? "" : ` ${key}`}`,
      }));
    },
    notFound: (id) => new JobNotFoundError({ id }),
  });
}

/**
 * Explains an empty result whose filter contains an unknown name: a sentence to append, or nothing if the newest jobs, the
 * workers or the last count of the monitor know the names.
 */
export async function unknownNames(
  { jobs, workers, metrics }: App,
  { queue, task }: { readonly queue?: string; readonly task?: string },
): Promise<string> {
  if (queue === undefined && task === undefined) return "";
  const found = await jobs.list({ limit: NAMES_SEEN_MAX });
  const alive = await workers.list({ limit: NAMES_SEEN_MAX, all: true });
  const perQueue = (await metrics.counts())?.queues ?? [];
  const seen = [...found, ...perQueue].map((row) => row.queue);
  const queues = [...seen, ...alive.flatMap((worker) => worker.queues)];
  const tasks = [...found.map((job) => job.task), ...alive.flatMap((worker) => worker.tasks)];
  return unknownName("queue", queue, queues) + unknownName("task", task, tasks);
}

function unknownName(what: string, name: string | undefined, known: readonly string[]): string {
  const names = [...new Set(known)].filter((each) => each !== OTHER_QUEUES).toSorted();
  if (name === undefined || names.length === 0 || names.includes(name)) return "";
  return ` Unknown ${what} '${name}'.${knownNames(name, names)}`;
}
