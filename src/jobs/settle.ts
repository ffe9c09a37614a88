/**
 * Moves of jobs in the shared SQL: each is one transaction that takes rows from one table and puts them into another. Only
 * the transaction that took a row moves it. The engines settle attempts in batches; here one is settled with its dependents.
 */
import { isCalled } from "../core/id.ts";
import type { Outcome, Settlement, Wait } from "../core/job.ts";
import {
  asRow,
  type Engine,
  readNow,
  type Transaction,
  type WaitLimits,
} from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { MoveContext } from "./hooks.ts";
import {
  type Destination,
  type EndingLease,
  type FinishedRow,
  type JobColumns,
  type LeaseRow,
  nextRow,
  readyRow,
  type WaitingRow,
} from "./rows.ts";
import type { Settled } from "./store.ts";

/** Settles a job that another job waits for, or that is about to wait for an event. */
export function settleWithDependents(
  context: MoveContext,
  settlement: Settlement,
  waitLimits?: WaitLimits,
): Promise<SettledWithDependents> {
  return context.engine.transaction((tx) => settleIn(context, tx, settlement), waitLimits);
}

/** Settles several jobs that others wait for, in one transaction: a job that waits for many of them is changed once. */
export function settleTogether(
  context: MoveContext,
  settlements: readonly Settlement[],
  waitLimits: WaitLimits,
): Promise<SettledWithDependents> {
  const { engine } = context;
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const leases = await tx.take<LeaseRow>({
      table: "lease",
      where: fencesOf(settlements),
      ids: settlements.map(({ id }) => id),
    });
    const outcomes = outcomesOf(settlements);
    const destinations = leases.map((lease) =>
      nextRow(engine, lease, outcomes.get(`${lease.id} ${lease.epoch}`) as Outcome, now),
    );
    const queues = await moveWithHooks(context, tx, destinations);
    const ended = leases.map((lease, at) => settled(lease, destinations[at] as Destination));
    return { settled: ended, queues };
  }, waitLimits);
}

/** Padded to a power of two with repetitions: each length would be a statement of its own to prepare. */
function fencesOf(settlements: readonly Settlement[]): Sql {
  const length = 2 ** Math.ceil(Math.log2(settlements.length));
  return Array.from({ length }, (_, at) => settlements[at] ?? (settlements[0] as Settlement))
    .map(({ id, worker, epoch }) => sql`id = ${id} and locked_by = ${worker} and epoch = ${epoch}`)
    .reduce((any, fence) => sql`${any} or ${fence}`);
}

/** By the epoch too: the batch may hold a stale settlement of the same job. */
function outcomesOf(settlements: readonly Settlement[]): Map<string, Outcome> {
  return new Map(settlements.map(({ id, epoch, outcome }) => [`${id} ${epoch}`, outcome]));
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
  let destination = nextRow(context.engine, lease, outcome, now);
  if (outcome.kind === "suspended" && destination.table === "waiting") {
    const { row, attempt } = destination;
    const waits = inOrder(outcome.waits ?? []);
    for (const hook of context.hooks) {
      // An event that the job would wait for has been emitted already.
      if ((await hook.waiting?.(tx, row, waits)) !== "ready") continue;
      destination = { table: "ready", row: readyRow(context.engine, row, now), attempt };
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
  taken: { leases: readonly EndingLease[]; settlements: readonly Settlement[]; now: number },
): Promise<Settled[]> {
  const outcomes = outcomesOf(taken.settlements);
  const destinations = taken.leases.map((lease) =>
    nextRow(engine, lease, outcomes.get(`${lease.id} ${lease.epoch}`) as Outcome, taken.now),
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

/**
 * Moves rows, then wakes the jobs and items that wait for the end of called jobs. Jobs that end because of these ends are
 * moved in turn. Returns the queues of the woken jobs.
 */
export async function moveWithHooks(
  { engine, hooks, isUsers = false }: MoveContext,
  tx: Transaction,
  destinations: readonly Destination[],
): Promise<string[]> {
  const queues = new Set<string>();
  let next = destinations;
  for (let round = 0; next.length > 0; round += 1) {
    const jobs = (await moveRows(engine, tx, next)).filter(({ id }) => isCalled(id));
    next = [];
    if (jobs.length === 0) break;
    const now = await readNow(engine, tx);
    for (const hook of hooks) {
      for (const queue of (await hook.ended?.(engine, tx, { jobs, now })) ?? []) queues.add(queue);
      const released = await hook.release?.(engine, tx, { jobs, now, round, isUsers });
      for (const queue of released?.queues ?? []) queues.add(queue);
      next = [
        ...next,
        ...(released?.ended ?? []).map((row) => ({ table: "finished", row }) as const),
      ];
    }
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

/** A job that is done, as its worker knows it from the claim. */
export function settledAsClaimed({ id, worker, epoch, claimed }: Settlement): Settled {
  const { queue = "", task = "", attempt: attempts = 0 } = claimed ?? {};
  return { id, worker, epoch, queue, task, status: "done", attempts, dueAt: null };
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

/** Whether another job may wait for the end of this one, or this one is about to wait for an event. */
export function concernsOthers({ id, outcome }: Settlement): boolean {
  return isCalled(id) || (outcome.kind === "suspended" && outcome.waits !== undefined);
}
