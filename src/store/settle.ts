/** Settling one attempt with all that depends on it, in the shared SQL. The hot way, for many at once, is the engines'. */
import type { Outcome, Settlement, Wait } from "../core/job.ts";
import type { Engine, Transaction } from "./engine.ts";
import { isSaid } from "./events.ts";
import { put, settled, type Cared } from "./jobs.ts";
import { readNow } from "./moving.ts";
import { land, traveller, type Landing, type LeaseRow } from "./rows.ts";
import { sql } from "./sql.ts";

/** Settles what concerns other jobs too: a job that somebody waits for, or one that goes to wait for something. */
export function settleWithCare(
  engine: Engine,
  settlement: Settlement,
  patience?: { readonly lockMs: number },
): Promise<Cared> {
  return engine.transaction((tx) => settleIn(engine, tx, settlement), patience);
}

export async function settleIn(
  engine: Engine,
  tx: Transaction,
  { id, worker, epoch, outcome }: Settlement,
): Promise<Cared> {
  const now = await readNow(engine, tx);
  const where = sql`id = ${id} and locked_by = ${worker} and epoch = ${epoch}`;
  const [lease] = await tx.take<LeaseRow>({ table: "lease", where, ids: [id] });
  if (lease === undefined) return { settled: [], queues: [] };
  const landing = await landToWait(tx, outcome, land(lease, outcome, now), now);
  const queues = await put(engine, tx, [landing]);
  return { settled: [settled(lease, landing)], queues };
}

/** A job that goes to wait for events is pending at once when one of them was said already. */
async function landToWait(
  tx: Transaction,
  outcome: Outcome,
  landing: Landing,
  now: number,
): Promise<Landing> {
  if (outcome.kind !== "suspended" || landing.table !== "waiting") return landing;
  const { row, attempt } = landing;
  const waits = inOrder(outcome.waits ?? []);
  for (const wait of waits) {
    if (!(await isSaid(tx, wait))) continue;
    return { table: "ready", row: { ...traveller(row), ready_at: now }, attempt };
  }
  await tx.run(sql`delete from holdfast.wait where job_id = ${row.id}`);
  await tx.insert(
    "wait",
    waits.map(({ event, key }) => ({ job_id: row.id, name: event, event_key: key })),
  );
  return landing;
}

/** Each once, in one order for everybody: two jobs that wait for the same events must not wait for one another. */
function inOrder(waits: readonly Wait[]): Wait[] {
  const known = new Map(waits.map((wait) => [JSON.stringify([wait.event, wait.key]), wait]));
  return [...known].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, wait]) => wait);
}
