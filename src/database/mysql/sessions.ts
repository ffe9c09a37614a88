/**
 * Runs statements and transactions on a pool, and translates failures.
 *
 * A transaction that the server asked to repeat is run again. If the connection was lost before COMMIT was sent, nothing
 * was written and it is run again too; after that the outcome is unknown, and the caller has to look it up.
 */
import { ClosedError, OutcomeUnknownError, StoreBusyError } from "../../core/errors.ts";
import { type Runtime, sleep, type Timer } from "../../core/runtime.ts";
import { newTally, type WaitLimits } from "../engine.ts";
import {
  asksAgain,
  isBrokenTable,
  isDuplicate,
  isLockWait,
  isLost,
  NoAnswer,
  NotSent,
  translate,
} from "./errors.ts";
import { type Answer, limitTexts, type Session } from "./session.ts";

type Reason = "conflicts" | "waits" | "fresh" | "reopened" | "duplicates";

/** How often a transaction is run again, by reason. */
const REPEATS_MAX: Readonly<Record<Reason, number>> = {
  /** After a deadlock. */
  conflicts: 20,
  /** After a lock timeout, which takes seconds. */
  waits: 2,
  /** On another connection. */
  fresh: 2,
  /** On tables that were opened again. */
  reopened: 1,
  /** After another process inserted the same row between our look and our insert: the next look sees it. */
  duplicates: 1,
};

const PAUSE_MS_FIRST = 2;

const PAUSE_MS_MAX = 250;

/** The maximum length of a packet, in UTF-16 units of at most three bytes, unless one statement is longer. */
const PACKET_UNITS_MAX = 1024 * 1024;

const PACKET_SHARE = 1 / 4;

const COMMIT = "commit";

/** Changes nothing, but makes the server open the tables again. */
const REOPEN = ["job", "ready", "waiting", "lease", "finished"].map(
  (table) => `alter table holdfast_${table} comment = ''`,
);

interface Limits extends WaitLimits {
  readonly duplicatesMax?: number;
  /** Nothing is repeated. */
  readonly once?: boolean;
}

interface SessionsParts {
  readonly pool: Pool;
  readonly runtime: Runtime;
  readonly store: string;
  /** The session was lost with the answer to a commit. */
  readonly onDoubt: (session: Session) => void;
}

export class Sessions {
  readonly tally = newTally();
  readonly #parts: SessionsParts;

  constructor(parts: SessionsParts) {
    this.#parts = parts;
  }

  /** Reads, in one round trip. A dead connection is replaced. */
  read(statements: readonly string[], rows: "arrays" | "objects"): Promise<Answer[]> {
    return this.#again(async (exchange) => {
      exchange.add(...statements);
      return exchange.send(rows);
    });
  }

  /** One transaction. The body may commit with its last statements; otherwise this does. */
  transaction<T>(body: (exchange: Exchange) => Promise<T>, limits: Limits = {}): Promise<T> {
    return this.#again(async (exchange) => {
      exchange.limit(limits);
      exchange.add("start transaction");
      const value = await body(exchange);
      if (!exchange.committing) {
        exchange.commit();
        await exchange.send("objects");
      }
      return value;
    }, limits);
  }

  /** Runs the body with one session, without a transaction. */
  async alone<T>(body: (session: Session) => Promise<T>): Promise<T> {
    try {
      return await this.#parts.pool.use(body);
    } catch (error) {
      throw translate(error, this.#parts.store);
    }
  }

  async #again<T>(body: (exchange: Exchange) => Promise<T>, limits: Limits = {}): Promise<T> {
    const { pool, runtime } = this.#parts;
    const tries = new Tries(runtime, limits);
    for (;;) {
      let exchange: Exchange | null = null;
      try {
        return await pool.use((session) => {
          exchange = new Exchange(session);
          return exchange.run(body);
        });
      } catch (error) {
        if (exchange !== null) this.tally.rolledBack += 1;
        if (isBrokenTable(error) && tries.mayRepeat("reopened")) await this.#reopen(error);
        else this.#judge(error, exchange, tries);
        this.tally.repeated += 1;
        await tries.pause();
      }
    }
  }

  async #reopen(because: unknown): Promise<void> {
    const { pool, store } = this.#parts;
    try {
      await pool.use((session) => session.send(REOPEN, { rows: "arrays" }));
    } catch {
      throw translate(because, store); // this user may not do that; an administrator has to
    }
  }

  /** Throws unless the transaction may be repeated. */
  #judge(error: unknown, exchange: Exchange | null, tries: Tries): void {
    const { store, onDoubt } = this.#parts;
    if (exchange !== null && isLost(error)) {
      const { committing, session } = exchange;
      if (committing) {
        onDoubt(session);
        throw new OutcomeUnknownError({ store, session: session.id }, error);
      }
      // A server that does not answer will probably not answer the next time either.
      if (!(error instanceof NoAnswer) && tries.mayRepeat("fresh")) return;
    }
    if (asksAgain(error) && tries.mayRepeat("conflicts")) return;
    if (isLockWait(error) && tries.mayRepeat("waits")) return;
    if (isDuplicate(error) && tries.mayRepeat("duplicates")) return;
    if (asksAgain(error) || isLockWait(error)) {
      throw new StoreBusyError({ store, waitedMs: tries.passedMs }, error);
    }
    throw translate(error, store);
  }
}

