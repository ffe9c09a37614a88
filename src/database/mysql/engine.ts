/**
 * MySQL and MariaDB, through `mysql2`.
 *
 * Row locks in one order, READ COMMITTED, and as much as possible in one packet. Settling, claiming and extending have
 * reserved connections, so that they never queue behind other statements. The clock is the server's.
 */
import { createHash } from "node:crypto";
import { ReadTooLongError, StoreBusyError } from "../../core/errors.ts";
import { type Runtime, sleep, systemRuntime } from "../../core/runtime.ts";
import type { UserTransaction } from "../../core/task.ts";
import {
  type Change,
  type Engine,
  type Hint,
  type Load,
  type Migration,
  type NewIndex,
  type Put,
  readLimitMs,
  type Row,
  sumOf,
  type Transaction,
  type WaitLimits,
} from "../engine.ts";
import { MYSQL_TABLE, mysqlDialect, mysqlMigrations } from "../migrate.ts";
import { Poll } from "../notify.ts";
import { columnList, Compiler, sql, type Sql, type SqlValue } from "../sql.ts";
import { type Ask, elsewhere } from "../user-tx/drivers.ts";
import { asTheyAre } from "../user-errors.ts";
import { askOf } from "../user-tx/recognise.ts";
import { type MysqlAddress, placeOf } from "./address.ts";
import {
  isLockWait,
  isNoSuchThread,
  isStoppedStatement,
  missingTable,
  translate,
} from "./errors.ts";
import { dialect } from "./dialect.ts";
import {
  type Answer,
  changesOf,
  filled,
  flavourOf,
  literal,
  loadDriver,
  numberIn,
  type Probe,
  rowsOf,
  Session,
  TABLE_WAIT_S,
  tableWait,
  USER_SILENCE_MS,
} from "./session.ts";
import { type Exchange, Pool, Sessions } from "./sessions.ts";
import { type Send, SharedTransaction } from "./transaction.ts";

interface MysqlOptions extends MysqlAddress {
  readonly runtime: Runtime;
  readonly probe?: Probe;
}

const POLL_CYCLES = 2;

const CONNECTIONS = 10;

/** One for each poll cycle, and one that extends leases in the meantime. */
const RESERVED = POLL_CYCLES + 1;

/** How long a process waits for another process that migrates, and how long one statement of a migration may take. */
const MIGRATION_WAIT_S = 60;

const MIGRATION_MS_MAX = 30 * 60_000;

/** How long DDL waits for the transactions on its table in one try, then pauses; how long it is tried, and how often. */
const DDL_WAIT_S = 1;
const DDL_PAUSE_MS = 250;
const DDL_MS_MAX = 60_000;
/** An index waits again when it is built, which may take longer than all the tries. */
const DDL_TRIES_MIN = 5;

const SESSION_ENDS_MS_MAX = 10_000;

const SESSION_LOOK_MS = 25;

/** Lost sessions that are remembered. */
const LOST_MAX = 1_000;

/** Set when a user's function begins. It is gone if a statement of the user has ended the transaction, as DDL does. */
const MARK = "savepoint holdfast_begun";

const UNMARK = "release savepoint holdfast_begun";

export class MysqlEngine implements Engine {
  readonly kind = "mysql";
  readonly name: string;
  readonly address: { engine: string; options: Record<string, unknown> };
  readonly migrations: readonly Migration[];
  readonly migrationDialect = mysqlDialect;
  readonly dialect = dialect;
  readonly runtime: Runtime;
  readonly pollCycles = POLL_CYCLES;
  readonly database: string;
  readonly main: Sessions;
  /** For the hot statements, which never queue behind others. */
  readonly reserved: Sessions;
  readonly #pools: Readonly<Record<"main" | "reserved", Pool>>;
  readonly #compiler = new Compiler({ prefix: "holdfast_", placeholder: () => "?" });
  /** Our last call in each user transaction. */
  readonly #userCalls = new WeakMap<object, Promise<unknown>>();
  readonly #lost = new Map<number, string>();
  readonly #isMariaDb: boolean;
  #poll: Poll | null = null;

