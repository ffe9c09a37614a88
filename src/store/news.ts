/** What is new, for whoever looks on: read by keys that are in order, so that a look costs as much as there is news. */
import type { EndedRecord, NewcomerRecord } from "./access.ts";
import type { Engine } from "./engine.ts";
import { sql } from "./sql.ts";

export function jobsAfter(
  engine: Engine,
  { after, limit }: { after: string; limit: number },
): Promise<NewcomerRecord[]> {
  return engine.all<NewcomerRecord>(sql`
    select id, queue, task, enqueued_at as "enqueuedAt"
      from holdfast.job
     where id > ${after}
     order by id
     limit ${limit}`);
}

/** All statuses are named because the index begins with them, where there is one. */
export function endedSince(
  engine: Engine,
  { at, limit }: { at: number; limit: number },
): Promise<EndedRecord[]> {
  return engine.all<EndedRecord>(sql`
    select id, queue, task, status, epoch, attempts, worker, finished_at as "finishedAt"
      from holdfast.finished
     where status in ('done', 'failed', 'cancelled')
       and finished_at >= ${at}
     order by finished_at, id
     limit ${limit}`);
}

export async function clock(engine: Engine): Promise<number> {
  const [row] = await engine.all<{ now: number }>(sql`select ${engine.now()} as now`);
  return (row as { now: number }).now;
}

export async function workflowNames(engine: Engine, limit: number): Promise<string[]> {
  const rows = await engine.all<{ name: string }>(
    sql`select name from holdfast.workflow order by name limit ${limit}`,
  );
  return rows.map(({ name }) => name);
}
