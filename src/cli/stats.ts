/**
 * `holdfast stats`: how many jobs of every status each queue has.
 *
 * Where a monitor has counted a moment ago, that is what is told, however many jobs there are; otherwise they are counted. So they
 * are where it found none: those that came since are few, and nobody is told that there is nothing who has just enqueued something.
 */
import { Command } from "commander";
import { statuses, type Status } from "../core/job.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { QueueDepth } from "../store/figures.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { table, type Cell } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { count, span, statusPaint } from "./words.ts";

/** Shown even when there are none; the others only where there are some. */
const ALWAYS = new Set<Status>(["pending", "processing", "done", "failed"]);
/** What was counted longer ago is not told any more. */
const FRESH_MS = 2 * 60_000;

interface StatsOptions extends DatabaseOptions {
  readonly exact?: boolean;
}

interface Counts {
  readonly queues: readonly QueueDepth[];
  /** By the database's clock; null: now. */
  readonly countedAt: number | null;
  readonly ageMs: number;
}

export function statsCommand(terminal: Terminal): Command {
  return new Command("stats")
    .description("count the jobs of every queue")
    .addOption(urlOption())
    .option("--exact", "count now, also when a monitor has counted a moment ago")
    .action((options: StatsOptions) => stats(terminal, options));
}

async function stats(terminal: Terminal, { url, exact = false }: StatsOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
  const { queues, countedAt, ageMs } = (exact ? null : await known(holdfast)) ?? {
    queues: await holdfast.stats(),
    countedAt: null,
    ageMs: 0,
  };
  if (terminal.json) terminal.printJson({ queues, countedAt, ageMs, exact: countedAt === null });
  else if (queues.length === 0) terminal.print("No jobs.");
  else terminal.print(...statsTable({ queues, countedAt, ageMs }, terminal));
}

async function known(holdfast: Holdfast): Promise<Counts | null> {
  const census = await holdfast.figures.census();
  if (census === null || census.queues.length === 0) return null;
  return Math.abs(census.ageMs) < FRESH_MS ? census : null;
}

function statsTable(counts: Counts, { columns, colors }: Terminal): string[] {
  const { queues, countedAt, ageMs } = counts;
  const now = countedAt === null ? systemRuntime.now() : countedAt + ageMs;
  const shown = statuses.filter(
    (status) => ALWAYS.has(status) || queues.some((queue) => queue.counts[status] > 0),
  );
  const lines = table({
    columns: [
      { title: "QUEUE", flexible: true },
      ...shown.map((status) => ({ title: status.toUpperCase(), align: "right" as const })),
      { title: "OLDEST", align: "right" },
    ],
    rows: queues.map((queue): (string | Cell)[] => [
      queue.queue,
      ...shown.map((status) => number(queue.counts[status], statusPaint(colors, status))),
      queue.oldestPendingAt === null ? "" : span(now - queue.oldestPendingAt),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
  return countedAt === null ? lines : [...lines, "", ...footnote(ageMs).map(colors.dim)];
}

function footnote(ageMs: number): string[] {
  return [
    `Counted ${span(Math.max(0, ageMs))} ago; --exact counts now.`,
    "What has ended: within 7 days.",
  ];
}

function number(value: number, paint: (text: string) => string): string | Cell {
  return value === 0 ? "0" : { text: count(value), paint };
}
