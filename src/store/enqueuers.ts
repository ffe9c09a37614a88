/**
 * Which builds of the application enqueue jobs, and since when.
 *
 * One row for each build, not for each process or job: enough to see that jobs are made by a build which no worker runs, and
 * it costs an enqueuing process one statement a minute.
 */
import { StoreRefused } from "../core/errors.ts";
import type { Engine } from "./engine.ts";
import type { EnqueuerRecord } from "./registry.ts";
import { sql } from "./sql.ts";

/** More builds than this are not told apart. */
const LISTED_MAX = 100;

export async function noteEnqueuer(engine: Engine, version: string): Promise<void> {
  const known = await engine.transaction((tx) =>
    tx.run(sql`update holdfast.enqueuer set last_at = ${engine.now()} where version = ${version}`),
  );
  if (known > 0) return;
  try {
    await engine.transaction((tx) =>
      tx.run(sql`
        insert into holdfast.enqueuer (version, first_at, last_at)
        values (${version}, ${engine.now()}, ${engine.now()})`),
    );
  } catch (error) {
    // Somebody else was faster.
    if (!(error instanceof StoreRefused)) throw error;
  }
}

export function enqueuers(engine: Engine, withinMs: number): Promise<EnqueuerRecord[]> {
  return engine.all<EnqueuerRecord>(sql`
    select version, first_at as "firstAt", last_at as "lastAt", ${engine.now()} - last_at as "silentMs"
      from holdfast.enqueuer
     where last_at >= ${engine.now()} - ${withinMs}
     order by last_at desc, version
     limit ${LISTED_MAX}`);
}

export function pruneEnqueuers(engine: Engine, silentForMs: number): Promise<number> {
  return engine.transaction((tx) =>
    tx.run(sql`delete from holdfast.enqueuer where last_at < ${engine.now()} - ${silentForMs}`),
  );
}
