/** Applications that use Kysely, with a plugin that renames columns. */
import type { DatabaseSync } from "node:sqlite";
import {
  CamelCasePlugin,
  Kysely,
  MysqlDialect,
  PostgresDialect,
  SqliteDialect,
  type Dialect,
  type SqliteDatabase,
} from "kysely";
import { createPool } from "mysql2";
import { Pool } from "pg";
import type { App, Kind } from "./app.ts";
import { openDatabase, readsBigInts, readsTexts } from "./drivers.ts";

type Transact = <T>(act: () => Promise<T>) => Promise<T>;

function open(dialect: Dialect, levels: boolean, run: Transact = (act) => act()): App {
  const db = new Kysely<any>({ dialect, plugins: [new CamelCasePlugin()] });
  return {
    over: /already (committed|rolled back)|is already/i,
    notTx: [[db, /db\.transaction\(\)\.execute/]],
    order: async (tx, id) => void (await tx.insertInto("orders").values({ id }).execute()),
    transaction: (body, options) =>
      options?.serializable && levels
        ? db.transaction().setIsolationLevel("serializable").execute(body)
        : run(() => db.transaction().execute(body)),
    async nested(outer, inner) {
      const tx = await db.startTransaction().execute();
      await outer(tx);
      const deeper = await tx.savepoint("inner_one").execute();
      await inner(deeper);
      await deeper.rollbackToSavepoint("inner_one").execute();
      await tx.commit().execute();
    },
    [Symbol.asyncDispose]: () => db.destroy(),
  };
}

export const kyselys: readonly Kind[] = [
  {
    name: "Kysely",
    database: "PostgreSQL",
    open: async (url) =>
      open(
        new PostgresDialect({ pool: new Pool({ connectionString: url, ...readsBigInts }) }),
        true,
      ),
  },
  {
    name: "Kysely",
    database: "MariaDB",
    open: async (url) =>
      open(new MysqlDialect({ pool: createPool({ uri: url, ...readsTexts }) }), true),
  },
  {
    name: "Kysely",
    database: "SQLite",
    open: async (url) =>
      open(new SqliteDialect({ database: forKysely(openDatabase(url)) }), false, unlessBusy),
  },
];

/** Its dialect for SQLite is written for better-sqlite3, and asks for nothing that `node:sqlite` has not. */
export function forKysely(db: DatabaseSync): SqliteDatabase {
  return {
    close: () => db.close(),
    prepare(text) {
      const statement = db.prepare(text);
      return {
        reader: statement.columns().length > 0,
        all: (values) => statement.all(...(values as any[])),
        run: (values) => statement.run(...(values as any[])),
        iterate: (values) => statement.iterate(...(values as any[])) as any,
      };
    },
  };
}

const BUSY_TRIES_MAX = 20;

/**
 * A transaction of SQLite that reads before it writes is refused if the worker wrote in between, and no timeout helps. Nothing
 * was written, so an application repeats it.
 */
async function unlessBusy<T>(act: () => Promise<T>, tries = BUSY_TRIES_MAX): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (tries === 1 || (error as { code?: string }).code !== "STORE_BUSY") throw error;
    return unlessBusy(act, tries - 1);
  }
}
