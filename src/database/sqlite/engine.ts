/**
 * SQLite inside the process, through Node's own driver.
 *
 * SQLite has one writer at a time, so every operation is a short BEGIN IMMEDIATE and needs no row locks. The clock is the
 * host's: all processes that use a file share it. Commits of other processes change `data_version`.
 */
import { basename } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { invalid, StoreBusyError, StoreUnavailableError } from "../../core/errors.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { UserTransaction } from "../../core/task.ts";
import {
  type Change,
  type Engine,
  type Hint,
  type Image,
  type Dialect,
  type Load,
  type NewIndex,
  type Put,
  type Row,
  TABLES,
  type Taking,
  type Transaction,
  type WaitLimits,
} from "../engine.ts";
import { afterByRow, bare, lanesByRecursion, partialIndexes } from "../dialect.ts";
import { createIndex, sqliteDialect, sqliteMigrations } from "../migrate.ts";
import { columnList, Compiler, inTurn, nothing, sql, type Sql, type SqlValue } from "../sql.ts";
import { type Ask, type Asked, elsewhere, FINGERPRINT, OTHER_COPY } from "../user-tx/drivers.ts";
import { asTheyAre } from "../user-errors.ts";
import { askOf } from "../user-tx/recognise.ts";
import { Connection, FileWatch, isBusy, type Probe, translate } from "./connection.ts";
import { checkFile, createFile, FileGuard } from "./file.ts";

export interface SqliteOptions {
  readonly path: string;
  readonly runtime: Runtime;
  readonly create: boolean;
  /** Whether to save the data on close if the file was deleted. Default true. */
  readonly rescues?: boolean;
  readonly probe?: Probe;
}

/** Older libraries can corrupt a file that several connections write to (the WAL-reset bug). */
const LIBRARY_OLDEST = [3, 51, 3] as const;

export class SqliteEngine implements Engine {
  readonly kind = "sqlite";
  readonly name: string;
  readonly address: { engine: string; options: { path: string } } | null;
  readonly database: string;
  readonly migrations = sqliteMigrations();
  readonly migrationDialect = sqliteDialect;
  readonly dialect = dialect;
  readonly runtime: Runtime;
  /** SQLite has one writer at a time. */
  readonly pollCycles = 1;
  /** For the hot statements. */
  readonly connection: Connection;
  readonly image?: Image;
  readonly #compiler = new Compiler({ prefix: "holdfast_", placeholder: () => "?" });

  private constructor(connection: Connection, options: SqliteOptions) {
    this.connection = connection;
    this.runtime = options.runtime;
    this.name = `sqlite:${options.path}`;
    this.database = basename(options.path);
    const inMemory = options.path === ":memory:";
    this.address = inMemory ? null : { engine: "sqlite", options: { path: options.path } };
    if (inMemory) this.image = imageOf(connection, options.runtime);
  }

  static async open(options: SqliteOptions): Promise<SqliteEngine> {
    const { path, runtime, create, probe = null, rescues = true } = options;
    if (path !== ":memory:") checkFile(path, create);
    let db: DatabaseSync;
    try {
      if (path !== ":memory:") createPrivately(path);
      db = new DatabaseSync(path, { timeout: 0 });
    } catch (error) {
      throw translate(error, path);
    }
    const guard = FileGuard.of(path);
    const connection = new Connection(db, { path, runtime, probe, guard, rescues });
    try {
      await connection.read(() => prepareDatabase(db));
    } catch (error) {
      await connection.close();
      throw error;
    }
    return new SqliteEngine(connection, options);
  }

  now(): Sql {
    return sql`cast(${this.runtime.now()} as integer)`;
  }

  among(column: Sql, values: readonly string[]): Sql {
    const [only = "", ...more] = values;
    if (values.length > 0 && more.length === 0) return sql`${column} = ${only}`;
    return sql`${column} in (select value from json_each(${JSON.stringify(values)}))`;
  }

  typed(value: SqlValue): Sql {
    return sql`${value}`;
  }

  /** A writing transaction is alone. */
  lockRows(): Sql {
    return nothing;
  }

