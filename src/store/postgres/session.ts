/**
 * Connections to PostgreSQL: where a statement runs, how long it may take, and what its failure means.
 *
 * A direct connection is told at its start to keep one plan for a statement and not to scan whole tables, so that hot
 * statements are planned once and well, even when the first plan was made on an empty table. Through PgBouncer, or on a
 * pool of the user's, nothing of the sort can be said; there every statement is planned when it runs and leaves
 * nothing behind in the session.
 */
import { Closed, OutcomeUnknown, StoreUnavailable } from "../../core/errors.ts";
import { sleep, type Runtime } from "../../core/runtime.ts";
import { asksAgain, codeOf, isLost, refusesStartup, translate } from "./errors.ts";
import type { OwnPool, Pg, PgClient, PgPool, PgResult, PostgresAddress } from "./options.ts";

const CONNECT_MS_MAX = 10_000;
/** A statement that takes longer is given up by the server, or by us where the server does not answer. */
const STATEMENT_MS_MAX = 30_000;
const ANSWER_MS_MAX = 35_000;
const LOCK_MS_MAX = 10_000;
const IDLE_MS = 30_000;

/** How often a transaction is run again that the database asked to run again. */
const TRIES_MAX = 10;
const PAUSE_MS_FIRST = 5;
const PAUSE_MS_MAX = 500;
/** How often a connection that was found dead is replaced before that is an error. */
const FRESH_MAX = 3;

const SESSION = [
  "plan_cache_mode=force_generic_plan",
  "enable_seqscan=off",
  "jit=off", // a scan that is only discouraged looks so dear that it would be compiled first
  "default_transaction_isolation=read\\ committed",
  `statement_timeout=${STATEMENT_MS_MAX}`,
  `lock_timeout=${LOCK_MS_MAX}`,
  `idle_in_transaction_session_timeout=${STATEMENT_MS_MAX}`,
]
  .map((setting) => `-c ${setting}`)
  .join(" ");

export interface Sending {
  readonly text: string;
  readonly values?: readonly unknown[];
  /** Prepared under this name where the session is ours. */
  readonly name?: string;
  readonly rows?: "array";
  readonly answerMs?: number;
}

/** A pool of the driver's, and whether its sessions keep what was prepared in them. */
export interface Pool {
  readonly pool: PgPool;
  readonly direct: boolean;
  end(): Promise<void>;
}

/** Opens a pool of our own; through PgBouncer it cannot say anything about its sessions. */
export async function openPool(
  pg: Pg,
  address: PostgresAddress,
  options: { max: number; store: string },
): Promise<Pool> {
  const direct = makePool(pg, { ...address.connection, max: options.max, options: SESSION });
  try {
    const client = await direct.connect();
    const { rows } = await client.query({
      text: "select current_setting('plan_cache_mode') as mode",
    });
    client.release();
    // Somebody in between may have swallowed what we said.
    const heard = (rows[0] as { mode: string }).mode === "force_generic_plan";
    if (heard) return { pool: direct, direct: true, end: () => direct.end() };
  } catch (error) {
    await direct.end();
    if (!refusesStartup(error)) throw translate(error, options.store);
  }
  const plain = makePool(pg, { ...address.connection, max: options.max });
  return { pool: plain, direct: false, end: () => plain.end() };
}

function makePool(pg: Pg, config: object): OwnPool {
  const pool = new pg.Pool({
    application_name: "holdfast",
    keepAlive: true,
    idleTimeoutMillis: IDLE_MS,
    connectionTimeoutMillis: CONNECT_MS_MAX,
    allowExitOnIdle: true,
    ...config,
  });
  // An idle connection that dies is replaced when the next one is asked for.
  pool.on("error", () => {});
  return pool;
}

/** The driver gives 64-bit integers as text; ours are milliseconds, counts and numbers below 2^53. */
const INT8 = 20;
const BOOL = 16;
const types = {
  getTypeParser: (oid: number) => (text: string) => {
    if (oid === INT8 || oid === 23 || oid === 21) return Number(text);
    return oid === BOOL ? text === "t" : text;
  },
};

/** Runs statements and transactions on a pool, and says what a failure means. */
export class Sessions {
  readonly store: string;
  readonly #pool: Pool;
  readonly #runtime: Runtime;
  #ended: Promise<void> | null = null;

  constructor(parts: { pool: Pool; runtime: Runtime; store: string }) {
    this.#pool = parts.pool;
    this.#runtime = parts.runtime;
    this.store = parts.store;
  }

  get direct(): boolean {
    return this.#pool.direct;
  }

