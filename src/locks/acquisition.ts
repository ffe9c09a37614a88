/** One acquisition: waiting for one's turn in this process, then asking until the lock is ours or the time is over. */
import { OutcomeUnknownError, StoreBusyError, StoreUnavailableError } from "../core/errors.ts";
import { type Runtime, sleep } from "../core/runtime.ts";
import { unlessAborted } from "../core/wait.ts";
import type { LockAnswer, LockBackend, LockRequest } from "./backend.ts";
import { LockNotAcquiredError } from "./errors.ts";
import { TRUSTED } from "./lock.ts";

/** Whoever the lock is kept for asks often: it is the only one that does. */
const NEXT_POLL = { firstMs: 2, mostMs: 10, growth: 1.3 };

/** Others ask less and less often, and so does everybody while nobody answers. */
const POLL = { firstMs: 5, mostMs: 50, growth: 1.5 };

const AWAY_POLL = { firstMs: 50, mostMs: 250, growth: 1.5 };

/** However short the wait: an answer takes its time. */
const ANSWER_MS_MIN = 1_000;

interface AcquisitionParts {
  readonly request: LockRequest;
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly place: LockBackend;
  readonly line: LockLine;
  readonly runtime: Runtime;
}

interface Won {
  readonly token: number;
  /** When it was asked for, on the monotonic clock. */
  readonly sentAt: number;
  readonly waitedMs: number;
  /** To be called when the next one in this process may ask. */
  readonly leave: () => void;
}

export class Acquisition {
  readonly #parts: AcquisitionParts;
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

  constructor(parts: AcquisitionParts) {
    this.#parts = parts;
    this.#startedAt = parts.runtime.monotonic();
  }

  /** Throws LockNotAcquiredError when the time is over, or whatever it was ended with. */
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

  #failure(): LockNotAcquiredError {
    const { place, request } = this.#parts;
    const facts = { key: request.key, waitedMs: this.#waitedMs, owner: this.#owner };
    const isSilent = this.#asked !== null && this.#cause === undefined;
    return new LockNotAcquiredError(facts, isSilent ? noAnswer(place) : this.#cause);
  }
}

function noAnswer({ kind }: LockBackend): StoreUnavailableError {
  const problem = kind === "redis" ? "Redis does not answer." : "The database does not answer.";
  return new StoreUnavailableError({ problem, remedy: "Look after it, or try again later." });
}

/** Whoever does not answer now may answer in a moment. */
function isAway(error: unknown): boolean {
  return (
    error instanceof StoreUnavailableError ||
    error instanceof StoreBusyError ||
    error instanceof OutcomeUnknownError
  );
}

/**
 * Those in this process who want the same lock, in the order in which they came. Only the first of them asks for it, so a
 * place is asked by as many as there are processes, and within a process it is first come, first served.
 *
 * Whoever has the lock stays at the head until they let go. The next one asks only then: if it asked before, the lock would be
 * kept for this process again and again.
 */
interface QueuePosition {
  /** Resolves when all those in front have left; null: there is nobody. */
  readonly turn: Promise<void> | null;
  /** Lets the next one come. May be called twice, and before it was one's turn. */
  readonly leave: () => void;
}

export class LockLine {
  /** Behind whoever is at the head; a key without a list has nobody there. */
  readonly #waiting = new Map<string, Set<() => void>>();

  enter(key: string): QueuePosition {
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) {
      this.#waiting.set(key, new Set());
      return { turn: null, leave: once(() => this.#callNext(key)) };
    }
    const { promise: turn, resolve } = Promise.withResolvers<void>();
    waiting.add(resolve);
    const leave = once(() => {
      if (!waiting.delete(resolve)) this.#callNext(key);
    });
    return { turn, leave };
  }

  #callNext(key: string): void {
    const waiting = this.#waiting.get(key);
    const [call] = waiting ?? [];
    if (call === undefined) return void this.#waiting.delete(key);
    waiting?.delete(call);
    call();
  }
}

function once(call: () => void): () => void {
  let called = false;
  return () => {
    if (called) return;
    called = true;
    call();
  };
}
