/**
 * Moves of jobs in the shared SQL: each is one transaction that takes rows from one table and puts them into another. Only
 * the transaction that took a row moves it. The engines settle attempts in batches; here one is settled with its dependents.
 */
import { isCalled } from "../core/id.ts";
import type { Outcome, Settlement, Wait } from "../core/job.ts";
import { asRow, type Engine, readNow, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { MoveContext } from "./hooks.ts";
import {
  type Destination,
  type EndingLease,
  type FinishedRow,
  jobColumns,
  type JobColumns,
  type LeaseRow,
  nextRow,
  type WaitingRow,
} from "./rows.ts";
import type { Settled } from "./store.ts";

/** Settles a job that another job waits for, or that is about to wait for an event. */
export function settleWithDependents(
  context: MoveContext,
  settlement: Settlement,
  waitLimits?: { readonly lockMs: number },
): Promise<SettledWithDependents> {
  return context.engine.transaction((tx) => settleIn(context, tx, settlement), waitLimits);
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
  let destination = nextRow(lease, outcome, now);
  if (outcome.kind === "suspended" && destination.table === "waiting") {
    const { row, attempt } = destination;
    const waits = inOrder(outcome.waits ?? []);
    for (const hook of context.hooks) {
      // An event that the job would wait for has been emitted already.
      if ((await hook.waiting?.(tx, row, waits)) !== "ready") continue;
      destination = { table: "ready", row: { ...jobColumns(row), ready_at: now }, attempt };
      break;
    }
  }
  const queues = await moveWithHooks(context, tx, [destination]);
  return { settled: [settled(lease, destination)], queues };
}

/** Without duplicates, in one global order: otherwise two jobs that wait for the same events could deadlock. */
function inOrder(waits: readonly Wait[]): Wait[] {
  const known = new Map(waits.map((wait) => [JSON.stringify([wait.event, wait.key]), wait]));
  return [...known].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, wait]) => wait);
}

export interface Touched {
  /** The queues in which jobs became pending, to be announced. */
  readonly queues: readonly string[];
}

/** Ends the attempts whose leases were taken under their fences, of jobs without dependents. */
export async function settleTaken(
  engine: Engine,
  tx: Transaction,
  taken: { leases: readonly LeaseRow[]; settlements: readonly Settlement[]; now: number },
): Promise<Settled[]> {
  const outcomes = new Map(
    taken.settlements.map(({ id, epoch, outcome }) => [`${id} ${epoch}`, outcome]),
  );
  const destinations = taken.leases.map((lease) =>
    // By the epoch too: the batch may hold a stale settlement of the same job.
    nextRow(lease, outcomes.get(`${lease.id} ${lease.epoch}`) as Outcome, taken.now),
  );
  await moveRows(engine, tx, destinations);
  return taken.leases.map((lease, index) => settled(lease, destinations[index] as Destination));
}

/** The jobs continue, or end, without the events they wait for. */
export async function stopWaiting(
  { engine, hooks }: MoveContext,
  tx: Transaction,
  rows: readonly (JobColumns & Partial<WaitingRow>)[],
): Promise<void> {
  const ids = rows.filter(({ status }) => status === "waiting").map(({ id }) => id);
  if (ids.length === 0) return;
  for (const hook of hooks) await hook.stoppedWaiting?.(engine, tx, ids);
}

/** Moves rows, then wakes the jobs and items that wait for the end of called jobs. Returns the queues of the woken jobs. */
export async function moveWithHooks(
  { engine, hooks }: MoveContext,
  tx: Transaction,
  destinations: readonly Destination[],
): Promise<string[]> {
  const ended = await moveRows(engine, tx, destinations);
  const jobs = ended.filter(({ id }) => isCalled(id));
  if (jobs.length === 0) return [];
  const now = await readNow(engine, tx);
  const queues = new Set<string>();
  for (const hook of hooks) {
    for (const queue of (await hook.ended?.(engine, tx, { jobs, now })) ?? []) queues.add(queue);
  }
  return [...queues];
}

/** Inserts the next rows, and releases the keys of jobs that ended. Returns these. */
async function moveRows(
  engine: Engine,
  tx: Transaction,
  destinations: readonly Destination[],
): Promise<FinishedRow[]> {
  for (const table of ["ready", "waiting", "finished"] as const) {
    const rows = destinations.filter((destination) => destination.table === table);
    await tx.insert(
      table,
      rows.map(({ row }) => asRow(row)),
    );
  }
  const attempts = destinations.flatMap((destination) =>
    destination.table === "finished" ? [] : [asRow(destination.attempt)],
  );
  await tx.insert("attempt", attempts);
  const ended = destinations.flatMap(({ table, row }) => (table === "finished" ? [row] : []));
  const keyed = ended.filter(({ job_key }) => job_key !== null).map(({ id }) => id);
  if (keyed.length > 0) {
    await tx.run(sql`delete from holdfast.job_key where ${engine.among(sql`job_id`, keyed)}`);
  }
  return ended;
}

export interface SettledWithDependents extends Touched {
  readonly settled: Settled[];
}

export function settled(lease: EndingLease, destination: Destination): Settled {
  return {
    id: lease.id,
    worker: lease.locked_by,
    epoch: lease.epoch,
    queue: lease.queue,
    task: lease.task,
    status: destination.table === "ready" ? "pending" : destination.row.status,
    attempts: destination.row.attempts,
    dueAt: destination.table === "waiting" ? destination.row.due_at : null,
  };
}
