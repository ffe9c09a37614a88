/** Finds the engine for a URL, or for a pool that the user brings, and opens a store on it. Engines load when asked for. */
import { InvalidArgument } from "../core/errors.ts";
import { systemRuntime, type Runtime } from "../core/runtime.ts";
import type { Engine } from "./engine.ts";
import { openMysql, openPostgres, openSqlite } from "./engines.ts";
import type { PgPool } from "./postgres/options.ts";
import type { Push } from "./announcer.ts";
import { SqlStore } from "./sql-store.ts";
import type { Store } from "./store.ts";

export interface StoreOptions {
  readonly runtime?: Runtime;
  /** False: a file that does not exist yet is an error instead of a new, empty database. */
  readonly create?: boolean;
  /** PostgreSQL: the schema that the tables stand in. Default `holdfast`. */
  readonly schema?: string;
  /** MySQL, MariaDB: a Redis through which processes wake each other. Default: HOLDFAST_REDIS_URL. */
  readonly redis?: string;
}

/** Where the jobs are: a URL, or a `pg` pool of the application's own. */
export type Place = string | PgPool;

export async function openStore(place: Place, options: StoreOptions = {}): Promise<Store> {
  const engine = await (typeof place === "string"
    ? openEngine(place, options)
    : onPool(place, options));
  try {
    const push = await pushFor(engine, options);
    return push === null ? new SqlStore(engine) : new SqlStore(engine, push);
  } catch (error) {
    await engine.close();
    throw error;
  }
}

/** MySQL has no push of its own; processes that use the same database of the same name meet on one channel. */
async function pushFor(engine: Engine, options: StoreOptions): Promise<Push | null> {
  const { redis = process.env["HOLDFAST_REDIS_URL"], runtime = systemRuntime } = options;
  if (redis === undefined || redis === "" || engine.address?.engine !== "mysql") return null;
  if (!/^rediss?:\/\//.test(redis)) {
    const problem = "a Redis URL reads redis://host:6379 or rediss://user:password@host:6379.";
    throw new InvalidArgument({ field: "redis", problem });
  }
  const { RedisPush } = await import("./redis/push.ts");
  const database = String(engine.address.options["database"]);
  return RedisPush.open(redis, `holdfast:${database}`, runtime);
}

/** The engine alone, for what works below the store. */
export async function openEngine(url: string, options: StoreOptions = {}): Promise<Engine> {
  const { runtime = systemRuntime, create = true, schema } = options;
  const scheme = url.slice(0, Math.max(0, url.indexOf(":")));
  if (schema !== undefined && !scheme.startsWith("postgres")) {
    throw new InvalidArgument({ field: "schema", problem: "only PostgreSQL has schemas." });
  }
  switch (scheme) {
    case "sqlite": {
      const { sqlitePath } = await import("./sqlite/file.ts");
      return openSqlite({ path: sqlitePath(url), runtime, create });
    }
    case "postgres":
    case "postgresql": {
      const { postgresAddress } = await import("./postgres/options.ts");
      return openPostgres(postgresAddress(url, schema), runtime);
    }
    case "mysql":
    case "mariadb": {
      const { mysqlAddress } = await import("./mysql/options.ts");
      return openMysql(mysqlAddress(url), runtime);
    }
    default:
      throw unknownUrl(url);
  }
}

async function onPool(pool: PgPool, options: StoreOptions): Promise<Engine> {
  if (typeof pool?.connect !== "function") throw unknownUrl(pool);
  const { addressOfPool, checkSchemaName, SCHEMA } = await import("./postgres/options.ts");
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

/** A file name without anything that a password could stand in. */
const FILE_NAME = /^(?:file:(?:\/\/)?)?([\w./ \\-]+\.(?:db3?|sqlite3?))$/;

function unknownUrl(url: unknown): InvalidArgument {
  if (url === ":memory:") {
    const problem = "for a database in memory write sqlite::memory:";
    return new InvalidArgument({ field: "url", problem });
  }
  const file = typeof url === "string" ? FILE_NAME.exec(url)?.[1] : undefined;
  if (file !== undefined) {
    const problem = `'${String(url)}' is a file: write sqlite:${file}`;
    return new InvalidArgument({ field: "url", problem });
  }
  // The URL may hold a password, so at most its scheme is repeated.
  const [scheme = "", ...rest] = typeof url === "string" ? url.split(":") : [""];
  const what =
    rest.length === 0 ? "this is not a URL" : `'${scheme.slice(0, 20)}:' is not known here`;
  return new InvalidArgument({
    field: "url",
    problem: `${what}. Use sqlite:shop.db, postgres://user:password@host/database or mysql://user:password@host/database.`,
  });
}
