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
