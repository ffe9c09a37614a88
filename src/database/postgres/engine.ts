/**
 * PostgreSQL, through `pg`.
 *
 * Hot operations are one statement each and run on a small pool of their own, so that they never queue behind others.
 * On connections that are shared with others, everything works without session state: through PgBouncer in transaction
 * mode, and on a user's pool.
 */
import { StoreBusyError, StoreUnavailableError } from "../../core/errors.ts";
import { makeIds } from "../../core/id.ts";
import { type Runtime, systemRuntime } from "../../core/runtime.ts";
import type { UserTransaction } from "../../core/task.ts";
import {
  type Change,
  type Condition,
  type Engine,
  type Hint,
  type Load,
  type MigrationDialect,
  type NewIndex,
  type PushState,
  type Put,
  readLimitMs,
  readNow,
  type Row,
  type Seen,
  type TableCondition,
  type Transaction,
  type WaitLimits,
} from "../engine.ts";
import { createIndex, POSTGRES_TABLE, postgresDialect, postgresMigrations } from "../migrate.ts";
import { noteOf, Notifier } from "../notify.ts";
import { columnList, Compiler, nothing, sql, type Sql, type SqlValue } from "../sql.ts";
import {
  loadDriver,
  type PgPool,
  type PgResult,
  placeOf,
  type PostgresAddress,
  SCHEMA,
} from "./address.ts";
import {
  beginMigration,
  briefly,
  buildIndex,
  DDL_LOCK_MS,
  FORGET_SNAPSHOT,
  MIGRATION_MS_MAX,
} from "./ddl.ts";
import { readOnly } from "./errors.ts";
import {
  addPartitions,
  dropWeek,
  endOf,
  dialect,
  isOver,
  LIST,
  LOCK,
  partitionsFrom,
} from "./dialect.ts";
import { Listener, notify, type PushParts } from "./listen.ts";
import { confirm, endSession } from "./lost-session.ts";
import { hazards } from "./search-path.ts";
import {
  loadOf,
  openPool,
  type Pool,
  type Send,
  type Sending,
  Sessions,
  type Use,
} from "./session.ts";
import { CommitNotes, sendIn, SharedTransaction, userTransaction } from "./transaction.ts";

interface PostgresOptions {
  readonly address: PostgresAddress;
  readonly runtime: Runtime;
  /** A user's pool, for everything but the hot operations. */
  readonly pool?: PgPool;
  /** False: the settings of the user's pool cannot be copied, so everything runs on it. */
  readonly ownPools?: boolean;
}

const POOL_MAX = 10;

/** One for each lane, and one that renews or settles in the meantime. */
const RESERVED_MAX = 4;

/** Dropping a week locks its tables and claims wait for it, so it does not wait for long transactions. */
const DROP_LOCK_MS = 1_000;

/** As part of a statement: the commit of its transaction does not wait for the disk. */
const UNSYNCED = sql`set_config('synchronous_commit', 'off', true) = 'off'`;

export class PostgresEngine implements Engine {
  readonly kind = "postgres";
  readonly name: string;
  readonly migrations = postgresMigrations();
  readonly migrationDialect: MigrationDialect;
  readonly dialect = dialect;
  readonly address: { engine: string; options: Record<string, unknown> } | null;
  readonly runtime: Runtime;
  /** While one cycle waits for the disk and one computes, the worker reads the answer of the third. */
  readonly pollCycles = 3;
  readonly #schema: string;
  readonly #main: Sessions;
  /** For the hot statements, which never queue behind others. */
  readonly reserved: Sessions;
  readonly #compiler: Compiler;
  readonly #names = new Map<string, string>();
  readonly #push: PushParts;
  readonly #commitNotes: CommitNotes;
  readonly notifier: Notifier;
  #listener: Listener | null = null;
  #database = "";

  static async open(options: PostgresOptions): Promise<PostgresEngine> {
    const { address, runtime, pool, ownPools = true } = options;
    const pg = await loadDriver();
    const store = placeOf(address);
    const users: Pool | null =
      pool === undefined ? null : { pool, direct: false, end: () => Promise.resolve() };
    const own = (use: Use, max: number): Promise<Pool> =>
      openPool(pg, address, { max, store, use });
    const main = users ?? (await own("cold", POOL_MAX));
    const reserved = users !== null && !ownPools ? users : await own("hot", RESERVED_MAX);
    const sessions = (use: Use, some: Pool): Sessions =>
      new Sessions({ pool: some, runtime, store, use });
    const parts = { pg, store, main: sessions("cold", main), reserved: sessions("hot", reserved) };
    const engine = new PostgresEngine(parts, options);
    try {
      engine.#database = await checkServer(engine);
    } catch (error) {
      await engine.close();
      throw error;
    }
    return engine;
  }

