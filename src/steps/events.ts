/**
 * Events, each emitted once, and the jobs that wait for them.
 *
 * A job that begins to wait and a process that emits both change the event's row first, so one of them sees the other's
 * change. No wake-up is lost, whichever comes first.
 */
import type { Emitted, NewEvent } from "../core/event.ts";
import { JOB_ENDED } from "../core/task.ts";
import { isCalled } from "../core/id.ts";
import type { Wait } from "../core/job.ts";
import type { JoinedTransaction } from "../database/database.ts";
import {
  type Engine,
  type Hint,
  insertIfMissing,
  readNow,
  type Transaction,
} from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { asBusy, notifyPending } from "../jobs/enqueue-policy.ts";
import type { JobHooks } from "../jobs/hooks.ts";
import { hintPending, putReady, queuesOf, type WaitingRow } from "../jobs/rows.ts";

export async function emit(
  engine: Engine,
  event: NewEvent,
): Promise<Emitted & { hints: readonly Hint[] }> {
  await declareEvent(engine, { event: event.name, key: event.key });
  return engine.transaction(async (tx) => {
    const { queues, ...emitted } = await emitOnce(engine, tx, event);
    return { ...emitted, hints: await hintPending(engine, tx, queues) };
  });
}

/** Emits the event unless it was emitted before. Its row exists. */
async function emitOnce(
  engine: Engine,
  tx: Transaction,
  event: NewEvent,
): Promise<Emitted & { queues: readonly string[] }> {
  const of = { event: event.name, key: event.key };
  const now = await readNow(engine, tx);
  const changed = await tx.run(sql`
    update holdfast.event
       set payload = ${event.payload}, emitted_at = ${now}
     where ${isEvent(of)}
       and emitted_at is null`);
  if (changed === 0) return { first: false, woken: 0, queues: [] };
  const woken = await wake(engine, tx, { of: [of], now });
  return { first: true, woken: woken.length, queues: queuesOf(woken) };
}

export async function findEvent(
  engine: Engine,
  name: string,
  key: string,
): Promise<EventRecord | null> {
  const [row] = await engine.all<EventRecord>(sql`
    select name, event_key as "key", payload, emitted_at as "emittedAt"
      from holdfast.event
     where ${isEvent({ event: name, key })}
       and emitted_at is not null`);
  return row ?? null;
}

/** Inserts the row that waiting jobs and emitting processes change first. */
export async function declareEvent(engine: Engine, of: Wait): Promise<void> {
  if (await isDeclared(engine, of)) return;
  await insertIfMissing(engine, (tx) =>
    tx.insert("event", [{ name: of.event, event_key: of.key, awaited: 0 }]),
  );
}

/** With `lock`, reads the current row, not the snapshot of a user's transaction. */
async function isDeclared(
  from: Pick<Transaction, "all">,
  of: Wait,
  lock: Sql = nothing,
): Promise<boolean> {
  const rows = await from.all(sql`select name from holdfast.event where ${isEvent(of)} ${lock}`);
  return rows.length > 0;
}

/** A job may wait this long for the end of a job that it called. */
const ENDED_KEEP_MS = 365 * 24 * 3_600_000;

/** Deletes events that were emitted longer ago than this. */
async function pruneEvents(engine: Engine, tx: Transaction, forMs: number): Promise<void> {
  const isOld = sql`emitted_at < ${engine.now()} - ${forMs}
       and (name <> ${JOB_ENDED} or emitted_at < ${engine.now()} - ${ENDED_KEEP_MS})`;
  // A delete in MySQL locks the oldest event even if it is too young, and blocks jobs that wait for that event.
  const [old] = await tx.all(sql`select name from holdfast.event where ${isOld} limit 1`);
  if (old !== undefined) await tx.run(sql`delete from holdfast.event where ${isOld}`);
}

export async function forget(engine: Engine, of: Wait): Promise<void> {
  await engine.run(sql`delete from holdfast.event where ${isEvent(of)}`);
}

/** Records that a job is about to wait. True: the event was already emitted. */
async function isEmitted(tx: Transaction, of: Wait): Promise<boolean> {
  await tx.run(sql`update holdfast.event set awaited = awaited + 1 where ${isEvent(of)}`);
  const [row] = await tx.all<{ emitted_at: number | null }>(
    sql`select emitted_at from holdfast.event where ${isEvent(of)}`,
  );
  return (row?.emitted_at ?? null) !== null;
}

