/** Functions of the user's that run while items are locked. */
import { InvalidArgument } from "../core/errors.ts";
import type { Runtime } from "../core/runtime.ts";

/** All of them together, in one change. */
const PATIENCE_MS = 5_000;

export class Patience {
  readonly #runtime: Runtime;
  readonly #until: number;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
    this.#until = runtime.monotonic() + PATIENCE_MS;
  }

  /** Runs one, which its field names. It is left where it stands when the time is over. */
  async with<T>(field: string, call: () => T | Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>();
    const leftMs = Math.max(0, this.#until - this.#runtime.monotonic());
    const timer = this.#runtime.timer(leftMs, () => late.reject(tooLong(field)));
    try {
      return await Promise.race([call(), late.promise]);
    } finally {
      timer.cancel();
    }
  }
}

function tooLong(field: string): InvalidArgument {
  const problem =
    `it took longer than ${PATIENCE_MS} ms while items were locked. ` +
    `It must not wait for others, nor call Holdfast.`;
  return new InvalidArgument({ field, problem });
}
