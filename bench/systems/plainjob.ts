/**
 * plainjob, the fastest SQLite queue we know of. It asks SQLite for synchronous=NORMAL; here it gets FULL, as we do.
 */
import { loadPeer } from "../peers.ts";
import { fileOf, type Place } from "../places.ts";
import { Countdown, QUESTIONS, type Queue, type System } from "./system.ts";

interface Driver {
  pragma(text: string): void;
}

interface PlainjobQueue {
  addMany(type: string, data: readonly unknown[]): unknown;
  add(type: string, data: unknown): unknown;
  countJobs(filter: { status: number }): number;
  close(): void;
}

interface PlainjobWorker {
  start(): Promise<void>;
  stop(): Promise<void>;
}

interface Plainjob {
  better(driver: Driver): object;
  defineQueue(options: { connection: object; logger: object }): PlainjobQueue;
  defineWorker(
    type: string,
    run: (job: { data: string }) => Promise<void>,
    options: { queue: PlainjobQueue; logger: object; onCompleted?: () => void },
  ): PlainjobWorker;
}

const PENDING = 0;
const DONE = 2;
const TYPE = "noop";
const quiet = { error() {}, warn() {}, info() {}, debug() {} };

export const plainjob: System = {
  name: "plainjob",
  engine: "sqlite",
  role: "peer",
  answers: QUESTIONS,
  settings:
    "synchronous=FULL instead of its NORMAL; it looks for jobs every second; finished jobs are kept",
  packages: ["plainjob", "better-sqlite3"],
  share: 0.2,
  pollMs: 1_000,
  async open(place) {
    const library = await loadPeer<Plainjob>("plainjob");
    const Database = await loadPeer<new (file: string) => Driver>("better-sqlite3");
    return new Plain(library, Database, place);
  },
};

class Plain implements Queue {
  readonly #library: Plainjob;
  readonly #open: () => PlainjobQueue;
  readonly #queue: PlainjobQueue;
  readonly #endings: (() => void | Promise<void>)[] = [];

  constructor(library: Plainjob, Database: new (file: string) => Driver, place: Place) {
    this.#library = library;
    this.#open = () => {
      const driver = new Database(fileOf(place));
      const queue = library.defineQueue({ connection: library.better(driver), logger: quiet });
      driver.pragma("synchronous = FULL");
      this.#endings.push(() => queue.close());
      return queue;
    };
    this.#queue = this.#open();
  }

  async add(payload: string): Promise<void> {
    this.#queue.add(TYPE, payload);
  }

  async addMany(payloads: readonly string[]): Promise<void> {
    this.#queue.addMany(TYPE, payloads);
  }

  async drain(jobs: number): Promise<number> {
    const left = new Countdown(jobs);
    const options = { queue: this.#queue, logger: quiet, onCompleted: left.tick };
    const worker = this.#library.defineWorker(TYPE, async () => {}, options);
    const startedAt = performance.now();
    const running = worker.start();
    await left.over;
    const ms = performance.now() - startedAt;
    this.#stopLater(worker, running);
    return ms;
  }

  async listen(onStart: (payload: string) => void): Promise<void> {
    const options = { queue: this.#open(), logger: quiet };
    const start = async ({ data }: { data: string }): Promise<void> =>
      onStart(JSON.parse(data) as string);
    const worker = this.#library.defineWorker(TYPE, start, options);
    this.#stopLater(worker, worker.start());
  }

  async count(): Promise<{ waiting: number; done: number }> {
    const waiting = this.#queue.countJobs({ status: PENDING });
    return { waiting, done: this.#queue.countJobs({ status: DONE }) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.#endings.toReversed()) await end();
  }

  #stopLater(worker: PlainjobWorker, running: Promise<void>): void {
    this.#endings.push(async () => {
      await worker.stop();
      await running;
    });
  }
}
