/** A worker of the kit, and a lease client: they work until they are stopped or killed, and log what they do. */
import { openHoldfast } from "../src/app/holdfast.ts";
import { LeaseLostError } from "../src/core/errors.ts";
import { sleep, systemRuntime } from "../src/core/runtime.ts";
import type { Lease, Leases } from "../src/jobs/leases.ts";
import type { Worker } from "../src/worker/worker.ts";
import {
  CONCURRENCY,
  GOVERNED,
  GRACE_MS,
  type Input,
  LEASE_CLIENTS,
  LEASE_MS,
  MAINTENANCE_MS,
} from "./plan.ts";
import { endWithParent, type Order, type ProcessConfig, ProcessLog, sayReady } from "./process.ts";
import { tasksOf } from "./tasks.ts";

// Holds one job at a time through the lease API. It has no watchdog, so it writes when it wakes up, however late: after
// each freeze there is a write that the database must refuse.

const HOLDS_MS_MAX = 1_000;

const RESTS_MS = 200;

class LeaseClient {
  readonly name: string;
  readonly #leases: Leases;
  readonly #processLog: ProcessLog;
  readonly #stopping = new AbortController();
  readonly #stopped: Promise<void>;

  constructor(parts: { name: string; leases: Leases; processLog: ProcessLog }) {
    this.name = parts.name;
    this.#leases = parts.leases;
    this.#processLog = parts.processLog;
    this.#stopped = this.#work();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#stopped;
  }

  async #work(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      // While the database is away, the lease expires.
      const worked = await this.#once().catch(() => false);
      if (!worked) await sleep(systemRuntime, RESTS_MS, { signal });
    }
  }

  async #once(): Promise<boolean> {
    const wanted = { worker: this.name, queues: [LEASE_CLIENTS], lease: LEASE_MS };
    const [lease] = await this.#leases.acquire(wanted);
    if (lease === undefined) return false;
    const { id: job, epoch } = lease;
    this.#processLog.say({ f: "run", job, epoch, worker: this.name });
    await sleep(systemRuntime, systemRuntime.random() * HOLDS_MS_MAX);
    await this.#handBack(lease);
    return true;
  }

  async #handBack(lease: Lease): Promise<void> {
    const { id: job, epoch } = lease;
    const { n } = lease.input as Input;
    try {
      await this.#leases.release(lease, { as: "done", result: { n, epoch } });
      this.#processLog.say({ f: "done", job, epoch, worker: this.name });
    } catch (error) {
      if (!(error instanceof LeaseLostError)) throw error;
      this.#processLog.say({ f: "refused", job, epoch });
    }
  }
}

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
