/** The servers of a bench: those that the environment names, or its own, which end with it; as the tests get theirs. */
import { Redis } from "ioredis";
import { createConnection, type RowDataPacket } from "mysql2/promise";
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";
import { KNOWN, type ServerName } from "../scripts/services/names.ts";
import { Supply } from "../scripts/services/supply.ts";
import { urlOf } from "../test/support/servers.ts";
import { progress } from "./figures.ts";
import type { EngineName } from "./places.ts";

const SERVERS: Readonly<Record<EngineName, ServerName | null>> = {
  sqlite: null,
  postgres: "postgres",
  mariadb: "mysql",
  redis: "redis",
};

export interface Servers extends AsyncDisposable {
  /** Why an engine cannot be had. */
  readonly missing: ReadonlyMap<EngineName, string>;
}

/** Gets the servers of these engines. From here on the environment names them, also to processes that are started. */
export async function getServers(engines: readonly EngineName[]): Promise<Servers> {
  const shared = engines.flatMap((engine) => SERVERS[engine] ?? []);
  const supply = await Supply.for({ shared, own: [] }, { env: process.env, say: progress });
  Object.assign(process.env, supply.env);
  const missing = new Map<EngineName, string>();
  for (const engine of engines) {
    const found = supply.missing.find(({ need }) => need === SERVERS[engine]);
    if (found !== undefined) missing.set(engine, `${KNOWN[found.need].label}: ${found.reason}`);
  }
  return { missing, [Symbol.asyncDispose]: () => supply[Symbol.asyncDispose]() };
}

/** Which database it is, and what a commit means there: in its own words. */
export async function describeServer(engine: EngineName): Promise<string> {
  switch (engine) {
    case "sqlite":
      return describeSqlite();
    case "postgres":
      return describePostgres(urlOf("postgres"));
    case "mariadb":
      return describeMariadb(urlOf("mysql"));
    case "redis":
      return describeRedis(urlOf("redis"));
  }
}

function describeSqlite(): string {
  const db = new DatabaseSync(":memory:");
  const row = db.prepare("select sqlite_version() as version").get() as { version: string };
  db.close();
  return `SQLite ${row.version} (journal_mode=WAL, synchronous=FULL)`;
}

async function describePostgres(url: string): Promise<string> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ name: string; setting: string }>(`
    select name, current_setting(name) as setting
      from pg_settings
     where name in ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers')`);
  await client.end();
  const settings = new Map(rows.map(({ name, setting }) => [name, setting]));
  const told = ["fsync", "synchronous_commit", "full_page_writes", "shared_buffers"].map(
    (name) => `${name}=${settings.get(name)}`,
  );
  return `PostgreSQL ${settings.get("server_version")?.split(" ")[0]} (${told.join(", ")})`;
}

async function describeMariadb(url: string): Promise<string> {
  const connection = await createConnection(url);
  const [rows] = await connection.query<RowDataPacket[]>(`
    select version() as version, @@innodb_flush_log_at_trx_commit as flushed, @@log_bin as binlog,
           @@innodb_doublewrite as doublewrite, @@innodb_buffer_pool_size / 1048576 as pool`);
  await connection.end();
  const { version, flushed, binlog, doublewrite, pool } = rows[0] as Record<string, unknown>;
  return (
    `MariaDB ${String(version)} (innodb_flush_log_at_trx_commit=${String(flushed)}, ` +
    `log_bin=${String(binlog)}, innodb_doublewrite=${String(doublewrite)}, ` +
    `innodb_buffer_pool_size=${Number(pool)}MB)`
  );
}

async function describeRedis(url: string): Promise<string> {
  const redis = new Redis(url);
  const version = /redis_version:(\S+)/.exec(await redis.info("server"))?.[1] ?? "?";
  const [, appendonly] = await redis.config("GET", "appendonly");
  const [, save] = await redis.config("GET", "save");
  redis.disconnect();
  const durable = appendonly === "yes" || save !== "";
  const note = durable ? "" : ": NOT DURABLE, everything is lost when it ends";
  return `Redis ${version} (appendonly=${appendonly}, save='${save}'${note})`;
}
