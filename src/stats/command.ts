/** `holdfast stats`: the number of jobs of each queue by status. */
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
import { type CountsApp, type RecentCounts, recentCounts } from "./counts.ts";

/** Shown even if there are none; other statuses only if there are some. */
const ALWAYS = new Set<Status>(["pending", "processing", "done", "failed"]);

type Kit = CommandKit<CountsApp>;

interface StatsOptions extends DatabaseOptions {
  readonly exact?: boolean;
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
  const counts = await recentCounts(holdfast, exact);
  const { queues, countedAt, ageMs } = counts;
  if (terminal.json) terminal.printJson({ queues, countedAt, ageMs, exact: countedAt === null });
  else if (queues.length === 0) terminal.print("No jobs.");
  else terminal.print(...statsTable(counts, terminal));
}

function statsTable(counts: RecentCounts, { columns, colors }: Terminal): string[] {
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
