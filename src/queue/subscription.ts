/** Tells somebody when a queue has pending jobs. */
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Store } from "../store/store.ts";

export interface SubscriptionOptions {
  readonly queue: string;
  readonly hear: (queue: string) => void | Promise<void>;
  readonly pollMs: number;
}

export class Subscription {
  readonly #loop: Loop;
  readonly #unwatch: () => void;

  constructor(
    parts: { store: Store; runtime: Runtime; logger: Logger },
    { queue, hear, pollMs }: SubscriptionOptions,
  ) {
    const { store, runtime, logger } = parts;
    this.#loop = new Loop({
      name: `subscription to ${queue}`,
      runtime,
      logger,
      once: async () => {
        if (await store.hasPending(queue)) await hear(queue);
        return pollMs;
      },
    });
    this.#unwatch = store.watch((hint) => {
      if (hint.kind === "unknown" || (hint.kind === "pending" && hint.queue === queue)) {
        this.#loop.wake();
      }
    });
  }

  stop(): Promise<void> {
    this.#unwatch();
    return this.#loop.stop();
  }
}
