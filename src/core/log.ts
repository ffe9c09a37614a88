import { formatMs } from "./duration.ts";
import { StoreGoneError, StoreUnavailableError } from "./errors.ts";

/** The few methods of a logger that the library calls. A pino logger is one; so is anything of this shape. */
export interface Logger {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** A logger that throws (a closed stream, an error that cannot be read) costs a line, never a job. */
export function guardedLogger(logger: Logger): Logger {
  const guarded = (level: keyof Logger) => (facts: object, message: string) => {
    try {
      logger[level](facts, message);
    } catch {
      logBare(logger, level, message);
    }
  };
  return {
    debug: guarded("debug"),
    info: guarded("info"),
    warn: guarded("warn"),
    error: guarded("error"),
  };
}

/** It may be the facts that cannot be written. */
function logBare(logger: Logger, level: keyof Logger, message: string): void {
  try {
    logger[level]({}, message);
  } catch {
    // Nobody is left to tell.
  }
}

export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
};

// What a log says about an outage of the database: one line when it begins and one when it ends, however many activities
// of the process notice. Each activity's own lines are for debugging.

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
  static isOne(error: unknown): error is StoreUnavailableError {
    return error instanceof StoreUnavailableError && !(error instanceof StoreGoneError);
  }

  begin(activity: object, error: StoreUnavailableError, now: number): void {
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
