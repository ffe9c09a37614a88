/** Apart from the other errors of commands: what throws it does not load their parser. */
import { HoldfastError } from "../core/errors.ts";

/** The command line is invalid. */
export class BadUsageError extends HoldfastError {
  constructor(message: string, cause?: unknown) {
    super("BAD_USAGE", message, cause);
  }
}
