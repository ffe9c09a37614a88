/** The rows that workers write about how long jobs waited and ran. */
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { quantilesOf } from "./spans.ts";
import type { TimesRow } from "./times.ts";
import { mergedTimes } from "./totals.ts";

/** Newest rows of a task that are read: a day of eight workers. */
const ROWS_MAX = 200;

/** Fewer runs do not show what is usual. */
const RUNS_MIN = 5;

export interface Usual {
  /** Four of five runs are between these. */
  readonly lowMs: number;
  readonly highMs: number;
  /** How many runs that is from. */
  readonly count: number;
}

const KINDS = {
  pickup: { table: sql`holdfast.pickup_stat`, at: "minute", name: "queue", times: "waits" },
  run: { table: sql`holdfast.task_stat`, at: "hour", name: "task", times: "runs" },
} as const;

export async function putTimes(engine: Engine, rows: readonly TimesRow[]): Promise<void> {
  for (const { kind, at, name, source, times } of rows) {
    const { table, ...columns } = KINDS[kind];
    const isPickup = kind === "pickup";
    await engine.put({
      table,
      columns: [columns.at, columns.name, "source", columns.times],
      values: sql`${at}, ${name}, ${source}, ${times}`,
      key: [columns.at, columns.name, "source"],
      set: isPickup ? sql`waits = ${times}` : sql`runs = ${times}`,
      where: isPickup
        ? sql`was.minute = ${at} and was.queue = ${name} and was.source = ${source}`
        : sql`was.hour = ${at} and was.task = ${name} and was.source = ${source}`,
      returning: sql`source`,
      durable: false,
    });
  }
}

export async function usualTimes(engine: Engine, task: string): Promise<Usual | null> {
  const rows = await engine.all<{ runs: string }>(sql`
    select runs
      from holdfast.task_stat
     where task = ${task}
     order by hour desc
     limit ${ROWS_MAX}`);
  const merged = mergedTimes(rows.map(({ runs }) => runs));
  if (merged === null) return null;
  const counts = Object.values(JSON.parse(merged) as Record<string, number>);
  const count = counts.reduce((sum, n) => sum + n, 0);
  const [lowMs, highMs] = quantilesOf(merged, [0.1, 0.9]);
  if (lowMs === undefined || highMs === undefined || count < RUNS_MIN) return null;
  return { lowMs, highMs, count };
}
