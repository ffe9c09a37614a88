/** Ends a session of ours whose answer was lost, so that it writes nothing after we looked. */
import { sleep } from "../../core/runtime.ts";
import type { Engine } from "../engine.ts";
import { sql } from "../sql.ts";
import { APPLICATION_NAME } from "./pool.ts";

/** How long a session that was ended may take to go. */
const SESSION_ENDS_MS_MAX = 2_000;
const SESSION_LOOK_MS = 20;

/** Only a session of ours is ended: they have our name, or the one that the application's URL gives to its own. */
export async function endSession(engine: Engine, session: number): Promise<void> {
  const ours = sql`
      from pg_catalog.pg_stat_activity
     where pid = ${session}
       and usename = current_user
       and application_name in (${APPLICATION_NAME}, current_setting('application_name'))`;
  await engine.all(sql`select pg_terminate_backend(pid) ${ours}`);
  for (let waitedMs = 0; waitedMs < SESSION_ENDS_MS_MAX; waitedMs += SESSION_LOOK_MS) {
    const rows = await engine.all(sql`select pid ${ours}`);
    if (rows.length === 0) return;
    await sleep(engine.runtime, SESSION_LOOK_MS);
  }
}
