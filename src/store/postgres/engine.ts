/**
 * PostgreSQL, through `pg`.
 *
 * Hot verbs are one statement each and run on a small pool of their own, so that they never queue behind anything else.
 * Everything works without session state where a connection is not ours alone: through PgBouncer in transaction mode,
 * and on a pool that the user brings.
 */
import type { Fence, Settlement } from "../../core/job.ts";
import { makeIds } from "../../core/id.ts";
import { systemRuntime, type Runtime } from "../../core/runtime.ts";
import type {
  Change,
  Claiming,
  Engine,
  MigrationDialect,
  Put,
  Row,
  Transaction,
  PushState,
} from "../engine.ts";
import type { Condition, Load } from "../load.ts";
import { noteOf, Teller } from "../notes.ts";
import type { UserTransaction } from "../../core/step.ts";
import { columnList, Compiler, nothing, sql, type Sql, type SqlValue } from "../sql.ts";
import type { ClaimedJob, Enqueued, Extended, Hint, NewJob, Settled } from "../store.ts";
import { anatomy } from "./anatomy.ts";
import { addBlocks, blocksFrom, dropBlock, endOf, isOver, LIST, LOCK } from "./blocks.ts";
import { condition } from "./condition.ts";
import { endSession } from "./end-session.ts";
import { sendIn } from "./guest.ts";
import { HotVerbs } from "./hot.ts";
import { CommitNotes } from "./commit-notes.ts";
import { Listener, notify, type PushParts } from "./listen.ts";
import { MIGRATION_TABLE, migrationDialect, migrations } from "./migrations.ts";
import { loadDriver, placeOf, SCHEMA, type PgPool, type PostgresAddress } from "./options.ts";
import { reportRows } from "./reports.ts";
import { openPool, type Pool, type Use } from "./pool.ts";
import { checkServer } from "./server.ts";
import { loadOf, Sessions, type Send, type Sending } from "./session.ts";
import { SharedTransaction } from "./transaction.ts";
import { userTransaction } from "./user-transaction.ts";

export interface PostgresOptions {
  readonly address: PostgresAddress;
  readonly runtime: Runtime;
  /** A pool that the user brings, for everything but the hot verbs. */
  readonly pool?: PgPool;
  /** False: a user's pool has settings that cannot be used elsewhere, so everything runs on it. */
  readonly ownPools?: boolean;
}

const POOL_MAX = 10;
/** One for each lane, and one for whoever renews or settles meanwhile. */
const RESERVED_MAX = 4;
/** A migration may build an index over all there is. */
const MIGRATION_MS_MAX = 60 * 60_000;
const MIGRATION_LOCK_MS_MAX = 60_000;
/** Dropping a week locks its tables: claims wait for it, so it does not wait for long transactions. */
const BLOCK_LOCK_MS = 1_000;

/** Says, in a statement and for its transaction alone, that its commit does not wait for the disk. */
const UNSYNCED = sql`set_config('synchronous_commit', 'off', true) = 'off'`;

