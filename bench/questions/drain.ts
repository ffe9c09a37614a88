/** How fast are no-op jobs worked off that are there already? */
import { freshStatistics, scratchPlace } from "../places.ts";
import type { System } from "../systems/system.ts";
import { expectCount, inBulks, payloadOf, rate, type Figures, type Order } from "./question.ts";

export async function drain(system: System, { bytes, jobs }: Order): Promise<Figures> {
  await using place = await scratchPlace(system.engine);
  await using queue = await system.open(place, "drain");
  for (const payloads of inBulks(payloadOf(bytes), jobs)) await queue.addMany(payloads);
  // As the server would do by itself a minute later: no system suffers from a plan for empty tables.
  await freshStatistics(system.engine, place);
  const ms = await queue.drain(jobs);
  const { waiting, done } = await queue.count();
  expectCount("left", waiting, 0);
  expectCount("done", done, jobs);
  return { drain: rate(jobs, ms) };
}
