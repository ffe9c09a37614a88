/** A worker of one's own on the lease verbs: acquire, extend, release. See docs/guide/leases.md. */
import { randomUUID } from "node:crypto";
import type { Lease } from "holdfast/ops";
import { LeaseLostError, openHoldfast } from "holdfast";

await using holdfast = await openHoldfast("sqlite:shop.db");
const worker = `resizer-${randomUUID()}`; // new at every start: the fence tells two starts apart by it
await holdfast.enqueue("image.resize", { file: "cat.png", width: 640 }, { queue: "images" });
await holdfast.enqueue(
  "image.resize",
  { file: "dog.png", width: 0 },
  { queue: "images", maxAttempts: 1 },
);

async function work(lease: Lease): Promise<void> {
  const { file, width } = lease.input as { file: string; width: number };
  try {
    if (width <= 0) throw new Error(`${file}: a picture needs a width`);
    await holdfast.leases.extend(lease, { lease: "30s" }); // before every long part
    await holdfast.leases.release(lease, { as: "done", result: { file, width } });
    console.log(`${file}: done`);
  } catch (error) {
    if (error instanceof LeaseLostError) return; // somebody else's by now: leave it alone
    const { status } = await holdfast.leases.release(lease, { as: "failed", error });
    console.log(`${file}: ${status === "failed" ? "dead letter" : "will be retried"}`);
  }
}

await holdfast.leases.resetExpired(); // what a crash left behind
for (;;) {
  const leases = await holdfast.leases.acquire({ worker, queues: ["images"], limit: 10 });
  if (leases.length === 0) break; // a real worker waits here: holdfast.subscribe("images", …)
  for (const lease of leases) await work(lease);
}
