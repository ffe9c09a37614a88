/**
 * Pending jobs that no live worker can run: no worker serves their queue, or none there knows their task.
 *
 * Only the head of each queue is searched. Workers take the jobs that they can run from there, so the others collect at the
 * head, however long the queue is.
 */
import { isReserved } from "../core/name.ts";
import type { Engine } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { Unclaimable } from "../jobs/store.ts";
import { namesIn, notedQueues } from "./unregistered.ts";
import { activeStates } from "./worker-record.ts";

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
 * Programs that acquire leases here or over HTTP are recorded. Others are known by their leases, and by jobs that ended
 * recently in queues that no registered worker serves.
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
       and done + failed > 0`);
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