  private constructor(
    parts: { pg: PushParts["pg"]; store: string; main: Sessions; reserved: Sessions },
    { address, runtime, ownPools = true }: PostgresOptions,
  ) {
    this.name = parts.store;
    this.runtime = runtime;
    this.#schema = address.schema;
    this.migrationDialect = postgresDialect(address.schema);
    this.address = ownPools ? { engine: "postgres", options: { ...address } } : null;
    this.#main = parts.main;
    this.reserved = parts.reserved;
    this.#compiler = new Compiler({
      prefix: `"${this.#schema}".`,
      placeholder: (position) => `$${position}`,
    });
    this.#push = {
      pg: parts.pg,
      // Through PgBouncer a session cannot listen: other clients would get its notifications.
      address: this.reserved.direct ? address : null,
      sessions: this.#main,
      runtime,
      sender: makeIds(systemRuntime)(),
    };
    const { sender } = this.#push;
    this.#commitNotes = new CommitNotes({ channel: this.#schema, sender });
    this.notifier = new Notifier({
      runtime,
      sender,
      send: (notes) => notify(this.#main, this.#schema, notes),
    });
  }

  get database(): string {
    return this.#schema === SCHEMA ? this.#database : `${this.#database}.${this.#schema}`;
  }

  now(): Sql {
    return sql`coalesce(${this.testNow()}::bigint, (extract(epoch from statement_timestamp()) * 1000)::bigint)`;
  }

  among(column: Sql, values: readonly string[]): Sql {
    return sql`${column} = any(${values})`;
  }

  mayBeId(text: string): boolean {
    return UUID.test(text);
  }

  async all<T = Row>(query: Sql): Promise<T[]> {
    const limitMs = readLimitMs();
    const sending = this.compile(query);
    const { rows } = await (limitMs === undefined
      ? this.#main.read(sending)
      : this.#main.readWithin(limitMs, sending));
    return rows as T[];
  }

  /** On the reserved pool: heartbeats never queue behind other transactions. */
  async change<T = Row>({ table, set, where, returning, durable = true }: Change): Promise<T[]> {
    const hurry = durable ? nothing : sql`and ${UNSYNCED}`;
    const query = sql`update ${table} set ${set} where (${where}) ${hurry} returning ${returning}`;
    const { rows } = await this.reserved.write(this.compile(query));
    return rows as T[];
  }

  async put<T = Row>(put: Put): Promise<T[]> {
    const { table, columns, values, key, set, where, returning, durable = true } = put;
    const { rows } = await this.#main.write(
      this.compile(sql`
        insert into ${table} as was (${columnList(columns)})
        select ${values} ${durable ? nothing : sql`where ${UNSYNCED}`}
            on conflict (${columnList(key)}) do update set ${set} where ${where}
        returning ${returning}`),
    );
    return rows as T[];
  }

  transaction<T>(body: (tx: Transaction) => Promise<T>, waitLimits?: WaitLimits): Promise<T> {
    return this.#commitNotes.during((begin) =>
      this.#main.transaction(
        (send, client) => body(begin(this.#transaction(send, { ahead: client.pipeline === true }))),
        waitLimits,
      ),
    );
  }

  typed(value: SqlValue): Sql {
    return typeof value === "number" ? sql`${value}::bigint` : sql`${value}::text`;
  }

  lockRows(): Sql {
    return sql`for update`;
  }

  lockFreeRows(): Sql {
    return sql`for update skip locked`;
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

  async run(query: Sql): Promise<number> {
    return (await this.#main.write(this.compile(query))).rowCount ?? 0;
  }

  userTransaction<T>(
    body: (user: UserTransaction) => Promise<T>,
    last: (tx: Transaction, value: T) => Promise<void>,
  ): Promise<T> {
    return userTransaction(this.#main, body, (send, value) => last(this.#transaction(send), value));
  }

  inUserTransaction<T>(tx: unknown, body: (tx: Transaction) => Promise<T>): Promise<T> {
    return body(this.#transaction(sendIn(tx, this.name)));
  }

  async notifyInUserTx(tx: Transaction, hint: Hint): Promise<void> {
    // With another sender, because this process has not seen the hint either.
    await tx.all(sql`select pg_notify(${this.#schema}, ${`sql:${noteOf(hint)}`})`);
  }

  notifyInTx(tx: Transaction, hints: readonly Hint[]): Promise<void> {
    return this.#commitNotes.send(tx, hints);
  }

  async hasTable(name: string): Promise<boolean> {
    const [row] = await this.all<{ there: boolean }>(
      sql`select to_regclass(${`"${this.#schema}".${name}`}) is not null as there`,
    );
    return row?.there === true;
  }

  migrationLock<T>(body: (tx: Transaction) => Promise<T>): Promise<T> {
    const migrate = async (send: Send): Promise<T> => {
      await beginMigration(send, { schema: this.#schema, store: this.name });
      const tx = this.#transaction(send, { answerMs: MIGRATION_MS_MAX });
      await this.#makeSchema(tx);
      const value = await body(tx);
      await addPartitions(this, tx);
      return value;
    };
    return briefly(this.runtime, (lockMs) => this.#main.transaction(migrate, { lockMs }));
  }

  async buildIndex(tx: Transaction, index: NewIndex, isEmpty: boolean): Promise<void> {
    if (isEmpty) return tx.script(createIndex(index));
    await tx.script(FORGET_SNAPSHOT);
    const limitMs = MIGRATION_MS_MAX;
    await buildIndex({ engine: this, sessions: this.#main, schema: this.#schema, limitMs }, index);
  }

  pollSoon(): void {
    this.#listener?.pollSoon();
  }

  /** The shared SQL over a session of the hot pool. */
  transactionOn(send: Send): Transaction {
    return this.#transaction(send);
  }

  endSession(session: number): Promise<void> {
    return endSession(this, session);
  }

  confirm(seen: Seen): Promise<void> {
    const write = (sending: Sending): Promise<PgResult> => this.#main.write(sending);
    return confirm({ spell: (text) => this.spell(text), write }, seen);
  }

  load(): Load {
    return loadOf(this.#main, this.reserved);
  }

  condition(): Promise<Condition> {
    return condition(this, this.#schema);
  }

  hazards(): Promise<string[]> {
    return hazards(this);
  }

  async dropPartitions(finishedForMs: number): Promise<void> {
    const now = await readNow(this);
    const { rows } = await this.#main.read({ text: LIST, values: [`"${this.#schema}".job`] });
    const names = (rows as { name: string }[]).map(({ name }) => name);
    for (const name of names) {
      if (endOf(name) < now - finishedForMs) await this.#dropWeek(name, now - finishedForMs);
    }
    const missing = partitionsFrom(now).filter(({ name }) => !names.includes(name));
    if (missing.length > 0) await this.#addWeeks();
  }

  listen(onHint: (hint: Hint) => void): () => void {
    const listener = new Listener(this.#push, onHint);
    this.#listener = listener;
    return () => {
      listener.stop();
      if (this.#listener === listener) this.#listener = null;
    };
  }

  pushState(): PushState {
    return this.#listener?.state ?? "off";
  }

  tell(hint: Hint): void {
    if (!this.#commitNotes.has(hint)) this.notifier.tell(hint);
  }

  async close(): Promise<void> {
    this.#listener?.stop();
    await this.notifier.stop();
    await Promise.all([this.#main.end(), this.reserved.end()]);
  }

  /** Shared statements are few and repeated, so each is prepared once under its own name. */
  compile(query: Sql): Sending {
    const { text, values } = this.#compiler.compile(query);
    return { ...this.#named(text), values };
  }

  #named(text: string): { text: string; name: string } {
    let name = this.#names.get(text);
    if (name === undefined) {
      name = `holdfast_${this.#names.size + 1}`;
      this.#names.set(text, name);
    }
    return { text, name };
  }

  reportRows(rows: string): Sql {
    return sql`json_to_recordset(${rows}::json) as r (seq integer, kind text, name text, age bigint, data text)`;
  }

  spell(text: string): string {
    return text.replaceAll("holdfast.", `"${this.#schema}".`);
  }

  /** Tests provide a clock; otherwise the database's is used. */
  testNow(): number | null {
    return this.runtime === systemRuntime ? null : this.runtime.now();
  }

  async #makeSchema(tx: Transaction): Promise<void> {
    const [known] = await tx.all<{ there: boolean }>(
      sql`select to_regnamespace(${`"${this.#schema}"`}) is not null as there`,
    );
    // Checked first: a user who may not create schemas can still use an existing one.
    if (known?.there !== true) await tx.script(`create schema "${this.#schema}"`);
    await tx.script(POSTGRES_TABLE);
  }

  /** Weeks are added ahead of time: one that an open transaction prevents is added by the next run. */
  async #addWeeks(): Promise<void> {
    try {
      await this.transaction((tx) => addPartitions(this, tx), { lockMs: DDL_LOCK_MS });
    } catch (error) {
      if (!(error instanceof StoreBusyError)) throw error;
    }
  }

  async #dropWeek(name: string, finishedBefore: number): Promise<void> {
    try {
      await this.#main.transaction(
        async (send) => {
          await send({ text: `set local lock_timeout = ${DROP_LOCK_MS}` });
          // Checked under the lock: a job that is retried in the meantime would lose its input.
          await send({ text: this.spell(LOCK) });
          const text = this.spell(isOver(name));
          const { rows } = await send({ text, values: [finishedBefore] });
          if ((rows[0] as { over: boolean }).over) {
            await this.#transaction(send).script(dropWeek(name));
          }
        },
        { once: true },
      );
    } catch (error) {
      if (!(error instanceof StoreBusyError)) throw error; // the next run tries again
    }
  }

  /** `ahead`: the connection accepts a statement before the previous one is answered. */
  #transaction(send: Send, limits: { answerMs?: number; ahead?: boolean } = {}): Transaction {
    return new SharedTransaction({
      send,
      compile: (query) => this.compile(query),
      spell: (text) => this.spell(text),
      name: (text) => this.#named(text),
      ...limits,
    });
  }
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The tables whose rows come and go with every job. */
const HOT_TABLES = ["ready", "lease", "waiting", "job_key", "wait", "worker", "lock"];

type ConditionRow = { [name in keyof TableCondition]: TableCondition[name] | null } & {
  readonly oldest: number | null;
};

/** Rows that wait for vacuum, and the age of the transaction that prevents it. */
async function condition(engine: Engine, schema: string): Promise<Condition> {
  const rows = await engine.all<ConditionRow>(sql`
    select t.relname as "table", t.n_live_tup as live, t.n_dead_tup as dead,
           (select (extract(epoch from clock_timestamp() - min(a.xact_start)) * 1000)::bigint
              from pg_catalog.pg_stat_activity a
             where a.datname = current_database() and a.pid <> pg_backend_pid()) as oldest
      from pg_catalog.pg_stat_user_tables t
     where t.schemaname = ${schema}
       and t.relname = any(${HOT_TABLES})
     order by t.relname`);
  return {
    oldestTransactionMs: rows[0]?.oldest ?? null,
    tables: rows.map(({ table, live, dead }) => ({
      table: String(table),
      live: Number(live),
      dead: Number(dead),
    })),
  };
}

const OLDEST = 140_000;

interface Server {
  readonly database: string;
  readonly number: number;
  readonly version: string;
  readonly replica: boolean;
  readonly readOnly: string;
}

/** Checks that the server can be used, and returns the name of the database. */
async function checkServer(engine: Engine): Promise<string> {
  const [row] = await engine.all<Server>(sql`
    select current_database() as database,
           current_setting('server_version_num')::int as number,
           current_setting('server_version') as version,
           pg_is_in_recovery() as replica,
           current_setting('transaction_read_only') as "readOnly"`);
  const server = row as Server;
  if (server.number < OLDEST) {
    throw new StoreUnavailableError({
      problem: `${engine.name} runs PostgreSQL ${server.version}.`,
      remedy: "Holdfast needs PostgreSQL 14 or later.",
    });
  }
  if (server.replica || server.readOnly === "on") {
    const [problem, remedy] = readOnly(engine.name);
    throw new StoreUnavailableError({ problem, remedy });
  }
  return server.database;
}
