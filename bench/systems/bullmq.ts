/** BullMQ on Redis. The server forgets everything when it ends: this is what durability is compared with. */
import { loadPeer } from "../peers.ts";
import type { Place } from "../places.ts";
import { Countdown, QUESTIONS, type Queue, type System } from "./system.ts";

interface BullQueue {
  waitUntilReady(): Promise<unknown>;
  add(name: string, data: unknown): Promise<unknown>;
  addBulk(jobs: readonly { name: string; data: unknown }[]): Promise<unknown>;
  getJobCounts(...states: string[]): Promise<Record<string, number>>;
  close(): Promise<void>;
}

interface BullWorker {
  on(event: "completed", listener: () => void): void;
  on(event: "error", listener: (error: Error) => void): void;
  waitUntilReady(): Promise<unknown>;
  run(): Promise<void>;
  close(): Promise<void>;
}

interface Bull {
  Queue: new (name: string, options: object) => BullQueue;
  Worker: new (
    name: string,
    run: (job: { data: unknown }) => Promise<void>,
    options: object,
  ) => BullWorker;
}

const NAME = "noop";
const CONCURRENCY = 100;

export const bullmq: System = {
  name: "BullMQ",
  engine: "redis",
  role: "peer",
  answers: QUESTIONS,
  settings: `concurrency ${CONCURRENCY}, addBulk; finished jobs are kept, in memory`,
  packages: ["bullmq", "ioredis"],
  share: 1,
  async open(place) {
    const library = await loadPeer<Bull>("bullmq");
    const queue = new library.Queue(NAME, optionsFor(place));
    await queue.waitUntilReady();
    return new BullmqQueue(library, place, queue);
  },
};

function optionsFor({ url, prefix }: Place): { connection: object; prefix: string } {
  const { hostname, port, password, username } = new URL(url);
  const connection = {
    host: hostname,
    port: port === "" ? 6379 : Number(port),
    ...(username === "" ? {} : { username: decodeURIComponent(username) }),
    ...(password === "" ? {} : { password: decodeURIComponent(password) }),
    maxRetriesPerRequest: null,
  };
  return { connection, prefix };
}

class BullmqQueue implements Queue {
  readonly #library: Bull;
  readonly #place: Place;
  readonly #queue: BullQueue;
  #worker: BullWorker | null = null;

  constructor(library: Bull, place: Place, queue: BullQueue) {
    this.#library = library;
    this.#place = place;
    this.#queue = queue;
  }

  async add(payload: string): Promise<void> {
    await this.#queue.add(NAME, payload);
  }

  async addMany(payloads: readonly string[]): Promise<void> {
    await this.#queue.addBulk(payloads.map((data) => ({ name: NAME, data })));
  }

  async drain(jobs: number): Promise<number> {
    const left = new Countdown(jobs);
    const worker = await this.#makeWorker(async () => {});
    worker.on("completed", left.tick);
    const startedAt = performance.now();
    void worker.run();
    await left.over;
    return performance.now() - startedAt;
  }

  async listen(onStart: (payload: string) => void): Promise<void> {
    const worker = await this.#makeWorker(async ({ data }) => onStart(data as string));
    void worker.run();
  }

  async count(): Promise<{ waiting: number; done: number }> {
    const { waiting = 0, active = 0, completed = 0 } = await this.#queue.getJobCounts();
    return { waiting: waiting + active, done: completed };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker?.close();
    await this.#queue.close();
  }

  async #makeWorker(run: (job: { data: unknown }) => Promise<void>): Promise<BullWorker> {
    const options = { ...optionsFor(this.#place), concurrency: CONCURRENCY, autorun: false };
    const worker = new this.#library.Worker(NAME, run, options);
    worker.on("error", (error) => console.error(`BullMQ: ${error.message}`));
    this.#worker = worker;
    await worker.waitUntilReady();
    return worker;
  }
}
