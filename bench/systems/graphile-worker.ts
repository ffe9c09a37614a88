/**
 * graphile-worker, the fastest PostgreSQL queue we know of. Batching as on its own page on performance; how many jobs at
 * once are best was tried out on two cores. It takes part twice: with one pool, as one worker of ours is one, and with two
 * in one process, which is the fastest we could make it.
 */
import { setTimeout as pause } from "node:timers/promises";
import { loadPeer } from "../peers.ts";
import { Countdown, QUESTIONS, type Queue, type System } from "./system.ts";

interface Utils {
  migrate(): Promise<void>;
  addJob(task: string, payload: unknown): Promise<unknown>;
  addJobs(jobs: readonly { identifier: string; payload: unknown }[]): Promise<unknown>;
  withPgClient<T>(
    work: (client: { query(text: string): Promise<{ rows: Record<string, unknown>[] }> }) => T,
  ): Promise<T>;
  release(): Promise<void>;
}

interface Runner {
  stop(): Promise<void>;
}

interface Graphile {
  Logger: new (factory: () => () => void) => object;
  makeWorkerUtils(options: { preset: object }): Promise<Utils>;
  run(options: {
    preset: object;
    taskList: Record<string, (payload: unknown) => Promise<void>>;
    noHandleSignals: boolean;
    parsedCronItems: readonly never[];
  }): Promise<Runner>;
}

const TASK = "noop";
const CONCURRENCY = 100;
const WORKER = {
  concurrentJobs: CONCURRENCY,
  maxPoolSize: CONCURRENCY + 1,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
const LOOK_MS = 2;

/** While one pool waits for the database, another runs jobs. */
export const graphileWorker = (pools: 1 | 2): System => ({
  name: pools === 1 ? "graphile-worker" : `graphile-worker, ${pools} pools`,
  engine: "postgres",
  role: "peer",
  answers: pools === 1 ? QUESTIONS : ["drain"],
  settings:
    `${pools === 1 ? "one pool" : `${pools} pools`} of concurrency ${CONCURRENCY}, localQueue 500, completions batched (delay 0), ` +
    "no log of successes; finished jobs are deleted",
  packages: ["graphile-worker", "pg"],
  share: 1,
  async open(place) {
    process.env["NO_LOG_SUCCESS"] = "1"; // it reads this once, when it is loaded
    const library = await loadPeer<Graphile>("graphile-worker");
    const logger = new library.Logger(() => () => {});
    const worker = { ...WORKER, connectionString: place.url, logger };
    const utils = await library.makeWorkerUtils({ preset: { worker } });
    await utils.migrate();
    return new GraphileQueue({ library, preset: { worker }, utils, pools });
  },
});

interface Parts {
  readonly library: Graphile;
  readonly preset: object;
  readonly utils: Utils;
  readonly pools: number;
}

class GraphileQueue implements Queue {
  readonly #parts: Parts;
  readonly #utils: Utils;
  readonly #runners: Runner[] = [];

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#utils = parts.utils;
  }

  async add(payload: string): Promise<void> {
    await this.#utils.addJob(TASK, payload);
  }

  async addMany(payloads: readonly string[]): Promise<void> {
    await this.#utils.addJobs(payloads.map((payload) => ({ identifier: TASK, payload })));
  }

  async drain(jobs: number): Promise<number> {
    const left = new Countdown(jobs);
    const run = (): Promise<void> => this.#run(async () => left.tick());
    await run();
    const startedAt = performance.now();
    for (let pool = 1; pool < this.#parts.pools; pool += 1) await run();
    await left.over;
    // The last completions are on their way in a batch.
    while ((await this.count()).waiting > 0) await pause(LOOK_MS);
    return performance.now() - startedAt;
  }

  async listen(onStart: (payload: string) => void): Promise<void> {
    await this.#run(async (payload) => onStart(payload as string));
  }

  async count(): Promise<{ waiting: number; done: null }> {
    const { rows } = await this.#utils.withPgClient((client) =>
      client.query("select count(*)::int as waiting from graphile_worker._private_jobs"),
    );
    return { waiting: Number(rows[0]?.["waiting"]), done: null };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const runner of this.#runners) await runner.stop();
    await this.#utils.release();
  }

  async #run(task: (payload: unknown) => Promise<void>): Promise<void> {
    const { library, preset } = this.#parts;
    const runner = await library.run({
      preset,
      taskList: { [TASK]: task },
      noHandleSignals: true,
      parsedCronItems: [],
    });
    this.#runners.push(runner);
  }
}
