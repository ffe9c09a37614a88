/** Waits with a limit: of time, or until a signal aborts. What is waited for continues. */
import { StoreUnavailableError } from "./errors.ts";
import { type Runtime, sleep } from "./runtime.ts";

/** Throws StoreUnavailableError after the limit: a server may hang. */
export async function answerWithin<T>(
  runtime: Runtime,
  limitMs: number,
  answer: Promise<T>,
): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = runtime.timer(limitMs, () =>
    late.reject(
      new StoreUnavailableError({
        problem: `No response within ${Math.round(limitMs)} ms.`,
        remedy: "Check the server.",
      }),
    ),
  );
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    timer.cancel();
  }
}

/** Throws the reason of the signal when it aborts. */
export async function unlessAborted<T>(signal: AbortSignal, body: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([body(), aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** Whether it ended in time. Throws what it throws in time. */
export async function withinLimit(
  runtime: Runtime,
  limitMs: number,
  body: () => Promise<void>,
): Promise<boolean> {
  const done = new AbortController();
  const waiting = body().finally(() => done.abort());
  await Promise.race([waiting, sleep(runtime, limitMs, { signal: done.signal })]);
  return done.signal.aborted;
}

// A cached result of a database query. It runs rarely and one at a time, and no caller waits long.

interface CachedParts<T> {
  readonly runtime: Runtime;
  readonly ask: () => Promise<T>;
  readonly forMs: number;
  /** The longest that a caller waits. */
  readonly waitMs: number;
}

/** After this long without a result the query is started again; every query's own time limit is shorter. */
const ASKING_MS_MAX = 60_000;

export class Cached<T> {
  readonly #parts: CachedParts<T>;
  #answer: { readonly value: T | null; readonly at: number } | null = null;
  #asking: { readonly answer: Promise<T | null>; readonly since: number } | null = null;

  constructor(parts: CachedParts<T>) {
    this.#parts = parts;
  }

  /** Null: no result, or not in time; all callers get null until there is one. */
  async get(): Promise<T | null> {
    const { runtime, forMs, waitMs } = this.#parts;
    const now = runtime.monotonic();
    if (this.#answer !== null && now - this.#answer.at < forMs) return this.#answer.value;
    const isLost = this.#asking !== null && now - this.#asking.since > ASKING_MS_MAX;
    if (this.#asking === null || isLost) this.#asking = { answer: this.#ask(), since: now };
    const { answer, since } = this.#asking;
    // After one caller has waited for the whole time, the others do not wait again.
    const leftMs = since + waitMs - now;
    return leftMs > 0 ? answerWithin(runtime, leftMs, answer).catch(() => null) : null;
  }

  async #ask(): Promise<T | null> {
    const { runtime, ask } = this.#parts;
    const value = await ask().catch(() => null);
    this.#answer = { value, at: runtime.monotonic() };
    this.#asking = null;
    return value;
  }
}
