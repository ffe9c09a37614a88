/**
 * What one database must know. Everything else is written once, above it.
 *
 * An engine owns its connections, its transactions and the spelling of its dialect. It turns the driver's errors into ours, and repeats a transaction that the
 * database asked to repeat; the verbs above never see either.
 */
import type { Runtime } from "../core/runtime.ts";
import type { UserTransaction } from "../core/task.ts";
import type { Condition, Load } from "./pool-stats.ts";
import { type Sql, sql, type SqlValue } from "./sql.ts";

export type Row = Record<string, SqlValue>;

export interface Migration {
  readonly version: number;
  readonly name: string;
  /** An older library cannot work on a database that has it. */
  readonly breaking: boolean;
  readonly script: string;
}

/** How migrations are written for others to apply: a shell of the database, or the migrations of an application. */
export interface MigrationDialect {
  /** What comes first, the table `migration` at the end of it; also where it is there already. */
  readonly head: string;
  /** The clock in milliseconds. */
  readonly now: string;
  /** From the names that scripts have to those of this database. */
  readonly named: (script: string) => string;
  /** From what a driver takes to what the database's shell takes. */
  readonly forShell: (script: string) => string;
}

/** "off": this process does not listen. "down": it should, and cannot at the moment; a poll takes over. */
export type PushState = "up" | "down" | "off";

/** Queries whose fastest form depends on the database, and what its schema has. */
export interface Introspection {
  /** The first `limit` ids of a table that are in none of the others, in the form that is fastest for a million of them. */
  absent(from: Sql, others: readonly Sql[], limit: number): Sql;
  /** The condition that a row comes after these values in the order of an index, in the form that uses the index. */
  after(columns: readonly string[], values: readonly SqlValue[]): Sql;
  /** What the schema has, in the words of `partsOf`. */
  catalogue(engine: Engine): Promise<string[]>;
}

export type EngineKind = "sqlite" | "postgres" | "mysql";

export interface Engine {
  readonly kind: EngineKind;
  readonly name: string;
  readonly migrations: readonly Migration[];
  readonly migrationDialect: MigrationDialect;
  readonly address: StoreAddress | null;
  /** The database's own name, the same in every process that uses it, by whatever way. */
  readonly database: string;
  readonly runtime: Runtime;
  /** How many turns of a worker gain from being under way at once. */
  readonly lanes: number;
  readonly introspection: Introspection;

  /** The database's clock in milliseconds, as a piece of SQL. */
  now(): Sql;

  /** The condition that a column is one of the values, in a shape that suits any number of them. */
  among(column: Sql, values: readonly string[]): Sql;

  /** A value whose type the statement does not tell: some databases want to hear it. */
  typed(value: SqlValue): Sql;

  /** Ends a select: what it finds is locked until the transaction ends, where it would not be anyway. */
  lockRows(): Sql;

  /** Reports that travel as one JSON text, as a table called `r`. */
  reportRows(rows: string): Sql;

  /** Whether a text can be the id of a job here; a database may refuse to compare ids with anything else. */
  mayBeId(text: string): boolean;

  /** Reads outside a transaction. */
  all<T = Row>(query: Sql): Promise<T[]>;

  /** Updates rows and returns them as they are then, in one round trip. The condition must still hold afterwards. */
  change<T = Row>(change: Change): Promise<T[]>;

  /**
   * Adds a row, or changes the one that is there with its key if the condition holds; in one round trip. Returns it as it is
   * then. The row that is there is called `was`; the condition names its key, and must still hold afterwards.
   */
  put<T = Row>(put: Put): Promise<T[]>;

  /**
   * Runs the body in one transaction: committed when it resolves, undone when it rejects. The body may run again. With
   * `lockMs` it waits no longer than that for what others have locked.
   */
  transaction<T>(
    body: (tx: Transaction) => Promise<T>,
    patience?: { readonly lockMs: number },
  ): Promise<T>;

  /** One statement that commits by itself. Returns how many rows it concerned. */
  run(query: Sql): Promise<number>;

