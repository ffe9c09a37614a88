/** The heartbeat of a worker. The lease renewer's thread loads this file and not the whole registry. */
import type { Engine } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { HeartbeatWrite, WorkerVitals } from "./worker-record.ts";

export async function beat(
  engine: Engine,
  id: string,
  { vitals, queues }: { vitals: WorkerVitals; queues: readonly string[] },
): Promise<HeartbeatWrite | null> {
  const now = engine.now();
  const others = sql`from holdfast.worker other where other.id <> ${id} and other.status <> 'stopped'`;
  const [row] = await engine.change<Omit<HeartbeatWrite, "pending"> & { pending: number }>({
    table: sql`holdfast.worker`,
    set: sql`
      gap_ms_max = case when ${now} - heartbeat_at > gap_ms_max then ${now} - heartbeat_at else gap_ms_max end,
      heartbeat_at = ${now}, heartbeats = heartbeats + 1, ${vitalsColumns(vitals)}`,
    where: sql`id = ${id} and status <> 'stopped'`,
    returning: sql`
      desired_state as "desiredState",
      (select count(*) ${others}) as "others",
      (select coalesce(max(other.started_at), 0) ${others}) as "newestAt",
      (select coalesce(${now} - min(other.heartbeat_at), 0) ${others}) as "silentMsMax",
      case when exists (select 1 from holdfast.ready where ${engine.among(sql`queue`, queues)}) then 1 else 0 end as pending`,
  });
  return row === undefined ? null : { ...row, pending: row.pending === 1 };
}

/** A task blocks the event loop of the worker, for how long so far and where; null: not any more. */
export function noteBlocked(
  engine: Engine,
  id: string,
  blocked: { readonly ms: number; readonly stack: string } | null,
): Promise<number> {
  const { ms, stack } = blocked ?? { ms: 0, stack: null };
  return engine.run(sql`
    update holdfast.worker
       set blocked_ms = ${ms}, blocked_stack = ${stack}
     where id = ${id}
       and status <> 'stopped'`);
}

export function vitalsColumns(vitals: WorkerVitals): Sql {
  return sql`
      claimed = ${vitals.claimed}, done = ${vitals.done}, failed = ${vitals.failed},
      retried = ${vitals.retried}, leases_lost = ${vitals.leasesLost}, running = ${vitals.running},
      loop_delay_ms = ${vitals.loopDelayMs}, memory_bytes = ${vitals.memoryBytes}`;
}
