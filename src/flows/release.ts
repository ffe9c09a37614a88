/** The end of a job: the jobs that wait for it start, or end in turn. */
import { kindIdOf } from "../core/error-kind.ts";
import { StoreBusyError } from "../core/errors.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { Ends, Released } from "../jobs/hooks.ts";
import { type FinishedRow, jobColumns, type JobColumns, putReady, queuesOf } from "../jobs/rows.ts";
import {
  type Because,
  type EndStatus,
  errorOf,
  inGroups,
  lockMembers,
  lockWaiting,
  type MissingRow,
  reasonToEnd,
  runInGroups,
  sorted,
  type Wait,
} from "./waits.ts";

/** Waits that one end handles in its own transaction. Maintenance handles the rest. */
const RELEASED_MAX = 20_000;

/** Layers of jobs that one failure ends in its own transaction. Maintenance handles the rest. */
const ROUNDS_MAX = 50;

/** Makes the jobs pending that waited only for these ends, and returns those that end because of them. */
export async function release(engine: Engine, tx: Transaction, ends: Ends): Promise<Released> {
  const ids = sorted(ends.jobs.map(({ id }) => id));
  // Before the next statement looks for jobs that wait: one that was added meanwhile is committed by then.
  const members = await lockMembers(engine, tx, ids);
  if (members.length === 0) return NONE;
  if (ends.round >= ROUNDS_MAX) {
    await leaveToMaintenance(engine, tx, members);
    return NONE;
  }
  const released = await releaseAll(engine, tx, {
    ended: new Map(ends.jobs.map(({ id, status }) => [id, status])),
    ids: members,
    now: ends.now,
  });
  // A user's transaction may read an older snapshot, without the jobs that were added since.
  if (ends.isUsers) await leaveToMaintenance(engine, tx, members);
  return released;
}

const NONE: Released = { queues: [], ended: [] };

async function leaveToMaintenance(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
): Promise<void> {
  await runInGroups(ids, (some) =>
    tx.run(
      sql`update holdfast.dep set look = 1 where look = 0 and ${engine.among(sql`on_id`, some)}`,
    ),
  );
}

/** The jobs have ended, and no other transaction handles their ends now. */
async function releaseAll(
  engine: Engine,
  tx: Transaction,
  of: { ended: ReadonlyMap<string, EndStatus>; ids: readonly string[]; now: number },
): Promise<Released> {
  const waitsFor = (extra: Sql, limit: Sql) =>
    inGroups(of.ids, (some) =>
      tx.all<Wait>(sql`
        select job_id, on_id, on_failed, on_cancelled
          from holdfast.dep
         where ${engine.among(sql`on_id`, some)} ${extra}
         order by job_id, on_id ${limit}`),
    );
  const seen = await waitsFor(sql``, sql`limit ${RELEASED_MAX + 1}`);
  if (seen.length === 0) return NONE;
  const some = seen.slice(0, RELEASED_MAX);
  if (some.length < seen.length) await leaveToMaintenance(engine, tx, of.ids);
  const rows = await lockWaiting(engine, tx, sorted(some.map(({ job_id }) => job_id)));
  if (rows.length === 0) return NONE;
  const waits = await takeWaits(engine, tx, { rows, waits: some });
  const ours = Map.groupBy(waits, ({ job_id }) => job_id);
  const ended: { row: MissingRow; because: Because }[] = [];
  const free: MissingRow[] = [];
  const fewer = new Map<number, string[]>();
  for (const row of rows) {
    const taken = ours.get(row.id) ?? [];
    const because = reasonToEnd(taken, of.ended);
    if (because !== null) ended.push({ row, because });
    else if (row.missing <= taken.length) free.push(row);
    else if (taken.length > 0)
      fewer.set(taken.length, [...(fewer.get(taken.length) ?? []), row.id]);
  }
  for (const [count, jobs] of fewer) {
    await runInGroups(jobs, (few) =>
      tx.run(sql`
        update holdfast.waiting set missing = missing - ${count} where ${engine.among(sql`id`, few)}`),
    );
  }
  return {
    queues: await startAll(engine, tx, free, of.now),
    ended: await endAll(engine, tx, ended, of.now),
  };
}