  /**
   * A transaction in which a user's function takes part, with what we add to it last. It runs once: nobody knows what else
   * it does. What it throws is the user's own and comes out as it is.
   */
  userTransaction<T>(
    body: (user: UserTransaction) => Promise<T>,
    last: (tx: Transaction, value: T) => Promise<void>,
  ): Promise<T>;

  /** The shared SQL in a transaction that belongs to the user. Runs the body once; begins and ends nothing. */
  inUserTransaction<T>(tx: unknown, body: (tx: Transaction) => Promise<T>): Promise<T>;
  /** Tells others in that very transaction: they hear it when it is committed, and never otherwise. */
  notifyInUserTx(tx: Transaction, hint: Hint): Promise<void>;
  /** The same in a transaction of our own, as far as that costs nothing; `tell` sends the rest after the commit. */
  notifyInTx(tx: Transaction, hints: readonly Hint[]): Promise<void>;

  hasTable(name: string): Promise<boolean>;

  /** Runs the body in one transaction while no other process migrates, with the table `migration` in place. */
  migrationLock<T>(body: (tx: Transaction) => Promise<T>): Promise<T>;

  /** Makes sure that a session whose answer was lost does not write any more. */
  endSession(session: number): Promise<void>;

  /** Whole blocks of jobs that finished longer ago than this are let go, where the engine stores jobs in such blocks. */
  dropPartitions(finishedForMs: number): Promise<void>;

  /** See load.ts. */
  load(): Load;
  condition(): Promise<Condition | null>;

  /** Hints about what other processes changed. */
  listen(hear: (hint: Hint) => void): () => void;
  /** Left out: the database pushes nothing. */
  pushState?(): PushState;
  /** Tells other processes what this one changed, where they cannot notice by themselves. */
  tell(hint: Hint): void;

  close(): Promise<void>;
}

export interface Transaction {
  all<T = Row>(query: Sql): Promise<T[]>;
  run(query: Sql): Promise<number>;
  /** Several in this order, none of which needs another's answer: one round trip, where the database takes them so. */
  allOf<T = Row>(queries: readonly Sql[]): Promise<T[][]>;
  runAll(queries: readonly Sql[]): Promise<number[]>;
  /** Runs a text that is not a statement with values, such as the definition of a table. */
  script(text: string): Promise<void>;

  /**
   * Removes rows and returns them, so that whoever gets a row is the only one who does. With `skipLocked`, rows that
   * another transaction is moving at this moment are left to it.
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
  /** False: nobody waits for the disk, where the database allows that; a crash of its server may undo it. */
  readonly durable?: boolean;
}

export interface Put extends Change {
  readonly columns: readonly string[];
  readonly values: Sql;
  /** Those of the columns that no two rows have in common. */
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
  /** Their ids, where they are known: then nobody has to look for them. */
  readonly ids?: readonly string[];
  readonly orderBy?: Sql;
  readonly limit?: number;
  readonly skipLocked?: boolean;
}

/** What changed: jobs became pending in a queue, jobs wait for a time, … or another process wrote something. */
export type Hint =
  | { readonly kind: "pending"; readonly queue: string }
  /** The first of them will be due after so long; nothing: nobody knows, so somebody has to look. */
  | { readonly kind: "waiting"; readonly inMs?: number }
  | { readonly kind: "finished" }
  | { readonly kind: "cancel" }
  | { readonly kind: "workers" }
  /** In the process that wrote them; others are not told. */
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
  /** For a driver that takes several statements at once; empty: nothing is missing. */
  readonly sql: string;
  /** For the database's own shell. */
  readonly shellSql: string;
}

export interface Migrated {
  readonly from: number;
  readonly to: number;
  readonly applied: readonly string[];
}

export async function readNow(engine: Engine, tx: Transaction): Promise<number> {
  const [row] = await tx.all<{ now: number | string }>(sql`select ${engine.now()} as now`);
  return Number((row as { now: number | string }).now); // in a user's transaction, as their driver reads it
}

/** An interface has no index signature, so it is not a Row to the compiler though it is one in fact. */
export function asRow(row: object): Row {
  return row as Row;
}
