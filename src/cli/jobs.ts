/** `holdfast jobs`: a page of jobs, newest first. What they carry is never listed. */
import { Command, Option } from "commander";
import { statuses, type Status } from "../core/job.ts";
import { systemRuntime } from "../core/runtime.ts";
import { PAGE_MAX, type JobSummary } from "../queue/jobs.ts";
import { wholeNumber } from "./arguments.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { jobId } from "./id.ts";
import { table, type Cell } from "./table.ts";
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
  if (terminal.json) terminal.printJson({ jobs: shown, next });
  else terminal.print(...page(shown, { ...filter, next }, terminal));
}

interface Place {
  readonly before?: string;
  /** Where the next page goes on; null: there is none. */
  readonly next: string | null;
}

function page(shown: readonly JobSummary[], place: Place, terminal: Terminal): string[] {
  if (shown.length === 0) return [place.before === undefined ? "No jobs." : "No older jobs."];
  return [...jobTable(shown, terminal), "", terminal.colors.dim(footer(shown, place))];
}

function jobTable(found: readonly JobSummary[], { columns, colors }: Terminal): string[] {
  const now = systemRuntime.now();
  const oneQueue = found.every(({ queue }) => queue === found[0]?.queue);
  return table({
    columns: [
      { title: "ID" },
      { title: "STATUS" },
      { title: "WHEN", align: "right" },
      { title: "TASK", flexible: true },
      ...(oneQueue ? [] : [{ title: "QUEUE", flexible: true }]),
    ],
    rows: found.map((job): (string | Cell)[] => [
      job.id,
      { text: statusText(job), paint: statusPaint(colors, job.status) },
      relative(whenOf(job), now),
      job.task,
      ...(oneQueue ? [] : [job.queue]),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

/** Attempts are worth a column only where there was more than one. */
function statusText({ status, attempts }: JobSummary): string {
  return attempts > 1 ? `${status} ×${attempts}` : status;
}

/** When it ended, when it is due, or since when it is there: whatever its status makes one ask. */
function whenOf({ finishedAt, dueAt, enqueuedAt }: JobSummary): number {
  return finishedAt ?? dueAt ?? enqueuedAt;
}

/** A page is not the whole, and does not look like it. */
function footer(shown: readonly JobSummary[], { before, next }: Place): string {
  const queues = new Set(shown.map(({ queue }) => queue));
  const where = queues.size === 1 ? ` in queue ${shown[0]?.queue ?? ""}` : "";
  const said = `${counted(shown.length, "job")}${where}`;
  if (next !== null) return `Showing ${said}. Older ones: --before ${next}`;
  return before === undefined ? said : `Showing ${said}, the oldest.`;
}