  private constructor(options: MysqlOptions, first: Session, open: () => Promise<Session>) {
    const { runtime, probe: _probe, ...address } = options;
    this.name = placeOf(options);
    this.runtime = runtime;
    this.address = { engine: "mysql", options: { ...address } };
    const flavour = flavourOf(first.server.version, this.name);
    this.migrations = mysqlMigrations(flavour);
    this.#isMariaDb = flavour.name === "MariaDB";
    this.database = options.database;
    const pool = (size: number): Pool => new Pool({ store: this.name, size, runtime, open });
    const [main, reserved] = [pool(CONNECTIONS), pool(RESERVED)];
    main.add(first);
    this.#pools = { main, reserved };
    this.main = this.#sessions(main);
    this.reserved = this.#sessions(reserved);
  }

  static async open(options: MysqlOptions): Promise<MysqlEngine> {
    const { runtime, probe = null, ...address } = options;
    const driver = await loadDriver();
    const open = (): Promise<Session> => Session.open({ driver, address, runtime, probe });
    let first: Session;
    try {
      first = await open();
    } catch (error) {
      throw translate(error, placeOf(address));
    }
    try {
      return new MysqlEngine(options, first, open);
    } catch (error) {
      await first.end();
      throw error;
    }
  }

  now(): Sql {
    return sql`coalesce(${this.#testNow()}, cast(floor(unix_timestamp(now(3)) * 1000) as signed))`;
  }

  among(column: Sql, values: readonly string[]): Sql {
    return values.length === 0 ? sql`1 = 0` : sql`${column} in (${values})`;
  }

  /** Trailing blanks of an id would be ignored. */
  mayBeId(text: string): boolean {
    return /^[!-~]{36}$/.test(text);
  }

