import { finalStatuses, type Status } from "../core/job.ts";
import { readNow, type Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { besideEach, culpritsOf } from "./outages.ts";
import type { MoveContext } from "./hooks.ts";
import { prunePacing } from "./pacing.ts";
import {
  type Destination,
  expiredRow,
  type FinishedRow,
  type JobColumns,
  type LeaseRow,
  nextRowAfterCrash,
  putReady,
  queuesOf,
  type WaitingRow,
} from "./rows.ts";
import {
  moveWithHooks,
  settled,
  type SettledWithDependents,
  stopWaiting,
  type Touched,
} from "./settle.ts";
import type { Prune, ReclaimExpired, ReclaimFrom, Settled, Upcoming } from "./store.ts";

export interface Promoted extends Touched {
  readonly moved: number;
}

/** Other processes see the same due jobs and may promote them first. */
export async function promoteDue(context: MoveContext, limit: number): Promise<Promoted> {
  const { engine } = context;
  const rows = await engine.transaction(async (tx) => {
    const taken = await tx.take<WaitingRow>({
      table: "waiting",
      where: sql`due_at <= ${engine.now()}`,
      orderBy: sql`due_at, id`,
      limit,
      skipLocked: true,
    });
    if (taken.length === 0) return [];
    await stopWaiting(context, tx, taken);
    await putReady(engine, tx, taken, await readNow(engine, tx));
    return taken;
  });
  return { moved: rows.length, queues: queuesOf(rows) };
}

type Late = JobColumns & { readonly start_by: number };

/** Ends jobs that should have started by now. A claim takes no such job. */
export async function expireLate(
  context: MoveContext,
  limit: number,
): Promise<SettledWithDependents> {
  const { engine } = context;
  const { sparse } = engine.dialect;
  const expired = await engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const late: Late[] = [];
    for (const table of ["ready", "waiting"] as const) {
      const where = table === "ready" ? sparse.late(now) : sql`start_by <= ${now}`;
      const places = limit - late.length;
      if (places > 0)
        late.push(...(await tx.take<Late>({ table, where, limit: places, skipLocked: true })));
    }
    if (late.length === 0) return { settled: [], queues: [] as string[] };
    await stopWaiting(context, tx, late);
    const rows = late.map((row) => expiredRow(row, now));
    const queues = await moveWithHooks(
      context,
      tx,
      rows.map((row) => ({ table: "finished", row })),
    );
    return { settled: rows.map(endedUnclaimed), queues };
  });
  await sparse.forgetDeadlines(engine, limit);
  return expired;
}

function endedUnclaimed(row: FinishedRow): Settled {
  const { id, epoch, queue, task, status, attempts } = row;
  return { id, worker: "", epoch, queue, task, status, attempts, dueAt: null };
}

/**
 * Reads the first entry of the index on due times: for min(), some engines read all of it, others the whole table.
 *
 * One statement for all features: where the database does not push, idle workers run it every second.
 */
export async function upcoming({ engine, hooks }: MoveContext): Promise<Upcoming> {
  const features = hooks.flatMap((hook) => hook.upcoming?.(engine) ?? []);
  const columns = features.reduce((all, column) => sql`${all}, ${column}`, nothing);
  const [row] = await engine.all<Upcoming>(sql`
    select (select due_at from holdfast.waiting where due_at is not null order by due_at limit 1) - ${engine.now()} as "dueInMs",
           (select min(locked_until) from holdfast.lease) - ${engine.now()} as "leaseEndsInMs",
           (select start_by from ${engine.dialect.sparse.deadlines} where start_by >= 0 order by start_by limit 1) - ${engine.now()}
             as "pendingUntilMs",
           (select start_by from holdfast.waiting where start_by is not null order by start_by limit 1) - ${engine.now()}
             as "waitingUntilMs"${columns}`);
  return row as Upcoming;
}

export interface Reclaimed extends SettledWithDependents {
  /** Jobs that are shown to have ended their workers. */
  readonly culprits: readonly string[];
}

export async function reclaimExpired(
  context: MoveContext,
  chore: ReclaimExpired,
): Promise<Reclaimed> {
  const { engine } = context;
  const ended = sql`locked_until < ${engine.now()} - ${chore.graceMs}`;
  const [any] = await engine.all(sql`select id from holdfast.lease where ${ended} limit 1`);
  if (any === undefined) return { settled: [], queues: [], culprits: [] };
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    // Checked again under the row's lock: a lease that was extended in between must not be taken.
    const { limit, maxCrashes, spareLast = false, queue } = chore;
    const isLast = sql`cancel_requested_at is null and (crashes + 1 >= ${maxCrashes} or attempts >= max_attempts)`;
    const spared = spareLast ? sql` and not (${isLast})` : sql``;
    const inQueue = queue === undefined ? sql`` : sql` and queue = ${queue}`;
    const where = sql`locked_until < ${now - chore.graceMs}${spared}${inQueue}`;
    return moveCrashed(context, tx, { where, limit, maxCrashes, now });
  });
}

