/**
 * An answer of the database that is kept for a while: however often somebody asks here, the database is asked seldom, once at
 * a time, and nobody waits for it for long.
 */
import type { Runtime } from "../core/runtime.ts";
import { answerWithin } from "../queue/answer-within.ts";

export interface KeptParts<T> {
  readonly runtime: Runtime;
  readonly ask: () => Promise<T>;
  readonly forMs: number;
  /** Nobody waits longer for an answer. */
  readonly waitMs: number;
}

export class Kept<T> {
  readonly #parts: KeptParts<T>;
  #answer: { readonly value: T | null; readonly at: number } | null = null;
  #asking: Promise<T | null> | null = null;

  constructor(parts: KeptParts<T>) {
    this.#parts = parts;
  }

  /** Null: there was no answer, or not in time. That is kept, too. */
  async get(): Promise<T | null> {
    const { runtime, forMs, waitMs } = this.#parts;
    const kept = this.#answer;
    if (kept !== null && runtime.monotonic() - kept.at < forMs) return kept.value;
    this.#asking ??= this.#ask();
    return answerWithin(runtime, waitMs, this.#asking).catch(() => null);
  }

  async #ask(): Promise<T | null> {
    const { runtime, ask } = this.#parts;
    const value = await ask().catch(() => null);
    this.#answer = { value, at: runtime.monotonic() };
    this.#asking = null;
    return value;
  }
}