  lockFreeRows(): Sql {
    return nothing;
  }

  byPrimaryKey(): Sql {
    return nothing;
  }

  byEnd(): Sql {
    return nothing;
  }

  insertOrIgnore(into: Sql): Sql {
    return sql`insert into ${into} on conflict do nothing`;
  }

  mayBeId(): boolean {
    return true;
  }

  all<T = Row>(query: Sql): Promise<T[]> {
    return this.connection.read(() => this.#all<T>(query));
  }

  change<T = Row>({ table, set, where, returning, durable = true }: Change): Promise<T[]> {
    const query = sql`update ${table} set ${set} where ${where} returning ${returning}`;
    return this.connection.write(() => this.#all<T>(query), { durable });
  }

  put<T = Row>(put: Put): Promise<T[]> {
    const { table, columns, values, key, set, where, returning, durable = true } = put;
    const query = sql`
      insert into ${table} as was (${columnList(columns)}) values (${values})
          on conflict (${columnList(key)}) do update set ${set} where ${where}
      returning ${returning}`;
    return this.connection.write(() => this.#all<T>(query), { durable });
  }

  transaction<T>(body: (tx: Transaction) => Promise<T>, waitLimits?: WaitLimits): Promise<T> {
    return this.connection.transaction(() => body(this.#transaction), waitLimits?.lockMs);
  }

  run(query: Sql): Promise<number> {
    return this.connection.write(() => this.#run(query));
  }

  userTransaction<T>(
    body: (user: UserTransaction) => Promise<T>,
    last: (tx: Transaction, value: T) => Promise<void>,
  ): Promise<T> {
    const { database } = this.connection;
    const user: UserTransaction = {
      client: database,
      query: async <R>(text: string, values: readonly unknown[] = []) =>
        database
          .prepare(text)
          .all(...(values as SqlValue[]))
          .map((row) => ({ ...row })) as R[],
    };
    return asTheyAre(body, (theirs) =>
      this.connection.transaction(async () => {
        const value = await theirs(user);
        await last(this.#transaction, value);
        return value;
      }),
    );
  }

  async inUserTransaction<T>(tx: unknown, body: (tx: Transaction) => Promise<T>): Promise<T> {
    const ask = askOf("sqlite", tx);
    this.connection.lookAtFile();
    const sendText = async (text: string, values: readonly unknown[]): Promise<Asked> => {
      try {
        return await ask(text, values);
      } catch (error) {
        if (String(error).includes("no such table: holdfast_")) {
          throw elsewhere(fileOf(tx), this.name, error);
        }
        // Not repeated: what the user's transaction has read may be outdated.
        throw isBusy(error)
          ? new StoreBusyError({ store: this.name, waitedMs: 0 }, error)
          : translate(error, this.name);
      }
    };
    const send = (query: Sql): Promise<Asked> => {
      const { text, values } = this.#compiler.compile(query);
      return sendText(text, values);
    };
    await this.#refuseOtherCopy(ask);
    const all = async <R>(query: Sql): Promise<R[]> => (await send(query)).rows as R[];
    const run = async (query: Sql): Promise<number> => (await send(query)).count;
    return body({
      all,
      run,
      allOf: <R>(queries: readonly Sql[]) => inTurn(queries, (query) => all<R>(query)),
      runAll: (queries) => inTurn(queries, run),
      script: async (text) => void (await sendText(text, [])),
      take: async <R>(from: Taking) => (await send(taking(from))).rows as R[],
      insert: async (table, rows) => {
        for (const row of rows) await sendText(insertionOf(table, row), Object.values(row));
      },
    });
  }

  reportRows(rows: string): Sql {
    return sql`(
      select value ->> 'seq' as seq, value ->> 'kind' as kind, value ->> 'name' as name,
             value ->> 'age' as age, value ->> 'data' as data
        from json_each(${rows})) r`;
  }

  /** Other processes notice a commit in the file itself. */
  async notifyInUserTx(): Promise<void> {}

  async notifyInTx(): Promise<void> {}

  async hasTable(name: string): Promise<boolean> {
    const rows = await this.all(
      sql`select name from sqlite_schema where type = 'table' and name = ${`holdfast_${name}`}`,
    );
    return rows.length > 0;
  }

  async migrationLock<T>(body: (tx: Transaction) => Promise<T>): Promise<T> {
    await this.connection.read(() => this.#useWal());
    return this.transaction(async (tx) => {
      await tx.script(sqliteDialect.head);
      return body(tx);
    });
  }

  /** SQLite has one writer at a time: others wait while the index is built. */
  buildIndex(tx: Transaction, index: NewIndex): Promise<void> {
    return tx.script(sqliteDialect.named(createIndex(index)));
  }

  /** A commit in this process is never in doubt. */
  async endSession(): Promise<void> {}

  /** What is visible is on the disk. */
  async confirm(): Promise<void> {}

  load(): Load {
    return { pools: [], transactions: this.connection.tally };
  }

  /** SQLite has no background cleanup that could fall behind. */
  async condition(): Promise<null> {
    return null;
  }

  /** Jobs are in one table and are deleted row by row. */
  async dropPartitions(): Promise<void> {}

  listen(onHint: (hint: Hint) => void): () => void {
    if (this.address === null) return () => {};
    const watch = new FileWatch({ connection: this.connection, runtime: this.runtime, onHint });
    return () => watch.stop();
  }

  /** Other processes notice a commit in the file itself. */
  tell(): void {}

  close(): Promise<void> {
    return this.connection.close();
  }

  /** For any library, whatever its name. */
  async #refuseOtherCopy(ask: Ask): Promise<void> {
    const ours = this.connection.database.prepare(FINGERPRINT).get() as { copy: string };
    const [theirs] = (await ask(FINGERPRINT, [])).rows as { copy: string }[];
    if (theirs?.copy !== ours.copy) throw invalid("tx", OTHER_COPY);
  }

  #useWal(): void {
    const mode = this.connection.prepare(WAL).get()?.["journal_mode"];
    if (mode === "wal" || this.address === null) return;
    throw new StoreUnavailableError({
      problem: `${this.name} cannot use a write-ahead log (its journal mode is ${String(mode)}).`,
      remedy: "Put the file on a local disk.",
    });
  }

  #all<T>(query: Sql): T[] {
    const { text, values } = this.#compiler.compile(query);
    // The driver's rows have no prototype; copies are plain objects that print and compare like any other.
    return this.connection
      .prepare(text)
      .all(...(values as SqlValue[]))
      .map((row) => ({ ...row })) as T[];
  }

  #run(query: Sql): number {
    const { text, values } = this.#compiler.compile(query);
    return Number(this.connection.prepare(text).run(...(values as SqlValue[])).changes);
  }

  /** For code that runs inside a transaction of the connection already. */
  get transactionInside(): Transaction {
    return this.#transaction;
  }

  readonly #transaction: Transaction = {
    all: async <T>(query: Sql) => this.#all<T>(query),
    run: async (query) => this.#run(query),
    allOf: async <T>(queries: readonly Sql[]) => queries.map((query) => this.#all<T>(query)),
    runAll: async (queries) => queries.map((query) => this.#run(query)),
    script: async (text) => this.connection.exec(text),
    take: async <T>(from: Taking) => this.#all<T>(taking(from)),
    insert: async (table, rows) => {
      for (const row of rows) {
        this.connection.prepare(insertionOf(table, row)).run(...Object.values(row));
      }
    },
  };
}

function taking({ table, where, orderBy, limit = -1 }: Taking): Sql {
  const inOrder = orderBy === undefined ? nothing : sql`order by ${orderBy}`;
  return sql`
      delete from ${TABLES[table]}
       where id in (select id
                      from ${TABLES[table]}
                     where ${where}
                     ${inOrder}
                     limit ${limit})
      returning *`;
}

function insertionOf(table: string, row: Row): string {
  const columns = Object.keys(row);
  const marks = columns.map(() => "?").join(", ");
  return `insert into holdfast_${table} (${columns.join(", ")}) values (${marks})`;
}

/** If the file cannot be created, SQLite reports a better error. */
function createPrivately(path: string): void {
  try {
    createFile(path);
  } catch {}
}

/** The file keeps this mode, so it is set when the tables are created, and never on a database without our tables. */
const WAL = "pragma journal_mode = wal";

function prepareDatabase(db: DatabaseSync): void {
  const { version } = db.prepare("select sqlite_version() as version").get() as { version: string };
  checkLibrary(version);
  db.exec(`
    pragma synchronous = full;
    pragma journal_size_limit = 67108864;
    pragma temp_store = memory;`);
  const ours = db.prepare("select 1 from sqlite_schema where name = 'holdfast_migration'").get();
  if (ours !== undefined) db.exec(WAL);
}

function checkLibrary(version: string): void {
  const parts = version.split(".").map(Number);
  const first = LIBRARY_OLDEST.findIndex((oldest, index) => parts[index] !== oldest);
  if (first === -1 || (parts[first] ?? 0) > (LIBRARY_OLDEST[first] ?? 0)) return;
  throw new StoreUnavailableError({
    problem: `This Node includes SQLite ${version}, which can damage a file that several connections write to.`,
    remedy: `Use a Node with SQLite ${LIBRARY_OLDEST.join(".")} or later (any current Node 24 or newer).`,
  });
}

// Databases in memory are for tests, which open one each. Making the tables takes ten times as long as copying them, so
// the first database of a process makes them, and the others start as its copy.

let migrated: Uint8Array | null = null;

function imageOf(connection: Connection, runtime: Runtime): Image {
  const { database } = connection;
  let isEmpty = false;
  const copy = (): boolean => {
    isEmpty = database.prepare("select 1 from sqlite_schema limit 1").get() === undefined;
    if (migrated === null || !isEmpty) return false;
    connection.replace(migrated);
    database.prepare("update holdfast_migration set applied_at = ?").run(runtime.now());
    return true;
  };
  return {
    copy: () => connection.read(copy),
    keep: async () => {
      if (isEmpty) migrated ??= await connection.read(() => database.serialize());
    },
  };
}

// The parts of the schema of an SQLite file.

const dialect: Dialect = {
  /** A merge of both tables in the order of their ids; looking up each id would take three times as long. */
  absent(from, others, limit) {
    const first: Sql = sql`select id from ${from}`;
    const minus = others.reduce((all, other) => sql`${all} except select id from ${other}`, first);
    return sql`${minus} order by id limit ${limit}`;
  },
  after: afterByRow,
  lanes: lanesByRecursion,
  catalogue,
  sparse: partialIndexes,
};

async function catalogue(engine: Engine): Promise<string[]> {
  const things = await engine.all<{ type: string; name: string }>(sql`
    select type, name from sqlite_schema where name like 'holdfast@_%' escape '@'`);
  const columns = await engine.all<{ owner: string; name: string; place: number }>(sql`
    select t.name as owner, c.name, c.pk as place
      from sqlite_schema t
      join pragma_table_xinfo(t.name) c
     where t.type = 'table'
       and t.name like 'holdfast@_%' escape '@'`);
  const unique = await engine.all<{ owner: string; name: string }>(sql`
    select t.name as owner, c.name
      from sqlite_schema t
      join pragma_index_list(t.name) i
      join pragma_index_info(i.name) c
     where t.type = 'table'
       and t.name like 'holdfast@_%' escape '@'
       and i.origin = 'u'`);
  return [
    ...things.map(({ type, name }) => `${type} ${bare(name)}`),
    ...columns.map(({ owner, name }) => `column ${bare(owner)}.${name}`),
    ...columns.filter(({ place }) => place > 0).map(({ owner }) => `primary key of ${bare(owner)}`),
    ...unique.map(({ owner, name }) => `unique ${bare(owner)}.${name}`),
  ];
}

/** A DatabaseSync knows its file. */
function fileOf(tx: unknown): string | null {
  const { location } = tx as { location?: unknown };
  return typeof location === "function" ? (location.call(tx) as string | null) : null;
}