/** Deletes what these jobs, whose rows are locked, no longer wait for. The deleted rows are what is subtracted. */
async function takeWaits(
  engine: Engine,
  tx: Transaction,
  { rows, waits }: { rows: readonly MissingRow[]; waits: readonly Wait[] },
): Promise<Wait[]> {
  const locked = new Set(rows.map(({ id }) => id));
  const ours = waits.filter(({ job_id }) => locked.has(job_id));
  const isOurs = new Set(ours.map(nameOf));
  const ons = sorted(ours.map(({ on_id }) => on_id));
  const jobs = sorted(ours.map(({ job_id }) => job_id));
  const taken: Wait[] = [];
  // By the shorter list in groups: a fan-in has one job and many ends, a fan-out the reverse.
  const [outer, inner] =
    ons.length < jobs.length ? (["on_id", "job_id"] as const) : (["job_id", "on_id"] as const);
  const column = { job_id: sql`job_id`, on_id: sql`on_id` };
  for (const one of outer === "on_id" ? ons : jobs) {
    const others = ours.filter((wait) => wait[outer] === one).map((wait) => wait[inner]);
    await inGroups(others, async (some) => {
      const where = sql`${column[outer]} = ${one} and ${engine.among(column[inner], some)}`;
      const found = await tx.all<Wait>(
        sql`select job_id, on_id, on_failed, on_cancelled from holdfast.dep where ${where}`,
      );
      const deleted = await tx.run(sql`delete from holdfast.dep where ${where}`);
      // Only with the snapshot of a user's transaction: then nothing may be written.
      if (deleted !== found.length) throw new StoreBusyError({ store: engine.name, waitedMs: 0 });
      taken.push(...found.filter((wait) => isOurs.has(nameOf(wait))));
      return [];
    });
  }
  return taken;
}

function nameOf({ job_id, on_id }: Wait): string {
  return `${job_id} ${on_id}`;
}

/** The driver of a user transaction may return text. */
type Instant = number | string;

/** Jobs that wait for nothing any more start, at once or when their delay is over. Returns the queues of the pending ones. */
async function startAll(
  engine: Engine,
  tx: Transaction,
  rows: readonly MissingRow[],
  now: number,
): Promise<string[]> {
  if (rows.length === 0) return [];
  const ids = rows.map(({ id }) => id);
  const times = await inGroups(ids, (some) =>
    tx.all<{ id: string; start_at: Instant | null; delay_ms: Instant | null }>(sql`
      select job_id as id, start_at, delay_ms
        from holdfast.flow_job
       where ${engine.among(sql`job_id`, some)}
         and (start_at is not null or delay_ms is not null)`),
  );
  const dueAt = new Map(
    times.map(({ id, start_at, delay_ms }) => [
      id,
      start_at === null ? now + Number(delay_ms) : Number(start_at),
    ]),
  );
  const isLater = ({ id }: JobColumns): boolean => (dueAt.get(id) ?? now) > now;
  for (const { id } of rows.filter(isLater)) {
    await tx.run(sql`
      update holdfast.waiting
         set status = 'scheduled', due_at = ${dueAt.get(id) ?? now}, missing = 0
       where id = ${id}`);
  }
  const due = rows.filter((row) => !isLater(row));
  await take(engine, tx, due);
  await putReady(engine, tx, due, now);
  return queuesOf(due);
}

/** Deletes waiting rows that are locked. */
async function take(engine: Engine, tx: Transaction, rows: readonly JobColumns[]): Promise<void> {
  await inGroups(
    rows.map(({ id }) => id),
    (ids) => tx.take({ table: "waiting", where: engine.among(sql`id`, ids), ids }),
  );
}

