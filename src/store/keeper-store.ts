/** As much of a store as renews leases and gives signs of life: the thread that does it loads nothing else. */
import { OutcomeUnknown, StoreUnavailable } from "../core/errors.ts";
import type { Fence } from "../core/job.ts";
import { sleep, type Runtime } from "../core/runtime.ts";
import type { Engine } from "./engine.ts";
import { engineAt } from "./engines.ts";
import type { Beat, WorkerVitals } from "./registry.ts";
import { sql, type Sql } from "./sql.ts";
import type { Extended, Store, StoreAddress } from "./store.ts";

const EXTEND_TRIES_MAX = 3;
const EXTEND_PAUSE_MS = 25;

export type KeeperStore = Pick<Store, "extend" | "beat" | "close">;

/** Opens, from another thread, the store that `address` was read from. */
export async function openKeeperStore(
  address: StoreAddress,
  runtime: Runtime,
): Promise<KeeperStore> {
  const engine = await engineAt(address, runtime);
  return {
    extend: (fences, leaseMs) => extendAgain(engine, fences, leaseMs),
    beat: (id, vitals, queues) => beat(engine, id, { vitals, queues }),
    close: () => engine.close(),
  };
}

/** Extending twice is extending once, and whoever waits for this cannot wait for long. */
export async function extendAgain(
  engine: Engine,
  fences: readonly Fence[],
  leaseMs: number,
): Promise<Extended[]> {
  const real = fences.filter(({ id }) => engine.mayBeId(id));
  if (real.length === 0) return [];
  for (let tries = 1; ; tries += 1) {
    try {
      return await engine.extend(real, leaseMs);
    } catch (error) {
      const isLost = error instanceof OutcomeUnknown || error instanceof StoreUnavailable;
      if (!isLost || tries === EXTEND_TRIES_MAX) throw error;
      await sleep(engine.runtime, EXTEND_PAUSE_MS * tries);
    }
  }
}

export async function beat(
  engine: Engine,
  id: string,
  { vitals, queues }: { vitals: WorkerVitals; queues: readonly string[] },
): Promise<Beat | null> {
  const now = engine.now();
  const others = sql`from holdfast.worker other where other.id <> ${id} and other.status <> 'stopped'`;
  const [row] = await engine.change<Omit<Beat, "pending"> & { pending: number }>({
    table: sql`holdfast.worker`,
    set: sql`
      gap_ms_max = case when ${now} - heartbeat_at > gap_ms_max then ${now} - heartbeat_at else gap_ms_max end,
      heartbeat_at = ${now}, beats = beats + 1, ${figures(vitals)}`,
    where: sql`id = ${id} and status <> 'stopped'`,
    returning: sql`
      wish,
      (select count(*) ${others}) as "others",
      (select coalesce(max(other.started_at), 0) ${others}) as "newestAt",
      (select coalesce(${now} - min(other.heartbeat_at), 0) ${others}) as "silentMsMax",
      case when exists (select 1 from holdfast.ready where ${engine.among(sql`queue`, queues)}) then 1 else 0 end as pending`,
  });
  return row === undefined ? null : { ...row, pending: row.pending === 1 };
}

export function figures(vitals: WorkerVitals): Sql {
  return sql`
      claimed = ${vitals.claimed}, done = ${vitals.done}, failed = ${vitals.failed},
      retried = ${vitals.retried}, leases_lost = ${vitals.leasesLost}, running = ${vitals.running},
      loop_delay_ms = ${vitals.loopDelayMs}, memory_bytes = ${vitals.memoryBytes}`;
}
