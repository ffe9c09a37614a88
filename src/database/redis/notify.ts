/**
 * Push through Redis, for databases that cannot push: notes are published on one channel.
 *
 * Redis stores nothing. While it is unavailable, a poll takes over, and hints only arrive later.
 */
import { makeIds } from "../../core/id.ts";
import { type Runtime, systemRuntime } from "../../core/runtime.ts";
import { type Hint, importDriver, type PushState } from "../engine.ts";
import { Notifier, Poll, readNote } from "../notify.ts";

const RECONNECT_MS_MAX = 5_000;

const CONNECT_MS_MAX = 5_000;

/** The part of the driver that we use. */
interface RedisClient {
  on(event: "error" | "close" | "ready", listener: () => void): unknown;
  on(event: "message", listener: (channel: string, text: string) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
  publish(channel: string, text: string): Promise<unknown>;
  disconnect(): void;
}

type RedisDriver = new (url: string, options: object) => RedisClient;

async function loadDriver(): Promise<RedisDriver> {
  const { Redis } = (await importDriver("Redis", "ioredis")) as { Redis: RedisDriver };
  return Redis;
}

export class RedisPush {
  readonly #connect: () => RedisClient;
  readonly #channel: string;
  readonly #runtime: Runtime;
  readonly #sender = makeIds(systemRuntime)();
  readonly #publisher: RedisClient;
  readonly notifier: Notifier;
  #poll: Poll | null = null;
  #isSubscribed = false;

  static async open(url: string, channel: string, runtime: Runtime): Promise<RedisPush> {
    const Redis = await loadDriver();
    return new RedisPush(() => new Redis(url, OPTIONS), channel, runtime);
  }

  private constructor(connect: () => RedisClient, channel: string, runtime: Runtime) {
    this.#connect = connect;
    this.#channel = channel;
    this.#runtime = runtime;
    this.#publisher = connect();
    this.#publisher.on("error", () => {}); // a lost note only costs time
    const send = async (notes: readonly string[]): Promise<void> => {
      await Promise.all(notes.map((note) => this.#publisher.publish(channel, note)));
    };
    this.notifier = new Notifier({ runtime, sender: this.#sender, send });
  }

  listen(onHint: (hint: Hint) => void): () => void {
    const poll = new Poll(this.#runtime, () => onHint({ kind: "unknown" }));
    const line = this.#connect();
    line.on("error", () => {});
    line.on("close", () => {
      this.#isSubscribed = false;
      poll.resume();
    });
    line.on("ready", () => void this.#subscribe(line, poll, onHint));
    line.on("message", (_channel, text) => {
      const { sender, hint } = readNote(text);
      if (sender !== this.#sender) onHint(hint);
    });
    this.#poll = poll;
    return () => {
      poll.stop();
      line.disconnect();
      this.#poll = null;
    };
  }

  pushState(): PushState {
    if (this.#poll === null) return "off";
    return this.#isSubscribed ? "up" : "down";
  }

  tell(hint: Hint): void {
    this.#poll?.pollSoon();
    this.notifier.tell(hint);
  }

  async close(): Promise<void> {
    await this.notifier.stop();
    this.#publisher.disconnect();
  }

  async #subscribe(line: RedisClient, poll: Poll, onHint: (hint: Hint) => void): Promise<void> {
    try {
      await line.subscribe(this.#channel);
    } catch {
      return; // lost again; the next connection tries again
    }
    this.#isSubscribed = true;
    poll.pause();
    onHint({ kind: "unknown" }); // notes sent before the subscription were missed
  }
}

const OPTIONS = {
  connectTimeout: CONNECT_MS_MAX,
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
  autoResubscribe: false,
  connectionName: "holdfast",
  retryStrategy: (times: number) => Math.min(RECONNECT_MS_MAX, 50 * 2 ** Math.min(times, 10)),
};
