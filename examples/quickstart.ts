import { defineTask, openHoldfast } from "holdfast";

const ship = defineTask({
  name: "order.ship",
  retry: { maxAttempts: 5, backoff: { initial: "1s", max: "1h" } },
  async run(order: { id: string; cents: number }, ctx) {
    if (order.cents <= 0) throw new Error(`order ${order.id} has no price`);
    return { tracking: `T-${order.id}`, attempt: ctx.attempt };
  },
});

await using holdfast = await openHoldfast("sqlite:shop.db"); // creates the file if needed
await holdfast.startWorker({ tasks: [ship], concurrency: 20, signals: true });

// One live job per key: enqueueing the same key again returns this job until it has finished.
const job = await holdfast.enqueue(ship, { id: "42", cents: 1999 }, { key: "order-42" });
const { tracking, attempt } = await job.result({ timeout: "10s" }); // typed
console.log(`order 42 ships as ${tracking} on attempt ${attempt}`);
