/** What flows do when a job moves; and reopened jobs, which wait again. */
import { isCalled } from "../core/id.ts";
import { asRow, type Engine, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { JobHooks, Reopening, Reopened } from "../jobs/hooks.ts";
import { DependencyUnmetError } from "./errors.ts";
import {
  type EndStatus,
  inGroups,
  lockMembers,
  lockWaiting,
  place,
  reasonToEnd,
  runInGroups,
  sorted,
  stateOf,
  type Wait,
} from "./waits.ts";
import { release, stopWaiting } from "./release.ts";

interface Edge extends Wait {
  readonly position: number;
}

/**
 * A reopened job waits again for those of its jobs that have not ended. Jobs that still wait wait for it again, and those that
 * ended because of it follow.
 */
async function reopenMember(
  engine: Engine,
  tx: Transaction,
  { id, follows }: Reopening,
): Promise<Reopened | null> {
  if ((await lockMembers(engine, tx, [id])).length === 0) return { missing: 0, followers: [] };
  const edges = await tx.all<Edge>(sql`
    select job_id, position, on_id, on_failed, on_cancelled
      from holdfast.job_after
     where job_id = ${id}
     order by position`);
  const { marked, statuses } = await stateOfKnown(
    engine,
    tx,
    sorted(edges.map((edge) => edge.on_id)),
  );
  const because = reasonToEnd(
    edges.filter((edge) => statuses.get(edge.on_id) !== null),
    statuses as ReadonlyMap<string, EndStatus>,
  );
  if (because !== null) {
    if (!follows) throw new DependencyUnmetError({ id, on: because.on, was: because.was });
    await tx.run(sql`update holdfast.flow_job set ended_by = ${because.on} where job_id = ${id}`);
    return null;
  }
  const waits = edges.filter((edge) => statuses.get(edge.on_id) === null);
  await tx.insert(
    "dep",
    waits.map(({ position: _position, ...wait }) =>
      asRow({ ...wait, look: marked.has(wait.on_id) ? 0 : 1 }),
    ),
  );
  await tx.run(sql`update holdfast.flow_job set ended_by = null where job_id = ${id}`);
  await waitAgain(engine, tx, id);
  const followers = await tx.all<{ id: string }>(sql`
    select m.job_id as id
      from holdfast.job_after a
      join holdfast.flow_job m on m.job_id = a.job_id
     where a.on_id = ${id}
       and m.ended_by = ${id}
     order by m.job_id`);
  return { missing: waits.length, followers: followers.map((row) => row.id) };
}

/** The same as `stateOf`, for jobs that may have been deleted. */
async function stateOfKnown(engine: Engine, tx: Transaction, ids: readonly string[]) {
  const rows = await inGroups(ids, (some) =>
    tx.all<{ id: string }>(sql`select id from holdfast.job where ${engine.among(sql`id`, some)}`),
  );
  const known = new Set(rows.map((row) => row.id));
  const state = await stateOf(
    engine,
    tx,
    ids.filter((id) => known.has(id)),
  );
  // It had ended when this job was first released or ended: otherwise it would not have been deleted.
  for (const id of ids) if (!known.has(id)) state.statuses.set(id, "done");
  return state;
}

/** Jobs that counted the end of this job, and have not started, wait for its next end. */
async function waitAgain(engine: Engine, tx: Transaction, id: string): Promise<void> {
  const edges = await tx.all<Wait>(sql`
    select job_id, on_id, on_failed, on_cancelled
      from holdfast.job_after
     where on_id = ${id}
     order by job_id`);
  if (edges.length === 0) return;
  const locked = await lockWaiting(engine, tx, sorted(edges.map((edge) => edge.job_id)));
  const waiting = new Set(locked.map((row) => row.id));
  const waits = await tx.all<Wait>(sql`select job_id, on_id from holdfast.dep where on_id = ${id}`);
  const known = new Set(waits.map((wait) => wait.job_id));
  const again = edges.filter(({ job_id }) => waiting.has(job_id) && !known.has(job_id));
  await tx.insert(
    "dep",
    again.map((edge) => asRow({ ...edge, look: 0 })),
  );
  await runInGroups(
    again.map((edge) => edge.job_id),
    (some) =>
      tx.run(
        sql`update holdfast.waiting set missing = missing + 1 where ${engine.among(sql`id`, some)}`,
      ),
  );
}

/** A job that has not ended may still read the results of the jobs that it waited for. */
const IS_READ = sql`exists (
  select 1
    from holdfast.job_after a
   where a.on_id = holdfast.finished.id
     and not exists (select 1 from holdfast.finished g where g.id = a.job_id))`;

/** After the hooks that lock events and items, before those that wake jobs. */
export const flowHooks: JobHooks = {
  place,
  release,
  stoppedWaiting: stopWaiting,
  reopenMember,
  keepsFinished: IS_READ,
  upcoming: () => sql`(select 0 from holdfast.dep where look = 1 limit 1) as "flowsInMs"`,

  async beforePrune(engine, tx, olderThanMs) {
    const isOld = sql`created_at < ${engine.now()} - ${olderThanMs}
       and not exists (select 1 from holdfast.flow_job m where m.flow_id = holdfast.flow.id)`;
    const [old] = await tx.all(sql`select id from holdfast.flow where ${isOld} limit 1`);
    if (old !== undefined) await tx.run(sql`delete from holdfast.flow where ${isOld}`);
  },

  async pruned(engine, tx, ids) {
    const members = ids.filter(isCalled);
    await runInGroups(members, (some) =>
      tx.run(sql`delete from holdfast.flow_job where ${engine.among(sql`job_id`, some)}`),
    );
    await runInGroups(members, (some) =>
      tx.run(sql`delete from holdfast.job_after where ${engine.among(sql`job_id`, some)}`),
    );
  },
};
