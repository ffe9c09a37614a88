/**
 * Queues that somebody works on who is in no registry: over HTTP, with the SQL functions, or with the lease verbs.
 *
 * They leave no row of their own; what they do does. Whoever has a lease works, and where jobs ended lately and no registered
 * worker was there to end them, somebody else did. Which tasks they know, nobody can tell.
 */
import type { Engine } from "./engine.ts";
import { sql } from "./sql.ts";

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
      from holdfast.rollup
     where minute >= ${engine.now()} - ${LATELY_MS}
       and done + failed > 0`);
  const registered = ended.length === 0 ? new Set() : await lateCrews(engine);
  const unaccounted = ended.filter(({ queue }) => !registered.has(queue));
  return new Set([...leased, ...unaccounted].map(({ queue }) => queue));
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