class Tries {
  readonly #runtime: Runtime;
  readonly #startedAt: number;
  readonly #once: boolean;
  readonly #left: Record<Reason, number>;
  #all = 0;

  constructor(runtime: Runtime, { once = false, lockMs, duplicatesMax }: Limits) {
    this.#runtime = runtime;
    this.#startedAt = runtime.monotonic();
    this.#once = once;
    this.#left = { ...REPEATS_MAX };
    if (lockMs !== undefined) this.#left.waits = 0;
    if (duplicatesMax !== undefined) this.#left.duplicates = duplicatesMax;
  }

  get passedMs(): number {
    return this.#runtime.monotonic() - this.#startedAt;
  }

  mayRepeat(reason: Reason): boolean {
    this.#left[reason] -= 1;
    return !this.#once && this.#left[reason] >= 0;
  }

  pause(): Promise<void> {
    const most = Math.min(PAUSE_MS_MAX, PAUSE_MS_FIRST * 2 ** this.#all);
    this.#all += 1;
    return sleep(this.#runtime, this.#runtime.random() * most);
  }
}

/** Statements on one session: they are gathered and sent in as few packets as possible. */
export class Exchange {
  readonly session: Session;
  readonly #unitsMax: number;
  #gathered: string[] = [];
  #committing = false;
  /** Restores the limits of the session. */
  #restore: readonly string[] = [];

  constructor(session: Session) {
    this.session = session;
    this.#unitsMax = Math.min(PACKET_UNITS_MAX, session.server.packetBytes * PACKET_SHARE);
  }

  /** Whether COMMIT was sent. If the connection is lost after that, the outcome is unknown. */
  get committing(): boolean {
    return this.#committing;
  }

  /** Sets limits of its own for this transaction. */
  limit(limits: WaitLimits): void {
    const { set, restore } = limitTexts(limits, this.session.server.isMariaDb);
    this.add(...this.#restore, ...set);
    this.#restore = restore;
  }

  /** Adds statements to the next packet. Returns the index of the first one's answer. */
  add(...statements: readonly string[]): number {
    this.#gathered.push(...statements);
    return this.#gathered.length - statements.length;
  }

  /** The limits of the session are restored in the same packet. */
  commit(): void {
    this.add(COMMIT, ...this.#restore);
  }

  /** Sends these after the gathered statements, and returns all answers. */
  sendAll(statements: readonly string[]): Promise<Answer[]> {
    this.add(...statements);
    return this.send("objects");
  }

  /** Sends the gathered statements; answers are in their order. */
  async send(rows: "arrays" | "objects", answerMs?: number): Promise<Answer[]> {
    const answers: Answer[] = [];
    const limits = answerMs === undefined ? { rows } : { rows, answerMs };
    for (const packet of this.#packets()) {
      // A commit that was not sent wrote nothing.
      if (!this.session.usable) throw new NotSent("the server has closed the connection");
      this.#committing ||= packet.includes(COMMIT);
      answers.push(...(await this.session.send(packet, limits)));
    }
    return answers;
  }

  /** Runs the body, and rolls back if it fails. */
  async run<T>(body: (exchange: Exchange) => Promise<T>): Promise<T> {
    try {
      return await body(this);
    } catch (error) {
      this.#gathered = [];
      await this.#cleanUp(["rollback", ...this.#restore]);
      throw error;
    }
  }

  #packets(): string[][] {
    const packets: string[][] = [];
    let units = Number.POSITIVE_INFINITY;
    for (const statement of this.#gathered) {
      if (units + statement.length > this.#unitsMax) {
        packets.push([]);
        units = 0;
      }
      packets.at(-1)?.push(statement);
      units += statement.length;
    }
    this.#gathered = [];
    return packets;
  }

  /** The next user of this session must not find a transaction or a limit of ours in it. */
  async #cleanUp(statements: readonly string[]): Promise<void> {
    if (!this.session.usable) return;
    await this.session.send(statements, { rows: "arrays" }).catch(() => this.session.destroy());
  }
}

// A pool of sessions.
//
// The driver's pool has no limit for waiting, hands out sessions that died while they were idle, and does not wait for
// sessions in use when it is closed.

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
