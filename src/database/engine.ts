/**
 * What an engine must implement for its database. Everything else is written once, above it.
 *
 * An engine owns its connections, its transactions and its SQL dialect. It translates the driver's errors into ours, and
 * repeats a transaction that the database asked to repeat; the code above sees neither.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { StoreRefusedError, StoreUnavailableError } from "../core/errors.ts";
import type { Runtime } from "../core/runtime.ts";
import type { UserTransaction } from "../core/task.ts";
import { type Sql, sql, type SqlValue } from "./sql.ts";

export type Row = Record<string, SqlValue>;

export interface Migration {
  readonly version: number;
  readonly name: string;
  /** An older version of the library cannot work with it. */
  readonly breaking: boolean;
  /** It only creates indexes, and a database that has jobs builds them without blocking writers. Default: false. */
  readonly online?: boolean;
  readonly script: string;
}

/** An index as an online migration declares it. */
export interface NewIndex {
  readonly name: string;
  /** Without the prefix of the schema. */
  readonly table: string;
  readonly isUnique: boolean;
  /** What follows the table: columns, condition. */
  readonly rest: string;
}

/** Migrations as SQL text, for the shell of the database or the migrations of an application. */
export interface MigrationDialect {
  /** Comes first, and creates the table `migration` if it does not exist. */
  readonly head: string;
  /** The clock in milliseconds. */
  readonly now: string;
  /** Replaces the table names of scripts by those of this database. */
  readonly named: (script: string) => string;
  /** Rewrites a script for the database's shell. */
  readonly forShell: (script: string) => string;
}

/** "off": this process does not listen. "down": it cannot listen at the moment; a poll takes over. */
export type PushState = "up" | "down" | "off";

export interface LaneQuery {
  /** Statements that come before it in the same transaction. */
  readonly steps: readonly Sql[];
  /** A query with the column `lane`, without an order. */
  readonly rows: Sql;
}

/** Queries whose fastest form depends on the database, and the parts of its schema. */
export interface Dialect {
  /** The first `limit` ids of a table that are in none of the others, in the form that is fastest for a million ids. */
  absent(from: Sql, others: readonly Sql[], limit: number): Sql;
  /** The condition that a row comes after these values in an index, in the form that uses the index. */
  after(columns: readonly string[], values: readonly SqlValue[]): Sql;
  /** The next lanes of a queue that have pending jobs; `after` null: from the first. */
  lanes(queue: string, after: string | null, limit: number): LaneQuery;
  /** The parts of the schema, named as by `partsOf`. */
  catalogue(engine: Engine): Promise<string[]>;
  readonly sparse: SparseIndexes;
}

/** Where few rows have a value: by a partial index, or by a table with the entries of these rows. */
export interface SparseIndexes {
  /** The leases of queues with rules, as `l`, and the columns by which they are found. */
  readonly leases: { readonly from: Sql; readonly queue: Sql; readonly lane: Sql };
  /** The table whose column `start_by` holds the deadlines of pending jobs, and perhaps some of jobs that left. */
  readonly deadlines: Sql;
  /** The condition that a pending job should have started by now. */
  late(now: number): Sql;
  /** Enters the leases of these queues that got their lane after the claim. */
  enterLeases(tx: Transaction, queues: readonly string[]): Promise<void>;
  /** Deletes past deadlines of jobs that are no longer pending, or that have none any more. */
  forgetDeadlines(engine: Engine, limit: number): Promise<void>;
  /** Deletes entries whose leases are gone. Returns how many. */
  forgetLeases(engine: Engine, limit: number): Promise<number>;
}

/** How long a transaction waits for others, and lets others wait. */
export interface WaitLimits {
  /** The maximum wait for a lock. */
  readonly lockMs?: number;
  /**
   * How long this process may be silent between two statements: a server then ends the transaction, because the process
   * may be frozen and hold locks. Default: two seconds. On SQLite only the end of the process ends it.
   */
  readonly idleMs?: number;
}

export type EngineKind = "sqlite" | "postgres" | "mysql";