/**
 * Makes the jobs pending that wait for these events. It reads with locks: the snapshot of a user's transaction would miss a
 * job that began to wait after the transaction began, and that job would wait forever.
 */
export async function wake(
  engine: Engine,
  tx: Transaction,
  { of, now }: { of: readonly Wait[]; now: number },
): Promise<WaitingRow[]> {
  const woken: WaitingRow[] = [];
  const inOrder = sql`job_id ${engine.lockRows()}`;
  for (const event of of) {
    const waits = await tx.all<{ id: string }>(sql`
      select job_id as id
        from holdfast.wait
       where ${isEvent(event)}
       order by ${inOrder}`);
    const ids = waits.map(({ id }) => id);
    if (ids.length === 0) continue;
    woken.push(
      ...(await tx.take<WaitingRow>({ table: "waiting", where: engine.among(sql`id`, ids), ids })),
    );
    await tx.run(sql`delete from holdfast.wait where ${engine.among(sql`job_id`, ids)}`);
  }
  await putReady(engine, tx, woken, now);
  return woken;
}

function isEvent({ event, key }: Wait): Sql {
  return sql`name = ${event} and event_key = ${key}`;
}

export async function emitIn(
  engine: Engine,
  joined: JoinedTransaction,
  event: NewEvent,
): Promise<Emitted> {
  const of = { event: event.name, key: event.key };
  if (!(await isDeclared(joined.tx, of, engine.lockRows()))) {
    try {
      await joined.tx.insert("event", [{ name: of.event, event_key: of.key, awaited: 0 }]);
    } catch (error) {
      throw asBusy(engine, error);
    }
  }
  const { queues, ...emitted } = await emitOnce(engine, joined.tx, event);
  await notifyPending(joined, queues);
  return emitted;
}

/** Marks the event of a job's end, and inserts waits. It locks events, so it comes first. */
export const eventHooks: JobHooks = {
  async beforeWait(engine, waits) {
    for (const wait of waits) await declareEvent(engine, wait);
  },

  async waiting(tx, { id }, waits) {
    for (const wait of waits) {
      if (await isEmitted(tx, wait)) return "ready";
    }
    await tx.run(sql`delete from holdfast.wait where job_id = ${id}`);
    const rows = waits.map(({ event, key }) => ({ job_id: id, name: event, event_key: key }));
    await tx.insert("wait", rows);
    return "waiting";
  },

  stoppedWaiting: stopWaiting,

  async ended(_engine, tx, { jobs, now }) {
    for (const { id } of jobs) {
      await tx.run(sql`
        update holdfast.event set emitted_at = ${now}
         where ${isEvent(endOf(id))} and emitted_at is null`);
    }
    return [];
  },

  /** A job that waits for this job's end waits for the next one. */
  async reopened(tx, id) {
    if (!isCalled(id)) return;
    await tx.run(sql`update holdfast.event set emitted_at = null where ${isEvent(endOf(id))}`);
  },

  beforePrune: pruneEvents,
};

/** Wakes the jobs that wait for a job's end, after all other hooks: it locks jobs. */
export const wakeHooks: JobHooks = {
  async ended(engine, tx, { jobs, now }) {
    return queuesOf(await wake(engine, tx, { of: jobs.map(({ id }) => endOf(id)), now }));
  },

  /** It waits again for the called jobs that made it fail. */
  async reopened(tx, id) {
    await tx.run(sql`
      update holdfast.step set status = 'begun', ended_at = null
       where job_id = ${id} and kind = 'call' and status = 'failed'`);
  },

  async pruned(engine, tx, ids) {
    for (const table of [sql`holdfast.step`, sql`holdfast.rerun`, sql`holdfast.rerun_step`]) {
      await tx.run(sql`delete from ${table} where ${engine.among(sql`job_id`, ids)}`);
    }
  },
};

export async function stopWaiting(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
): Promise<void> {
  await tx.run(sql`delete from holdfast.wait where ${engine.among(sql`job_id`, ids)}`);
}

function endOf(job: string): Wait {
  return { event: JOB_ENDED, key: job };
}

export interface EventRecord extends NewEvent {
  readonly emittedAt: number;
}
