/** A worker of the kit, and beside it a clerk: they work until they are told to stop or are killed, and say what they do. */
import { systemRuntime } from "../core/runtime.ts";
import { openHoldfast } from "../worker/holdfast.ts";
import type { Worker } from "../worker/worker.ts";
import { Clerk } from "./clerk.ts";
import { Journal } from "./journal.ts";
import { GRACE_MS, LEASE_MS, UPKEEP_MS } from "./plan.ts";
import { endWithParent, sayReady, type Order, type ProcessConfig } from "./process.ts";
import { tasksOf } from "./tasks.ts";

const CONCURRENCY = 4;
const POLL_MS = 1_000;
/** A worker that was frozen is not dead: its jobs are taken back when their leases end, not before. */
const STALE_MS = 20_000;
const LOOK_MS = 50;

const config = JSON.parse(process.argv[2] ?? "{}") as ProcessConfig;
const journal = new Journal(config.journal);

endWithParent();
const holdfast = await openHoldfast(config.url, { migrate: false });
const worker = await holdfast.startWorker({
  tasks: tasksOf({ journal, bank: config.bank }),
  concurrency: CONCURRENCY,
  lease: LEASE_MS,
  grace: GRACE_MS,
  upkeep: UPKEEP_MS,
  poll: POLL_MS,
  heartbeat: LEASE_MS,
  stale: STALE_MS,
  crashes: 1_000,
  shutdown: "5s",
});
hello(worker.id);
worker.on("worker:started", ({ worker: id }) => hello(id));
worker.on("job:started", ({ id: job, epoch, worker: by }) =>
  journal.say({ f: "run", job, epoch, worker: by }),
);
worker.on("job:completed", ({ id: job, epoch, worker: by }) =>
  journal.say({ f: "done", job, epoch, worker: by }),
);
const noteStale = staleWrites(worker);
const clerk = new Clerk({ name: `clerk-${config.name}`, leases: holdfast.leases, journal });
hello(clerk.name);
process.on("message", (order) => void obey(order as Order));
sayReady();

function hello(id: string): void {
  journal.say({ f: "hello", process: config.name, worker: id, pid: process.pid });
}

/** Says how many outcomes were refused since it last said so. */
function staleWrites(of: Worker): () => void {
  let told = 0;
  const tell = (): void => {
    const { staleWritesRefused } = of.status();
    if (staleWritesRefused > told) journal.say({ f: "stale", count: staleWritesRefused - told });
    told = staleWritesRefused;
    systemRuntime.timer(LOOK_MS, tell, "background");
  };
  tell();
  return tell;
}

async function obey(order: Order): Promise<void> {
  if (order.kind === "block") {
    block(order.ms);
    return;
  }
  await clerk.stop();
  await worker.stop();
  noteStale();
  await holdfast.close();
  journal[Symbol.dispose]();
  process.disconnect?.();
}

/** Nothing of this thread runs meanwhile. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
