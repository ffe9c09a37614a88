/** A scratch SQLite file. */
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { InvalidArgumentError } from "../core/errors.ts";
import { sleep, systemRuntime } from "../core/runtime.ts";
import {
  type Database,
  jsonOf,
  LEDGER_TABLE,
  type Row,
  triggerTimes,
  type Watched,
  WITNESS,
} from "./database.ts";

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
