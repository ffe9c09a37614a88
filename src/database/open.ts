/** Opens the engine for a URL or for a user's pool. Engines load on demand. */
import { type InvalidArgumentError, invalid } from "../core/errors.ts";
import { type Runtime, systemRuntime } from "../core/runtime.ts";
import type { Push } from "./database.ts";
import type { Engine, StoreAddress } from "./engine.ts";
import type { MysqlAddress } from "./mysql/address.ts";
import type { PgPool, PostgresAddress } from "./postgres/address.ts";
import type { SqliteOptions } from "./sqlite/engine.ts";

export interface StoreOptions {
  readonly runtime?: Runtime;
  /** False: a missing file is an error instead of a new, empty database. */
  readonly create?: boolean;
  /** PostgreSQL: the schema of the tables. Default `holdfast`. */
  readonly schema?: string | undefined;
  /** MySQL, MariaDB: a Redis through which processes wake each other. Default: HOLDFAST_REDIS_URL. */
  readonly redis?: string | undefined;
}

/** The location of the database: a URL, or a `pg` pool of the application. */
export type DatabaseLocation = string | PgPool;

/** MySQL cannot push. Processes that use a database of the same name share one channel. */
export async function pushFor(engine: Engine, options: StoreOptions): Promise<Push | null> {
  const { redis = process.env["HOLDFAST_REDIS_URL"], runtime = systemRuntime } = options;
  if (redis === undefined || redis === "" || engine.address?.engine !== "mysql") return null;
  if (!/^rediss?:\/\//.test(redis)) {
    const problem =
      "a Redis URL has the form redis://host:6379 or rediss://user:password@host:6379.";
    throw invalid("redis", problem);
  }
  const { RedisPush } = await import("./redis/notify.ts");
  const database = String(engine.address.options["database"]);
  return RedisPush.open(redis, `holdfast:${database}`, runtime);
}

export async function openEngine(url: string, options: StoreOptions = {}): Promise<Engine> {
  const { runtime = systemRuntime, create = true, schema } = options;
  const scheme = url.slice(0, Math.max(0, url.indexOf(":")));
  if (schema !== undefined && !scheme.startsWith("postgres")) {
    throw invalid("schema", "only PostgreSQL has schemas.");
  }
  switch (scheme) {
    case "sqlite": {
      const { sqlitePath } = await import("./sqlite/file.ts");
      return openSqlite({ path: sqlitePath(url), runtime, create });
    }
    case "postgres":
    case "postgresql": {
      const { postgresAddress } = await import("./postgres/address.ts");
      return openPostgres(postgresAddress(url, schema), runtime);
    }
    case "mysql":
    case "mariadb": {
      const { mysqlAddress } = await import("./mysql/address.ts");
      return openMysql(mysqlAddress(url), runtime);
    }
    default:
      throw unknownUrl(url);
  }
}

export async function onPool(pool: PgPool, options: StoreOptions): Promise<Engine> {
  if (typeof pool?.connect !== "function") throw unknownUrl(pool);
  // Both have connect(), but a client has one connection, and is connected only once.
  if (!("totalCount" in pool) && "connectionParameters" in pool) {
    const problem = "this is a client of `pg`, with one connection. Pass a Pool of `pg`, or a URL.";
    throw invalid("url", problem);
  }
  const { addressOfPool, checkSchemaName, SCHEMA } = await import("./postgres/address.ts");
  const { PostgresEngine } = await import("./postgres/engine.ts");
  const { runtime = systemRuntime, schema = SCHEMA } = options;
  const address = addressOfPool(pool, schema);
  return PostgresEngine.open({
    address: address ?? { connection: {}, schema: checkSchemaName(schema) },
    runtime,
    pool,
    ownPools: address !== null,
  });
}

/** A file name, which cannot contain a password. */
const FILE_NAME = /^(?:file:(?:\/\/)?)?([\w./ \\-]+\.(?:db3?|sqlite3?))$/;

function unknownUrl(url: unknown): InvalidArgumentError {
  if (url === ":memory:") {
    return invalid("url", "for an in-memory database, write sqlite::memory:");
  }
  const file = typeof url === "string" ? FILE_NAME.exec(url)?.[1] : undefined;
  if (file !== undefined) {
    return invalid("url", `'${String(url)}' is a file: write sqlite:${file}`);
  }
  // The URL may hold a password, so at most its scheme is repeated.
  const [scheme = "", ...rest] = typeof url === "string" ? url.split(":") : [""];
  const what =
    rest.length === 0 ? "this is not a URL" : `'${scheme.slice(0, 20)}:' is not a supported scheme`;
  return invalid(
    "url",
    `${what}. Use sqlite:shop.db, postgres://user:password@host/database or mysql://user:password@host/database.`,
  );
}

/** Opens the database of an open store again, in this thread or another. */
export async function engineAt(
  { engine, options }: StoreAddress,
  runtime: Runtime,
): Promise<Engine> {
  switch (engine) {
    case "postgres":
      return openPostgres(options as unknown as PostgresAddress, runtime);
    case "mysql":
      return openMysql(options as unknown as MysqlAddress, runtime);
    default:
      // The store that opened the file closes it last, and rescues what is left of it.
      return openSqlite({ path: String(options["path"]), runtime, create: false, rescues: false });
  }
}

async function openSqlite(options: SqliteOptions): Promise<Engine> {
  const { SqliteEngine } = await import("./sqlite/engine.ts");
  return SqliteEngine.open(options);
}

async function openPostgres(address: PostgresAddress, runtime: Runtime): Promise<Engine> {
  const { PostgresEngine } = await import("./postgres/engine.ts");
  return PostgresEngine.open({ address, runtime });
}

async function openMysql(address: MysqlAddress, runtime: Runtime): Promise<Engine> {
  const { MysqlEngine } = await import("./mysql/engine.ts");
  return MysqlEngine.open({ ...address, runtime });
}
