/**
 * Pending jobs that no live worker can run: nobody works on their queue, or nobody there knows their task.
 *
 * They are looked for at the head of each queue. Whatever a worker can run is taken away from there, so what nobody can run
 * comes to stand there, however long the queue is.
 */
import { activeStates } from "../core/worker-state.ts";
import type { Engine } from "./engine.ts";
import { outsideQueues } from "./outsiders.ts";
import { sql, type Sql } from "./sql.ts";
import type { Stranded } from "./store.ts";

/** How many jobs of a queue are looked at, in the order in which they are claimed. */
const HEAD = 10_000;
/** How many queues are looked at. */
const QUEUES_MAX = 1_000;

interface Crew {
  queues: string;
  tasks: string;
}

/** Of all queues, or of one. */
export async function stranded(engine: Engine, only?: string): Promise<Stranded[]> {
  const known = await knownTasks(engine);
  const outside = await outsideQueues(engine);
  const found: Stranded[] = [];
  for (const queue of only === undefined ? await pendingQueues(engine) : [only]) {
    // Nobody can tell what those run who are in no registry.
    if (outside.has(queue)) continue;
    found.push(...(await strandedIn(engine, queue, known.get(queue) ?? [])));
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
  return rows.map(({ queue }) => queue);
}

function strandedIn(engine: Engine, queue: string, known: readonly string[]): Promise<Stranded[]> {
  return engine.all<Stranded>(sql`
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
