/**
 * The scratch database of a run, as the kit sees it: plain SQL over its own connections. It is a new database on the
 * user's server, or a new file; other databases there are not touched.
 */
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type * as Mysql from "mysql2/promise";
import type * as Pg from "pg";
import { InvalidArgumentError, StoreUnavailableError } from "../src/core/errors.ts";
import { sleep, systemRuntime } from "../src/core/runtime.ts";
import { importDriver } from "../src/database/engine.ts";
import type { Table } from "./check/history.ts";
import type { FaultKind } from "./plan.ts";
import { LEDGER } from "./tasks.ts";

export type Row = Record<string, string | number | null>;

export interface Database extends AsyncDisposable {
  /** "PostgreSQL 15.4" */
  readonly label: string;
  readonly url: string;
  /** Precedes the names of the product's tables. */
  readonly prefix: string;
  /** Faults that this database supports, besides those of processes. */
  readonly faults: readonly FaultKind[];
  query(text: string): Promise<Row[]>;
  /** Creates the ledger and the witness, whose triggers record every change of a row in these tables. */
  watch(tables: readonly Watched[]): Promise<void>;
  /** Ends one of the product's connections. False: it has none now. */
  cut(whom: number): Promise<boolean>;
  /** Repeatedly keeps all other connections from writing, for this long. */
  storm(ms: number): Promise<void>;
}

export interface Watched {
  readonly table: Table;
  /** Its name in statements. */
  readonly name: string;
}

export const WITNESS = "verify_witness";

export function watchedTables(prefix: string): Watched[] {
  const own = ["ready", "waiting", "lease", "finished", "step", "report"] as const;
  return [
    ...own.map((table) => ({ table, name: prefix + table })),
    { table: "ledger", name: LEDGER },
  ];
}

const LEDGER_TABLE = `create table ${LEDGER} (job_id char(36) not null, epoch int not null)`;

/** A row as a JSON object, for databases whose triggers must name the columns. */
function jsonOf(row: "old" | "new", columns: readonly string[]): string {
  return `json_object(${columns.map((column) => `'${column}', ${row}.${column}`).join(", ")})`;
}

const triggerTimes = [
  { time: "insert", was: false, became: true },
  { time: "update", was: true, became: true },
  { time: "delete", was: true, became: false },
] as const;

// A scratch SQLite file.

/** In a storm the file is locked and free in turns. */
const LOCKED_MS = 150;

const FREE_MS = 15;

const BUSY_MS_MAX = 10_000;

