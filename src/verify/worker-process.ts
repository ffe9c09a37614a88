/** A worker of the kit, and a lease client: they work until they are stopped or killed, and log what they do. */
import { openHoldfast } from "../app/holdfast.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { Worker } from "../worker/worker.ts";
import { LeaseClient } from "./lease-client.ts";
import { CONCURRENCY, GRACE_MS, LEASE_MS, MAINTENANCE_MS } from "./plan.ts";
import { ProcessLog } from "./process-log.ts";
import { endWithParent, type Order, type ProcessConfig, sayReady } from "./process.ts";
import { tasksOf } from "./tasks.ts";
import { GOVERNED } from "./workload.ts";

const POLL_MS = 1_000;

/** A frozen worker is not dead: its jobs are taken back when their leases end, not before. */
const STALE_MS = 20_000;

const LOOK_MS = 50;

const config = JSON.parse(process.argv[2] ?? "{}") as ProcessConfig;

const processLog = new ProcessLog(config.processLog);

endWithParent();

const holdfast = await openHoldfast(config.url, { migrate: false });

const worker = await holdfast.startWorker({
  tasks: tasksOf({ processLog, bank: config.bank }),
  queues: ["default", ...(config.shares.governed === undefined ? [] : [GOVERNED.queue])],
  concurrency: CONCURRENCY,
  lease: LEASE_MS,
  grace: GRACE_MS,
  maintenanceInterval: MAINTENANCE_MS,
  poll: POLL_MS,
  heartbeat: LEASE_MS,
  heartbeatTimeout: STALE_MS,
  maxCrashes: 1_000,
  shutdown: "5s",
});

hello(worker.id);

worker.on("worker:started", ({ worker: id }) => hello(id));

worker.on("job:started", ({ id: job, epoch, worker: by }) =>
  processLog.say({ f: "run", job, epoch, worker: by }),
);

worker.on("job:done", ({ id: job, epoch, worker: by }) =>
  processLog.say({ f: "done", job, epoch, worker: by }),
);

const noteStale = staleWrites(worker);

const leaseClient = config.shares.manual === undefined ? null : openLeaseClient();

process.on("message", (order) => void obey(order as Order));

sayReady();

function openLeaseClient(): LeaseClient {
  const name = `lease-client-${config.name}`;
  hello(name);
  return new LeaseClient({ name, leases: holdfast.leases, processLog });
}

function hello(id: string): void {
  processLog.say({ f: "hello", process: config.name, worker: id, pid: process.pid });
}

/** Logs how many outcomes the database refused since the last time. */
function staleWrites(of: Worker): () => void {
  let told = 0;
  const tell = (): void => {
    const { staleWritesRefused } = of.status();
    if (staleWritesRefused > told) processLog.say({ f: "stale", count: staleWritesRefused - told });
    told = staleWritesRefused;
    systemRuntime.timer(LOOK_MS, tell, "background");
  };
  tell();
  return tell;
}

async function obey(order: Order): Promise<void> {
  if (order.kind === "block") {
    // Blocks this thread.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, order.ms);
    return;
  }
  await leaseClient?.stop();
  await worker.stop();
  noteStale();
  await holdfast.close();
  processLog[Symbol.dispose]();
  process.disconnect?.();
}
