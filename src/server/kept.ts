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

/** A question that has no answer after so long is asked again: every other one of ours has a limit below this. */
const ASKING_MS_MAX = 60_000;

interface Asking<T> {
  readonly answer: Promise<T | null>;
  readonly since: number;
}

export class Kept<T> {
  readonly #parts: KeptParts<T>;
  #answer: { readonly value: T | null; readonly at: number } | null = null;
  #asking: Asking<T> | null = null;

  constructor(parts: KeptParts<T>) {
    this.#parts = parts;
  }

  /** Null: there was no answer, or not in time: so it is for everybody until there is one. */
  async get(): Promise<T | null> {
    const { runtime, forMs, waitMs } = this.#parts;
    const now = runtime.monotonic();
    if (this.#answer !== null && now - this.#answer.at < forMs) return this.#answer.value;
    const isLost = this.#asking !== null && now - this.#asking.since > ASKING_MS_MAX;
    if (this.#asking === null || isLost) this.#asking = { answer: this.#ask(), since: now };
    const { answer, since } = this.#asking;
    // It has been waited for: nobody else waits for the same silence.
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
