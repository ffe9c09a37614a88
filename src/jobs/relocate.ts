/** Moves unclaimed jobs to another queue, or gives them another priority. They keep their place in time. */
import type { Status } from "../core/job.ts";
import { asRow, type Engine, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { markLanes } from "./place.ts";
import { jobColumns, type JobColumns, laneName, readyRow, type WaitingRow } from "./rows.ts";

export type Relocation = { readonly queue: string } | { readonly priority: number };

export interface Relocated {
  readonly id: string;
  readonly status: Status;
  /** The queue it is in now. */
  readonly queue: string;
  /** The old queue or priority. */
  readonly before: string | number;
}

/** Leaves out jobs that are claimed or have ended, and those that need no change. */
export async function relocate(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
  to: Relocation,
): Promise<Relocated[]> {
  const relocated: Relocated[] = [];
  const isOther = "queue" in to ? sql`queue <> ${to.queue}` : sql`"rank" <> ${0 - to.priority}`;
  const set = "queue" in to ? { queue: to.queue } : { rank: 0 - to.priority };
  // In the order in which a job passes through them, so it cannot slip past.
  for (const table of ["waiting", "ready"] as const) {
    const where = sql`${engine.among(sql`id`, ids)} and ${isOther}`;
    const rows = await tx.take<JobColumns & Partial<WaitingRow>>({ table, where });
    if (rows.length === 0) continue;
    await tx.insert(
      table,
      rows.map((row) => asRow(placed(engine, { ...row, ...set }))),
    );
    const hasLanes = rows.some(({ lane }) => laneName(lane) !== null);
    if ("queue" in to && hasLanes) await markLanes(engine, tx, to.queue);
    relocated.push(
      ...rows.map((row) => ({
        id: row.id,
        status: row.status ?? ("pending" as const),
        queue: "queue" in to ? to.queue : row.queue,
        before: "queue" in to ? row.queue : 0 - row.rank,
      })),
    );
  }
  const moved = relocated.map(({ id }) => id);
  if (moved.length === 0) return [];
  const where = engine.among(sql`id`, moved);
  await tx.run(
    "queue" in to
      ? sql`update holdfast.job set queue = ${to.queue} where ${where}`
      : sql`update holdfast.job set "rank" = ${0 - to.priority} where ${where}`,
  );
  return relocated;
}

/** A pending job stands in its new queue as if it had become pending there. */
function placed(engine: Engine, row: JobColumns & { ready_at?: number }): object {
  if (row.ready_at === undefined) return row;
  const { lane, place, ready_at } = readyRow(engine, jobColumns(row), row.ready_at);
  return { ...row, lane, place, ready_at };
}