export interface Engine {
  readonly kind: EngineKind;
  readonly name: string;
  readonly migrations: readonly Migration[];
  readonly migrationDialect: MigrationDialect;
  readonly address: StoreAddress | null;
  /** The database's name, which is the same in every process that uses it. */
  readonly database: string;
  readonly runtime: Runtime;
  /** How many poll cycles a worker should run at once. */
  readonly pollCycles: number;
  readonly dialect: Dialect;

  /** The database's clock in milliseconds, as SQL. */
  now(): Sql;

  /** The condition that a column is one of the values, for any number of values. */
  among(column: Sql, values: readonly string[]): Sql;

  /** A value with its type, for statements from which the database cannot infer it. */
  typed(value: SqlValue): Sql;

  /** The end of a select that locks its rows until the transaction ends; empty if they are locked anyway. */
  lockRows(): Sql;

  /** The same, but rows that another transaction has locked are left out. */
  lockFreeRows(): Sql;

  /** After the name of a table in a select that locks: it must go by the primary key, whatever the optimizer thinks. */
  byPrimaryKey(): Sql;

  /** After the attempts in a select of the newest ends: it must go by the index of ends, also if most attempts ended just now. */
  byEnd(): Sql;

  /** `into` names a table, its columns and one row of values. A row that exists stays as it is. */
  insertOrIgnore(into: Sql): Sql;

  /** Reports in one JSON text, as a table called `r`. */
  reportRows(rows: string): Sql;

  /** Whether a text can be the id of a job: some databases refuse to compare ids with any other text. */
  mayBeId(text: string): boolean;

  /** Reads outside a transaction. */
  all<T = Row>(query: Sql): Promise<T[]>;

  /** Updates rows and returns the new rows, in one round trip. The condition must still hold afterwards. */
  change<T = Row>(change: Change): Promise<T[]>;

  /**
   * Inserts a row, or updates the row with the same key if the condition holds, in one round trip. Returns the new row. The
   * existing row is called `was`; the condition names its key, and must still hold afterwards.
   */
  put<T = Row>(put: Put): Promise<T[]>;

  /** Runs the body in one transaction: committed if it resolves, rolled back if it rejects. The body may run again. */
  transaction<T>(body: (tx: Transaction) => Promise<T>, waitLimits?: WaitLimits): Promise<T>;

  /** One statement that commits by itself. Returns the number of rows it changed. */
  run(query: Sql): Promise<number>;

  /**
   * A transaction that runs a user's function, then `last`. It runs once, because the function may have other effects. An
   * error of the function is thrown unchanged.
   */
  userTransaction<T>(
    body: (user: UserTransaction) => Promise<T>,
    last: (tx: Transaction, value: T) => Promise<void>,
  ): Promise<T>;

  /** The shared SQL in a user transaction. Runs the body once; neither begins nor ends the transaction. */
  inUserTransaction<T>(tx: unknown, body: (tx: Transaction) => Promise<T>): Promise<T>;
  /** Other processes get the hint if, and when, the user's transaction commits. */
  notifyInUserTx(tx: Transaction, hint: Hint): Promise<void>;
  /** The same in a transaction of ours, if that costs nothing; `tell` sends the rest after the commit. */
  notifyInTx(tx: Transaction, hints: readonly Hint[]): Promise<void>;

  hasTable(name: string): Promise<boolean>;

  /**
   * Creates the table `migration`, then runs the body in one transaction while no other process migrates. The body may run
   * again: it gives up a lock that another transaction holds for long, because claims would wait behind it.
   */
  migrationLock<T>(body: (tx: Transaction) => Promise<T>): Promise<T>;
  /**
   * Inside `migrationLock`, before any other change of its transaction: builds an index without blocking writers, if the
   * database can. What an interrupted build left behind is built again. `isEmpty`: the tables were just made.
   */
  buildIndex(tx: Transaction, index: NewIndex, isEmpty: boolean): Promise<void>;

  /** Omitted: every new database runs all migrations. */
  readonly image?: Image;

