import { finalStatuses } from "../core/job.ts";
import { type Engine, readNow, type Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { MoveContext } from "./hooks.ts";
import {
  type Destination,
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
import type { Prune, ReclaimExpired, ReclaimFrom, Upcoming } from "./store.ts";

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
    await putReady(tx, taken, await readNow(engine, tx));
    return taken;
  });
  return { moved: rows.length, queues: queuesOf(rows) };
}

/** Reads the first entry of the index on due times: for min(), some engines read all of it, others the whole table. */
export async function upcoming(engine: Engine): Promise<Upcoming> {
  const [row] = await engine.all<Upcoming>(sql`
    select (select due_at from holdfast.waiting where due_at is not null order by due_at limit 1) - ${engine.now()} as "dueInMs",
           (select min(locked_until) from holdfast.lease) - ${engine.now()} as "leaseEndsInMs"`);
  return row as Upcoming;
}

export async function reclaimExpired(
  context: MoveContext,
  chore: ReclaimExpired,
): Promise<SettledWithDependents> {
  const { engine } = context;
  const ended = sql`locked_until < ${engine.now()} - ${chore.graceMs}`;
  const [any] = await engine.all(sql`select id from holdfast.lease where ${ended} limit 1`);
  if (any === undefined) return { settled: [], queues: [] };
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    // Checked again under the row's lock: a lease that was extended in between must not be taken.
    const { limit, crashesMax, spareLast = false, queue } = chore;
    const isLast = sql`cancel_requested_at is null and (crashes + 1 >= ${crashesMax} or attempts >= max_attempts)`;
    const spared = spareLast ? sql` and not (${isLast})` : sql``;
    const inQueue = queue === undefined ? sql`` : sql` and queue = ${queue}`;
    const where = sql`locked_until < ${now - chore.graceMs}${spared}${inQueue}`;
    return moveCrashed(context, tx, { where, limit, crashesMax, now });
  });
}

export function reclaimFrom(
  context: MoveContext,
  chore: ReclaimFrom,
): Promise<SettledWithDependents> {
  const { engine } = context;
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const where = engine.among(sql`locked_by`, chore.workers);
    const { limit, crashesMax } = chore;
    return moveCrashed(context, tx, { where, limit, crashesMax, now });
  });
}

async function moveCrashed(
  context: MoveContext,
  tx: Transaction,
  { where, limit, crashesMax, now }: { where: Sql; limit: number; crashesMax: number; now: number },
): Promise<SettledWithDependents> {
  const taken = await tx.take<LeaseRow>({ table: "lease", where, limit, skipLocked: true });
  const destinations = taken.map((lease) => nextRowAfterCrash(lease, crashesMax, now));
  const queues = await moveWithHooks(context, tx, destinations);
  return {
    settled: taken.map((lease, index) => settled(lease, destinations[index] as Destination)),
    queues,
  };
}

export function prune({ engine, hooks }: MoveContext, chore: Prune): Promise<number> {
  return engine.transaction(async (tx) => {
    let left = chore.limit;
    const olderThanMs = Math.max(...Object.values(chore.keepMs));
    for (const hook of hooks) await hook.beforePrune?.(engine, tx, olderThanMs);
    for (const status of finalStatuses) {
      if (left === 0) break;
      const rows = await tx.take<{ id: string }>({
        table: "finished",
        where: sql`status = ${status} and finished_at < ${engine.now()} - ${chore.keepMs[status]}`,
        limit: left,
        skipLocked: true,
      });
      if (rows.length === 0) continue;
      left -= rows.length;
      const ids = rows.map((row) => row.id);
      await tx.run(sql`delete from holdfast.attempt where ${engine.among(sql`job_id`, ids)}`);
      for (const hook of hooks) await hook.pruned?.(engine, tx, ids);
      await tx.run(sql`delete from holdfast.kept_key where ${engine.among(sql`job_id`, ids)}`);
      await tx.run(sql`delete from holdfast.job_trace where ${engine.among(sql`job_id`, ids)}`);
      await tx.run(sql`delete from holdfast.job where ${engine.among(sql`id`, ids)}`);
    }
    return chore.limit - left;
  });
}
