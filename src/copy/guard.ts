/** Refuses a source that is in use: by live workers, active leases or held locks. */
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { CopyRefusedError } from "./errors.ts";

/** A worker without a heartbeat for this long is dead. */
const SILENT_MS = 60_000;

/** More would not fit into a sentence. */
const NAMED_MAX = 5;

/** Throws CopyRefusedError when a process uses the database. */
export async function refuseInUse(engine: Engine): Promise<void> {
  const found = [
    ...(await liveWorkers(engine)),
    ...(await leases(engine)),
    ...(await locks(engine)),
  ];
  if (found.length === 0) return;
  const shown = found.slice(0, NAMED_MAX);
  const more = found.length - shown.length;
  throw new CopyRefusedError({
    reasons: ["The source is in use.", ...shown, ...(more > 0 ? [`And ${more} more.`] : [])],
    remedy: "Stop every worker and every program that uses the source, then run this again.",
  });
}

async function liveWorkers(engine: Engine): Promise<string[]> {
  const rows = await engine.all<{ id: string; hostname: string; pid: number; silentMs: number }>(
    sql`select id, hostname, pid, ${engine.now()} - heartbeat_at as "silentMs"
          from holdfast.worker
         where status <> 'stopped'
           and heartbeat_at > ${engine.now()} - ${SILENT_MS}
         order by heartbeat_at desc
         limit ${NAMED_MAX + 1}`,
  );
  return rows.map(
    ({ id, hostname, pid, silentMs }) =>
      `Worker ${id} (process ${pid} on ${hostname}) sent a heartbeat ${seconds(silentMs)} ago; ` +
      `it counts as dead ${seconds(SILENT_MS - silentMs)} from now.`,
  );
}

async function leases(engine: Engine): Promise<string[]> {
  const rows = await engine.all<{ id: string; owner: string; leftMs: number }>(
    sql`select id, locked_by as owner, locked_until - ${engine.now()} as "leftMs"
          from holdfast.lease
         where locked_until > ${engine.now()}
         order by locked_until desc
         limit ${NAMED_MAX + 1}`,
  );
  return rows.map(
    ({ id, owner, leftMs }) => `${owner} has a lease on job ${id} for another ${seconds(leftMs)}.`,
  );
}

async function locks(engine: Engine): Promise<string[]> {
  const rows = await engine.all<{ name: string; owner: string; leftMs: number }>(
    sql`select name, owner, expires_at - ${engine.now()} as "leftMs"
          from holdfast.lock
         where holder is not null
           and expires_at > ${engine.now()}
         order by expires_at desc
         limit ${NAMED_MAX + 1}`,
  );
  return rows.map(
    ({ name, owner, leftMs }) => `${owner} holds the lock ${name} for another ${seconds(leftMs)}.`,
  );
}

function seconds(ms: number): string {
  return `${Math.max(0, Math.ceil(ms / 1_000))} s`;
}
