/**
 * A pool of sessions.
 *
 * The driver's pool has no limit for waiting, hands out sessions that died while they were idle, and does not wait for
 * sessions in use when it is closed.
 */
import { ClosedError, StoreBusyError } from "../../core/errors.ts";
import type { Runtime, Timer } from "../../core/runtime.ts";
import type { Session } from "./session.ts";

/** The maximum wait for a free session. */
const WAIT_MS_MAX = 15_000;

/** A session that was idle for this long is pinged before use. */
const TRUST_MS = 30_000;

const PING_MS_MAX = 3_000;

/** Sessions that were idle for this long are closed. */
const IDLE_MS_MAX = 30_000;

interface Waiter {
  readonly resolve: (session: Session) => void;
  readonly reject: (error: unknown) => void;
  /** It has waited too long and was rejected. */
  gone: boolean;
}

interface Idle {
  readonly session: Session;
  readonly since: number;
}

interface PoolParts {
  readonly store: string;
  readonly size: number;
  readonly runtime: Runtime;
  readonly open: () => Promise<Session>;
}

export class Pool {
  readonly #parts: PoolParts;
  /** The last used session is on top. */
  readonly #idle: Idle[] = [];
  readonly #waiting: Waiter[] = [];
  /** Sessions that are open or being opened, idle or in use. */
  #count = 0;
  #reaper: Timer | null = null;
  #closing: PromiseWithResolvers<void> | null = null;

  constructor(parts: PoolParts) {
    this.#parts = parts;
  }

  get standing(): { busy: number; idle: number; waiting: number } {
    const idle = this.#idle.length;
    const waiting = this.#waiting.filter(({ gone }) => !gone).length;
    return { busy: this.#count - idle, idle, waiting };
  }

  /** Adds an open session. */
  add(session: Session): void {
    this.#count += 1;
    this.#giveBack(session);
  }

  async use<T>(body: (session: Session) => Promise<T>): Promise<T> {
    const session = await this.#checkOut();
    try {
      return await body(session);
    } finally {
      this.#giveBack(session);
    }
  }

  /** Resolves when all sessions have been given back. */
  async close(): Promise<void> {
    this.#closing ??= Promise.withResolvers<void>();
    this.#reaper?.cancel();
    for (const waiter of this.#waiting.splice(0)) waiter.reject(this.#closed());
    const ends = this.#idle.splice(0).map(({ session }) => session.end());
    this.#forget(ends.length);
    await Promise.all([...ends, this.#closing.promise]);
  }

  async #checkOut(): Promise<Session> {
    for (;;) {
      if (this.#closing !== null) throw this.#closed();
      const idle = this.#idle.pop();
      if (idle === undefined) break;
      idle.session.keepProcess(true);
      if (await this.#isThere(idle)) return idle.session;
      this.#forget(1);
    }
    return this.#count < this.#parts.size ? this.#open() : this.#wait();
  }

  async #isThere({ session, since }: Idle): Promise<boolean> {
    if (session.usable && this.#parts.runtime.monotonic() - since >= TRUST_MS) {
      await session.send(["do 1"], { rows: "arrays", answerMs: PING_MS_MAX }).catch(() => {});
    }
    return session.usable;
  }

  async #open(): Promise<Session> {
    this.#count += 1;
    try {
      return await this.#parts.open();
    } catch (error) {
      this.#forget(1);
      throw error;
    }
  }

  #wait(): Promise<Session> {
    const { runtime, store, size } = this.#parts;
    const { promise, resolve, reject } = Promise.withResolvers<Session>();
    const waiter: Waiter = { resolve, reject, gone: false };
    this.#waiting.push(waiter);
    const timer = runtime.timer(WAIT_MS_MAX, () => {
      waiter.gone = true;
      const all = `The pool of ${size} connections to ${store}`;
      reject(new StoreBusyError({ store: all, waitedMs: WAIT_MS_MAX }));
    });
    return promise.finally(() => timer.cancel());
  }

  #giveBack(session: Session): void {
    if (!session.usable || this.#closing !== null) {
      void session.end();
      this.#forget(1);
      return;
    }
    const waiter = this.#nextWaiter();
    if (waiter !== undefined) return waiter.resolve(session);
    session.keepProcess(false);
    this.#idle.push({ session, since: this.#parts.runtime.monotonic() });
    this.#reaper ??= this.#reapLater();
  }

  /** Sessions are gone: a waiter can get a new one, and closing may be complete. */
  #forget(count: number): void {
    this.#count -= count;
    if (this.#closing !== null) {
      if (this.#count === 0) this.#closing.resolve();
      return;
    }
    const waiter = this.#nextWaiter();
    if (waiter === undefined) return;
    const hand = (session: Session): void =>
      waiter.gone ? this.#giveBack(session) : waiter.resolve(session);
    this.#open().then(hand, waiter.reject);
  }

  #nextWaiter(): Waiter | undefined {
    for (;;) {
      const waiter = this.#waiting.shift();
      if (waiter?.gone !== true) return waiter;
    }
  }

  #reapLater(): Timer {
    return this.#parts.runtime.timer(IDLE_MS_MAX, () => this.#reap(), "background");
  }

  #reap(): void {
    const { runtime } = this.#parts;
    const young = this.#idle.findIndex(({ since }) => runtime.monotonic() - since < IDLE_MS_MAX);
    const old = this.#idle.splice(0, young === -1 ? this.#idle.length : young);
    for (const { session } of old) void session.end();
    this.#reaper = this.#idle.length > 0 ? this.#reapLater() : null;
    this.#forget(old.length);
  }

  #closed(): ClosedError {
    return new ClosedError({ what: `The store ${this.#parts.store}` });
  }
}
