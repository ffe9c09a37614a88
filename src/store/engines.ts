/** The engines, each loaded when it is asked for. */
import type { Runtime } from "../core/runtime.ts";
import type { Engine } from "./engine.ts";
import type { MysqlAddress } from "./mysql/options.ts";
import type { PostgresAddress } from "./postgres/options.ts";
import type { SqliteOptions } from "./sqlite/engine.ts";
import type { StoreAddress } from "./store.ts";

/** Opens the database of a store that is open already, in this thread or another. */
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
      // Whoever opened the file first closes it last, and says where what is left of it is.
      return openSqlite({
        path: String(options["path"]),
        runtime,
        create: false,
        rescues: false,
      });
  }
}

/** Loads what opening this store will need. One that nobody knows is refused when it is opened. */
export async function loadEngine(url: string): Promise<void> {
  if (url.startsWith("sqlite:")) await import("./sqlite/engine.ts");
  if (/^postgres(ql)?:/.test(url)) await import("./postgres/engine.ts");
  if (/^(mysql|mariadb):/.test(url)) await import("./mysql/engine.ts");
}

export async function openSqlite(options: SqliteOptions): Promise<Engine> {
  const { SqliteEngine } = await import("./sqlite/engine.ts");
  return SqliteEngine.open(options);
}

export async function openPostgres(address: PostgresAddress, runtime: Runtime): Promise<Engine> {
  const { PostgresEngine } = await import("./postgres/engine.ts");
  return PostgresEngine.open({ address, runtime });
}

export async function openMysql(address: MysqlAddress, runtime: Runtime): Promise<Engine> {
  const { MysqlEngine } = await import("./mysql/engine.ts");
  return MysqlEngine.open({ ...address, runtime });
}