export class PostgresEngine implements Engine {
  readonly name: string;
  readonly migrations = migrations;
  readonly migrationDialect: MigrationDialect;
  readonly reportRows = reportRows;
  readonly anatomy = anatomy;
  readonly address: { engine: string; options: Record<string, unknown> } | null;
  readonly runtime: Runtime;
  /** While one turn waits for the disk and one computes, the worker reads the answer of the third. */
  readonly lanes = 3;
  readonly #schema: string;
  readonly #main: Sessions;
  readonly #reserved: Sessions;
  readonly #compiler: Compiler;
  readonly #names = new Map<string, string>();
  readonly #hot: HotVerbs;
  readonly #push: PushParts;
  readonly #commitNotes: CommitNotes;
  readonly #teller: Teller;
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
    this.migrationDialect = migrationDialect(address.schema);
    this.address = ownPools ? { engine: "postgres", options: { ...address } } : null;
    this.#main = parts.main;
    this.#reserved = parts.reserved;
    this.#compiler = new Compiler({
      prefix: `"${this.#schema}".`,
      placeholder: (position) => `$${position}`,
    });
    this.#hot = new HotVerbs({
      engine: this,
      sessions: this.#reserved,
      spell: (text) => this.#spell(text),
      testNow: () => this.#testNow(),
      transaction: (send) => this.#transaction(send),
    });
    this.#push = {
      pg: parts.pg,
      // What leaves the session with PgBouncer would be heard by others.
      address: this.#reserved.direct ? address : null,
      sessions: this.#main,
      runtime,
      sender: makeIds(systemRuntime)(),
    };
    const { sender } = this.#push;
    this.#commitNotes = new CommitNotes({ channel: this.#schema, sender });
    this.#teller = new Teller({
      runtime,
      sender,
      send: (notes) => notify(this.#main, this.#schema, notes),
    });
  }

  get database(): string {
    return this.#schema === SCHEMA ? this.#database : `${this.#database}.${this.#schema}`;
  }

  now(): Sql {
    return sql`coalesce(${this.#testNow()}::bigint, (extract(epoch from statement_timestamp()) * 1000)::bigint)`;
  }

  among(column: Sql, values: readonly string[]): Sql {
    return sql`${column} = any(${values})`;
  }

  mayBeId(text: string): boolean {
    return UUID.test(text);
  }

  async all<T = Row>(query: Sql): Promise<T[]> {
    const { rows } = await this.#main.read(this.#compile(query));
    return rows as T[];
  }

  /** Signs of life never queue behind the transactions of others. */
  async change<T = Row>({ table, set, where, returning, durable = true }: Change): Promise<T[]> {
    const hurry = durable ? nothing : sql`and ${UNSYNCED}`;
    const query = sql`update ${table} set ${set} where (${where}) ${hurry} returning ${returning}`;
    const { rows } = await this.#reserved.write(this.#compile(query));
    return rows as T[];
  }

  async put<T = Row>(put: Put): Promise<T[]> {
    const { table, columns, values, key, set, where, returning, durable = true } = put;
    const { rows } = await this.#main.write(
      this.#compile(sql`
        insert into ${table} as was (${columnList(columns)})
        select ${values} ${durable ? nothing : sql`where ${UNSYNCED}`}
            on conflict (${columnList(key)}) do update set ${set} where ${where}
        returning ${returning}`),
    );
    return rows as T[];
  }

  transaction<T>(
    body: (tx: Transaction) => Promise<T>,
    patience?: { readonly lockMs: number },
  ): Promise<T> {
    return this.#commitNotes.during((begin) =>
      this.#main.transaction(
        (send, client) => body(begin(this.#transaction(send, { ahead: client.pipeline === true }))),
        patience,
      ),
    );
  }

  typed(value: SqlValue): Sql {
    return typeof value === "number" ? sql`${value}::bigint` : sql`${value}::text`;
  }

  lockRows(): Sql {
    return sql`for update`;
  }

  async run(query: Sql): Promise<number> {
    return (await this.#main.write(this.#compile(query))).rowCount ?? 0;
  }

  userTransaction<T>(
    body: (user: UserTransaction) => Promise<T>,
    last: (tx: Transaction, value: T) => Promise<void>,
  ): Promise<T> {
    return userTransaction(this.#main, body, (send, value) => last(this.#transaction(send), value));
  }

  asGuest<T>(tx: unknown, body: (tx: Transaction) => Promise<T>): Promise<T> {
    return body(this.#transaction(sendIn(tx, this.name)));
  }

  async tellInside(tx: Transaction, hint: Hint): Promise<void> {
    // As from somebody else: nobody here has heard of it yet.
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
    return this.#main.transaction(async (send) => {
      await send({ text: `set local lock_timeout = ${MIGRATION_LOCK_MS_MAX}` });
      await send({ text: `set local statement_timeout = ${MIGRATION_MS_MAX}` });
      await send({
        text: "select pg_advisory_xact_lock(hashtextextended($1, 0))",
        values: [`holdfast migrates ${this.#schema}`],
        answerMs: MIGRATION_LOCK_MS_MAX * 2,
      });
      const tx = this.#transaction(send, { answerMs: MIGRATION_MS_MAX });
      await this.#makeSchema(tx);
      const value = await body(tx);
      await addBlocks(this, tx);
      return value;
    });
  }

  insert(jobs: readonly NewJob[]): Promise<Enqueued[]> {
    this.#listener?.stir();
    return this.#hot.insert(jobs);
  }

  async settleAndClaim(
    settlements: readonly Settlement[],
    wanted: Claiming | null,
  ): Promise<{ settled: Settled[]; claimed: ClaimedJob[] }> {
    const turn = await this.#hot.settleAndClaim(settlements, wanted);
    if (turn.claimed.length > 0) this.#listener?.stir();
    return turn;
  }

  extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]> {
    return this.#hot.extend(fences, leaseMs);
  }

  endSession(session: number): Promise<void> {
    return endSession(this, session);
  }

  load(): Load {
    return loadOf(this.#main, this.#reserved);
  }

  condition(): Promise<Condition> {
    return condition(this, this.#schema);
  }

  async dropBlocks(finishedForMs: number): Promise<void> {
    const now = await this.#readNow();
    const { rows } = await this.#main.read({ text: LIST, values: [`"${this.#schema}".job`] });
    const names = (rows as { name: string }[]).map(({ name }) => name);
    for (const name of names) {
      if (endOf(name) < now - finishedForMs) await this.#dropBlock(name, now - finishedForMs);
    }
    const missing = blocksFrom(now).filter(({ name }) => !names.includes(name));
    if (missing.length > 0) await this.transaction((tx) => addBlocks(this, tx));
  }

  listen(hear: (hint: Hint) => void): () => void {
    const listener = new Listener(this.#push, hear);
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
    if (!this.#commitNotes.has(hint)) this.#teller.tell(hint);
  }

  async close(): Promise<void> {
    this.#listener?.stop();
    await this.#teller.stop();
    await Promise.all([this.#main.end(), this.#reserved.end()]);
  }

  /** Shared statements are few and come again, so each is prepared once under a name of its own. */
  #compile(query: Sql): Sending {
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

  #spell(text: string): string {
    return text.replaceAll("holdfast.", `"${this.#schema}".`);
  }

  /** A test brings its own clock; otherwise the database's counts. */
  #testNow(): number | null {
    return this.runtime === systemRuntime ? null : this.runtime.now();
  }

  async #readNow(): Promise<number> {
    const [row] = await this.all<{ now: number }>(sql`select ${this.now()} as now`);
    return (row as { now: number }).now;
  }

  async #makeSchema(tx: Transaction): Promise<void> {
    const [known] = await tx.all<{ there: boolean }>(
      sql`select to_regnamespace(${`"${this.#schema}"`}) is not null as there`,
    );
    // Asked first: whoever may not create schemas may still use one that is there.
    if (known?.there !== true) await tx.script(`create schema "${this.#schema}"`);
    await tx.script(MIGRATION_TABLE);
  }

  async #dropBlock(name: string, finishedBefore: number): Promise<void> {
    try {
      await this.#main.transaction(
        async (send) => {
          await send({ text: `set local lock_timeout = ${BLOCK_LOCK_MS}` });
          // Under the lock: a job that is revived meanwhile would lose what it was asked to do.
          await send({ text: this.#spell(LOCK) });
          const { rows } = await send({
            text: this.#spell(isOver(name)),
            values: [finishedBefore],
          });
          if ((rows[0] as { over: boolean }).over) {
            await this.#transaction(send).script(dropBlock(name));
          }
        },
        { once: true },
      );
    } catch (error) {
      if (!(error instanceof Error && error.name === "StoreBusy")) throw error; // next time, then
    }
  }

  /** `ahead`: the connection takes a statement before it has answered the one before. */
  #transaction(send: Send, limits: { answerMs?: number; ahead?: boolean } = {}): Transaction {
    return new SharedTransaction({
      send,
      compile: (query) => this.#compile(query),
      spell: (text) => this.#spell(text),
      name: (text) => this.#named(text),
      ...limits,
    });
  }
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
