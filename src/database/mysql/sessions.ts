/**
 * Runs statements and transactions on a pool, and says what a failure means.
 *
 * A transaction that the server asked to repeat is run again. One whose connection was lost before COMMIT was sent left
 * nothing behind and is run again too; after that nobody knows, and the caller has to look.
 */
import { OutcomeUnknownError, StoreBusyError } from "../../core/errors.ts";
import { type Runtime, sleep } from "../../core/runtime.ts";
import { newTally } from "../pool-stats.ts";
import {
  asksAgain,
  isBrokenTable,
  isDuplicate,
  isLockWait,
  isLost,
  NoAnswer,
  translate,
} from "./errors.ts";
import type { Pool } from "./pool.ts";
import { type Answer, ROW_WAIT_S, rowWait, type Session } from "./session.ts";

/** How often a transaction is run again after a deadlock … */
const CONFLICTS_MAX = 20;

/** … after a lock that did not come in time, which takes seconds … */
const LOCK_WAITS_MAX = 2;

/** … on another connection … */
const FRESH_MAX = 2;

/** … on tables that were opened anew … */
const REOPENED_MAX = 1;

/** … and because somebody inserted the same between a look and an insert: the next look sees it. */
const DUPLICATES_MAX = 1;

const PAUSE_MS_FIRST = 2;

const PAUSE_MS_MAX = 250;

/** How long a packet becomes, in UTF-16 units of at most three bytes, unless one statement is longer. */
const PACKET_UNITS_MAX = 1024 * 1024;

const PACKET_SHARE = 1 / 4;

const COMMIT = "commit";

/** Changes nothing; whoever uses the tables next has to open them. */
const REOPEN = ["job", "ready", "waiting", "lease", "finished"].map(
  (table) => `alter table holdfast_${table} comment = ''`,
);

/** What may be tried again, and how long it waits for locks. */
interface Limits {
  readonly duplicatesMax?: number;
  readonly lockMs?: number;
  /** Nothing is tried again. */
  readonly once?: boolean;
}

export interface SessionsParts {
  readonly pool: Pool;
  readonly runtime: Runtime;
  readonly store: string;
  /** A session was lost with its last answer: who it was, so that it can be told from a later one. */
  readonly onDoubt: (session: Session) => void;
}

export class Sessions {
  readonly tally = newTally();
  readonly #parts: SessionsParts;

  constructor(parts: SessionsParts) {
    this.#parts = parts;
  }

  /** Reads, in one round trip. A connection that turns out to be dead is replaced. */
  read(statements: readonly string[], rows: "arrays" | "objects"): Promise<Answer[]> {
    return this.#again(async (exchange) => {
      exchange.add(...statements);
      return exchange.send(rows);
    });
  }

  /** One transaction. The body may commit it with its last statements; otherwise that is done here. */
  transaction<T>(body: (exchange: Exchange) => Promise<T>, limits: Limits = {}): Promise<T> {
    return this.#again(async (exchange) => {
      if (limits.lockMs !== undefined) exchange.waitForRows(limits.lockMs);
      exchange.add("start transaction");
      const value = await body(exchange);
      if (!exchange.committing) {
        exchange.commit();
        await exchange.send("objects");
      }
      return value;
    }, limits);
  }

  /** One session for as long as the body takes, without a transaction. */
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
      throw translate(because, store); // this user may not do that; somebody has to
    }
  }

  /** Returns when the whole may be tried once more. */
  #judge(error: unknown, exchange: Exchange | null, tries: Tries): void {
    const { store, onDoubt } = this.#parts;
    if (exchange !== null && isLost(error)) {
      const { committing, session } = exchange;
      if (committing) {
        onDoubt(session);
        throw new OutcomeUnknownError({ store, session: session.id }, error);
      }
      // A server that does not answer will not answer the next time either.
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

type Reason = "conflicts" | "waits" | "fresh" | "reopened" | "duplicates";

/** How often something may be tried again, by the reason it failed for. */
class Tries {
  readonly #runtime: Runtime;
  readonly #startedAt: number;
  readonly #left: Record<Reason, number>;
  #all = 0;

  constructor(runtime: Runtime, limits: Limits) {
    this.#runtime = runtime;
    this.#startedAt = runtime.monotonic();
    if (limits.once === true) {
      this.#left = { conflicts: 0, waits: 0, fresh: 0, reopened: 0, duplicates: 0 };
      return;
    }
    this.#left = {
      conflicts: CONFLICTS_MAX,
      waits: limits.lockMs === undefined ? LOCK_WAITS_MAX : 0,
      fresh: FRESH_MAX,
      reopened: REOPENED_MAX,
      duplicates: limits.duplicatesMax ?? DUPLICATES_MAX,
    };
  }

  get passedMs(): number {
    return this.#runtime.monotonic() - this.#startedAt;
  }

  mayRepeat(reason: Reason): boolean {
    this.#left[reason] -= 1;
    return this.#left[reason] >= 0;
  }

  pause(): Promise<void> {
    const most = Math.min(PAUSE_MS_MAX, PAUSE_MS_FIRST * 2 ** this.#all);
    this.#all += 1;
    return sleep(this.#runtime, this.#runtime.random() * most);
  }
}

/** What is said on one session: statements are gathered, and go in as few packets as they fit in. */
export class Exchange {
  readonly session: Session;
  readonly #unitsMax: number;
  #gathered: string[] = [];
  #committing = false;
  #hasOwnWait = false;

  constructor(session: Session) {
    this.session = session;
    this.#unitsMax = Math.min(PACKET_UNITS_MAX, session.server.packetBytes * PACKET_SHARE);
  }

  /** Whether COMMIT was sent. From then on a connection that is lost leaves everybody in doubt. */
  get committing(): boolean {
    return this.#committing;
  }

  /** How long statements wait for rows that others have locked, until the exchange is over. */
  waitForRows(ms: number): void {
    this.#hasOwnWait = true;
    this.add(rowWait(Math.ceil(ms / 1_000)));
  }

  /** Adds statements to the next packet. Returns at which place the first one's answer will be. */
  add(...statements: readonly string[]): number {
    this.#gathered.push(...statements);
    return this.#gathered.length - statements.length;
  }

  commit(): void {
    this.add(COMMIT);
  }

  /** Sends what was gathered; answers are in the order of the statements. */
  async send(rows: "arrays" | "objects", answerMs?: number): Promise<Answer[]> {
    const answers: Answer[] = [];
    const limits = answerMs === undefined ? { rows } : { rows, answerMs };
    for (const packet of this.#packets()) {
      this.#committing ||= packet.includes(COMMIT);
      answers.push(...(await this.session.send(packet, limits)));
    }
    return answers;
  }

  /** Runs the body; if it fails, nothing that it began stays open. */
  async run<T>(body: (exchange: Exchange) => Promise<T>): Promise<T> {
    try {
      return await body(this);
    } catch (error) {
      await this.#rollBack();
      throw error;
    } finally {
      if (this.#hasOwnWait) await this.#restore([rowWait(ROW_WAIT_S)]);
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

  #rollBack(): Promise<void> {
    this.#gathered = [];
    return this.#restore(["rollback"]);
  }

  /** Whatever went wrong, the next one to have this session must not find a transaction, or a limit, of ours in it. */
  async #restore(statements: readonly string[]): Promise<void> {
    if (!this.session.usable) return;
    await this.session.send(statements, { rows: "arrays" }).catch(() => this.session.destroy());
  }
}
