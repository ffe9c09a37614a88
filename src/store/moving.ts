/** What all moves of jobs are made of. */
import type { Engine, Row, Transaction } from "./engine.ts";
import { traveller, type ReadyRow, type Traveller } from "./rows.ts";
import { sql } from "./sql.ts";
import type { Hint, NewJob } from "./store.ts";

export async function readNow(engine: Engine, tx: Transaction): Promise<number> {
  const [row] = await tx.all<{ now: number | string }>(sql`select ${engine.now()} as now`);
  return Number((row as { now: number | string }).now); // in a user's transaction, as their driver reads it
}

/** When a new job is due; now, unless it says otherwise. */
export function dueTime({ start }: NewJob, now: number): number {
  if (start === null) return now;
  return "at" in start ? start.at : now + start.delayMs;
}

/** Makes jobs pending, from now on. */
export async function putReady(
  tx: Transaction,
  rows: readonly Traveller[],
  now: number,
): Promise<void> {
  const ready = rows.map((row): ReadyRow => ({ ...traveller(row), ready_at: now }));
  await tx.insert("ready", ready.map(asRow));
}

/** Hints that these queues have jobs, which others hear of with the commit where the engine can do that. */
export async function hintPending(
  engine: Engine,
  tx: Transaction,
  queues: readonly string[],
): Promise<Hint[]> {
  const hints = queues.map((queue): Hint => ({ kind: "pending", queue }));
  await engine.notifyInTx(tx, hints);
  return hints;
}

export function queuesOf(rows: readonly Traveller[]): string[] {
  return [...new Set(rows.map((row) => row.queue))];
}

/** An interface has no index signature, so it is not a Row to the compiler though it is one in fact. */
export function asRow(row: object): Row {
  return row as Row;
}