  /** Makes sure that a session whose answer was lost does not write any more. */
  endSession(session: number): Promise<void>;

  /**
   * Waits until everything that is visible now is as durable as a commit of ours: where a commit waits for standbys, on
   * them. A commit whose session was ended while it waited is visible before. For rows that were found, it relies on the
   * server's settings to see that there is nothing to wait for.
   */
  confirm(seen: Seen): Promise<void>;

  /** Drops the partitions, if the engine has any, whose jobs all finished longer ago than this. */
  dropPartitions(finishedForMs: number): Promise<void>;

  load(): Load;
  condition(): Promise<Condition | null>;
  /** What may surprise the application about this database, in sentences. Omitted: nothing can. */
  hazards?(): Promise<string[]>;

  /** Hints about what other processes changed. */
  listen(onHint: (hint: Hint) => void): () => void;
  /** Omitted: the database does not push. */
  pushState?(): PushState;
  /** Sends other processes a hint, unless they notice the change by themselves. */
  tell(hint: Hint): void;

  close(): Promise<void>;
}

/** What a call answers with: its own write, whose answer was lost, or rows that it found. */
export type Seen = "looked up" | "found";

/** The tables of a new database, copied instead of made again. */
export interface Image {
  /** Copies the tables into an empty database. Returns false if there is no copy yet, or if the database has tables. */
  copy(): Promise<boolean>;
  /** Keeps a copy of a database that was empty and has just been migrated. */
  keep(): Promise<void>;
}

export interface Transaction {
  all<T = Row>(query: Sql): Promise<T[]>;
  run(query: Sql): Promise<number>;
  /** Independent queries, run in this order: in one round trip, if the database can. */
  allOf<T = Row>(queries: readonly Sql[]): Promise<T[][]>;
  runAll(queries: readonly Sql[]): Promise<number[]>;
  /** Runs a text without values, such as the definition of a table. */
  script(text: string): Promise<void>;

  /**
   * Deletes rows and returns them, so that only one transaction gets each row. With `skipLocked`, rows that another
   * transaction has locked are left to it.
   */
  take<T = Row>(from: Taking): Promise<T[]>;

  /** Inserts rows that all have the same columns. */
  insert(table: string, rows: readonly Row[]): Promise<void>;
}

export interface Change {
  readonly table: Sql;
  readonly set: Sql;
  readonly where: Sql;
  readonly returning: Sql;
  /** False: the commit need not wait for the disk; a crash of the database server may undo it. */
  readonly durable?: boolean;
}

export interface Put extends Change {
  readonly columns: readonly string[];
  readonly values: Sql;
  /** The columns of the unique key. */
  readonly key: readonly string[];
}

/** The state tables. */
export const TABLES = {
  ready: sql`holdfast.ready`,
  waiting: sql`holdfast.waiting`,
  lease: sql`holdfast.lease`,
  finished: sql`holdfast.finished`,
};

export interface Taking {
  readonly table: keyof typeof TABLES;
  readonly where: Sql;
  /** The ids of the rows, if they are known: this saves a search. */
  readonly ids?: readonly string[];
  readonly orderBy?: Sql;
  readonly limit?: number;
  readonly skipLocked?: boolean;
}

/** What changed, such as jobs that became pending in a queue. "unknown": another process wrote something. */
export type Hint =
  | { readonly kind: "pending"; readonly queue: string }
  /** When the first job is due; omitted: unknown, so listeners have to look. */
  | { readonly kind: "waiting"; readonly inMs?: number }
  | { readonly kind: "finished" }
  | { readonly kind: "cancel" }
  | { readonly kind: "workers" }
  /** Only in the process that wrote them. */
  | { readonly kind: "reports"; readonly job: string }
  | { readonly kind: "unknown" };

export interface StoreAddress {
  readonly engine: string;
  readonly options: Record<string, unknown>;
}

