/** Recognises the drivers' own connections, which the other libraries use in the end. */
import { InvalidArgumentError, invalid } from "../../core/errors.ts";

const DRIVERS: Readonly<Record<Database, readonly Library[]>> = {
  sqlite: [askSqlite],
  postgres: [askPostgresJs, askPg],
  mysql: [askMysql2],
};

/** Null: not a connection of a known driver. */
export function askDriver(connection: unknown, wanted: Wanted): Ask | null {
  if (!isShape(connection)) return null;
  for (const library of DRIVERS[wanted.database]) {
    const ask = library(connection, wanted);
    if (ask !== null) return ask;
  }
  return null;
}

/** Uses the connection of a library's transaction. It is looked up every time: a transaction that is over has none. */
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
      throw give(
        `Holdfast does not know the driver that ${library} uses for ${NAMES[wanted.database]}.`,
      );
    }
    return ask(text, values);
  };
}

const NAMES = { sqlite: "SQLite", postgres: "PostgreSQL", mysql: "MySQL or MariaDB" };

// A connection of `mysql2`, with promises or callbacks.

/** Flags of the server status. */
const IN_TRANSACTION = 1;

const AUTOCOMMIT = 2;

/** Overrides the options of the user's connection. Values are in the text, so no question mark is a placeholder. */
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
      "a pool of `mysql2` uses any free connection for each statement: pass a connection (`await pool.getConnection()`), after `start transaction`.",
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

/** Called with the answer to our first statement, which only changes a session setting. */
function refuseIdleMysql(answer: unknown, library: string | undefined): void {
  const status = isShape(answer) ? answer["serverStatus"] : null;
  if (typeof status !== "number") return;
  // Without autocommit a transaction is open, or opens with the next statement.
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
      "a pool of `pg` uses any free connection for each statement: pass a client (`await pool.connect()`), after `begin`.",
    );
  }
  let known = false;
  return async (text, values) => {
    const query = { ...reading, text, values: [...values] };
    const answer = (await call(tx, "query", query)) as { rows: unknown[]; rowCount: number | null };
    // Our first statement is always a read, and its answer tells whether a transaction is open.
    if (!known) refuseIdle(tx, library);
    known = true;
    return { rows: answer.rows, count: answer.rowCount ?? 0 };
  };
}

/** Older drivers do not report the status. */
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
      "pass the `sql` that `sql.begin(async (sql) => …)` of `postgres` gives to its function.",
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

/** After its end the library would still send to its former connection, and only the server knows that it is over. */
async function refuseOver(tx: Shape, library: string): Promise<void> {
  try {
    await call(tx, "unsafe", ONLY_INSIDE);
  } catch (error) {
    if (!isShape(error) || error["code"] !== NO_TRANSACTION) throw error;
    throw over(library);
  }
}

/** Refused outside a transaction, and harmless inside. */
const ONLY_INSIDE = "lock table pg_catalog.pg_am in access share mode";

const NO_TRANSACTION = "25P01";

/** As text, because the library may be set up not to fetch array types. */
function arrayText(texts: readonly string[]): string {
  const quoted = texts.map((text) => `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`);
  return `{${quoted.join(",")}}`;
}

// A database of `node:sqlite`, the only supported driver.

/**
 * SQLite locks a file for the whole process, and tracks the locks within a process in its own memory. So two copies of the
 * library in one process write at the same time, and the one that closes first deletes the log of the other.
 */
export const OTHER_COPY =
  "it uses its own copy of SQLite (as better-sqlite3 and sqlite3 do), and two copies in one process do not see each other's locks on a file: " +
  "rows are lost. Pass a DatabaseSync of `node:sqlite`, and do not open the file with another library in this process.";

/** Identifies a copy of the library. */
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
    refuseIdleHere(); // a statement after the end of the transaction would commit by itself
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

// Sends statements in a user transaction, and recognises a library by its shape.

export type Database = "sqlite" | "postgres" | "mysql";

export interface Asked {
  readonly rows: unknown[];
  /** How many rows the statement returned or changed. */
  readonly count: number;
}

/** Sends one statement. */
export type Ask = (text: string, values: readonly unknown[]) => Promise<Asked>;

export interface Wanted {
  readonly database: Database;
  /** Options that override how the user has set up the driver to read values. */
  readonly reading: object;
  /** The library of the transaction, if it is not the driver. */
  readonly library?: string;
}

/** Null: not of this library. Throws, with advice, for an object of the library that is no transaction. */
export type Library = (tx: Shape, wanted: Wanted) => Ask | null;

export type Shape = Readonly<Record<string, unknown>>;

export function isShape(value: unknown): value is Shape {
  return (typeof value === "object" || typeof value === "function") && value !== null;
}

/** Whether it has all of these methods. */
export function can(target: unknown, ...methods: readonly string[]): target is Shape {
  return isShape(target) && methods.every((method) => typeof target[method] === "function");
}

export function call(target: Shape, method: string, ...args: readonly unknown[]): unknown {
  const callable = target[method] as (...given: readonly unknown[]) => unknown;
  return Reflect.apply(callable, target, args);
}

/** Most often, a call inside the transaction was not awaited. */
export function over(library: string): InvalidArgumentError {
  return give(
    `this transaction of ${library} has ended. Await within(tx).enqueue(…) inside its function.`,
  );
}

export function give(problem: string): InvalidArgumentError {
  return invalid("tx", problem);
}

/** The tables were not found. Holdfast was opened, so they are in its own database. */
export function elsewhere(
  found: string | null,
  store: string,
  cause: unknown,
): InvalidArgumentError {
  const where = found === null ? "another database" : `the database '${found}'`;
  const problem = `the transaction is on ${where}, which has no holdfast tables; Holdfast is on ${store}. Begin it on that database.`;
  return new InvalidArgumentError({ field: "tx", problem }, cause);
}

/** Whether a statement of ours returns rows. On MySQL only a select does, and values in the text could match the rest. */
export function givesRows(text: string, database: Database): boolean {
  if (/^\s*select\b/i.test(text)) return true;
  return database !== "mysql" && /\breturning\b/i.test(text);
}

/** Converts the BigInts of some libraries to numbers. */
export function withNumbers(rows: readonly unknown[]): unknown[] {
  return rows.map((row) =>
    Object.fromEntries(
      Object.entries(row as object).map(([column, value]: [string, unknown]) => [
        column,
        typeof value === "bigint" ? Number(value) : value,
      ]),
    ),
  );
}

/** Rows as JSON text, which passes unchanged through libraries that convert values or rename columns. */
export function askingJson(text: string): string {
  return `
    with holdfast_row as (${text})
    select row_to_json(holdfast_row)::text as json
      from holdfast_row`;
}

export function rowsIn(texts: readonly unknown[]): unknown[] {
  return texts.map((text) => JSON.parse(text as string) as unknown);
}
