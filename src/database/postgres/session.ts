/**
 * Runs statements and transactions on a pool, and translates failures.
 *
 * On a connection that is shared with others, every write is a transaction that sets its planner options locally and
 * leaves nothing behind in the session.
 */
import { ClosedError, OutcomeUnknownError, ReadTooLongError } from "../../core/errors.ts";
import { type Runtime, sleep } from "../../core/runtime.ts";
import {
  answerLimitMs,
  type Load,
  newTally,
  type PoolUse,
  sumOf,
  type WaitLimits,
} from "../engine.ts";
import type { OwnPool, Pg, PgClient, PgPool, PgResult, PostgresAddress } from "./address.ts";
import {
  asksAgain,
  codeOf,
  isEndedBefore,
  isLost,
  isUnknownSetting,
  refusesStartup,
  translate,
} from "./errors.ts";

/** Tries of a transaction that the database asks to repeat. */
const TRIES_MAX = 10;

const PAUSE_MS_FIRST = 5;

const PAUSE_MS_MAX = 500;

/** The maximum wait for a free connection. */
const WAIT_MS_MAX = 12_000;

/** Tries with a new connection after one was lost. */
const FRESH_MAX = 3;

export interface Sending {
  readonly text: string;
  readonly values?: readonly unknown[];
  /** Prepared under this name if the session is ours. */
  readonly name?: string;
  readonly rows?: "array";
  readonly answerMs?: number;
}

export type Send = (sending: Sending) => Promise<PgResult>;

/** The driver returns 64-bit integers as text; ours are milliseconds, counts and numbers below 2^53. */
const INT8 = 20;

const BOOL = 16;

export const types = {
  getTypeParser: (oid: number) => (text: string) => {
    if (oid === INT8 || oid === 23 || oid === 21) return Number(text);
    return oid === BOOL ? text === "t" : text;
  },
};

export class Sessions {
  readonly store: string;
  readonly tally = newTally();
  readonly #pool: Pool;
  readonly #runtime: Runtime;
  readonly #begin: string;
  #ended: Promise<void> | null = null;

  constructor(parts: { pool: Pool; runtime: Runtime; store: string; use: Use }) {
    this.#pool = parts.pool;
    this.#begin = parts.pool.direct ? "begin isolation level read committed" : beginWith(parts.use);
    this.#runtime = parts.runtime;
    this.store = parts.store;
  }

  get direct(): boolean {
    return this.#pool.direct;
  }

  get standing(): Omit<PoolUse, "name"> {
    const { totalCount = 0, idleCount: idle = 0, waitingCount: waiting = 0 } = this.#pool.pool;
    return { busy: totalCount - idle, idle, waiting };
  }

  shares(other: Sessions): boolean {
    return this.#pool.pool === other.#pool.pool;
  }

  /** Reads. A dead connection is replaced. */
  read(sending: Sending): Promise<PgResult> {
    return this.#again((client) => this.#send(client, sending), { writes: false });
  }

