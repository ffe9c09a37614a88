/**
 * Pending jobs that no live worker can run: no worker serves their queue, or none there knows their task.
 *
 * Only the head of each queue is searched. Workers take the jobs that they can run from there, so the others collect at the
 * head, however long the queue is.
 */
import { isReserved } from "../core/name.ts";
import { type Engine, insertIfMissing } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import { NOTE_EVERY_MS } from "../jobs/leases.ts";
import type { Unclaimable } from "../jobs/store.ts";
import { activeStates, type NewUnregistered, type UnregisteredWorker } from "./worker-record.ts";

/** How many jobs of a queue are read, in claim order. */
const HEAD = 10_000;

const QUEUES_MAX = 1_000;

/** Of all queues, or of one. */
export async function unclaimable(engine: Engine, only?: string): Promise<Unclaimable[]> {
  const known = await knownTasks(engine);
  const outside = await outsideQueues(engine);
  const found: Unclaimable[] = [];
  for (const queue of only === undefined ? await pendingQueues(engine) : [only]) {
    // It is unknown which tasks unregistered workers run.
    if (outside.has(queue)) continue;
    found.push(...(await unclaimableIn(engine, queue, known.get(queue) ?? [])));
  }
  return found.toSorted((a, b) => b.waitedMs - a.waitedMs);
}

/** The tasks that active workers run, by queue. */
async function knownTasks(engine: Engine): Promise<Map<string, string[]>> {
  const workers = await engine.all<{ queues: string; tasks: string }>(sql`
    select distinct queues, tasks from holdfast.worker where ${engine.among(sql`status`, activeStates)}`);
  const known = new Map<string, string[]>();
  for (const { queues, tasks } of workers) {
    for (const queue of namesIn(queues)) {
      known.set(queue, [...(known.get(queue) ?? []), ...namesIn(tasks)]);
    }
  }
  return known;
}

/** One step through the index for each queue, however many jobs it has. */
async function pendingQueues(engine: Engine): Promise<string[]> {
  const rows = await engine.all<{ queue: string }>(sql`
    with recursive line (queue, place) as (
      select (select queue from holdfast.ready order by queue limit 1), 1
       union all
      select (select r.queue from holdfast.ready r where r.queue > line.queue order by r.queue limit 1), line.place + 1
        from line
       where line.queue is not null
         and line.place <= ${QUEUES_MAX})
    select queue from line where queue is not null`);
  // Monitors deliver alerts, and are not in the registry.
  return rows.map(({ queue }) => queue).filter((queue) => !isReserved(queue));
}

function unclaimableIn(
  engine: Engine,
  queue: string,
  known: readonly string[],
): Promise<Unclaimable[]> {
  return engine.all<Unclaimable>(sql`
    select ${queue} as queue, task, count(*) as jobs, ${engine.now()} - min(ready_at) as "waitedMs"
      from (select r.task, r.ready_at
              from holdfast.ready r
             where r.queue = ${queue}
             order by r.queue, r.lane, r.place, r.id
             limit ${HEAD}) head
     where ${unknown(engine, known)}
     group by task`);
}

function unknown(engine: Engine, known: readonly string[]): Sql {
  return known.length === 0 ? sql`1 = 1` : sql`not (${engine.among(sql`task`, known)})`;
}

const MINUTE_MS = 60_000;

/** Minute totals are written when their minute is over, so the latest may be two minutes old. */
const LATELY_MS = 3 * MINUTE_MS;

/**
 * Queues that unregistered workers serve, over HTTP, with the SQL functions or with the lease methods.
 *
 * Programs that acquire leases here or over HTTP are recorded. Others are known by their leases, and by jobs that were done
 * or put to retry recently in queues that no registered worker serves. A job that failed proves no worker: it may have
 * waited for a job that failed.
 */
export async function outsideQueues(engine: Engine): Promise<Set<string>> {
  const leased = await engine.all<{ queue: string }>(sql`
    select distinct l.queue
      from holdfast.lease l
     where l.locked_until > ${engine.now()}
       and not exists (select 1 from holdfast.worker w where w.id = l.locked_by)`);
  const ended = await engine.all<{ queue: string }>(sql`
    select distinct queue
      from holdfast.minute_total
     where minute >= ${engine.now()} - ${LATELY_MS}
       and done + retried > 0`);
  const registered = ended.length === 0 ? new Set() : await servedQueues(engine);
  const unaccounted = ended.filter(({ queue }) => !registered.has(queue));
  const worked = [...leased, ...unaccounted].map(({ queue }) => queue);
  return new Set([...worked, ...(await notedQueues(engine))]);
}

/** The queues that registered workers served lately, including stopped ones: jobs there may have ended with them. */
async function servedQueues(engine: Engine): Promise<Set<string>> {
  const workers = await engine.all<{ queues: string }>(sql`
    select distinct queues
      from holdfast.worker
     where status <> 'stopped'
        or heartbeat_at >= ${engine.now()} - ${LATELY_MS + MINUTE_MS}`);
  return new Set(workers.flatMap(({ queues }) => namesIn(queues)));
}

