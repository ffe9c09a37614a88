/** `holdfast stats`: how many jobs of every status each queue has. */
import { Command } from "commander";
import { statuses, type Status } from "../core/job.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { QueueStats } from "../store/store.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { table, type Cell } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { count, span, statusPaint } from "./words.ts";

/** Shown even when there are none; the others only where there are some. */
const ALWAYS = new Set<Status>(["pending", "processing", "done", "failed"]);

export function statsCommand(terminal: Terminal): Command {
  return new Command("stats")
    .description("count the jobs of every queue")
    .addOption(urlOption())
    .action((options: DatabaseOptions) => stats(terminal, options));
}

async function stats(terminal: Terminal, { url }: DatabaseOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
  const queues = await holdfast.stats();
  if (terminal.json) terminal.printJson({ queues });
  else if (queues.length === 0) terminal.print("No jobs.");
  else terminal.print(...statsTable(queues, terminal));
}

function statsTable(queues: readonly QueueStats[], { columns, colors }: Terminal): string[] {
  const now = systemRuntime.now();
  const shown = statuses.filter(
    (status) => ALWAYS.has(status) || queues.some(({ counts }) => counts[status] > 0),
  );
  return table({
    columns: [
      { title: "QUEUE", flexible: true },
      ...shown.map((status) => ({ title: status.toUpperCase(), align: "right" as const })),
      { title: "OLDEST", align: "right" },
    ],
    rows: queues.map(({ queue, counts, oldestPendingAt }): (string | Cell)[] => [
      queue,
      ...shown.map((status) => number(counts[status], statusPaint(colors, status))),
      oldestPendingAt === null ? "" : span(now - oldestPendingAt),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

function number(value: number, paint: (text: string) => string): string | Cell {
  return value === 0 ? "0" : { text: count(value), paint };
}