export async function reclaimFrom(context: MoveContext, chore: ReclaimFrom): Promise<Reclaimed> {
  const { engine } = context;
  const theirs = engine.among(sql`locked_by`, chore.workers);
  const [any] = await engine.all(sql`select id from holdfast.lease where ${theirs} limit 1`);
  if (any === undefined) return { settled: [], queues: [], culprits: [] };
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const { limit, maxCrashes } = chore;
    return moveCrashed(context, tx, { where: theirs, limit, maxCrashes, now });
  });
}

async function moveCrashed(
  context: MoveContext,
  tx: Transaction,
  { where, limit, maxCrashes, now }: { where: Sql; limit: number; maxCrashes: number; now: number },
): Promise<Reclaimed> {
  const taken = await tx.take<LeaseRow>({ table: "lease", where, limit, skipLocked: true });
  const beside = await besideEach(context.engine, tx, taken);
  const destinations = taken.map((lease, index) =>
    nextRowAfterCrash(lease, maxCrashes, now, beside[index]),
  );
  const queues = await moveWithHooks(context, tx, destinations);
  return {
    settled: taken.map((lease, index) => settled(lease, destinations[index] as Destination)),
    queues,
    culprits: culpritsOf(taken, beside),
  };
}

export function prune({ engine, hooks }: MoveContext, chore: Prune): Promise<number> {
  return engine.transaction(async (tx) => {
    let left = chore.limit;
    const olderThanMs = Math.max(...Object.values(chore.retention));
    for (const hook of hooks) await hook.beforePrune?.(engine, tx, olderThanMs);
    await prunePacing(engine, tx, chore.limit);
    const mayGo = notKept(hooks);
    for (const status of finalStatuses) {
      if (left === 0) break;
      const rows = await tx.take<{ id: string }>({
        table: "finished",
        where: sql`status = ${status} and finished_at < ${engine.now()} - ${chore.retention[status]}${mayGo}`,
        limit: left,
        skipLocked: true,
      });
      if (rows.length === 0) continue;
      left -= rows.length;
      await deleteRest(
        { engine, hooks },
        tx,
        rows.map((row) => row.id),
      );
    }
    return chore.limit - left;
  });
}

/** Deletes those of the jobs that have ended with one of these statuses and that no feature needs. Returns them. */
export async function deleteEnded(
  context: MoveContext,
  tx: Transaction,
  { ids, statuses }: { readonly ids: readonly string[]; readonly statuses: readonly Status[] },
): Promise<Pick<FinishedRow, "id" | "status">[]> {
  const { engine, hooks } = context;
  const isEnded = sql`${engine.among(sql`id`, ids)} and ${engine.among(sql`status`, statuses)}`;
  const where = sql`${isEnded}${notKept(hooks)}`;
  const rows = await tx.take<FinishedRow>({ table: "finished", where, ids });
  const deleted = rows.map(({ id }) => id);
  if (deleted.length > 0) await deleteRest(context, tx, deleted);
  return rows;
}

/** Without those that a feature still needs. */
function notKept(hooks: MoveContext["hooks"]): Sql {
  return hooks
    .flatMap(({ keepsFinished }) => keepsFinished ?? [])
    .reduce((all, one) => sql`${all} and not ${one}`, sql``);
}

/** The rows of ended jobs in all other tables. */
async function deleteRest(
  { engine, hooks }: MoveContext,
  tx: Transaction,
  ids: readonly string[],
): Promise<void> {
  for (const hook of hooks) await hook.pruned?.(engine, tx, ids);
  for (const table of DEPENDENTS) {
    await tx.run(sql`delete from ${table} where ${engine.among(sql`job_id`, ids)}`);
  }
  await tx.run(sql`delete from holdfast.job where ${engine.among(sql`id`, ids)}`);
}

const DEPENDENTS = [
  sql`holdfast.attempt`,
  sql`holdfast.kept_key`,
  sql`holdfast.job_trace`,
  sql`holdfast.job_tag`,
  sql`holdfast.job_revision`,
];
