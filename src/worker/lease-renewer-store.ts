/** As much of a store as renews leases and gives signs of life: the thread that does it loads nothing else. */
import type { Fence } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import type { StoreAddress } from "../database/engine.ts";
import { engineAt } from "../database/open.ts";
import { extendAgain } from "../jobs/recovery.ts";
import { statementsFor } from "../jobs/statements.ts";
import type { Extended } from "../jobs/store.ts";
import { beat } from "../registry/heartbeat.ts";
import type { HeartbeatWrite, WorkerVitals } from "../registry/worker-record.ts";

export interface LeaseRenewerStore {
  extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]>;
  beat(id: string, vitals: WorkerVitals, queues: readonly string[]): Promise<HeartbeatWrite | null>;
}

/** Opens, from another thread, the store that `address` was read from. */
export async function openLeaseRenewerStore(
  address: StoreAddress,
  runtime: Runtime,
): Promise<LeaseRenewerStore & { close(): Promise<void> }> {
  const engine = await engineAt(address, runtime);
  const statements = await statementsFor(engine);
  return {
    extend: (fences, leaseMs) => extendAgain({ engine, statements }, fences, leaseMs),
    beat: (id, vitals, queues) => beat(engine, id, { vitals, queues }),
    close: () => engine.close(),
  };
}
