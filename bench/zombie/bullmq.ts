/** BullMQ on Redis: a job is locked under its worker's token, and stalls when the lock is not renewed. */
import { loadPeer } from "../peers.ts";
import { overhear, QUEUE, SHORT_S, type Site, type Subject } from "./subject.ts";

interface BullJob {
  readonly id: string;
  readonly returnvalue: unknown;
  readonly stalledCounter: number;
  getState(): Promise<string>;
}

interface Bull {
  Queue: new (
    name: string,
    options: object,
  ) => {
    add(name: string, data: unknown): Promise<BullJob>;
    getJob(id: string): Promise<BullJob | undefined>;
    close(): Promise<void>;
  };
  Worker: new (
    name: string,
    run: (job: BullJob, token?: string, signal?: AbortSignal) => Promise<string>,
    options: object,
  ) => {
    on(event: string, listener: (...args: never[]) => void): void;
    waitUntilReady(): Promise<unknown>;
  };
}

const SHORT = { lockDuration: SHORT_S * 1_000, stalledInterval: SHORT_S * 1_000 };
/** What its errors about a job's end are called. */
const COMPLETION = "moveToFinished";

export const bullmq: Subject = {
  name: "BullMQ",
  engine: "redis",
  role: "peer",
  packages: ["bullmq", "ioredis"],
  settings: {
    defaults: "defaults: lockDuration 30 s, stalledInterval 30 s",
    short: `lockDuration and stalledInterval ${SHORT_S} s instead of 30 s`,
  },
  guard: "the lock holds the token of the claim",

  async open(place) {
    const { Queue } = await loadPeer<Bull>("bullmq");
    const queue = new Queue(QUEUE, optionsFor(place));
    return {
      enqueue: async () => (await queue.add(QUEUE, {})).id,
      async look(id) {
        const job = await queue.getJob(id);
        if (job === undefined) return { row: null, result: null };
        const stands = typeof job.returnvalue === "string" ? job.returnvalue : null;
        const row = `${await job.getState()}, stalled ${job.stalledCounter} ×, returnvalue ${stands ?? "none"}`;
        return { row, result: stands };
      },
      [Symbol.asyncDispose]: () => queue.close(),
    };
  },

  async work(place, { handler, say, pace }) {
    const { Worker } = await loadPeer<Bull>("bullmq");
    const options = { ...optionsFor(place), ...(pace === "short" ? SHORT : {}) };
    const run = (_job: BullJob, _token?: string, signal?: AbortSignal): Promise<string> =>
      handler(signal ?? null);
    const worker = new Worker(QUEUE, run, options);
    worker.on("completed", () => say("wrote", "its completion was accepted"));
    worker.on("error", ({ message }: Error) => {
      if (message.includes(COMPLETION)) say("wrote", "its completion was refused");
    });
    overhear(worker, say, /^(?:ready|active|drained|ioredis:.*)$/);
    await worker.waitUntilReady();
  },
};

function optionsFor({ url, prefix }: Site): object {
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