  /** Reads, but the server stops the statement after the limit. */
  readWithin(limitMs: number, sending: Sending): Promise<PgResult> {
    const begin = { text: `${this.#begin}; set local statement_timeout = ${limitMs}` };
    return this.#again(
      async (client) => {
        try {
          const [, answer] = await this.#sendAhead(client, [begin, sending, { text: "commit" }]);
          return answer as PgResult;
        } catch (error) {
          throw stopped(error, limitMs);
        }
      },
      { writes: false },
    );
  }

  /**
   * Sends all at once if the driver can. The last is a commit, which rolls back after a failed statement. Throws the first
   * error, after all are answered.
   */
  async #sendAhead(client: PgClient, sendings: readonly Sending[]): Promise<PgResult[]> {
    const answers: Promise<PgResult>[] = [];
    for (const sending of sendings) {
      answers.push(this.#send(client, sending));
      if (client.pipeline !== true) await Promise.allSettled(answers.slice(-1));
    }
    await Promise.allSettled(answers);
    return Promise.all(answers);
  }

  /** One statement that writes and commits by itself. */
  write(sending: Sending): Promise<PgResult> {
    if (!this.direct) return this.transaction((send) => send(sending));
    return this.#again((client) => this.#send(client, sending), { writes: true });
  }

  /** One transaction, which may run again if the database asks for it, unless `once`. */
  transaction<T>(
    body: (send: Send, client: PgClient, last: (sending: Sending) => void) => Promise<T>,
    { once = false, ...waitLimits }: WaitLimits & { readonly once?: boolean } = {},
  ): Promise<T> {
    return this.#again(
      async (client) => {
        const send: Send = (sending) => this.#send(client, sending);
        let value: T;
        let hasBegun = false;
        const lasts: Sending[] = [];
        const last = (sending: Sending): void => void lasts.push(sending);
        try {
          const begun = send({ text: [this.#begin, ...localLimits(waitLimits)].join("; ") });
          // A body that runs once must know that the transaction is open.
          const mayGoAhead = client.pipeline === true && !once;
          if (!mayGoAhead) await begun;
          hasBegun = true;
          value = await body(mayGoAhead ? behind(begun, send) : send, client, last);
        } catch (error) {
          if (!isLost(error)) await send({ text: "rollback" }).catch(() => {});
          throw isLost(error) ? new LostBeforeCommit(error, !(once && hasBegun)) : error;
        }
        try {
          await this.#sendAhead(client, [...lasts, { text: "commit" }]);
        } catch (error) {
          throw isEndedBefore(error) ? new LostBeforeCommit(error, !once) : error;
        }
        return value;
      },
      {
        writes: true,
        triesMax: once ? 1 : TRIES_MAX,
        againMsMax: waitLimits.lockMs ?? Number.POSITIVE_INFINITY,
      },
    );
  }

  /** Statements that each commit by themselves, on one connection. It is closed afterwards, so settings end with it. */
  async alone<T>(body: (send: Send) => Promise<T>): Promise<T> {
    const client = await this.#checkOut();
    try {
      return await body((sending) => this.#send(client, sending));
    } catch (error) {
      throw translate(error, this.store);
    } finally {
      client.release(true);
    }
  }

  /** Waits for running statements. */
  end(): Promise<void> {
    this.#ended ??= this.#pool.end();
    return this.#ended;
  }

  async #again<T>(
    body: (client: PgClient) => Promise<T>,
    {
      writes,
      triesMax = TRIES_MAX,
      againMsMax = Number.POSITIVE_INFINITY,
    }: { writes: boolean; triesMax?: number; againMsMax?: number },
  ): Promise<T> {
    const startedAt = this.#runtime.monotonic();
    for (let tries = 1, fresh = 1; ;) {
      const client = await this.#checkOut();
      try {
        const value = await body(client);
        client.release();
        return value;
      } catch (error) {
        const { cause, mayRepeat, isKnown } = judge(error, writes);
        this.#giveBack(client, cause);
        if (writes) this.tally.rolledBack += 1;
        const isLate = this.#runtime.monotonic() - startedAt >= againMsMax;
        if (asksAgain(cause) && tries < triesMax && !isLate) {
          await this.#pause(tries);
          tries += 1;
        } else if (isLost(cause) && mayRepeat && fresh < FRESH_MAX) {
          await this.#pause(fresh);
          fresh += 1;
        } else if (isLost(cause) && !isKnown) {
          throw new OutcomeUnknownError({ store: this.store, session: sessionOf(client) }, cause);
        } else throw translate(cause, this.store);
      }
    }
  }

  async #checkOut(): Promise<PgClient> {
    if (this.#ended !== null) throw new ClosedError({ what: `The store ${this.store}` });
    try {
      const client = await this.#connect();
      // Between two statements there is no other listener, and an error event without a listener ends the process.
      if (client.listenerCount("error") === 0) client.on("error", () => {});
      return client;
    } catch (error) {
      throw translate(error, this.store);
    }
  }

  /** A user's pool may have no limit. */
  async #connect(): Promise<PgClient> {
    const late = Promise.withResolvers<never>();
    const timer = this.#runtime.timer(WAIT_MS_MAX, () =>
      late.reject(new Error("timeout exceeded when trying to connect")),
    );
    const connecting = this.#pool.pool.connect();
    try {
      return await Promise.race([connecting, late.promise]);
    } catch (error) {
      void connecting.then(
        (client) => client.release(),
        () => {},
      );
      throw error;
    } finally {
      timer.cancel();
    }
  }

  #giveBack(client: PgClient, error: unknown): void {
    // 25006, read-only: the server became a replica; the next connection may lead to the new primary.
    const useless = isLost(error) || codeOf(error) === "25006" || codeOf(error) === "";
    client.release(useless);
    if (useless) destroySocket(client);
  }

  #send(client: PgClient, sending: Sending): Promise<PgResult> {
    const { text, values = [], name, rows } = sending;
    const { answerMs = answerLimitMs() ?? ANSWER_MS_MAX } = sending;
    return client.query({
      text,
      values: [...values],
      types,
      query_timeout: answerMs,
      ...(name !== undefined && this.direct ? { name } : {}),
      ...(rows === undefined ? {} : { rowMode: rows }),
    });
  }

  #pause(tries: number): Promise<void> {
    this.tally.repeated += 1;
    const most = Math.min(PAUSE_MS_MAX, PAUSE_MS_FIRST * 2 ** tries);
    return sleep(this.#runtime, this.#runtime.random() * most);
  }
}