  async all<T = Row>(query: Sql): Promise<T[]> {
    const text = this.textOf(query);
    const limitMs = readLimitMs();
    if (limitMs === undefined) return rowsOf<T>((await this.main.read([text], "objects"))[0]);
    try {
      return rowsOf<T>((await this.main.read([this.#limited(text, limitMs)], "objects"))[0]);
    } catch (error) {
      throw isStoppedStatement(error) ? new ReadTooLongError({ limitMs }, error) : error;
    }
  }

  /** The server stops the statement after the limit. MySQL knows only a hint, and only at the start of a select. */
  #limited(text: string, limitMs: number): string {
    if (this.#isMariaDb) return `set statement max_statement_time = ${limitMs / 1_000} for ${text}`;
    return text.replace(/^\s*select\b/i, `select /*+ max_execution_time(${limitMs}) */`);
  }

  async change<T = Row>({ table, set, where, returning }: Change): Promise<T[]> {
    const texts = [
      sql`update ${table} set ${set} where ${where}`,
      sql`select ${returning} from ${table} where ${where}`,
    ].map((query) => this.textOf(query));
    const [, answer] = await this.main.read(texts, "objects");
    return rowsOf<T>(answer);
  }

  /** In one packet. Whether a commit waits for the disk is a setting of the server. */
  async put<T = Row>({ table, columns, values, key, set, where, returning }: Put): Promise<T[]> {
    const known = columnList(key.slice(0, 1));
    const texts = [
      sql`insert into ${table} (${columnList(columns)}) values (${values}) on duplicate key update ${known} = ${known}`,
      sql`update ${table} as was set ${set} where ${where}`,
      sql`select ${returning} from ${table} as was where ${where}`,
    ].map((query) => this.textOf(query));
    return this.main.transaction(async (exchange) => {
      const at = exchange.add(...texts) + texts.length - 1;
      exchange.commit();
      return rowsOf<T>((await exchange.send("objects"))[at]);
    });
  }

  transaction<T>(body: (tx: Transaction) => Promise<T>, waitLimits?: WaitLimits): Promise<T> {
    return this.main.transaction((exchange) => body(this.#transaction(exchange)), waitLimits);
  }

  typed(value: SqlValue): Sql {
    return sql`${value}`;
  }

  lockRows(): Sql {
    return sql`for update`;
  }

  lockFreeRows(): Sql {
    return sql`for update skip locked`;
  }

  byPrimaryKey(): Sql {
    return sql`force index (primary)`;
  }

  byEnd(): Sql {
    return sql`force index (by_end)`;
  }

  insertOrIgnore(into: Sql): Sql {
    return sql`insert ignore into ${into}`;
  }

  /** The shared SQL in a transaction of the hot statements. */
  transactionOn(exchange: Exchange): Transaction {
    return this.#transaction(exchange);
  }

  /** In one packet: if the statement fails, the server does not run the commit. */
  run(query: Sql): Promise<number> {
    return this.main.transaction(async (exchange) => {
      const at = exchange.add(this.textOf(query));
      exchange.commit();
      return changesOf((await exchange.send("objects"))[at]);
    });
  }

  userTransaction<T>(
    body: (user: UserTransaction) => Promise<T>,
    last: (tx: Transaction, value: T) => Promise<void>,
  ): Promise<T> {
    const run = (theirs: typeof body): Promise<T> =>
      this.main.transaction(
        async (exchange) => {
          await exchange.sendAll([MARK]); // opens the transaction before the user's first statement
          const user: UserTransaction = {
            client: exchange.session.client,
            query: async <R>(text: string, values: readonly unknown[] = []) =>
              rowsOf<R>(await exchange.session.query(text, values)),
          };
          const value = await theirs(user);
          exchange.limit({}); // only our own statements follow, under locks that others wait for
          // Sent with our first statement. It fails if a statement of the user has ended the transaction.
          exchange.add(UNMARK);
          await last(this.#transaction(exchange), value);
          return value;
        },
        { once: true, idleMs: USER_SILENCE_MS },
      );
    return asTheyAre(body, run);
  }

  async inUserTransaction<T>(tx: unknown, body: (tx: Transaction) => Promise<T>): Promise<T> {
    const ask = askOf("mysql", tx);
    // One call after the other: of two concurrent calls, the second would take our SQL mode for the user's.
    const before = this.#userCalls.get(tx as object);
    const mine = Promise.resolve(before)
      .catch(() => {})
      .then(() => this.#inOurMode(ask, body));
    this.#userCalls.set(tx as object, mine);
    return mine;
  }

  /** Our statements quote names as the SQL standard does. Restores the user's mode afterwards. */

  async #inOurMode<T>(ask: Ask, body: (tx: Transaction) => Promise<T>): Promise<T> {
    const send: Send = async (statements) => {
      const answers: Answer[] = [];
      for (const statement of statements) {
        try {
          const { rows, count } = await ask(statement, []);
          answers.push(rows.length > 0 ? rows : { affectedRows: count });
        } catch (error) {
          const found = missingTable(error);
          throw found === null ? translate(error, this.name) : elsewhere(found, this.name, error);
        }
      }
      return answers;
    };
    await ask("set @holdfast_mode = @@sql_mode", []);
    await ask("set sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'", []);
    try {
      return await body(new SharedTransaction(send, this.#compiler));
    } finally {
      await ask("set sql_mode = @holdfast_mode", []);
    }
  }

  /** Polling finds the change when it is committed. */
  async notifyInUserTx(): Promise<void> {}

  async notifyInTx(): Promise<void> {}

  async hasTable(name: string): Promise<boolean> {
    const rows = await this.all(sql`
      select table_name
        from information_schema.tables
       where table_schema = database()
         and table_name = ${`holdfast_${name}`}`);
    return rows.length > 0;
  }

  reportRows(rows: string): Sql {
    return sql`json_table(${rows}, '$[*]' columns (
      seq int path '$.seq' error on error,
      kind varchar(16) path '$.kind' error on error,
      name varchar(128) character set utf8mb4 path '$.name' error on error,
      age bigint path '$.age' error on error,
      data longtext character set utf8mb4 path '$.data' error on error)) r`;
  }

  /** DDL commits implicitly, so there is no transaction; instead, every script can be run again. */
  migrationLock<T>(body: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.main.alone(async (session) => {
      const name = literal(this.#lockName());
      const waitMs = (MIGRATION_WAIT_S + 10) * 1_000;
      const asking = [`select get_lock(${name}, ${MIGRATION_WAIT_S})`];
      const [locked] = await session.send(asking, { rows: "arrays", answerMs: waitMs });
      if (numberIn(locked) !== 1) {
        throw new StoreBusyError({ store: this.name, waitedMs: MIGRATION_WAIT_S * 1_000 });
      }
      try {
        const send: Send = (statements) => this.#sendBriefly(session, statements);
        await send([MYSQL_TABLE]);
        return await body(new SharedTransaction(send, this.#compiler));
      } finally {
        // A lost session has lost the lock, too.
        const reset = [tableWait(TABLE_WAIT_S), `do release_lock(${name})`];
        if (session.usable) await session.send(reset, { rows: "arrays" });
      }
    });
  }

  /**
   * DDL that waits for a transaction on its table makes all other statements on that table wait, too. So it waits for a
   * second and tries again a moment later; every statement of a migration can be run again.
   */
  async #sendBriefly(session: Session, statements: readonly string[]): Promise<Answer[]> {
    const answerMs = MIGRATION_MS_MAX;
    const all = [tableWait(DDL_WAIT_S), ...statements];
    const until = this.runtime.monotonic() + DDL_MS_MAX;
    for (let tries = 1; ; tries += 1) {
      try {
        return (await session.send(all, { rows: "objects", answerMs })).slice(1);
      } catch (error) {
        const isLast = tries >= DDL_TRIES_MIN && this.runtime.monotonic() >= until;
        if (!isLockWait(error) || isLast) throw error;
        await sleep(this.runtime, DDL_PAUSE_MS * (1 + this.runtime.random()));
      }
    }
  }

  /** MySQL has no `create index if not exists`, and an interrupted build leaves nothing behind. */
  async buildIndex(tx: Transaction, { name, table, isUnique, rest }: NewIndex): Promise<void> {
    const [known] = await tx.all(sql`
      select 1 as there
        from information_schema.statistics
       where table_schema = database()
         and table_name = ${`holdfast_${table}`}
         and index_name = ${name}
       limit 1`);
    if (known !== undefined) return;
    const kind = isUnique ? "unique index" : "index";
    await tx.script(
      `alter table holdfast_${table} add ${kind} ${name} ${rest}, algorithm = inplace, lock = none`,
    );
  }

  pollSoon(): void {
    this.#poll?.pollSoon();
  }

  /** The server reuses session numbers after a restart, so the session is also identified by its host and port. */
  async endSession(session: number): Promise<void> {
    const seenAs = this.#lost.get(session) ?? null;
    const look = sql`
      select id as id
        from information_schema.processlist
       where id = ${session}
         and host = coalesce(${seenAs}, host)`;
    for (let waitedMs = 0; waitedMs < SESSION_ENDS_MS_MAX; waitedMs += SESSION_LOOK_MS) {
      const rows = await this.all(look);
      if (rows.length === 0) return void this.#lost.delete(session);
      if (waitedMs === 0) await this.#kill(session);
      else await sleep(this.runtime, SESSION_LOOK_MS);
    }
    throw new StoreBusyError({ store: this.name, waitedMs: SESSION_ENDS_MS_MAX });
  }

  /** Semi-synchronous replication promises nothing: the server gives up waiting by itself. */
  async confirm(): Promise<void> {}

  load(): Load {
    return {
      pools: Object.entries(this.#pools).map(([name, { standing }]) => ({ name, ...standing })),
      transactions: sumOf([this.main.tally, this.reserved.tally]),
    };
  }

  /** InnoDB reports its cleanup only to users who may see all processes. */
  async condition(): Promise<null> {
    return null;
  }

  /** Jobs are in one table and are deleted row by row. */
  async dropPartitions(): Promise<void> {}

  /** The server does not push. */
  listen(onHint: (hint: Hint) => void): () => void {
    const poll = new Poll(this.runtime, () => onHint({ kind: "unknown" }));
    this.#poll = poll;
    return () => {
      poll.stop();
      if (this.#poll === poll) this.#poll = null;
    };
  }

  tell(): void {}

  async close(): Promise<void> {
    this.#poll?.stop();
    await Promise.all(Object.values(this.#pools).map((pool) => pool.close()));
  }

  #sessions(pool: Pool): Sessions {
    const { runtime, name: store } = this;
    return new Sessions({ pool, runtime, store, onDoubt: (session) => this.#remember(session) });
  }

  #remember({ id, seenAs }: Session): void {
    if (this.#lost.size >= LOST_MAX) this.#lost.clear();
    this.#lost.set(id, seenAs);
  }

  async #kill(session: number): Promise<void> {
    try {
      await this.main.alone((own) => own.send([`kill ${session}`], { rows: "arrays" }));
    } catch (error) {
      if (!isNoSuchThread(error)) throw error; // it has ended by itself
    }
  }

  /** Lock names have at most 64 characters and are shared by all databases of the server. */
  #lockName(): string {
    return `holdfast migrates ${createHash("sha1").update(this.database).digest("hex")}`;
  }

  #transaction(exchange: Exchange): Transaction {
    return new SharedTransaction((statements) => exchange.sendAll(statements), this.#compiler);
  }

  /** With its values in it. */
  textOf(query: Sql): string {
    return filled(this.#compiler.compile(query));
  }

  /** The clock, as an SQL expression. */
  nowText(): string {
    return this.textOf(this.now());
  }

  /** Tests provide a clock; otherwise the server's is used. */
  #testNow(): number | null {
    return this.runtime === systemRuntime ? null : this.runtime.now();
  }
}
