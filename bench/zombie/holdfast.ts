/** Ours: every write about a claimed job carries the job, the worker and the epoch of the claim. */
import { setInterval } from "node:timers";
import type { WorkerEvents } from "../../src/app/ops.ts";
import { defineTask, openHoldfast } from "../../src/index.ts";
import type { SqlEngine } from "../fill.ts";
import { QUEUE, SHORT_S, type Subject } from "./subject.ts";

const LOOK_MS = 20;
const EVENTS = [
  "job:done",
  "job:failed",
  "job:retrying",
  "job:released",
  "lease:lost",
  "worker:evicted",
] as const satisfies (keyof WorkerEvents)[];

export const holdfast = (engine: SqlEngine): Subject => ({
  name: "holdfast",
  engine,
  role: "ours",
  packages: [],
  settings: {
    defaults: "defaults: lease 30 s, taken back 2 s after its end",
    short: `lease ${SHORT_S} s`,
  },
  guard: "job, worker and epoch of the claim",

  async open({ url }) {
    const client = await openHoldfast(url, { redis: "" });
    return {
      enqueue: async () => (await client.enqueue(QUEUE, null)).id,
      async look(id) {
        const job = await client.jobs.get(id);
        if (job === null) return { row: null, result: null };
        const { status, epoch, result } = job;
        const stands = typeof result === "string" ? result : null;
        return { row: `${status}, epoch ${epoch}, result ${stands ?? "none"}`, result: stands };
      },
      [Symbol.asyncDispose]: () => client.close(),
    };
  },

  async work({ url }, { handler, say, pace }) {
    const client = await openHoldfast(url, { redis: "" });
    const task = defineTask({ name: QUEUE, run: (_input: null, ctx) => handler(ctx.signal) });
    const lease = pace === "short" ? { lease: SHORT_S * 1_000 } : {};
    const worker = await client.startWorker({ tasks: [task], ...lease });
    for (const name of EVENTS) {
      worker.on(name, (event) => say("heard", "why" in event ? `${name}: ${event.why}` : name));
    }
    worker.on("job:done", () => say("wrote", "its completion was accepted"));
    let refused = 0;
    setInterval(() => {
      const { staleWritesRefused } = worker.status();
      if (staleWritesRefused > refused) say("wrote", "its completion was refused by the fence");
      refused = staleWritesRefused;
    }, LOOK_MS);
  },
});
