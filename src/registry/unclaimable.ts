/**
 * Pending jobs that no live worker can run: nobody works on their queue, or nobody there knows their task.
 *
 * They are looked for at the head of each queue. Whatever a worker can run is taken away from there, so what nobody can run
 * comes to stand there, however long the queue is.
 */
import { isReserved } from "../core/name.ts";
import type { Engine } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { Unclaimable } from "../jobs/store.ts";
import { notedQueues } from "./unregistered.ts";
import { activeStates } from "./worker-record.ts";

/** How many jobs of a queue are looked at, in the order in which they are claimed. */
const HEAD = 10_000;

/** How many queues are looked at. */
const QUEUES_MAX = 1_000;

interface Crew {
  queues: string;
  tasks: string;
}

/** Of all queues, or of one. */
export async function unclaimable(engine: Engine, only?: string): Promise<Unclaimable[]> {
  const known = await knownTasks(engine);
  const outside = await outsideQueues(engine);
  const found: Unclaimable[] = [];
  for (const queue of only === undefined ? await pendingQueues(engine) : [only]) {
    // Nobody can tell what those run who are in no registry.
    if (outside.has(queue)) continue;
    found.push(...(await unclaimableIn(engine, queue, known.get(queue) ?? [])));
  }
  return found.toSorted((a, b) => b.waitedMs - a.waitedMs);
}

/** The tasks that somebody runs, by queue. */
async function knownTasks(engine: Engine): Promise<Map<string, string[]>> {
  const crews = await engine.all<Crew>(sql`
    select distinct queues, tasks from holdfast.worker where ${engine.among(sql`status`, activeStates)}`);
  const known = new Map<string, string[]>();
  for (const { queues, tasks } of crews) {
    for (const queue of JSON.parse(queues) as string[]) {
      known.set(queue, [...(known.get(queue) ?? []), ...(JSON.parse(tasks) as string[])]);
    }
  }
  return known;
}

/** One step through the index for each queue, whatever stands in it. */
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
  // Deliveries of alerts are for the monitors, which are in no registry.
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
             order by r.queue, r.rank, r.ready_at, r.id
             limit ${HEAD}) head
     where ${unknown(engine, known)}
     group by task`);
}

function unknown(engine: Engine, known: readonly string[]): Sql {
  return known.length === 0 ? sql`1 = 1` : sql`not (${engine.among(sql`task`, known)})`;
}

// Queues that somebody works on who is in no registry: over HTTP, with the SQL functions, or with the lease verbs.
//
// Those that acquire leases here or over HTTP are noted. Others leave no row of their own, but what they do does: an owner of a
// lease works, and where jobs ended lately that no registered worker can have ended, another one did.

const MINUTE_MS = 60_000;

/** Endings are folded when their minute is over, so the last that are known may be two minutes old. */
const LATELY_MS = 3 * MINUTE_MS;

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
  const registered = ended.length === 0 ? new Set() : await lateCrews(engine);
  const unaccounted = ended.filter(({ queue }) => !registered.has(queue));
  const worked = [...leased, ...unaccounted].map(({ queue }) => queue);
  return new Set([...worked, ...(await notedQueues(engine))]);
}

/** Where registered workers were lately, also such as have stopped: what ended there may be theirs. */
async function lateCrews(engine: Engine): Promise<Set<string>> {
  const crews = await engine.all<{ queues: string }>(sql`
    select distinct queues
      from holdfast.worker
     where status <> 'stopped'
        or heartbeat_at >= ${engine.now()} - ${LATELY_MS + MINUTE_MS}`);
  return new Set(crews.flatMap(({ queues }) => JSON.parse(queues) as string[]));
}
