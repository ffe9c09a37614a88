/** A lock that was acquired, and for how long it can be trusted. */
import { type Duration, toMs } from "../core/duration.ts";
import { checkKnown } from "../core/options.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import { answerWithin, unlessAborted } from "../core/wait.ts";
import type { LockBackend, LockHold } from "./backend.ts";
import { LockLostError } from "./errors.ts";
import { TTL_RANGE } from "./options.ts";

/** Of a lock's time this share is trusted: clocks differ a little, and what is under way has to end. */
export const TRUSTED = 0.9;

/** How long anybody waits to hear that a lock was released. It runs out by itself. */
const RELEASE_MS_MAX = 2_000;

const EXTEND_OPTIONS = new Set(["ttl"]);

export interface LockParts {
  readonly hold: LockHold;
  readonly owner: string;
  readonly trace: string | null;
  readonly waitedMs: number;
  readonly ttlMs: number;
  /** When it was asked for: its time began later than that. */
  readonly sentAt: number;
  readonly place: LockBackend;
  readonly runtime: Runtime;
  /** Called once, when it was released or is lost: how long it was held. */
  readonly onGone: (heldMs: number) => void;
}

export class Lock implements AsyncDisposable {
  readonly key: string;
  /** Larger than that of everybody who had this lock before: show it to whatever can compare it. */
  readonly token: number;
  readonly owner: string;
  readonly trace: string | null;
  /** How long it took to get it. */
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

  /** Aborts with LockLostError when others may have the lock. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /**
   * Whether it can still be trusted, at this very moment: a process that stood still may get here before its signal has had
   * a chance to abort.
   */
  get held(): boolean {
    if (this.#released !== null) return false;
    if (this.#parts.runtime.monotonic() >= this.#trustedUntil) this.#lose(RAN_OUT);
    return !this.signal.aborted;
  }

  /** Keeps it for `ttl` from now. Throws LockLostError when it is not ours any more. */
  async extend(options: { readonly ttl?: Duration } = {}): Promise<void> {
    checkKnown(options, EXTEND_OPTIONS);
    const { place, runtime, hold, ttlMs } = this.#parts;
    const moreMs = options.ttl === undefined ? ttlMs : toMs("ttl", options.ttl, TTL_RANGE);
    if (!this.held) throw this.#reason();
    const sentAt = runtime.monotonic();
    const isOurs = await unlessAborted(this.signal, () => place.extend(hold, moreMs));
    if (!isOurs) this.#lose(TAKEN);
    if (!this.held) throw this.#reason();
    this.#trust(sentAt, moreMs);
  }

  /** Lets others have it. False: it was not ours any more. */
  release(): Promise<boolean> {
    this.#released ??= this.#letGo();
    return this.#released;
  }

  /** Nobody keeps it any more. It is not given back: what was done under it may still be going on. */
  forsake(problem: string): void {
    if (this.#released === null) this.#lose(problem);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  async #letGo(): Promise<boolean> {
    const { place, runtime, hold } = this.#parts;
    this.#timer?.cancel();
    try {
      return await answerWithin(runtime, RELEASE_MS_MAX, place.release(hold));
    } finally {
      this.#gone();
    }
  }

  /** From when it was asked for, which was before its time began. */
  #trust(sentAt: number, ttlMs: number): void {
    this.#trustedUntil = Math.max(this.#trustedUntil, sentAt + ttlMs * TRUSTED);
    this.#timer?.cancel();
    const leftMs = this.#trustedUntil - this.#parts.runtime.monotonic();
    this.#timer = this.#parts.runtime.timer(leftMs, () => this.#look(), "background");
  }

  /** A timer may be a little early. */
  #look(): void {
    if (this.held) this.#trust(Number.NEGATIVE_INFINITY, 0);
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

const RAN_OUT = "it was not extended in time.";

const TAKEN = "it ran out or was released by somebody, and is not ours any more.";