/** Takes the jobs out of `waiting`; their rows in `finished` are written by the caller. */
async function endAll(
  engine: Engine,
  tx: Transaction,
  ended: readonly { row: MissingRow; because: Because }[],
  now: number,
): Promise<FinishedRow[]> {
  if (ended.length === 0) return [];
  const rows = ended.map(({ row }) => row);
  await take(engine, tx, rows);
  await stopWaiting(
    engine,
    tx,
    rows.map(({ id }) => id),
  );
  for (const [on, jobs] of Map.groupBy(ended, ({ because }) => because.on)) {
    await runInGroups(
      jobs.map(({ row }) => row.id),
      (some) =>
        tx.run(
          sql`update holdfast.flow_job set ended_by = ${on} where ${engine.among(sql`job_id`, some)}`,
        ),
    );
  }
  return ended.map(({ row, because }) => ({
    ...jobColumns(row),
    status: because.status,
    worker: null,
    started_at: null,
    finished_at: now,
    result: null,
    error: errorOf(because),
    error_kind: because.status === "failed" ? kindIdOf(row.task, errorOf(because)) : null,
  }));
}

export async function stopWaiting(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
): Promise<void> {
  await runInGroups(ids, (some) =>
    tx.run(sql`delete from holdfast.dep where ${engine.among(sql`job_id`, some)}`),
  );
}

/** Releases the jobs that wait for those of these that have ended; an end is locked, so that it is not reopened meanwhile. */
export async function releaseEnded(
  engine: Engine,
  tx: Transaction,
  { ids, now }: { ids: readonly string[]; now: number },
): Promise<{ readonly ended: number; readonly released: Released }> {
  await lockMembers(engine, tx, ids);
  const finished = await inGroups(ids, (some) =>
    tx.all<{ id: string; status: FinishedRow["status"] }>(sql`
      select id, status
        from holdfast.finished
       where ${engine.among(sql`id`, some)}
       order by id ${engine.lockRows()}`),
  );
  const known = await inGroups(ids, (some) =>
    tx.all<{ id: string }>(sql`select id from holdfast.job where ${engine.among(sql`id`, some)}`),
  );
  const exists = new Set(known.map(({ id }) => id));
  const ended = new Map<string, EndStatus>(finished.map(({ id, status }) => [id, status]));
  for (const id of ids) if (!exists.has(id)) ended.set(id, "deleted");
  const released = await releaseAll(engine, tx, { ended, ids: [...ended.keys()], now });
  return { ended: ended.size, released };
}

/** Sets `missing` of waiting jobs to the number of their rows in `dep`, and starts those that have none. */
export async function repair(
  engine: Engine,
  tx: Transaction,
  { ids, now }: { ids: readonly string[]; now: number },
): Promise<{ readonly repaired: readonly string[]; readonly queues: readonly string[] }> {
  const rows = await lockWaiting(engine, tx, sorted(ids));
  const counts = await inGroups(
    rows.map(({ id }) => id),
    (some) =>
      tx.all<{ id: string; waits: number }>(sql`
        select job_id as id, count(*) as waits
          from holdfast.dep
         where ${engine.among(sql`job_id`, some)}
         group by job_id`),
  );
  const waits = new Map(counts.map(({ id, waits: count }) => [id, count]));
  const wrong = rows.filter(({ id, missing }) => (waits.get(id) ?? 0) !== missing);
  for (const { id } of wrong.filter((row) => waits.has(row.id))) {
    await tx.run(sql`update holdfast.waiting set missing = ${waits.get(id) ?? 0} where id = ${id}`);
  }
  const free = wrong.filter((row) => !waits.has(row.id));
  const queues = await startAll(engine, tx, free, now);
  return { repaired: wrong.map(({ id }) => id), queues };
}
