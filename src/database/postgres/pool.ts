/**
 * Pools of connections and their settings.
 *
 * A plan that was made on an empty table is a scan, and a prepared statement keeps it. So our connections keep one plan per
 * statement and prefer indexes; hot statements never sort a queue. Through PgBouncer, or on a user's pool, a connection
 * takes no start options: there, every transaction sets them locally (see session.ts), and nothing is prepared.
 */
import type { OwnPool, Pg, PgPool, PostgresAddress } from "./address.ts";
import { isUnknownSetting, refusesStartup, translate } from "./errors.ts";

const CONNECT_MS_MAX = 10_000;

/** The server aborts a statement that takes longer, or we do if the server does not answer. */
const STATEMENT_MS_MAX = 30_000;

export const ANSWER_MS_MAX = 35_000;

const LOCK_MS_MAX = 10_000;

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

export const settings: Readonly<Record<Use, Readonly<Record<string, string>>>> = {
  cold: PLANS,
  hot: { ...PLANS, enable_sort: "off", enable_bitmapscan: "off" },
};

const SESSION = {
  plan_cache_mode: "force_generic_plan",
  default_transaction_isolation: "read\\ committed",
  statement_timeout: String(STATEMENT_MS_MAX),
  lock_timeout: String(LOCK_MS_MAX),
  idle_in_transaction_session_timeout: String(STATEMENT_MS_MAX),
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
  ].join("; ");
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
