/**
 * What follows when the answer to a write was lost: its session is ended, and what a look-up sees then is confirmed.
 *
 * A commit may wait for a standby. Ending its session ends the wait, and the commit becomes visible although no standby has
 * it. So a look-up counts only behind a commit that went through: standbys receive commits in their order.
 */
import { sleep } from "../../core/runtime.ts";
import type { Engine, Seen } from "../engine.ts";
import { sql } from "../sql.ts";
import type { PgResult } from "./address.ts";
import { codeOf } from "./errors.ts";
import { APPLICATION_NAME, type Sending } from "./session.ts";

/** How long a terminated session may take to end. */
const SESSION_ENDS_MS_MAX = 2_000;

const SESSION_LOOK_MS = 20;

/**
 * Ends a session of ours whose answer was lost, so that it writes nothing after the look-up. Ours have our application name,
 * or the one in the application's URL.
 */
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

/** A commit that changes nothing: a message in the log. */
const MESSAGE = "select pg_catalog.pg_logical_emit_message(true, 'holdfast', '')";

/** Instead of the message, the lock of a row: it is written to the log, too. */
const ANY_ROW = "select version from holdfast.migration";

/** The function was revoked, or does not exist. */
const NO_MESSAGE = new Set(["42501", "42883"]);

const REPLICATED = "current_setting('synchronous_standby_names') <> ''";

type Write = (sending: Sending) => Promise<PgResult>;

/** Of rows that were found, only if the server names standbys that a commit waits for. */
export async function confirm(
  { spell, write }: { readonly spell: (text: string) => string; readonly write: Write },
  seen: Seen,
): Promise<void> {
  const where = seen === "found" ? `where ${REPLICATED}` : "";
  try {
    await write({ text: `${MESSAGE} ${where}` });
  } catch (error) {
    if (!NO_MESSAGE.has(codeOf((error as Error).cause))) throw error;
    await write({ text: spell(`${ANY_ROW} ${where} limit 1 for key share`) });
  }
}
