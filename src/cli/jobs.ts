/** `holdfast jobs`: a page of jobs, newest first. What they carry is never listed. */
import { Command, Option } from "commander";
import { statuses, type Status } from "../core/job.ts";
import { systemRuntime } from "../core/runtime.ts";
import { PAGE_MAX, type JobSummary } from "../queue/jobs.ts";
import { wholeNumber } from "./arguments.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { jobId } from "./id.ts";
import { unknownJobNames } from "./known-names.ts";
import { printable, table, type Cell, type Column } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { counted, relative, statusPaint } from "./words.ts";

interface Options extends DatabaseOptions {
  readonly status?: Status;
  readonly queue?: string;
  readonly task?: string;
  readonly key?: string;
  readonly limit: number;
  readonly before?: string;
}

/** Fits a screen. */
const LIMIT_DEFAULT = 20;
/** From so many columns on, there is room for all of them. */
const WIDE = 100;

export function jobsCommand(terminal: Terminal): Command {
  return new Command("jobs")
    .description("list jobs, newest first")
    .addOption(urlOption())
    .addOption(new Option("--status <status>", "only jobs that are this").choices(statuses))
    .option("--queue <name>", "only jobs of this queue")
    .option("--task <name>", "only jobs of this task")
    .option("--key <key>", "only jobs that were enqueued with this key")
    .option("--limit <n>", "how many at most", wholeNumber, LIMIT_DEFAULT)
    .option("--before <id>", "only jobs older than this one: the next page")
    .action((options: Options) => jobs(terminal, options));
}

async function jobs(terminal: Terminal, { url, ...asked }: Options): Promise<void> {
  await using holdfast = await openForLooking(url);
  const { limit, before } = asked;
  const filter = before === undefined ? asked : { ...asked, before: await jobId(holdfast, before) };
  // One more than is shown tells whether there are more: how many, only a count could tell.
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
    terminal.print(printable(`${nothing}${await unknownJobNames(holdfast, filter)}`));
    return;
  }
  // A pipe gets everything; on a screen, the shortest form of each id that can be typed.
  const short = terminal.columns === null ? null : await holdfast.jobs.shortIds(idsOf(shown));
  terminal.print(...page(shown, { ...filter, next, short }, terminal));
}

interface Place {
  readonly before?: string;
  /** Where the next page goes on; null: there is none. */
  readonly next: string | null;
  /** By id; null: whole ids are shown. */
  readonly short: ReadonlyMap<string, string> | null;
}

function idsOf(found: readonly JobSummary[]): string[] {
  return found.map(({ id }) => id);
}

function page(shown: readonly JobSummary[], place: Place, terminal: Terminal): string[] {
  const { colors } = terminal;
  return [
    ...jobTable(shown, place.short, terminal),
    "",
    ...inDoubt(shown).map(colors.yellow),
    colors.dim(footer(shown, place)),
  ];
}

/** The jobs of a page. Columns that would be the same or empty for all of them are left out. */
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
    { title: "WHEN", align: "right", cell: (job) => relative(whenOf(job), now) },
    { title: "TASK", flexible: true, cell: ({ task }) => task },
    // Where there is little room, why a job failed is worth more.
    ...shown(new Set(found.map(({ queue }) => queue)).size > 1 && !(narrow && hasErrors), {
      title: "QUEUE",
      flexible: true,
      cell: ({ queue }) => queue,
    }),
    ...shown(
      found.some(({ key }) => key !== null),
      { title: "KEY", flexible: true, cell: ({ key }) => key ?? "" },
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

/** Attempts are worth a column only where there was more than one. */
function statusText({ status, attempts, inDoubt: effect }: JobSummary, narrow: boolean): string {
  if (effect !== null) return narrow ? "in doubt" : `${status} (in doubt)`;
  return attempts > 1 ? `${status} ×${attempts}` : status;
}

/** Why it is what it is: an attempt that failed before the job was done explains nothing. */
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
  return [`${counted(held, "effect")} ${are} in doubt. See: holdfast doubts`];
}

/** When it ended, when it is due, or since when it is there: whatever its status makes one ask. */
function whenOf({ finishedAt, dueAt, enqueuedAt }: JobSummary): number {
  return finishedAt ?? dueAt ?? enqueuedAt;
}

/** A page is not the whole, and does not look like it. */
function footer(shown: readonly JobSummary[], { before, next, short }: Place): string {
  const queues = new Set(shown.map(({ queue }) => queue));
  const where = queues.size === 1 ? ` in queue ${shown[0]?.queue ?? ""}` : "";
  const said = `${counted(shown.length, "job")}${where}`;
  if (next !== null) return `Showing ${said}. Older ones: --before ${short?.get(next) ?? next}`;
  return before === undefined ? said : `Showing ${said}, the oldest.`;
}
