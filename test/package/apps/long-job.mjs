/** Runs a job for several of its leases. It must have one attempt. */
import { setTimeout as pause } from "node:timers/promises";
import { defineTask, openHoldfast } from "holdfast";

const LEASE_MS = 2_000;
const LEASES = 3;
const STEP_MS = 100;

const warn = (facts, text = facts) => {
  if (text.includes("different monotonic clocks"))
    console.log("warn: threads have different clocks");
  else console.log(`warn: ${text}`);
};
const silent = () => {};
const logger = { trace: silent, debug: silent, info: silent, warn, error: warn, fatal: warn };

const long = defineTask({
  name: "long",
  async run(_, { signal, attempt }) {
    const end = Date.now() + LEASES * LEASE_MS;
    while (Date.now() < end) await pause(STEP_MS, undefined, { signal });
    return `attempt ${attempt}`;
  },
});

const holdfast = await openHoldfast(process.env.DATABASE_URL, { logger });
await holdfast.startWorker({ tasks: [long], lease: LEASE_MS, grace: 0 });
const job = await holdfast.enqueue(long, null);
console.log(await job.result({ timeout: "60s" }));
await holdfast.close();
console.log("closed");
