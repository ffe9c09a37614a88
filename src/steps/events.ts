/**
 * Events: what somebody says once and for all, and the jobs that wait for it.
 *
 * Whoever waits and whoever says it change the event's row first, so one of them sees what the other did: an event that is
 * said while a job goes to wait is heard, and it makes no difference which came first.
 */
import { StoreRefusedError } from "../core/errors.ts";
import { isCalled } from "../core/id.ts";
import type { Wait } from "../core/job.ts";
import { JOB_ENDED } from "../core/task.ts";
import type { JoinedTransaction } from "../database/database.ts";
import { type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { asBusy, notifyPending } from "../jobs/enqueue-policy.ts";
import type { JobHooks } from "../jobs/hooks.ts";
import { hintPending, putReady, queuesOf, type WaitingRow } from "../jobs/rows.ts";

interface EventRow {
  payload: string | null;
  emitted_at: number | null;
}

export async function emit(
  engine: Engine,
  event: NewEvent,
): Promise<Emitted & { hints: readonly Hint[] }> {
  await declareEvent(engine, { event: event.name, key: event.key });
  return engine.transaction(async (tx) => {
    const { queues, ...emitted } = await say(engine, tx, event);
    return { ...emitted, hints: await hintPending(engine, tx, queues) };
  });
}

/** Says it, if nobody has. The event's row is there. */
async function say(
  engine: Engine,
  tx: Transaction,
  event: NewEvent,
): Promise<Emitted & { queues: readonly string[] }> {
  const of = { event: event.name, key: event.key };
  const now = await readNow(engine, tx);
  const said = await tx.run(sql`
    update holdfast.event
       set payload = ${event.payload}, emitted_at = ${now}
     where ${isEvent(of)}
       and emitted_at is null`);
  if (said === 0) return { first: false, woken: 0, queues: [] };
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

/** The row that those who wait and those who say it change first. */
export async function declareEvent(engine: Engine, of: Wait): Promise<void> {
  if (await isDeclared(engine, of)) return;
  try {
    await engine.transaction((tx) =>
      tx.insert("event", [{ name: of.event, event_key: of.key, awaited: 0 }]),
    );
  } catch (error) {
    // Somebody else was faster.
    if (!(error instanceof StoreRefusedError)) throw error;
  }
}

/** With `lock`: as it is now, and not as a user's transaction may have seen it first. */
async function isDeclared(
  from: Pick<Transaction, "all">,
  of: Wait,
  lock: Sql = nothing,
): Promise<boolean> {
  const rows = await from.all(sql`select name from holdfast.event where ${isEvent(of)} ${lock}`);
  return rows.length > 0;
}

/** Whoever waits for the end of a job that it called may do so for a year. */
const ENDED_KEEP_MS = 365 * 24 * 3_600_000;

/** Deletes what was said longer ago than this. */
async function pruneEvents(engine: Engine, tx: Transaction, saidForMs: number): Promise<void> {
  const isOld = sql`emitted_at < ${engine.now()} - ${saidForMs}
       and (name <> ${JOB_ENDED} or emitted_at < ${engine.now()} - ${ENDED_KEEP_MS})`;
  // MySQL locks the oldest event to find that it is not old enough, and whoever waits for that event waits for us.
  const [old] = await tx.all(sql`select name from holdfast.event where ${isOld} limit 1`);
  if (old !== undefined) await tx.run(sql`delete from holdfast.event where ${isOld}`);
}

/** Nobody waits for it any more. */
export async function forget(engine: Engine, of: Wait): Promise<void> {
  await engine.run(sql`delete from holdfast.event where ${isEvent(of)}`);
}

/** Says that a job is about to wait. True: there is nothing to wait for, it was said already. */
async function isSaid(tx: Transaction, of: Wait): Promise<boolean> {
  await tx.run(sql`update holdfast.event set awaited = awaited + 1 where ${isEvent(of)}`);
  const [row] = await tx.all<EventRow>(
    sql`select emitted_at from holdfast.event where ${isEvent(of)}`,
  );
  return (row?.emitted_at ?? null) !== null;
}

/**
 * Lets the jobs go on that wait for these. It reads what is there now, with locks: a user's transaction of ours may see what
 * was there when it began, and whoever went to wait since would wait for ever.
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
  await putReady(tx, woken, now);
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
  const { queues, ...emitted } = await say(engine, joined.tx, event);
  await notifyPending(joined, queues);
  return emitted;
}

// What follows from a job's moves.

/** Marks the event of a job's end, and puts jobs among those that wait. It locks events, so it comes first. */
export const eventHooks: JobHooks = {
  async beforeWait(engine, waits) {
    for (const wait of waits) await declareEvent(engine, wait);
  },

  async waiting(tx, { id }, waits) {
    for (const wait of waits) {
      if (await isSaid(tx, wait)) return "ready";
    }
    await tx.run(sql`delete from holdfast.wait where job_id = ${id}`);
    await tx.insert(
      "wait",
      waits.map(({ event, key }) => ({ job_id: id, name: event, event_key: key })),
    );
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

  /** A job that waits for its end waits for the next one. */
  async revived(tx, id) {
    if (!isCalled(id)) return;
    await tx.run(sql`update holdfast.event set emitted_at = null where ${isEvent(endOf(id))}`);
  },

  beforePrune: pruneEvents,
};

/** Lets the jobs go on that wait for an end, after all other hooks: it locks jobs. */
export const wakeHooks: JobHooks = {
  async ended(engine, tx, { jobs, now }) {
    return queuesOf(await wake(engine, tx, { of: jobs.map(({ id }) => endOf(id)), now }));
  },

  /** It asks again for the ends of the called jobs that failed it. */
  async revived(tx, id) {
    await tx.run(sql`
      update holdfast.step set status = 'begun', ended_at = null
       where job_id = ${id} and kind = 'call' and status = 'failed'`);
  },

  async pruned(engine, tx, ids) {
    await tx.run(sql`delete from holdfast.step where ${engine.among(sql`job_id`, ids)}`);
  },
};

/** They go on, or end, without what they waited for. */
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

export interface NewEvent {
  readonly name: string;
  readonly key: string;
  readonly payload: string | null;
}

export interface Emitted {
  /** False: it had been said before, and what was said then stands. */
  readonly first: boolean;
  /** How many jobs waited for it. */
  readonly woken: number;
}

export interface EventRecord extends NewEvent {
  readonly emittedAt: number;
}
