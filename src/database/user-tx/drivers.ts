/** The drivers, which a transaction of the user's is made of in the end. */
import {
  type Ask,
  askingJson,
  call,
  can,
  type Database,
  give,
  givesRows,
  isShape,
  type Library,
  over,
  rowsIn,
  type Shape,
  type Wanted,
} from "./send.ts";

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

// A connection of `mysql2`, with promises or callbacks.

/** Flags of the server's status. */
const IN_TRANSACTION = 1;

const AUTOCOMMIT = 2;

/** The user may have told their connection otherwise. Values stand in the text, where no mark is a placeholder. */
const READING = {
  values: [],
  namedPlaceholders: false,
  rowsAsArray: false,
  nestTables: false,
  typeCast: true,
  supportBigNumbers: false,
  bigNumberStrings: false,
};

function askMysql2(tx: Shape, { library }: Wanted): Ask | null {
  if (!can(tx, "query")) return null;
  if (can(tx, "getConnection")) {
    throw give(
      "a pool of `mysql2` sends a statement to whichever connection is free: give a connection (`await pool.getConnection()`), after `start transaction`.",
    );
  }
  const connection = can(tx, "promise") ? (call(tx, "promise") as Shape) : tx;
  return async (text) => {
    const [answer] = (await call(connection, "query", { ...READING, sql: text })) as [unknown];
    if (Array.isArray(answer)) return { rows: answer as unknown[], count: answer.length };
    refuseIdleMysql(answer, library);
    return { rows: [], count: (answer as { affectedRows?: number }).affectedRows ?? 0 };
  };
}

/** What we say first changes a setting of the session, and nothing that lasts. */
function refuseIdleMysql(answer: unknown, library: string | undefined): void {
  const status = isShape(answer) ? answer["serverStatus"] : null;
  if (typeof status !== "number") return;
  // Without autocommit a transaction is open, or is about to.
  if ((status & IN_TRANSACTION) !== 0 || (status & AUTOCOMMIT) === 0) return;
  if (library !== undefined) throw over(library);
  throw give(
    "this connection of `mysql2` has no transaction open: send `start transaction` first.",
  );
}

// A client of `pg`.

const IDLE = "I";

function askPg(tx: Shape, { reading, library }: Wanted): Ask | null {
  if (!can(tx, "query")) return null;
  if ("totalCount" in tx) {
    throw give(
      "a pool of `pg` sends a statement to whichever connection is free: give a client (`await pool.connect()`), after `begin`.",
    );
  }
  let known = false;
  return async (text, values) => {
    const query = { ...reading, text, values: [...values] };
    const answer = (await call(tx, "query", query)) as { rows: unknown[]; rowCount: number | null };
    // The first statement reads, whatever is to be done, and its answer tells what goes for the others.
    if (!known) refuseIdle(tx, library);
    known = true;
    return { rows: answer.rows, count: answer.rowCount ?? 0 };
  };
}

/** Older drivers do not tell. */
function refuseIdle(tx: Shape, library: string | undefined): void {
  if (!can(tx, "getTransactionStatus") || call(tx, "getTransactionStatus") !== IDLE) return;
  if (library !== undefined) throw over(library);
  throw give("this client of `pg` has no transaction open: send `begin` first.");
}

// A transaction of the library `postgres`.

function askPostgresJs(tx: Shape, { library = "`postgres`" }: Wanted): Ask | null {
  if (!can(tx, "unsafe")) return null;
  if (!can(tx, "savepoint")) {
    throw give(
      "give the `sql` that `sql.begin(async (sql) => …)` of `postgres` hands to its function.",
    );
  }
  let known = false;
  return async (text, values) => {
    if (!known) await refuseOver(tx, library);
    known = true;
    const asksRows = givesRows(text, "postgres");
    const given = values.map((value) => (Array.isArray(value) ? arrayText(value) : value));
    const query = call(tx, "unsafe", asksRows ? askingJson(text) : text, given) as Shape;
    const answer = (await call(query, "values")) as unknown[][] & { count: number | null };
    const rows = asksRows ? rowsIn(answer.map(([json]) => json)) : [];
    return { rows, count: answer.count ?? 0 };
  };
}

/** The library would send it to a connection that it had once, and nothing but the server tells that nothing is open. */
async function refuseOver(tx: Shape, library: string): Promise<void> {
  try {
    await call(tx, "unsafe", ONLY_INSIDE);
  } catch (error) {
    if (!isShape(error) || error["code"] !== NO_TRANSACTION) throw error;
    throw over(library);
  }
}

/** Refused outside of a transaction, and inside nobody minds it. */
const ONLY_INSIDE = "lock table pg_catalog.pg_am in access share mode";

const NO_TRANSACTION = "25P01";

/** Written out, because the library may have been told not to ask the server for its types of arrays. */
function arrayText(texts: readonly string[]): string {
  const quoted = texts.map((text) => `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`);
  return `{${quoted.join(",")}}`;
}

// A database of `node:sqlite`, and why there is no other.

/**
 * SQLite locks a file for the whole process, and knows within a process by its own memory alone who has it. So two copies of
 * the library in one process write at the same time, and the one that closes first deletes the log of the other.
 */
export const OTHER_COPY =
  "it runs on a copy of SQLite of its own (as better-sqlite3 and sqlite3 bring it), and two copies in one process do not see each other's locks on a file: " +
  "rows are lost. Give a DatabaseSync of `node:sqlite`, and let nothing else in this process open the file.";

/** What one copy of the library says about itself. */
export const FINGERPRINT = `
  select sqlite_source_id() || group_concat(compile_options, ' ') as copy
    from pragma_compile_options`;

function askSqlite(tx: Shape): Ask | null {
  if (!can(tx, "prepare")) return null;
  if ("inTransaction" in tx) throw give(OTHER_COPY); // better-sqlite3
  if (!("isTransaction" in tx)) return null;
  const refuseIdleHere = (): void => {
    if (tx["isTransaction"] === true) return;
    throw give("this database has no transaction open: run `begin immediate` first.");
  };
  refuseIdleHere();
  return async (text, values) => {
    refuseIdleHere(); // a statement after the commit would be there whatever became of the others
    const statement = call(tx, "prepare", text) as Shape;
    call(statement, "setReadBigInts", false);
    if (can(statement, "setReturnArrays")) call(statement, "setReturnArrays", false);
    if ((call(statement, "columns") as unknown[]).length === 0) {
      const { changes } = call(statement, "run", ...values) as { changes: number | bigint };
      return { rows: [], count: Number(changes) };
    }
    const rows = (call(statement, "all", ...values) as object[]).map((row) => ({ ...row }));
    return { rows, count: rows.length };
  };
}