export interface MigrationPlan {
  readonly from: number;
  readonly to: number;
  readonly migrations: readonly { readonly version: number; readonly name: string }[];
  /** For a driver that accepts several statements at once; empty: the database is up to date. */
  readonly sql: string;
  /** For the database's own shell. */
  readonly shellSql: string;
}

export interface Migrated {
  readonly from: number;
  readonly to: number;
  readonly applied: readonly string[];
}

/** Runs an insertion. If another process inserted the row first, nothing happens. */
export async function insertIfMissing(
  engine: Engine,
  insert: (tx: Transaction) => Promise<unknown>,
): Promise<void> {
  try {
    await engine.transaction(insert);
  } catch (error) {
    if (!(error instanceof StoreRefusedError)) throw error;
  }
}

/** The database's clock, read in a transaction or outside. */
export async function readNow(
  engine: Engine,
  tx: Pick<Transaction, "all"> = engine,
): Promise<number> {
  const [row] = await tx.all<{ now: number | string }>(sql`select ${engine.now()} as now`);
  return Number((row as { now: number | string }).now); // the driver of a user transaction may return text
}

/**
 * Loads a driver, which is an optional dependency. Bundlers do not see the name, so they neither copy the driver nor fail
 * because it is not installed.
 */
export async function importDriver(database: string, module: string): Promise<unknown> {
  try {
    return await import(
      /* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ module
    );
  } catch (error) {
    const problem = `The driver for ${database} is not installed.`;
    const remedy = `Run: npm install ${module.replace(/\/.*/, "")}`;
    throw new StoreUnavailableError({ problem, remedy }, error);
  }
}

/** An interface has no index signature, so the compiler does not accept it as a Row. */
export function asRow(row: object): Row {
  return row as Row;
}

// A time limit for reads: the database stops a statement that takes longer.
//
// A person who waits for a page has given up by then, and a slow statement must not occupy a connection that others need.
// The limit applies to every read that a function starts, however deep, so that no reader has to pass it on. SQLite cannot
// interrupt a statement in its own thread: there, the row limits of the statements are the bound.

const limits = new AsyncLocalStorage<number>();

export function withReadLimit<T>(limitMs: number, body: () => Promise<T>): Promise<T> {
  return limits.run(limitMs, body);
}

/** Undefined: the usual limits of the engine. */
export function readLimitMs(): number | undefined {
  return limits.getStore();
}

// A time limit for answers: how long a look-up after a lost answer waits for each of its own.

const answerLimits = new AsyncLocalStorage<number | undefined>();

/** Undefined: the usual limits of the engine. */
export function withAnswerLimit<T>(limitMs: number | undefined, body: () => T): T {
  return answerLimits.run(limitMs, body);
}

export function answerLimitMs(): number | undefined {
  return answerLimits.getStore();
}

// The load that this process puts on its database, and the database's condition. Cheap enough to read often.

export interface Load {
  /** Empty if there is only one connection. */
  readonly pools: readonly PoolUse[];
  readonly transactions: Tally;
}

export interface PoolUse {
  readonly name: string;
  readonly busy: number;
  readonly idle: number;
  /** Callers that wait for a connection. */
  readonly waiting: number;
}

/** Transactions that did not succeed at once. */
export interface Tally {
  rolledBack: number;
  /** Run again: the database asked for it, was locked, or was lost before anything was written. */
  repeated: number;
}

export interface Condition {
  /** How long the oldest transaction of this database has been open; null: none is. */
  readonly oldestTransactionMs: number | null;
  /** The tables that change most. */
  readonly tables: readonly TableCondition[];
}

export interface TableCondition {
  readonly table: string;
  readonly live: number;
  /** Deleted rows that are not cleaned up yet. */
  readonly dead: number;
}

export function newTally(): Tally {
  return { rolledBack: 0, repeated: 0 };
}

export function sumOf(tallies: readonly Tally[]): Tally {
  const sum = (of: (tally: Tally) => number): number =>
    tallies.reduce((all, tally) => all + of(tally), 0);
  return { rolledBack: sum((one) => one.rolledBack), repeated: sum((one) => one.repeated) };
}
