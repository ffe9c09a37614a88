/** One acquisition: waiting for one's turn in this process, then asking until the lock is ours or the time is over. */
import { OutcomeUnknown, StoreBusy, StoreUnavailable } from "../core/errors.ts";
import { LockNotAcquired } from "../core/lock-errors.ts";
import type { LockAnswer, LockRequest } from "../core/lock.ts";
import { sleep, type Runtime } from "../core/runtime.ts";
import type { LockPlace } from "../locks/lock.ts";
import type { LockLine } from "./lock-line.ts";
import { TRUSTED } from "./lock.ts";
import { unlessAborted } from "./unless-aborted.ts";

/** Whoever the lock is kept for asks often: it is the only one that does. */
const NEXT_POLL = { firstMs: 2, mostMs: 10, growth: 1.3 };
/** Others ask less and less often, and so does everybody while nobody answers. */
const POLL = { firstMs: 5, mostMs: 50, growth: 1.5 };
const AWAY_POLL = { firstMs: 50, mostMs: 250, growth: 1.5 };
/** However short the wait: an answer takes its time. */
const ANSWER_MS_MIN = 1_000;

export interface ContestParts {
  readonly request: LockRequest;
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly place: LockPlace;
  readonly line: LockLine;
  readonly runtime: Runtime;
}

export interface Won {
  readonly token: number;
  /** When it was asked for, on the monotonic clock. */
  readonly sentAt: number;
  readonly waitedMs: number;
  /** To be called when the next one in this process may ask. */
  readonly leave: () => void;
}

export class Contest {
  readonly #parts: ContestParts;
  readonly #startedAt: number;
  readonly #over = new AbortController();
  #owner: string | null = null;
  /** Why nobody answered when last asked. */
  #cause: unknown = undefined;
  /** What was asked and not refused: the lock may be ours without our knowing. */
  #asked: Promise<unknown> | null = null;
  /** Aborted when the lock was released. */
  #wake = new AbortController();
  #stopListening: (() => void) | null = null;

  constructor(parts: ContestParts) {
    this.#parts = parts;
    this.#startedAt = parts.runtime.monotonic();
  }

  /** Throws LockNotAcquired when the time is over, or whatever it was ended with. */
  async win(): Promise<Won> {
    const { line, request, signal } = this.#parts;
    const inLine = line.enter(request.key);
    const onAbort = (): void => this.end(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      if (signal?.aborted === true) onAbort();
      if (inLine.turn !== null) await this.#waitForTurn(inLine.turn);
      const won = await this.#ask();
      return { ...won, waitedMs: this.#waitedMs, leave: inLine.leave };
    } catch (error) {
      if (this.#asked !== null) this.#abandon(this.#asked);
      inLine.leave();
      throw error;
    } finally {
      this.#stopListening?.();
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Ends it, unless it is won. */
  end(reason: unknown): void {
    this.#over.abort(reason);
  }

  get #waitedMs(): number {
    return this.#parts.runtime.monotonic() - this.#startedAt;
  }

  async #waitForTurn(turn: Promise<void>): Promise<void> {
    const { request, waitMs } = this.#parts;
    this.#owner = request.owner; // this very process, as far as anybody in it knows
    await this.#within(waitMs, () => turn);
    this.#owner = null;
  }

  #ask(): Promise<Pick<Won, "token" | "sentAt">> {
    const { place, request } = this.#parts;
    const limitMs = Math.max(this.#parts.waitMs, ANSWER_MS_MIN) - this.#waitedMs;
    return this.#within(limitMs, async () => {
      for (let tries = 0; ; tries += 1) {
        const sentAt = this.#parts.runtime.monotonic();
        const answer = await this.#askOnce(tries > 0);
        // One that was long under way is hardly ours any more; asked again, it is.
        if (answer.taken && this.#isTrusted(sentAt)) return { token: answer.token, sentAt };
        if (answer.taken) continue;
        this.#stopListening ??= place.onRelease?.(request.key, () => this.#wake.abort()) ?? null;
        await this.#pause(answer.isNext, tries);
      }
    });
  }

  async #askOnce(again: boolean): Promise<LockAnswer> {
    const { place, request } = this.#parts;
    this.#over.signal.throwIfAborted();
    const asked = place.take(request, again);
    this.#asked = asked;
    try {
      const answer = await asked;
      this.#cause = undefined;
      if (!answer.taken) {
        this.#asked = null;
        this.#owner = answer.owner;
      }
      return answer;
    } catch (error) {
      if (!isAway(error)) throw error;
      this.#cause = error;
      return { taken: false, owner: null, isNext: false };
    }
  }

  /** Nobody waits for the answer any more, but it may come, or have been lost. */
  #abandon(asked: Promise<unknown>): void {
    const { place, request } = this.#parts;
    const giveBack = (): Promise<void> => place.abandon(request.key, request.holder);
    void asked.then(giveBack, giveBack).catch(() => {}); // it runs out by itself
  }

  async #pause(isNext: boolean, tries: number): Promise<void> {
    const { runtime, waitMs } = this.#parts;
    const leftMs = waitMs - this.#waitedMs;
    if (leftMs <= 0) throw this.#failure();
    const isAnswered = this.#cause === undefined;
    const { firstMs, mostMs, growth } = isAnswered ? (isNext ? NEXT_POLL : POLL) : AWAY_POLL;
    const pauseMs = Math.min(mostMs, firstMs * growth ** tries) * (0.5 + runtime.random());
    await this.#released(Math.min(leftMs, pauseMs));
    this.#over.signal.throwIfAborted();
  }

  /** Until another process releases the lock, or the time is over. */
  async #released(limitMs: number): Promise<void> {
    const { runtime } = this.#parts;
    const signal = AbortSignal.any([this.#over.signal, this.#wake.signal]);
    await sleep(runtime, limitMs, { signal });
    if (this.#wake.signal.aborted) this.#wake = new AbortController();
  }

  async #within<T>(limitMs: number, body: () => Promise<T>): Promise<T> {
    const timer = this.#parts.runtime.timer(limitMs, () => this.end(this.#failure()));
    try {
      return await unlessAborted(this.#over.signal, body);
    } finally {
      timer.cancel();
    }
  }

  #isTrusted(sentAt: number): boolean {
    return this.#parts.runtime.monotonic() < sentAt + this.#parts.request.ttlMs * TRUSTED;
  }

  #failure(): LockNotAcquired {
    const { place, request } = this.#parts;
    const facts = { key: request.key, waitedMs: this.#waitedMs, owner: this.#owner };
    const isSilent = this.#asked !== null && this.#cause === undefined;
    return new LockNotAcquired(facts, isSilent ? noAnswer(place) : this.#cause);
  }
}

function noAnswer({ kind }: LockPlace): StoreUnavailable {
  const problem = kind === "redis" ? "Redis does not answer." : "The database does not answer.";
  return new StoreUnavailable({ problem, remedy: "Look after it, or try again later." });
}

/** Whoever does not answer now may answer in a moment. */
function isAway(error: unknown): boolean {
  return (
    error instanceof StoreUnavailable ||
    error instanceof StoreBusy ||
    error instanceof OutcomeUnknown
  );
}
