/** A cached result of a database query. It runs rarely and one at a time, and no caller waits long. */
import type { Runtime } from "./runtime.ts";
import { answerWithin } from "./wait.ts";

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
