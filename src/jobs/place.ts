/**
 * Where a pending job stands in its lane: at `ready_at + rank * ageing`, so that the order of two jobs never changes while
 * they wait, and it can be a stored key.
 *
 * Ageing is how much longer a job may wait for each step of priority. Without a setting it is so long that priorities are
 * strict. A queue's setting only orders jobs, so a process may use one that is a few seconds old.
 */
import { type Engine, readNow, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";

/** Strict priorities: a higher one goes first, unless the other job has waited for more than four years. */
export const STRICT_AGEING_MS = 2 ** 37;

/** How old settings may be. */
const FRESH_MS = 5_000;

interface Known {
  readonly ageing: ReadonlyMap<string, number>;
  readonly readAt: number;
}

const known = new WeakMap<Engine, Known>();

/** Added to the instant at which a job becomes pending. */
export function shiftOf(engine: Engine, queue: string, rank: number): number {
  if (rank === 0) return 0;
  return rank * (known.get(engine)?.ageing.get(queue) ?? STRICT_AGEING_MS);
}

/** Reads the settings again, for jobs that have a priority. */
export async function readAgeing(engine: Engine): Promise<void> {
  const now = engine.runtime.monotonic();
  const last = known.get(engine);
  if (last !== undefined && now - last.readAt < FRESH_MS) return;
  const rows = await engine.all<{ name: string; ageingMs: number }>(sql`
    select name, ageing_ms as "ageingMs"
      from holdfast.queue
     where ageing_ms is not null`);
  const ageing = new Map(rows.map(({ name, ageingMs }) => [name, ageingMs]));
  known.set(engine, { ageing, readAt: now });
}

/** From now on, claims look for lanes in this queue. */
export async function markLanes(engine: Engine, tx: Transaction, queue: string): Promise<void> {
  const values = sql`(${queue}, 1, 1, ${engine.typed(await readNow(engine, tx))})`;
  const into = sql`holdfast.queue (name, governed, lanes, updated_at) values ${values}`;
  await tx.run(engine.insertOrIgnore(into));
  await tx.run(sql`
    update holdfast.queue
       set governed = 1, lanes = 1
     where name = ${queue}
       and lanes = 0`);
}
