/** One of the demo's workers, in a process of its own that can be killed. Started by crew.ts. */
import { systemRuntime } from "../../core/runtime.ts";
import { openHoldfast } from "../../worker/holdfast.ts";
import type { Worker, WorkerStatus } from "../../worker/worker.ts";
import { Ledger } from "./ledger.ts";
import { bookingTask } from "./order.ts";
import { CONCURRENCY, GRACE_MS, LEASE_MS, UPKEEP_MS } from "./settings.ts";

/** What a worker tells the demo, every now and then and at its end. A killed one has told what it could. */
export type Message = WorkerStatus;

const TELL_EVERY_MS = 100;

async function main(url: string): Promise<void> {
  const holdfast = await openHoldfast(url);
  const worker = await holdfast.startWorker({
    name: "packer",
    tasks: [bookingTask(new Ledger(holdfast.store))],
    concurrency: CONCURRENCY,
    lease: LEASE_MS,
    grace: GRACE_MS,
    upkeep: UPKEEP_MS,
    crashes: 1_000, // The demo kills more often than poison does.
  });
  process.once("message", () => void leave());
  tellNowAndThen(worker);

  async function leave(): Promise<void> {
    await worker.stop();
    await holdfast.close();
    process.off("disconnect", die);
    process.send?.(worker.status(), () => process.disconnect());
  }
}

function tellNowAndThen(worker: Worker): void {
  const status = worker.status();
  if (status.state === "stopped" || !process.connected) return;
  process.send?.(status);
  systemRuntime.timer(TELL_EVERY_MS, () => tellNowAndThen(worker), "background");
}

/** Whoever started us is gone, and nobody else would end us: nor wake a frozen one of us, so that it ends too. */
function die(): void {
  process.kill(0, "SIGCONT"); // Our process group; to those who are awake it means nothing.
  process.kill(process.pid, "SIGKILL");
}

process.on("disconnect", die);
await main(process.argv[2] ?? "");