const STOPPED = "57014";

function stopped(error: unknown, limitMs: number): unknown {
  return codeOf(error) === STOPPED ? new ReadTooLongError({ limitMs }, error) : error;
}

/** Both may be one pool of the user. */
export function loadOf(main: Sessions, reserved: Sessions): Load {
  const others = reserved.shares(main) ? [] : [{ name: "reserved", ...reserved.standing }];
  return {
    pools: [{ name: "main", ...main.standing }, ...others],
    transactions: sumOf([main.tally, reserved.tally]),
  };
}

const READS = /^\s*select\b/i;

/**
 * Until the transaction is open, it sends only reads ahead and returns no answers: if the transaction cannot be opened, a
 * write would be committed by itself.
 */
function behind(begun: Promise<unknown>, send: Send): Send {
  let isOpen = false;
  let isHeldUp = false;
  begun.then(
    () => void (isOpen = true),
    () => {}, // every send rejects with this error
  );
  return (sending) => {
    if (isOpen) return send(sending);
    isHeldUp ||= !READS.test(sending.text);
    if (isHeldUp) return begun.then(() => send(sending));
    const answer = send(sending);
    answer.catch(() => {}); // `begun` has the reason
    return begun.then(() => answer);
  };
}

/** The connection was lost while nothing could have been committed. */
class LostBeforeCommit extends Error {
  readonly mayRepeat: boolean;

  constructor(cause: unknown, mayRepeat: boolean) {
    super("lost before the commit was sent", { cause });
    this.mayRepeat = mayRepeat;
  }
}

/** `isKnown`: certainly nothing was written. */
function judge(
  error: unknown,
  writes: boolean,
): { cause: unknown; mayRepeat: boolean; isKnown: boolean } {
  if (error instanceof LostBeforeCommit) {
    return { cause: error.cause, mayRepeat: error.mayRepeat, isKnown: true };
  }
  return { cause: error, mayRepeat: !writes, isKnown: !writes };
}

/** The server's number for the session, if the driver knows it. */
function sessionOf(client: PgClient): number | null {
  const { processID } = client as { processID?: unknown };
  return typeof processID === "number" && processID > 0 ? processID : null;
}

/** Otherwise the connection to a server that does not answer would stay open for ever. */
function destroySocket(client: PgClient): void {
  const { connection } = client as { connection?: { stream?: { destroy?: () => void } } };
  connection?.stream?.destroy?.();
}

// Pools of connections and their settings.
//
// A plan that was made on an empty table is a scan, and a prepared statement keeps it. So our connections keep one plan per
// statement and prefer indexes; hot statements never sort a queue. Through PgBouncer, or on a user's pool, a connection
// takes no start options: there, every transaction sets them locally (see above), and nothing is prepared.

const CONNECT_MS_MAX = 10_000;

/** The server aborts a statement that takes longer, or we do if the server does not answer. */
const STATEMENT_MS_MAX = 30_000;

const ANSWER_MS_MAX = 35_000;

const LOCK_MS_MAX = 10_000;

/** Between two statements: the server ends the transaction of a process that is frozen, and releases its locks. */
export const SILENCE_MS = 2_000;