  /** Reads. A connection that turns out to be dead is replaced. */
  read(sending: Sending): Promise<PgResult> {
    return this.#again((client) => this.#send(client, sending), { writes: false });
  }

  /** One statement that writes and commits by itself. */
  write(sending: Sending): Promise<PgResult> {
    return this.#again((client) => this.#send(client, sending), { writes: true });
  }

  /** One transaction; it may run again when the database asks for it. */
  transaction<T>(
    body: (send: (sending: Sending) => Promise<PgResult>) => Promise<T>,
    { triesMax = TRIES_MAX }: { triesMax?: number } = {},
  ): Promise<T> {
    return this.#again(
      async (client) => {
        const send = (sending: Sending): Promise<PgResult> => this.#send(client, sending);
        let value: T;
        try {
          await send({ text: "begin isolation level read committed" });
          value = await body(send);
        } catch (error) {
          if (!isLost(error)) await send({ text: "rollback" }).catch(() => {});
          throw isLost(error) ? new LostBeforeCommit(error) : error;
        }
        await send({ text: "commit" });
        return value;
      },
      { writes: true, triesMax },
    );
  }

  /** Waits for what is under way. */
  end(): Promise<void> {
    this.#ended ??= this.#pool.end();
    return this.#ended;
  }

  async #again<T>(
    body: (client: PgClient) => Promise<T>,
    { writes, triesMax = TRIES_MAX }: { writes: boolean; triesMax?: number },
  ): Promise<T> {
    for (let tries = 1, fresh = 1; ;) {
      const client = await this.#checkOut();
      try {
        const value = await body(client);
        client.release();
        return value;
      } catch (error) {
        const { cause, mayRepeat } = judge(error, writes);
        this.#giveBack(client, cause);
        if (asksAgain(cause) && tries < triesMax) {
          await this.#pause(tries);
          tries += 1;
        } else if (isLost(cause) && mayRepeat && fresh < FRESH_MAX) {
          await this.#pause(fresh);
          fresh += 1;
        } else if (isLost(cause) && !mayRepeat) {
          throw new OutcomeUnknown({ store: this.store, session: sessionOf(client) }, cause);
        } else throw translate(cause, this.store);
      }
    }
  }

  async #checkOut(): Promise<PgClient> {
    if (this.#ended !== null) throw new Closed({ what: `The store ${this.store}` });
    try {
      const client = await this.#pool.pool.connect();
      // Between two statements nobody else listens, and an error event that nobody hears ends the process.
      if (client.listenerCount("error") === 0) client.on("error", () => {});
      return client;
    } catch (error) {
      throw translate(error, this.store);
    }
  }

  #giveBack(client: PgClient, error: unknown): void {
    // Read-only: the server became a replica; the next connection may lead to the new primary.
    const useless = isLost(error) || codeOf(error) === "25006" || codeOf(error) === "";
    client.release(useless);
    if (useless) destroySocket(client);
  }

  #send(client: PgClient, sending: Sending): Promise<PgResult> {
    const { text, values = [], name, rows, answerMs = ANSWER_MS_MAX } = sending;
    return client.query({
      text,
      values: values as unknown[],
      types,
      query_timeout: answerMs,
      ...(name !== undefined && this.direct ? { name } : {}),
      ...(rows === undefined ? {} : { rowMode: rows }),
    });
  }

  #pause(tries: number): Promise<void> {
    const most = Math.min(PAUSE_MS_MAX, PAUSE_MS_FIRST * 2 ** tries);
    return sleep(this.#runtime, this.#runtime.random() * most);
  }
}

/** The connection was lost while nothing could have been committed. */
class LostBeforeCommit extends Error {
  constructor(cause: unknown) {
    super("lost before the commit was sent", { cause });
  }
}

function judge(error: unknown, writes: boolean): { cause: unknown; mayRepeat: boolean } {
  if (error instanceof LostBeforeCommit) return { cause: error.cause, mayRepeat: true };
  return { cause: error, mayRepeat: !writes };
}

/** The server's number for the session, where the driver knows it. */
function sessionOf(client: PgClient): number | null {
  const { processID } = client as { processID?: unknown };
  return typeof processID === "number" && processID > 0 ? processID : null;
}

/** A server that does not answer would keep its half of the connection for ever. */
function destroySocket(client: PgClient): void {
  const { connection } = client as { connection?: { stream?: { destroy?: () => void } } };
  connection?.stream?.destroy?.();
}

export function tooOld(store: string, version: string): StoreUnavailable {
  return new StoreUnavailable({
    problem: `${store} runs PostgreSQL ${version}.`,
    remedy: "Holdfast needs PostgreSQL 14 or later.",
  });
}
