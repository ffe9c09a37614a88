/**
 * How soon does an idle worker start a job? From before the call that enqueues it to the first line of its task. Producer
 * and worker have connections of their own, and one clock: they are two instances in one process.
 */
import { setTimeout as pause } from "node:timers/promises";
import { quantile } from "../figures.ts";
import { scratchPlace } from "../places.ts";
import type { Queue, System } from "../systems/system.ts";
import type { Figures, Order } from "./question.ts";

/** The worker is left alone for about so long before each job; one that polls, also for some part of its pause. */
const GAP_MS = 100;
/** The first ones find connections that are not open and statements that are not prepared. */
const FIRST = 3;
/** A slow system is measured less often. */
const ALL_MS_MAX = 15_000;
const PICKUPS_MIN = 10;
const ONE_MS_MAX = 30_000;

export async function pickup(system: System, { pickups }: Order): Promise<Figures> {
  await using place = await scratchPlace(system.engine);
  await using queue = await system.open(place, "pickup");
  const starts = new Starts();
  await queue.listen((payload) => starts.started(payload));
  const latencies: number[] = [];
  const startedAt = performance.now();
  for (let job = 0; job < pickups + FIRST; job += 1) {
    const enough = performance.now() - startedAt > ALL_MS_MAX && job >= PICKUPS_MIN + FIRST;
    if (enough) break;
    await pause(gapMs(system));
    latencies.push(await starts.latencyOf(queue, `job ${job}`));
  }
  const measured = latencies.slice(FIRST);
  return { "pickup p50": quantile(measured, 0.5), "pickup p99": quantile(measured, 0.99) };
}

/** By chance: a producer that keeps time with a poll would always meet the same part of its pause. */
function gapMs({ pollMs = 0 }: System): number {
  return GAP_MS * (0.5 + Math.random()) + pollMs * Math.random();
}

/** Jobs that were enqueued and have not started. */
class Starts {
  readonly #waiting = new Map<string, (at: number) => void>();

  started(payload: string): void {
    this.#waiting.get(payload)?.(performance.now());
  }

  async latencyOf(queue: Queue, payload: string): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.#waiting.set(payload, resolve);
    const late = setTimeout(() => reject(new Error("a job did not start")), ONE_MS_MAX);
    const calledAt = performance.now();
    try {
      await queue.add(payload);
      return (await promise) - calledAt;
    } finally {
      clearTimeout(late);
    }
  }
}
