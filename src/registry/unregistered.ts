/**
 * Workers without a row in the registry: standbys, which wait for a slot, and programs that claim jobs over HTTP, with the
 * lease methods or with the SQL functions.
 *
 * A standby and a program that acquires leases are recorded now and then, so that operators see them while they are idle.
 * Nothing relies on these rows. A program that only calls the SQL functions is known by its leases alone.
 */
import { type Engine, insertIfMissing } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { NOTE_EVERY_MS } from "../jobs/leases.ts";
import type { NewUnregistered, UnregisteredWorker } from "./worker-record.ts";

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
export async function notedQueues(engine: Engine): Promise<string[]> {
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
