/** A MySQL or MariaDB database of the kit's own. */
import {
  cannotCreate,
  type Database,
  jsonOf,
  LEDGER_TABLE,
  type Row,
  scratchName,
  triggerTimes,
  type Watched,
  withDatabase,
  WITNESS,
} from "./database.ts";

const CONNECT_MS_MAX = 5_000;

const ANSWER_MS_MAX = 60_000;

export class MysqlDatabase implements Database {
  readonly label: string;
  readonly url: string;
  readonly prefix = "holdfast_";
  readonly faults = ["cut", "deafen"] as const;
  readonly #server: string;
  readonly #name: string;

  private constructor(parts: { label: string; server: string; name: string }) {
    this.label = parts.label;
    this.#server = parts.server;
    this.#name = parts.name;
    this.url = withDatabase(parts.server, parts.name);
  }

  static async create(server: string): Promise<MysqlDatabase> {
    const name = scratchName();
    try {
      await ask(server, `create database ${name}`);
    } catch (error) {
      throw cannotCreate(error);
    }
    const [row] = await ask(server, "select version() as version");
    const version = String(row?.["version"]);
    const label = `${version.includes("MariaDB") ? "MariaDB" : "MySQL"} ${version.split("-")[0]}`;
    return new MysqlDatabase({ label, server, name });
  }

  query(text: string): Promise<Row[]> {
    return ask(this.url, text);
  }

  async watch(tables: readonly Watched[]): Promise<void> {
    await this.query(LEDGER_TABLE);
    await this.query(`create table ${WITNESS} (
      seq bigint auto_increment primary key, at_ms bigint not null, tx varchar(40) not null,
      tbl varchar(20) not null, was longtext, became longtext)`);
    for (const { table, name } of tables) {
      const columns = await this.#columns(name);
      for (const { time, was, became } of triggerTimes)
        await this
          .query(`create trigger verify_${table}_${time} after ${time} on ${name} for each row
          insert into ${WITNESS} (at_ms, tx, tbl, was, became) values (
            floor(unix_timestamp(sysdate(3)) * 1000), connection_id(), '${table}',
            ${was ? jsonOf("old", columns) : "null"}, ${became ? jsonOf("new", columns) : "null"})`);
    }
  }

  async #columns(table: string): Promise<string[]> {
    const rows = await this.query(`select column_name as name from information_schema.columns
      where table_schema = database() and table_name = '${table}'`);
    return rows.map(({ name }) => String(name));
  }

  async cut(whom: number): Promise<boolean> {
    const sessions = await this.query(`select id as pid from information_schema.processlist
      where db = database() and id <> connection_id()`);
    const session = sessions[Math.floor(whom * sessions.length)];
    if (session === undefined) return false;
    await this.query(`kill ${Number(session["pid"])}`);
    return true;
  }

  async storm(): Promise<void> {
    // Nobody can lock a whole database here.
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await ask(this.#server, `drop database if exists ${this.#name}`);
  }
}

/** By a connection of its own: the one of before may have been cut. */
async function ask(url: string, text: string): Promise<Row[]> {
  const { createConnection } = await import("mysql2/promise");
  const connection = await createConnection({ uri: url, connectTimeout: CONNECT_MS_MAX });
  connection.on("error", () => {});
  try {
    const [rows] = await connection.query({ sql: text, timeout: ANSWER_MS_MAX });
    return Array.isArray(rows) ? (rows as Row[]) : [];
  } finally {
    await connection.end().catch(() => {});
  }
}
