/** A process with a singleton worker, which stands by while another is active. It tells its parent what happens. */
import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { defineTask, openHoldfast, type WorkerOptions } from "../../src/index.ts";

export type Said =
  | { readonly said: "standing by" }
  | { readonly said: "active"; readonly id: string; readonly instance: number; readonly at: number }
  | { readonly said: "evicted"; readonly id: string }
  | { readonly said: "lost" | "refused" };

const LOOK_MS = 5;
const [url = "", options = "{}"] = process.argv.slice(2);

function say(message: Said): void {
  process.send?.(message);
}

/** Runs until the file is there. */
const wait = defineTask({
  name: "wait",
  async run(file: string) {
    while (!existsSync(file)) await pause(LOOK_MS);
    return process.pid;
  },
});

const logger = {
  debug: () => {},
  info: (_facts: object, message: string) => {
    if (message === "worker is standing by") say({ said: "standing by" });
  },
  warn: () => {},
  error: () => {},
};

const holdfast = await openHoldfast(url, { logger });
const worker = await holdfast.startWorker({
  tasks: [wait],
  name: "leader",
  slots: 1,
  onConflict: "standby",
  ...(JSON.parse(options) as Partial<WorkerOptions>),
});
const tell = (): void => {
  const { id, instance } = worker.status();
  say({ said: "active", id, instance, at: Date.now() });
};
tell();
worker.on("worker:evicted", ({ worker: id }) => say({ said: "evicted", id }));
worker.on("lease:lost", () => say({ said: "lost" }));
process.on("SIGTERM", () => void holdfast.close().then(() => process.disconnect()));
process.on("disconnect", () => process.exit());
