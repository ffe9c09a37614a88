/** The heartbeat of a worker. The lease renewer's thread loads this file and not the whole registry. */
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import type { Engine } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { HeartbeatWrite, ProcessTrace, WorkerVitals } from "./worker-record.ts";

export async function heartbeat(
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

// Distinguishes a process from a later one with the same process id. On Linux, by the boot, the namespace of process ids,
// and the start time of the process.

/** The index in /proc/<pid>/stat, after the name, which may contain any character. */
const START_TIME = 19;

let own: ProcessTrace | null = null;

export function ownTrace(): ProcessTrace {
  own ??= {
    hostname: hostname(),
    pid: process.pid,
    hostBoot: hostBoot(),
    processStart: startOf(process.pid),
  };
  return own;
}

/** True only when it is certain: the process ran on this host and no longer exists. */
export function isGone({ hostBoot: boot, pid, processStart }: ProcessTrace): boolean {
  const here = ownTrace();
  if (boot === null || processStart === null || boot !== here.hostBoot) return false;
  if (!hasProcess(pid)) return true;
  const start = startOf(pid);
  return start !== null && start !== processStart;
}

/** Signal 0 only tests. A process that we may not signal exists. */
function hasProcess(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

function hostBoot(): string | null {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `${boot} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return null;
  }
}

/** When a process started, in ticks since the boot; null: unknown. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // A zombie has ended; its parent has not collected it yet.
    return fields[0] === "Z" ? "ended" : (fields[START_TIME] ?? null);
  } catch {
    return null;
  }
}
