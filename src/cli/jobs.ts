/** `holdfast jobs`: a page of jobs, newest first. What they carry is never listed. */
import { Command, Option } from "commander";
import { statuses, type Status } from "../core/job.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { JobSummary } from "../store/store.ts";
import { wholeNumber } from "./arguments.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { table, type Cell } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { counted, relative, statusPaint } from "./words.ts";

interface Options extends DatabaseOptions {
  readonly status?: Status;
  readonly queue?: string;
  readonly task?: string;
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
    .option("--limit <n>", "how many at most", wholeNumber, LIMIT_DEFAULT)
    .option("--before <id>", "only jobs older than this one: the next page")
    .action((options: Options) => jobs(terminal, options));
}

async function jobs(terminal: Terminal, { url, ...filter }: Options): Promise<void> {
  await using holdfast = await openForLooking(url);
  const found = await holdfast.jobs.list(filter);
  if (terminal.json) terminal.printJson({ jobs: found });
  else terminal.print(...page(found, filter, terminal));
}

function page(found: readonly JobSummary[], filter: { limit: number }, terminal: Terminal) {
  if (found.length === 0) return ["No jobs."];
  return [...jobTable(found, terminal), "", ...footer(found, filter).map(terminal.colors.dim)];
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

function footer(found: readonly JobSummary[], { limit }: { readonly limit: number }): string[] {
  const last = found.at(-1);
  const queues = new Set(found.map(({ queue }) => queue));
  const where = queues.size === 1 ? ` in queue ${last?.queue ?? ""}` : "";
  const older = found.length === limit ? [`Older ones: --before ${last?.id ?? ""}`] : [];
  return [`${counted(found.length, "job")}${where}`, ...older];
}
