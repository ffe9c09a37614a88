/** One customer has many jobs, another has one; each may run one at a time. A paused queue waits. */
import { defineTask, openHoldfast } from "holdfast";

const order: string[] = [];
let running = 0;
let most = 0;

const call = defineTask({
  name: "api.call",
  queue: "api",
  async run({ customer }: { customer: string }) {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setTimeout(resolve, 20));
    order.push(customer);
    running -= 1;
  },
});

await using holdfast = await openHoldfast("sqlite::memory:");
await holdfast.queues.set("api", { eachLane: { concurrency: 1 } });
const jobs = await holdfast.enqueueMany(
  call,
  Array.from({ length: 6 }, () => ({ customer: "acme" })),
  { lane: "acme" },
);
jobs.push(await holdfast.enqueue(call, { customer: "beta" }, { lane: "beta" }));

await holdfast.queues.pause("api", { actor: "ada", reason: "not yet" });
const { paused } = await holdfast.queues.get("api");
console.log(`paused by ${paused?.by}: ${paused?.reason}`);

await holdfast.startWorker({ tasks: [call], queues: ["api"], concurrency: 5 });
await holdfast.queues.resume("api", { actor: "ada" });
for (const job of jobs) await job.result();
console.log(`at most ${most} at once, one of each lane`);
console.log(`beta did not wait for all of acme: ${order.indexOf("beta") < 3}`);