export class SqliteDatabase implements Database {
  readonly label: string;
  readonly url: string;
  readonly prefix = "holdfast_";
  readonly faults = ["storm"] as const;
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
    this.url = `sqlite:${path}`;
    const [row] = this.#ask("select sqlite_version() as version");
    this.label = `SQLite ${String(row?.["version"])}`;
  }

  /** Next to the file that the URL names, on the same disk; that file is not touched. */
  static async create(url: string | undefined, folder: string): Promise<SqliteDatabase> {
    if (url === undefined) return new SqliteDatabase(join(folder, "verify.db"));
    if (!url.startsWith("sqlite:") || url === "sqlite::memory:") {
      const problem =
        "pass sqlite:<file>, postgres://… or mysql://…; an in-memory database belongs to a single process.";
      throw new InvalidArgumentError({ field: "url", problem });
    }
    return new SqliteDatabase(`${resolve(url.slice("sqlite:".length))}.verify-${process.pid}`);
  }

  async query(text: string): Promise<Row[]> {
    return this.#ask(text);
  }

  async watch(tables: readonly Watched[]): Promise<void> {
    this.#ask(LEDGER_TABLE);
    this.#ask(`create table ${WITNESS} (
      seq integer primary key autoincrement, at_ms integer not null, tx text not null,
      tbl text not null, was text, became text)`);
    for (const { table, name } of tables) {
      const columns = this.#ask(`select name from pragma_table_info('${name}')`);
      const names = columns.map((column) => String(column["name"]));
      for (const { time, was, became } of triggerTimes)
        this.#ask(`create trigger verify_${table}_${time} after ${time} on ${name} begin
          insert into ${WITNESS} (at_ms, tx, tbl, was, became) values (
            cast(unixepoch('subsec') * 1000 as integer), '', '${table}',
            ${was ? jsonOf("old", names) : "null"}, ${became ? jsonOf("new", names) : "null"}); end`);
    }
  }

  async cut(): Promise<boolean> {
    return false; // SQLite has no connections to cut.
  }

  async storm(ms: number): Promise<void> {
    const until = systemRuntime.monotonic() + ms;
    using database = this.#open(0);
    while (systemRuntime.monotonic() < until) {
      if (tryLock(database)) {
        await sleep(systemRuntime, LOCKED_MS);
        database.exec("rollback");
      }
      await sleep(systemRuntime, FREE_MS);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of ["", "-wal", "-shm"]) rmSync(this.#path + end, { force: true });
  }

  #ask(text: string): Row[] {
    using database = this.#open();
    return database.prepare(text).all() as Row[];
  }

  #open(timeout = BUSY_MS_MAX): DatabaseSync {
    return new DatabaseSync(this.#path, { timeout });
  }
}

/** Does not wait, because waiting would block this thread. */
function tryLock(database: DatabaseSync): boolean {
  try {
    database.exec("begin immediate");
    return true;
  } catch {
    return false;
  }
}

// A scratch database on a PostgreSQL, MySQL or MariaDB server.

const CONNECT_MS_MAX = 5_000;

const ANSWER_MS_MAX = 60_000;

interface Dialect {
  readonly prefix: string;
  readonly version: string;
  label(version: string): string;
  /** Each query has its own connection, because an earlier one may have been cut. */
  ask(url: string, text: string): Promise<Row[]>;
  watch(ask: (text: string) => Promise<Row[]>, tables: readonly Watched[]): Promise<void>;
  /** Lists the product's sessions. */
  readonly sessions: string;
  /** Ends a session. */
  kill(pid: number): string;
  /** Follows the name in `drop database`. */
  readonly force: string;
}

const postgres: Dialect = {
  prefix: "holdfast.",
  version: "show server_version",
  label: (version) => `PostgreSQL ${version.split(" ")[0]}`,

  async ask(url, text) {
    const { default: pg } = (await importDriver("PostgreSQL", "pg")) as typeof Pg;
    const client = new pg.Client({
      connectionString: url,
      application_name: "verify",
      connectionTimeoutMillis: CONNECT_MS_MAX,
      query_timeout: ANSWER_MS_MAX,
    });
    client.on("error", () => {});
    await client.connect();
    try {
      const answer = await client.query<Row>(text);
      return answer.rows ?? [];
    } finally {
      await client.end();
    }
  },

  async watch(ask, tables) {
    // A schema named after the user comes first in the default search path, and may be the product's.
    await ask(`set search_path = public;
${LEDGER_TABLE};
create table ${WITNESS} (
  seq bigserial primary key, at_ms bigint not null, tx text not null, tbl text not null, was text, became text
);
create function verify_see() returns trigger language plpgsql as $$
begin
  insert into public.${WITNESS} (at_ms, tx, tbl, was, became) values (
    floor(extract(epoch from clock_timestamp()) * 1000), txid_current()::text, tg_argv[0],
    case when tg_op <> 'INSERT' then row_to_json(old)::text end,
    case when tg_op <> 'DELETE' then row_to_json(new)::text end);
  return null;
