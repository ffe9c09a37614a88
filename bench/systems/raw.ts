/**
 * The raw limit of a database: the store's own hot statements in a bare loop. Nothing is checked, no task is run,
 * nothing is said: what a worker adds to this is its cost.
 */
import type { Place, EngineName } from "../places.ts";
import { HoldfastQueue } from "./holdfast.ts";
import { BATCH, type RawLoop } from "./raw-batch.ts";
import { openMariadbLoop } from "./raw-mariadb.ts";
import { openPostgresLoop } from "./raw-postgres.ts";
import { openSqliteLoop } from "./raw-sqlite.ts";
import type { Queue, System } from "./system.ts";

type Open = (place: Place) => Promise<RawLoop>;

const LOOPS: Readonly<Record<Exclude<EngineName, "redis">, readonly [Open, connections: number]>> =
  {
    sqlite: [openSqliteLoop, 1],
    postgres: [openPostgresLoop, 2],
    mariadb: [openMariadbLoop, 2],
  };

export function raw(engine: Exclude<EngineName, "redis">): System {
  const [open, connections] = LOOPS[engine];
  const many = connections === 1 ? "one connection" : `${connections} connections`;
  return {
    name: "raw loop",
    engine,
    role: "limit",
    answers: ["drain"],
    settings: `our statements alone, ${many}, batches of ${BATCH}; finished jobs are kept`,
    packages: [],
    share: 1,
    open: async (place) => new RawQueue(await HoldfastQueue.open(place), () => open(place)),
  };
}

/** Filled and counted like ours, drained by the loop. */
class RawQueue implements Queue {
  readonly #queue: HoldfastQueue;
  readonly #open: () => Promise<RawLoop>;

  constructor(queue: HoldfastQueue, open: () => Promise<RawLoop>) {
    this.#queue = queue;
    this.#open = open;
  }

  async add(payload: string): Promise<void> {
    await this.#queue.add(payload);
  }

  async addMany(payloads: readonly string[]): Promise<void> {
    await this.#queue.addMany(payloads);
  }

  async drain(jobs: number): Promise<number> {
    await using loop = await this.#open();
    const startedAt = performance.now();
    const drained = await loop.run();
    const ms = performance.now() - startedAt;
    if (drained !== jobs) throw new Error(`the raw loop drained ${drained} of ${jobs} jobs`);
    return ms;
  }

  async listen(): Promise<void> {
    throw new Error("A raw loop does not wait for jobs.");
  }

  async count(): Promise<{ waiting: number; done: number }> {
    return this.#queue.count();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue[Symbol.asyncDispose]();
  }
}
