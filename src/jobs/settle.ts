/** Settling one attempt with all that depends on it, in the shared SQL. The hot way, for many at once, is the engines'. */
import { isCalled } from "../core/id.ts";
import type { Outcome, Settlement, Wait } from "../core/job.ts";
import { asRow, type Engine, readNow, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { MoveContext } from "./hooks.ts";
import {
  type Destination,
  type FinishedRow,
  jobColumns,
  type JobColumns,
  type LeaseRow,
  nextRow,
  type WaitingRow,
} from "./rows.ts";
import type { Settled } from "./store.ts";

/** Settles what concerns other jobs too: a job that another waits for, or one that goes to wait for something. */
export function settleWithDependents(
  context: MoveContext,
  settlement: Settlement,
  patience?: { readonly lockMs: number },
): Promise<SettledWithDependents> {
  return context.engine.transaction((tx) => settleIn(context, tx, settlement), patience);
}

export async function settleIn(
  context: MoveContext,
  tx: Transaction,
  { id, worker, epoch, outcome }: Settlement,
): Promise<SettledWithDependents> {
  const now = await readNow(context.engine, tx);
  const where = sql`id = ${id} and locked_by = ${worker} and epoch = ${epoch}`;
  const [lease] = await tx.take<LeaseRow>({ table: "lease", where, ids: [id] });
  if (lease === undefined) return { settled: [], queues: [] };
  const landing = await moveToWait(context, tx, {
    outcome,
    landing: nextRow(lease, outcome, now),
    now,
  });
  const queues = await moveWithHooks(context, tx, [landing]);
  return { settled: [settled(lease, landing)], queues };
}

/** A job that goes to wait is pending at once when what it waits for is there already. */
async function moveToWait(
  { hooks }: MoveContext,
  tx: Transaction,
  { outcome, landing, now }: { outcome: Outcome; landing: Destination; now: number },
): Promise<Destination> {
  if (outcome.kind !== "suspended" || landing.table !== "waiting") return landing;
  const { row, attempt } = landing;
  const waits = inOrder(outcome.waits ?? []);
  for (const hook of hooks) {
    if ((await hook.waiting?.(tx, row, waits)) !== "ready") continue;
    return { table: "ready", row: { ...jobColumns(row), ready_at: now }, attempt };
  }
  return landing;
}

/** Each once, in one order for all: two jobs that wait for the same events must not wait for one another. */
function inOrder(waits: readonly Wait[]): Wait[] {
  const known = new Map(waits.map((wait) => [JSON.stringify([wait.event, wait.key]), wait]));
  return [...known].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, wait]) => wait);
}

// The moves of jobs that are not hot: each is one transaction that takes rows from one table and puts them into
// another. Taking is what decides: only the transaction that took the row moves it.

/** The queues in which jobs became pending: the store tells those who watch. */
export interface Touched {
  readonly queues: readonly string[];
}

/** Ends the attempts whose leases were taken under their fences, of jobs that concern no others. */
export async function settleTaken(
  engine: Engine,
  tx: Transaction,
  taken: { leases: readonly LeaseRow[]; settlements: readonly Settlement[]; now: number },
): Promise<Settled[]> {
  const outcomes = new Map(
    taken.settlements.map(({ id, epoch, outcome }) => [`${id} ${epoch}`, outcome]),
  );
  const landings = taken.leases.map((lease) =>
    // By the epoch too: the batch may hold a stale settlement of the same job.
    nextRow(lease, outcomes.get(`${lease.id} ${lease.epoch}`) as Outcome, taken.now),
  );
  await moveRows(engine, tx, landings);
  return taken.leases.map((lease, index) => settled(lease, landings[index] as Destination));
}

/** They go on, or end, without what they wait for. */
export async function stopWaiting(
  { engine, hooks }: MoveContext,
  tx: Transaction,
  rows: readonly (JobColumns & Partial<WaitingRow>)[],
): Promise<void> {
  const ids = rows.filter(({ status }) => status === "waiting").map(({ id }) => id);
  if (ids.length === 0) return;
  for (const hook of hooks) await hook.stoppedWaiting?.(engine, tx, ids);
}

/** Moves rows, then lets those go on that wait for the end of these jobs. Returns the queues of those. */
export async function moveWithHooks(
  context: MoveContext,
  tx: Transaction,
  landings: readonly Destination[],
): Promise<string[]> {
  return tellEnded(context, tx, await moveRows(context.engine, tx, landings));
}

/** Puts settled rows where they go, and releases the keys of jobs that ended. Returns the jobs that ended. */
async function moveRows(
  engine: Engine,
  tx: Transaction,
  landings: readonly Destination[],
): Promise<FinishedRow[]> {
  for (const table of ["ready", "waiting", "finished"] as const) {
    const rows = landings.filter((landing) => landing.table === table);
    await tx.insert(
      table,
      rows.map(({ row }) => asRow(row)),
    );
  }
  const attempts = landings.flatMap((landing) =>
    landing.table === "finished" ? [] : [asRow(landing.attempt)],
  );
  await tx.insert("attempt", attempts);
  const ended = landings.flatMap(({ table, row }) => (table === "finished" ? [row] : []));
  const keyed = ended.filter(({ job_key }) => job_key !== null).map(({ id }) => id);
  if (keyed.length > 0) {
    await tx.run(sql`delete from holdfast.job_key where ${engine.among(sql`job_id`, keyed)}`);
  }
  return ended;
}

/** Other jobs or items wait for the end of jobs that were called. */
async function tellEnded(
  { engine, hooks }: MoveContext,
  tx: Transaction,
  ended: readonly FinishedRow[],
): Promise<string[]> {
  const jobs = ended.filter(({ id }) => isCalled(id));
  if (jobs.length === 0) return [];
  const now = await readNow(engine, tx);
  const queues = new Set<string>();
  for (const hook of hooks) {
    for (const queue of (await hook.ended?.(engine, tx, { jobs, now })) ?? []) queues.add(queue);
  }
  return [...queues];
}

/** What became of the jobs, and the queues in which others go on. */
export interface SettledWithDependents {
  readonly settled: Settled[];
  readonly queues: readonly string[];
}

export function settled(lease: LeaseRow, landing: Destination): Settled {
  return {
    id: lease.id,
    worker: lease.locked_by,
    epoch: lease.epoch,
    queue: lease.queue,
    task: lease.task,
    status: landing.table === "ready" ? "pending" : landing.row.status,
    attempts: landing.row.attempts,
    dueAt: landing.table === "waiting" ? landing.row.due_at : null,
  };
}
