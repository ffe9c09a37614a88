/**
 * `holdfast stats`: the number of jobs of each queue by status.
 *
 * It prints the monitor's last count if that is recent, so it is fast for any number of jobs; otherwise it counts. It also counts
 * if the monitor found no jobs, which is cheap, so that a job enqueued since then is not missed.
 */
import { Command } from "commander";
import { type Status, statuses } from "../core/job.ts";
import { systemRuntime } from "../core/runtime.ts";
import { type Cell, count, span, statusPaint, table } from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import type { QueueDepth } from "./counts.ts";
import type { Stats } from "./store.ts";

/** Shown even if there are none; other statuses only if there are some. */
const ALWAYS = new Set<Status>(["pending", "processing", "done", "failed"]);

/** Older counts are not used. */
const FRESH_MS = 2 * 60_000;

interface App {
  readonly metrics: Stats;
  /** Counts now. */
  stats(): Promise<QueueDepth[]>;
}

type Kit = CommandKit<App>;

interface StatsOptions extends DatabaseOptions {
  readonly exact?: boolean;
}

interface Counts {
  readonly queues: readonly QueueDepth[];
  /** By the database's clock; null: now. */
  readonly countedAt: number | null;
  readonly ageMs: number;
}

export function statsCommand(kit: Kit): Command {
  return new Command("stats")
    .description("count the jobs of each queue by status")
    .addOption(urlOption())
    .option("--exact", "count now instead of using the monitor's last count")
    .action((options: StatsOptions) => stats(kit, options));
}

async function stats({ terminal, open }: Kit, { url, exact = false }: StatsOptions): Promise<void> {
  await using holdfast = await open(url);
  const { queues, countedAt, ageMs } = (exact ? null : await known(holdfast)) ?? {
    queues: await holdfast.stats(),
    countedAt: null,
    ageMs: 0,
  };
  if (terminal.json) terminal.printJson({ queues, countedAt, ageMs, exact: countedAt === null });
  else if (queues.length === 0) terminal.print("No jobs.");
  else terminal.print(...statsTable({ queues, countedAt, ageMs }, terminal));
}

async function known({ metrics }: App): Promise<Counts | null> {
  const counts = await metrics.counts();
  if (counts === null || counts.queues.length === 0) return null;
  return Math.abs(counts.ageMs) < FRESH_MS ? counts : null;
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
  if (countedAt === null) return lines;
  const age = `Counted ${span(Math.max(0, ageMs))} ago; --exact counts now.`;
  return [...lines, "", ...[age, "Finished jobs: the last 7 days only."].map(colors.dim)];
}

function number(value: number, paint: (text: string) => string): string | Cell {
  return value === 0 ? "0" : { text: count(value), paint };
}
