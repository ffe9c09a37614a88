/** Ours: a whole worker at its defaults, on each engine. */
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { urlOf } from "../../test/support/servers.ts";
import type { Place, EngineName } from "../places.ts";
import { Countdown, QUESTIONS, type Queue, type System } from "./system.ts";

export const noop = defineTask({ name: "noop", async run(_input: string) {} });

/** How a worker hears of jobs that another process enqueued. */
const HEARS = {
  sqlite: "woken by changes of the file",
  postgres: "woken by LISTEN/NOTIFY",
  mariadb: "polling, after 25 ms and ever less often up to a second",
};
const POLL_MS_MAX = 1_000;

export function holdfast(engine: Exclude<EngineName, "redis">): System {
  return {
    name: "holdfast",
    engine,
    role: "ours",
    answers: QUESTIONS,
    settings: `defaults; ${HEARS[engine]}; finished jobs are kept`,
    packages: [],
    share: 1,
    ...(engine === "mariadb" ? { pollMs: POLL_MS_MAX } : {}),
    open: async (place) => HoldfastQueue.open(place),
  };
}

/** MariaDB pushes nothing; with a Redis beside it, processes wake each other. */
export const holdfastWithRedis: System = {
  name: "holdfast with Redis",
  engine: "mariadb",
  besides: "redis",
  role: "ours",
  answers: ["pickup"],
  settings: "woken through Redis",
  packages: [],
  share: 1,
  open: async (place) => HoldfastQueue.open(place, urlOf("redis")),
};

export class HoldfastQueue implements Queue {
  readonly #open: () => Promise<Holdfast>;
  readonly #client: Holdfast;
  #listener: Holdfast | null = null;

  constructor(client: Holdfast, open: () => Promise<Holdfast>) {
    this.#client = client;
    this.#open = open;
  }

  /** Without a Redis, whatever the environment says. */
  static async open(place: Place, redis = ""): Promise<HoldfastQueue> {
    const open = (): Promise<Holdfast> => openHoldfast(place.url, { redis });
    return new HoldfastQueue(await open(), open);
  }

  async add(payload: string): Promise<void> {
    await this.#client.enqueue(noop, payload);
  }

  async addMany(payloads: readonly string[]): Promise<void> {
    await this.#client.enqueueMany(noop, payloads);
  }

  async drain(jobs: number): Promise<number> {
    const left = new Countdown(jobs);
    const worker = await this.#client.startWorker({ tasks: [noop] });
    const startedAt = performance.now();
    worker.on("job:done", left.tick);
    await left.over;
    return performance.now() - startedAt;
  }

  async listen(onStart: (payload: string) => void): Promise<void> {
    this.#listener = await this.#open();
    const task = defineTask({ name: noop.name, run: async (input: string) => onStart(input) });
    await this.#listener.startWorker({ tasks: [task] });
  }

  async count(): Promise<{ waiting: number; done: number }> {
    const [stats] = await this.#client.stats();
    return { waiting: stats?.counts.pending ?? 0, done: stats?.counts.done ?? 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#listener?.close();
    await this.#client.close();
  }
}