end $$;`);
    const times = triggerTimes.map(({ time }) => time).join(" or ");
    for (const { table, name } of tables)
      await ask(`create trigger verify_${table} after ${times} on ${name}
        for each row execute function public.verify_see('${table}')`);
  },

  sessions: `select pid from pg_stat_activity
    where datname = current_database() and application_name like 'holdfast%'`,
  kill: (pid) => `select pg_terminate_backend(${pid})`,
  force: "with (force)",
};

const mysql: Dialect = {
  prefix: "holdfast_",
  version: "select version() as server_version",
  label: (version) =>
    `${version.includes("MariaDB") ? "MariaDB" : "MySQL"} ${version.split("-")[0]}`,

  async ask(url, text) {
    const { createConnection } = (await importDriver(
      "MySQL and MariaDB",
      "mysql2/promise",
    )) as typeof Mysql;
    const connection = await createConnection({ uri: url, connectTimeout: CONNECT_MS_MAX });
    connection.on("error", () => {});
    try {
      const [rows] = await connection.query({ sql: text, timeout: ANSWER_MS_MAX });
      return Array.isArray(rows) ? (rows as Row[]) : [];
    } finally {
      await connection.end().catch(() => {});
    }
  },

  async watch(ask, tables) {
    await ask(LEDGER_TABLE);
    await ask(`create table ${WITNESS} (
      seq bigint auto_increment primary key, at_ms bigint not null, tx varchar(40) not null,
      tbl varchar(20) not null, was longtext, became longtext)`);
    for (const { table, name } of tables) {
      const rows = await ask(`select column_name as name from information_schema.columns
        where table_schema = database() and table_name = '${name}'`);
      const columns = rows.map((row) => String(row["name"]));
      for (const { time, was, became } of triggerTimes)
        await ask(`create trigger verify_${table}_${time} after ${time} on ${name} for each row
          insert into ${WITNESS} (at_ms, tx, tbl, was, became) values (
            floor(unix_timestamp(sysdate(3)) * 1000), connection_id(), '${table}',
            ${was ? jsonOf("old", columns) : "null"}, ${became ? jsonOf("new", columns) : "null"})`);
    }
  },

  sessions: `select id as pid from information_schema.processlist
    where db = database() and id <> connection_id()`,
  kill: (pid) => `kill ${pid}`,
  force: "",
};

export class ServerDatabase implements Database {
  readonly label: string;
  readonly url: string;
  readonly prefix: string;
  readonly faults = ["cut", "deafen"] as const;
  readonly #dialect: Dialect;
  readonly #server: string;
  readonly #name: string;

  private constructor(dialect: Dialect, parts: { label: string; server: string; name: string }) {
    this.label = parts.label;
    this.prefix = dialect.prefix;
    this.#dialect = dialect;
    this.#server = parts.server;
    this.#name = parts.name;
    const url = new URL(parts.server);
    url.pathname = `/${parts.name}`;
    this.url = url.href;
  }

  static async create(server: string): Promise<ServerDatabase> {
    const dialect = server.startsWith("postgres") ? postgres : mysql;
    const digits = Math.trunc(systemRuntime.random() * 2 ** 32).toString(16);
    const name = `holdfast_verify_${process.pid}_${digits}`;
    try {
      await dialect.ask(server, `create database ${name}`);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      const problem = `Cannot create a scratch database: ${why}.`;
      const remedy = "Use a user who may create databases; other databases are not touched.";
      throw new StoreUnavailableError({ problem, remedy }, error);
    }
    const [row] = await dialect.ask(server, dialect.version);
    const label = dialect.label(String(row?.["server_version"]));
    return new ServerDatabase(dialect, { label, server, name });
  }

  query(text: string): Promise<Row[]> {
    return this.#dialect.ask(this.url, text);
  }

  watch(tables: readonly Watched[]): Promise<void> {
    return this.#dialect.watch((text) => this.query(text), tables);
  }

  async cut(whom: number): Promise<boolean> {
    const sessions = await this.query(this.#dialect.sessions);
    const session = sessions[Math.floor(whom * sessions.length)];
    if (session === undefined) return false;
    await this.query(this.#dialect.kill(Number(session["pid"])));
    return true;
  }

  async storm(): Promise<void> {
    // No session can lock a whole database of a server.
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const drop = `drop database if exists ${this.#name} ${this.#dialect.force}`;
    await this.#dialect.ask(this.#server, drop);
  }
}
