/**
 * Pools of connections, and what a connection is told at its start.
 *
 * A plan that was made on an empty table is a scan, and a prepared statement keeps it. So a connection of ours is told
 * to keep one plan for a statement and to go by indexes; hot statements never sort a queue. Through PgBouncer, or on a
 * pool of the user's, nothing can be said at the start: there, the same is said in every transaction (see session.ts), and
 * nothing is prepared.
 */
import type { OwnPool, Pg, PgPool, PostgresAddress } from "./address.ts";
import { isUnknownSetting, refusesStartup, translate } from "./errors.ts";

const CONNECT_MS_MAX = 10_000;

/** A statement that takes longer is given up by the server, or by us where the server does not answer. */
const STATEMENT_MS_MAX = 30_000;

export const ANSWER_MS_MAX = 35_000;

const LOCK_MS_MAX = 10_000;

const IDLE_MS = 30_000;

/** Unless the URL says another. */
export const APPLICATION_NAME = "holdfast";

/** What the connections are for: claiming, settling and renewing, or everything else. */
export type Use = "hot" | "cold";

/** What decides about plans. */
const PLANS = {
  enable_seqscan: "off",
  // A scan that is only discouraged looks so dear that it would be compiled first, or shared out among processes that have
  // to be started for it.
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

/** As it is said at the start of a connection. */
export function startOptions(use: Use): string {
  return Object.entries({ ...SESSION, ...settings[use] })
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(" ");
}

/** As it is said at the start of a transaction, and forgotten at its end. */
export function beginWith(use: Use): string {
  const lines = Object.entries({ ...settings[use], lock_timeout: String(LOCK_MS_MAX) });
  return [
    "begin isolation level read committed",
    ...lines.map(([name, value]) => `set local ${name} = ${value}`),
  ].join("; ");
}

/** A pool of the driver's, and whether its sessions are ours alone and keep what was prepared in them. */
export interface Pool {
  readonly pool: PgPool;
  readonly direct: boolean;
  end(): Promise<void>;
}

/** Opens a pool of our own; through PgBouncer it cannot say anything about its sessions. */
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

/** Somebody in between may swallow what we say. */
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
  // An idle connection that dies is replaced when the next one is asked for; an error that nobody hears ends the process.
  pool.on("error", () => {});
  pool.on("connect", (client) => void client.on("error", () => {}));
  return pool;
}
