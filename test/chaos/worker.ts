/** A worker of the crew: it works until it is told to stop or is killed, and writes down what it does. */
import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { LEASE_MS, TASK, type Entry, type WorkerConfig } from "./plan.ts";

/** Nobody outlives a test that forgot them. */
const PROCESS_MS_MAX = 180_000;

const { url, journal } = JSON.parse(process.argv[2] ?? "{}") as WorkerConfig;
const file = openSync(journal, "a");

/** Written by the time the call returns: what a killed process has done is on record. */
function note(entry: Entry): void {
  writeSync(file, `${JSON.stringify(entry)}\n`);
}

const work = defineTask({
  name: TASK,
  retry: { attempts: 1_000, first: "10ms", most: "100ms" },
  async run({ ms }: { ms: number }) {
    await sleep(ms);
  },
});

setTimeout(() => process.exit(3), PROCESS_MS_MAX).unref();
const holdfast = await openHoldfast(url, { migrate: false });
const worker = await holdfast.startWorker({
  tasks: [work],
  concurrency: 8,
  lease: LEASE_MS,
  grace: 200,
  upkeep: 200,
  poll: "1s",
  crashes: 1_000,
  shutdown: "5s",
});
worker.on("job:started", ({ id, epoch, worker: by }) => note({ kind: "started", id, epoch, by }));
worker.on("job:completed", ({ id, epoch, worker: by }) => note({ kind: "done", id, epoch, by }));

let refused = 0;
function noteRefused(): void {
  const { staleWritesRefused } = worker.status();
  if (staleWritesRefused > refused) note({ kind: "refused", count: staleWritesRefused - refused });
  refused = staleWritesRefused;
}
setInterval(noteRefused, 50).unref();

async function stop(): Promise<void> {
  await worker.stop();
  noteRefused();
  await holdfast.close();
  process.disconnect?.();
}
process.on("message", () => void stop());
process.send?.("ready");
