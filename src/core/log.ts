import { formatMs } from "./duration.ts";
import { StoreGoneError, StoreUnavailableError } from "./errors.ts";

/** The methods of a logger that the library calls; a pino logger has them. */
export interface Logger {
  /** What helps to find a fault. */
  debug(facts: object, message: string): void;
  /** What happens in normal operation. */
  info(facts: object, message: string): void;
  /** What an operator should look at. */
  warn(facts: object, message: string): void;
  /** What has failed. */
  error(facts: object, message: string): void;
}

/** A logger that throws, for example because its stream is closed, costs a line, never a job. */
export function guardedLogger(logger: Logger): Logger {
  const guarded = (level: keyof Logger) => (facts: object, message: string) => {
    try {
      logger[level](facts, message);
    } catch {
      try {
        // Perhaps only the facts cannot be written.
        logger[level]({}, message);
      } catch {
        // There is nowhere left to report it.
      }
    }
  };
  return {
    debug: guarded("debug"),
    info: guarded("info"),
    warn: guarded("warn"),
    error: guarded("error"),
  };
}

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** Logs an outage of the database once when it begins and once when it ends, however many activities notice it. */
export class Outage {
  static readonly #byLogger = new WeakMap<Logger, Outage>();
  readonly #logger: Logger;
  /** The activities that noticed it. */
  readonly #activities = new Set<object>();
  #since: number | null = null;

  private constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** The one outage of this log. */
  static of(logger: Logger): Outage {
    let outage = Outage.#byLogger.get(logger);
    if (outage === undefined) Outage.#byLogger.set(logger, (outage = new Outage(logger)));
    return outage;
  }

  /** A deleted file is not an outage: it does not come back by itself, and has its own message. */
  static isOne(error: unknown): error is StoreUnavailableError {
    return error instanceof StoreUnavailableError && !(error instanceof StoreGoneError);
  }

  begin(activity: object, error: StoreUnavailableError, now: number): void {
    this.#activities.add(activity);
    if (this.#since !== null) return;
    this.#since = now;
    this.#logger.error(
      { event: "database:away", err: error },
      `the database is unavailable (${error.message}); running jobs continue, no job is claimed`,
    );
  }

  end(now: number): void {
    if (this.#since === null) return;
    const awayMs = now - this.#since;
    this.#forget();
    const took = formatMs(awayMs < 1_000 ? awayMs : Math.round(awayMs / 1_000) * 1_000);
    this.#logger.info({ event: "database:back", awayMs }, `the database is back after ${took}`);
  }

  /** The activity ended. Without one that noticed, the end of the outage goes unseen: the next is a new one. */
  leave(activity: object): void {
    this.#activities.delete(activity);
    if (this.#activities.size === 0) this.#forget();
  }

  #forget(): void {
    this.#since = null;
    this.#activities.clear();
  }
}
