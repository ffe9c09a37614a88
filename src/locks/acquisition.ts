/** One acquisition: it waits for its turn in this process, then asks until the lock is ours or the time is over. */
import { OutcomeUnknownError, StoreBusyError, StoreUnavailableError } from "../core/errors.ts";
import { type Runtime, sleep } from "../core/runtime.ts";
import { unlessAborted } from "../core/wait.ts";
import {
  type LockAnswer,
  type LockBackend,
  LockNotAcquiredError,
  type LockRequest,
  TRUSTED,
} from "./lock.ts";

/** The process for which the lock is reserved asks often: it is the only one. */
const NEXT_POLL = { firstMs: 2, mostMs: 10, growth: 1.3 };

/** Other processes ask less and less often. */
const POLL = { firstMs: 5, mostMs: 50, growth: 1.5 };

/** While the backend does not answer. */
const AWAY_POLL = { firstMs: 50, mostMs: 250, growth: 1.5 };

/** An answer may take this long, however short the wait. */
const ANSWER_MS_MIN = 1_000;

interface AcquisitionParts {
  readonly request: LockRequest;
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly backend: LockBackend;
  readonly line: LockLine;
  readonly runtime: Runtime;
}

interface Won {
  readonly token: number;
  /** When the request was sent, by the monotonic clock. */
  readonly sentAt: number;
  readonly waitedMs: number;
  /** To be called when the next acquisition in this process may ask. */
  readonly leave: () => void;
}

export class Acquisition {
  readonly #parts: AcquisitionParts;
  readonly #startedAt: number;
  readonly #over = new AbortController();
  #owner: string | null = null;
  /** Why the backend did not answer the last request. */
  #cause: unknown = undefined;
  /** A request that was not refused: the lock may be ours without our knowing. */
  #asked: Promise<unknown> | null = null;
  /** Aborted when the lock was released. */
  #wake = new AbortController();
  #stopListening: (() => void) | null = null;

  constructor(parts: AcquisitionParts) {
    this.#parts = parts;
    this.#startedAt = parts.runtime.monotonic();
  }

  get key(): string {
    return this.#parts.request.key;
  }

  /** How long it has waited so far. */
  get waitedMs(): number {
    return this.#parts.runtime.monotonic() - this.#startedAt;
  }

  /** Throws LockNotAcquiredError when the time is over, or the reason given to `end`. */
  async win(): Promise<Won> {
    const { line, request, waitMs, signal } = this.#parts;
    const inLine = line.enter(request.key);
    const onAbort = (): void => this.end(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      if (signal?.aborted === true) onAbort();
      if (inLine.turn !== null) {
        this.#owner = request.owner; // This process, as far as it knows.
        await this.#within(waitMs, () => inLine.turn as Promise<void>);
        this.#owner = null;
      }
      const won = await this.#ask();
      return { ...won, waitedMs: this.waitedMs, leave: inLine.leave };
    } catch (error) {
      if (this.#asked !== null) this.#abandon(this.#asked);
      inLine.leave();
      throw error;
    } finally {
      this.#stopListening?.();
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Ends the acquisition, unless it has succeeded. */
  end(reason: unknown): void {
    this.#over.abort(reason);
  }

  #ask(): Promise<Pick<Won, "token" | "sentAt">> {
    const { backend, request, runtime, waitMs } = this.#parts;
    const limitMs = Math.max(waitMs, ANSWER_MS_MIN) - this.waitedMs;
    return this.#within(limitMs, async () => {
      for (let tries = 0; ; tries += 1) {
        const sentAt = runtime.monotonic();
        const answer = await this.#askOnce(tries > 0);
        if (answer.taken) {
          // After a slow answer the lock may have expired; the next request takes it again.
          const trustedUntil = sentAt + request.ttlMs * TRUSTED;
          if (runtime.monotonic() < trustedUntil) return { token: answer.token, sentAt };
          continue;
        }
        this.#stopListening ??= backend.onRelease?.(request.key, () => this.#wake.abort()) ?? null;
        await this.#pause(answer.isNext, tries);
      }
    });
  }

  async #askOnce(again: boolean): Promise<LockAnswer> {
    const { backend, request } = this.#parts;
    this.#over.signal.throwIfAborted();
    const asked = backend.take(request, again);
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

  /** The answer may still arrive, or may have been lost. */
  #abandon(asked: Promise<unknown>): void {
    const { backend, request } = this.#parts;
    const giveBack = (): Promise<void> => backend.abandon(request.key, request.holder);
    void asked.then(giveBack, giveBack).catch(() => {}); // It expires by itself.
  }

  async #pause(isNext: boolean, tries: number): Promise<void> {
    const { runtime, waitMs } = this.#parts;
    const leftMs = waitMs - this.waitedMs;
    if (leftMs <= 0) throw this.#failure();
    const isAnswered = this.#cause === undefined;
    const { firstMs, mostMs, growth } = isAnswered ? (isNext ? NEXT_POLL : POLL) : AWAY_POLL;
    const pauseMs = Math.min(mostMs, firstMs * growth ** tries) * (0.5 + runtime.random());
    const signal = AbortSignal.any([this.#over.signal, this.#wake.signal]);
    await sleep(runtime, Math.min(leftMs, pauseMs), { signal });
    if (this.#wake.signal.aborted) this.#wake = new AbortController();
    this.#over.signal.throwIfAborted();
  }

  async #within<T>(limitMs: number, body: () => Promise<T>): Promise<T> {
    const timer = this.#parts.runtime.timer(limitMs, () => this.end(this.#failure()));
    try {
      return await unlessAborted(this.#over.signal, body);
    } finally {
      timer.cancel();
    }
  }

  #failure(): LockNotAcquiredError {
    const { backend, request } = this.#parts;
    const facts = { key: request.key, waitedMs: this.waitedMs, owner: this.#owner };
    if (this.#asked === null || this.#cause !== undefined)
      return new LockNotAcquiredError(facts, this.#cause);
    const problem = `${backend.kind === "redis" ? "Redis" : "The database"} does not answer.`;
    const remedy = "Check it, or try again later.";
    return new LockNotAcquiredError(facts, new StoreUnavailableError({ problem, remedy }));
  }
}

/** A backend that does not answer now may answer in a moment. */
function isAway(error: unknown): boolean {
  return (
    error instanceof StoreUnavailableError ||
    error instanceof StoreBusyError ||
    error instanceof OutcomeUnknownError
  );
}

interface QueuePosition {
  /** Resolves when all acquisitions in front have left; null: there are none. */
  readonly turn: Promise<void> | null;
  /** Calls the next acquisition. May be called twice, and before its turn. */
  readonly leave: () => void;
}

/**
 * The acquisitions of this process for the same lock, first come, first served. Only the first one asks, so the backend
 * gets requests from as many clients as there are processes.
 *
 * The holder of the lock stays at the head until it releases the lock. The next one asks only then: if it asked earlier,
 * the lock would be reserved for this process again and again.
 */
export class LockLine {
  /** Those behind the head. A key that no acquisition wants has no entry. */
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
