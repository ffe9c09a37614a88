/**
 * Queues that somebody works on who is in no registry: over HTTP, with the SQL functions, or with the lease verbs.
 *
 * Those that acquire leases here or over HTTP are noted. Others leave no row of their own, but what they do does: an owner of a
 * lease works, and where jobs ended lately that no registered worker can have ended, another one did.
 */
import type { Engine } from "./engine.ts";
import { sql } from "./sql.ts";
import { notedQueues } from "./unregistered.ts";

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
