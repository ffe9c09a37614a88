/** An acquired lock, and how long it can be trusted. */
import { type Duration, toMs } from "../core/duration.ts";
import { checkKnown } from "../core/options.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import { answerWithin, unlessAborted } from "../core/wait.ts";
import type { LockBackend, LockHold } from "./backend.ts";
import { LockLostError } from "./errors.ts";
import { TTL_RANGE } from "./options.ts";

/** The share of a lock's time that is trusted: clocks drift a little, and work under way must end. */
export const TRUSTED = 0.9;

/** How long to wait for the answer to a release. The lock expires by itself. */
const RELEASE_MS_MAX = 2_000;

const EXTEND_OPTIONS = new Set(["ttl"]);

interface LockParts {
  readonly hold: LockHold;
  readonly owner: string;
  readonly trace: string | null;
  readonly waitedMs: number;
  readonly ttlMs: number;
  /** When the request was sent: the lock's time began later. */
  readonly sentAt: number;
  readonly backend: LockBackend;
  readonly runtime: Runtime;
  /** Called once, when it is released or lost. */
  readonly onGone: (heldMs: number) => void;
}

export class Lock implements AsyncDisposable {
  readonly key: string;
  /** Larger than those of all earlier holders: pass it to systems that can compare it. */
  readonly token: number;
  readonly owner: string;
  readonly trace: string | null;
  /** How long the acquisition took. */
  readonly waitedMs: number;
  readonly #parts: LockParts;
  readonly #acquiredAt: number;
  readonly #lost = new AbortController();
  #trustedUntil = 0;
  #timer: Timer | null = null;
  #released: Promise<boolean> | null = null;
  #isGone = false;

  constructor(parts: LockParts) {
    this.#parts = parts;
    this.key = parts.hold.key;
    this.token = parts.hold.token;
    this.owner = parts.owner;
    this.trace = parts.trace;
    this.waitedMs = parts.waitedMs;
    this.#acquiredAt = parts.runtime.monotonic();
    this.#trust(parts.sentAt, parts.ttlMs);
  }

  /** Aborts with LockLostError when another process may have the lock. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** Whether it can be trusted now: after a process was suspended, this may run before the signal could abort. */
  get held(): boolean {
    if (this.#released !== null) return false;
    if (this.#parts.runtime.monotonic() >= this.#trustedUntil)
      this.#lose("it was not extended in time.");
    return !this.signal.aborted;
  }

  /** Keeps it for `ttl` from now. Throws LockLostError when it is no longer ours. */
  async extend(options: { readonly ttl?: Duration } = {}): Promise<void> {
    checkKnown(options, EXTEND_OPTIONS);
    const { backend, runtime, hold, ttlMs } = this.#parts;
    const moreMs = options.ttl === undefined ? ttlMs : toMs("ttl", options.ttl, TTL_RANGE);
    if (!this.held) throw this.#reason();
    const sentAt = runtime.monotonic();
    const isOurs = await unlessAborted(this.signal, () => backend.extend(hold, moreMs));
    if (!isOurs) this.#lose("it expired or was released, and is no longer ours.");
    if (!this.held) throw this.#reason();
    this.#trust(sentAt, moreMs);
  }

  /** False: it was no longer ours. */
  release(): Promise<boolean> {
    this.#released ??= this.#release();
    return this.#released;
  }

  /** Stops extending it. It is not released, because the work that it protects may still run. */
  forsake(problem: string): void {
    if (this.#released === null) this.#lose(problem);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  async #release(): Promise<boolean> {
    const { backend, runtime, hold } = this.#parts;
    this.#timer?.cancel();
    try {
      return await answerWithin(runtime, RELEASE_MS_MAX, backend.release(hold));
    } finally {
      this.#gone();
    }
  }

  /** Counts from the request, which was sent before the lock's time began. */
  #trust(sentAt: number, ttlMs: number): void {
    this.#trustedUntil = Math.max(this.#trustedUntil, sentAt + ttlMs * TRUSTED);
    this.#timer?.cancel();
    const leftMs = this.#trustedUntil - this.#parts.runtime.monotonic();
    const check = (): void => {
      if (this.held) this.#trust(Number.NEGATIVE_INFINITY, 0); // The timer was early.
    };
    this.#timer = this.#parts.runtime.timer(leftMs, check, "background");
  }

  #lose(problem: string): void {
    if (this.signal.aborted) return;
    this.#timer?.cancel();
    this.#lost.abort(new LockLostError({ key: this.key, token: this.token, problem }));
    this.#gone();
  }

  #reason(): Error {
    if (this.signal.aborted) return this.signal.reason as LockLostError;
    return new LockLostError({ key: this.key, token: this.token, problem: "it was released." });
  }

  #gone(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#parts.onGone(this.#parts.runtime.monotonic() - this.#acquiredAt);
  }
}