/** A user's function may do other things between two statements. */
export const USER_SILENCE_MS = 30_000;

/** A frozen process does not read a large answer either, and no other limit of the server applies until it is sent. */
const UNREAD_MS_MAX = 10_000;

const IDLE_MS = 30_000;

/** Unless the URL has another. */
export const APPLICATION_NAME = "holdfast";

/** "hot" connections claim, settle and renew. */
export type Use = "hot" | "cold";

const PLANS = {
  enable_seqscan: "off",
  // A discouraged scan looks so expensive that the server would first compile it, or start parallel processes for it.
  jit: "off",
  max_parallel_workers_per_gather: "0",
};

const settings: Readonly<Record<Use, Readonly<Record<string, string>>>> = {
  cold: PLANS,
  hot: { ...PLANS, enable_sort: "off", enable_bitmapscan: "off" },
};

const SESSION = {
  plan_cache_mode: "force_generic_plan",
  default_transaction_isolation: "read\\ committed",
  statement_timeout: String(STATEMENT_MS_MAX),
  lock_timeout: String(LOCK_MS_MAX),
  idle_in_transaction_session_timeout: String(SILENCE_MS),
  tcp_user_timeout: String(UNREAD_MS_MAX),
};

/** The start options of a connection. */
export function startOptions(use: Use): string {
  return Object.entries({ ...SESSION, ...settings[use] })
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(" ");
}

/** The start of a transaction with local settings. */
export function beginWith(use: Use): string {
  const lines = Object.entries({ ...settings[use], lock_timeout: String(LOCK_MS_MAX) });
  return [
    "begin isolation level read committed",
    ...lines.map(([name, value]) => `set local ${name} = ${value}`),
    silentFor(SILENCE_MS),
  ].join("; ");
}

/** Statements for limits that differ from those of the session. */
function localLimits({ lockMs, idleMs = SILENCE_MS }: WaitLimits): string[] {
  return [
    ...(lockMs === undefined ? [] : [`set local lock_timeout = ${lockMs}`]),
    ...(idleMs === SILENCE_MS ? [] : [silentFor(idleMs)]),
  ];
}

export function silentFor(ms: number): string {
  return `set local idle_in_transaction_session_timeout = ${ms}`;
}

export interface Pool {
  readonly pool: PgPool;
  /** The sessions are ours alone and keep prepared statements. */
  readonly direct: boolean;
  end(): Promise<void>;
}

/** Opens our own pool. Through PgBouncer it cannot set start options. */
export async function openPool(
  pg: Pg,
  address: PostgresAddress,
  options: { max: number; store: string; use: Use },
): Promise<Pool> {
  const { max, store, use } = options;
  const direct = makePool(pg, { ...address.connection, max, options: startOptions(use) });
  try {
    if (await isHeard(direct)) return { pool: direct, direct: true, end: () => direct.end() };
    await direct.end();
  } catch (error) {
    await direct.end();
    if (!refusesStartup(error) && !isUnknownSetting(error)) throw translate(error, store);
  }
  const plain = makePool(pg, { ...address.connection, max });
  return { pool: plain, direct: false, end: () => plain.end() };
}

/** Whether the start options arrived: a proxy may drop them. */
async function isHeard(pool: OwnPool): Promise<boolean> {
  const client = await pool.connect();
  try {
    const text = "select current_setting('plan_cache_mode') as mode";
    const { rows } = await client.query({ text, query_timeout: CONNECT_MS_MAX });
    client.release();
    return (rows[0] as { mode: string }).mode === SESSION.plan_cache_mode;
  } catch (error) {
    client.release(true);
    throw error;
  }
}

function makePool(pg: Pg, config: object): OwnPool {
  const pool = new pg.Pool({
    application_name: APPLICATION_NAME,
    keepAlive: true,
    idleTimeoutMillis: IDLE_MS,
    connectionTimeoutMillis: CONNECT_MS_MAX,
    allowExitOnIdle: true,
    pipeline: true,
    ...config,
  });
  // The pool replaces an idle connection that dies; an error event without a listener would end the process.
  pool.on("error", () => {});
  pool.on("connect", (client) => void client.on("error", () => {}));
  return pool;
}
