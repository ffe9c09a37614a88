/** The drivers, which a transaction of the user's is made of in the end. */
import { give, isShape, type Ask, type Database, type Library, type Wanted } from "./ask.ts";
import { askMysql2 } from "./mysql2.ts";
import { askPg } from "./pg.ts";
import { askPostgresJs } from "./postgres-js.ts";
import { askSqlite } from "./sqlite.ts";

const DRIVERS: Readonly<Record<Database, readonly Library[]>> = {
  sqlite: [askSqlite],
  postgres: [askPostgresJs, askPg],
  mysql: [askMysql2],
};

/** Null: it is a connection of none that we know. */
export function askDriver(connection: unknown, wanted: Wanted): Ask | null {
  if (!isShape(connection)) return null;
  for (const library of DRIVERS[wanted.database]) {
    const ask = library(connection, wanted);
    if (ask !== null) return ask;
  }
  return null;
}

/** Asks the connection that a library's transaction runs on. Looked up every time: a transaction that is over has none. */
export function askConnection(library: string, wanted: Wanted, connect: () => unknown): Ask {
  let asked: unknown = null;
  let ask: Ask | null = null;
  return async (text, values) => {
    const connection = await connect();
    if (ask === null || asked !== connection) {
      ask = askDriver(connection, { ...wanted, library });
      asked = connection;
    }
    if (ask === null) {
      throw give(`the driver under ${library} is none that we know for ${NAMES[wanted.database]}.`);
    }
    return ask(text, values);
  };
}

const NAMES = { sqlite: "SQLite", postgres: "PostgreSQL", mysql: "MySQL or MariaDB" };
