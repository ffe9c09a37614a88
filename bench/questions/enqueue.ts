/** How fast are jobs accepted, durably? One by one with a commit each, and in bulk. */
import { scratchPlace } from "../places.ts";
import type { Queue, System } from "../systems/system.ts";
import { expectCount, inBulks, payloadOf, rate, type Figures, type Order } from "./question.ts";

export async function enqueue(system: System, order: Order): Promise<Figures> {
  const payload = payloadOf(order.bytes);
  const oneByOne = await timed(system, order.singles, async (queue) => {
    for (let job = 0; job < order.singles; job += 1) await queue.add(payload);
  });
  const inBulk = await timed(system, order.jobs, async (queue) => {
    for (const payloads of inBulks(payload, order.jobs)) await queue.addMany(payloads);
  });
  return { "one by one": oneByOne, "in bulk": inBulk };
}

async function timed(
  system: System,
  jobs: number,
  work: (queue: Queue) => Promise<void>,
): Promise<number> {
  await using place = await scratchPlace(system.engine);
  await using queue = await system.open(place, "enqueue");
  const startedAt = performance.now();
  await work(queue);
  const ms = performance.now() - startedAt;
  expectCount("accepted", (await queue.count()).waiting, jobs);
  return rate(jobs, ms);
}
