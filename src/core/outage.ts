/**
 * What a log says about an outage of the database: one line when it begins and one when it ends, however many activities
 * of the process notice. Each activity's own lines are for debugging.
 */
import { formatMs } from "./duration.ts";
import { StoreGone, StoreUnavailable } from "./errors.ts";
import type { Logger } from "./log.ts";

export class Outage {
  static readonly #byLogger = new WeakMap<Logger, Outage>();
  readonly #logger: Logger;
  /** Those that noticed it. */
  readonly #activities = new Set<object>();
  #since: number | null = null;

  private constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** All that write to one log share one. */
  static of(logger: Logger): Outage {
    let outage = Outage.#byLogger.get(logger);
    if (outage === undefined) Outage.#byLogger.set(logger, (outage = new Outage(logger)));
    return outage;
  }

  /** A file that is gone does not come back by itself: that needs a person, and its own words. */
  static isOne(error: unknown): error is StoreUnavailable {
    return error instanceof StoreUnavailable && !(error instanceof StoreGone);
  }

  begin(activity: object, error: StoreUnavailable, now: number): void {
    this.#activities.add(activity);
    if (this.#since !== null) return;
    this.#since = now;
    this.#logger.error(
      { event: "database:away", err: error },
      `the database is away (${error.message}); running jobs go on, nothing new is claimed`,
    );
  }

  end(now: number): void {
    if (this.#since === null) return;
    const awayMs = now - this.#since;
    this.#forget();
    const took = formatMs(awayMs < 1_000 ? awayMs : Math.round(awayMs / 1_000) * 1_000);
    this.#logger.info({ event: "database:back", awayMs }, `the database is back after ${took}`);
  }

  /** The activity ended meanwhile. If no other noticed, no one will see the end of this outage: the next is a new one. */
  leave(activity: object): void {
    this.#activities.delete(activity);
    if (this.#activities.size === 0) this.#forget();
  }

  #forget(): void {
    this.#since = null;
    this.#activities.clear();
  }
}
