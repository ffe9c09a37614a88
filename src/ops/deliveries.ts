/**
 * Sends what targets have to be told, and sends it again when that fails.
 *
 * Every process with a monitor does it; what one of them has taken is kept from the others for a while. So a target hears of an
 * event at least once, and may hear of it twice when a process dies in between: the id that goes with it is the same.
 */
import { Loop } from "../core/loop.ts";
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Delivery } from "../store/alerts.ts";
import type { Store } from "../store/store.ts";
import { alertOf } from "./alert-list.ts";
import { REQUEST_MS_MAX, type WebhookAnswer } from "./webhook-request.ts";
import type { Webhooks } from "./webhook.ts";

const AT_ONCE = 10;
const LOOK_MS = 5_000;
/** Nobody else sends what this process is sending. */
const HOLD_MS = 3 * REQUEST_MS_MAX;
/** Within about an hour. */
export const TRIES_MAX = 12;
const RETRY_MS_FIRST = 5_000;
const RETRY_MS_MAX = 10 * 60_000;

export interface DeliveriesParts {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly webhooks: Webhooks;
}

export class Deliveries {
  readonly #parts: DeliveriesParts;
  readonly #loop: Loop;
  readonly #stopping = new AbortController();

  constructor(parts: DeliveriesParts) {
    this.#parts = parts;
    const { runtime, logger } = parts;
    const once = async (): Promise<number> => ((await this.sendDue()) < AT_ONCE ? LOOK_MS : 0);
    this.#loop = new Loop({ name: "alerts", runtime, logger, once, background: true });
  }

  /** There may be something to send. */
  wake(): void {
    this.#loop.wake();
  }

  /** What is being sent is left to others, or to the next start: nobody waits for a webhook to be slow. */
  stop(): Promise<void> {
    this.#stopping.abort(new Error("this process ended"));
    return this.#loop.stop();
  }

  /** Returns how many it was. */
  async sendDue(): Promise<number> {
    const { store, webhooks } = this.#parts;
    const { targets } = webhooks;
    if (targets.length === 0) return 0;
    const due = await store.takeDeliveries({ targets, holdMs: HOLD_MS, limit: AT_ONCE });
    await Promise.all(due.map((delivery) => this.#send(delivery)));
    return due.length;
  }

  async #send(delivery: Delivery): Promise<void> {
    const { store, webhooks } = this.#parts;
    const { target, event, record } = delivery;
    const { signal } = this.#stopping;
    const answer = await webhooks.send(target, { event, alert: alertOf(record) }, signal);
    if (answer.ok) return store.settleDelivery(delivery, { kind: "delivered" });
    const error = answer.error ?? "";
    if (signal.aborted) {
      return store.settleDelivery(delivery, { kind: "failed", error, retryInMs: 0 });
    }
    const retryInMs = this.#retryInMs(delivery, answer);
    this.#complain(delivery, error, retryInMs);
    return store.settleDelivery(delivery, { kind: "failed", error, retryInMs });
  }

  #retryInMs({ tries }: Delivery, { mayRetry }: WebhookAnswer): number | null {
    if (!mayRetry || tries >= TRIES_MAX) return null;
    return retryMs(tries, this.#parts.runtime.random());
  }

  /** The first failure and the end of it; what is in between says nothing new. */
  #complain(
    { alert, event, target, tries }: Delivery,
    error: string,
    retryInMs: number | null,
  ): void {
    const { logger, webhooks } = this.#parts;
    const origin = webhooks.originOf(target);
    const facts = { event: "alert:not-sent", alert, change: event, webhook: origin, tries, error };
    const words = `${origin} was not told that an alert is ${event}`;
    if (retryInMs === null) logger.error(facts, `${words}, and will not be: ${error}`);
    else if (tries === 1) logger.warn(facts, `${words} yet: ${error}`);
  }
}

/** Twice as long after every try, and by chance up to half of that less, so that those who failed together do not stay together. */
export function retryMs(tries: number, random: number): number {
  const most = Math.min(RETRY_MS_MAX, RETRY_MS_FIRST * 2 ** (tries - 1));
  return Math.round(most * (1 - random / 2));
}