// Workers without a row in the registry: standbys, which wait for a slot, and programs that claim jobs over HTTP, with the
// lease methods or with the SQL functions.
//
// A standby and a program that acquires leases are recorded now and then, so that operators see them while they are idle.
// Nothing relies on these rows. A program that only calls the SQL functions is known by its leases alone.

/** How long a program counts as present after it was recorded. */
const PRESENT_MS = 3 * NOTE_EVERY_MS;

const KEEP_MS = 3_600_000;
const LISTED_MAX = 1_000;

type NotedRow = Omit<UnregisteredWorker, "queues" | "tasks"> & {
  queues: string;
  tasks: string | null;
};

export async function noteUnregistered(engine: Engine, worker: NewUnregistered): Promise<void> {
  const { id, kind, type, hostname, pid, version } = worker;
  const queues = JSON.stringify(worker.queues);
  const tasks = worker.tasks === null ? null : JSON.stringify(worker.tasks);
  const known = await engine.transaction((tx) =>
    tx.run(sql`
      update holdfast.unregistered_worker
         set heartbeat_at = ${engine.now()}, queues = ${queues}, tasks = ${tasks}
       where id = ${id}`),
  );
  if (known > 0) return;
  await insertIfMissing(engine, async (tx) => {
    await tx.run(sql`
      delete from holdfast.unregistered_worker where heartbeat_at < ${engine.now()} - ${KEEP_MS}`);
    await tx.run(sql`
      insert into holdfast.unregistered_worker
             (id, kind, type, hostname, pid, version, queues, tasks, started_at, heartbeat_at)
      values (${id}, ${kind}, ${type}, ${hostname}, ${pid}, ${version}, ${queues}, ${tasks},
              ${engine.now()}, ${engine.now()})`);
  });
}

/** The present ones, most recent heartbeat first. */
export async function unregistered(engine: Engine): Promise<UnregisteredWorker[]> {
  const noted = await engine.all<NotedRow>(sql`
    select id, kind, type, hostname, pid, version, queues, tasks, started_at as "startedAt",
           heartbeat_at as "heartbeatAt", ${engine.now()} - heartbeat_at as "silentMs",
           coalesce(held.leases, 0) as leases
      from holdfast.unregistered_worker
      left join (select locked_by, count(*) as leases from holdfast.lease group by locked_by) held
        on held.locked_by = id
     where heartbeat_at >= ${engine.now()} - ${PRESENT_MS}
     order by heartbeat_at desc, id
     limit ${LISTED_MAX}`);
  const workers = noted.map((row): UnregisteredWorker => {
    const tasks = row.tasks === null ? null : namesIn(row.tasks);
    return { ...row, queues: namesIn(row.queues), tasks };
  });
  const known = new Set(workers.map(({ id }) => id));
  const holders = (await holdersOf(engine)).filter(({ id }) => !known.has(id));
  return [...workers, ...holders].slice(0, LISTED_MAX);
}

type Times = "startedAt" | "heartbeatAt" | "silentMs";
type HeldRow = Pick<UnregisteredWorker, "id" | "leases" | Times> & { queue: string };

/** Owners of unexpired leases that are not in the registry. */
async function holdersOf(engine: Engine): Promise<UnregisteredWorker[]> {
  const rows = await engine.all<HeldRow>(sql`
    select l.locked_by as id, l.queue, count(*) as leases, min(l.claimed_at) as "startedAt",
           max(l.heartbeat_at) as "heartbeatAt", ${engine.now()} - max(l.heartbeat_at) as "silentMs"
      from holdfast.lease l
     where l.locked_until > ${engine.now()}
       and not exists (select 1 from holdfast.worker w where w.id = l.locked_by)
     group by l.locked_by, l.queue
     order by l.locked_by
     limit ${LISTED_MAX}`);
  return [...Map.groupBy(rows, ({ id }) => id)].map(([id, held]) => ({
    id,
    kind: "leases",
    type: null,
    hostname: null,
    pid: null,
    version: null,
    queues: held.map(({ queue }) => queue),
    tasks: null,
    startedAt: Math.min(...held.map(({ startedAt }) => startedAt)),
    heartbeatAt: Math.max(...held.map(({ heartbeatAt }) => heartbeatAt)),
    silentMs: Math.min(...held.map(({ silentMs }) => silentMs)),
    leases: held.reduce((sum, { leases }) => sum + leases, 0),
  }));
}

/** The queues of programs that acquire leases, including programs that hold none now. */
async function notedQueues(engine: Engine): Promise<string[]> {
  const rows = await engine.all<{ queues: string }>(sql`
    select distinct queues
      from holdfast.unregistered_worker
     where kind = 'leases'
       and heartbeat_at >= ${engine.now()} - ${PRESENT_MS}`);
  return rows.flatMap(({ queues }) => namesIn(queues));
}

export function namesIn(text: string): string[] {
  return JSON.parse(text) as string[];
}
