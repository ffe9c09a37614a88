/** A PostgreSQL database of the kit's own. */
import type { Client as PgClient } from "pg";
import {
  cannotCreate,
  type Database,
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

export class PostgresDatabase implements Database {
  readonly label: string;
  readonly url: string;
  readonly prefix = "holdfast.";
  readonly faults = ["cut", "deafen"] as const;
  readonly #server: string;
  readonly #name: string;

  private constructor(parts: { label: string; server: string; name: string }) {
    this.label = parts.label;
    this.#server = parts.server;
    this.#name = parts.name;
    this.url = withDatabase(parts.server, parts.name);
  }

  static async create(server: string): Promise<PostgresDatabase> {
    const name = scratchName();
    try {
      await ask(server, `create database ${name}`);
    } catch (error) {
      throw cannotCreate(error);
    }
    const [version] = await ask(server, "show server_version");
    const label = `PostgreSQL ${String(version?.["server_version"]).split(" ")[0]}`;
    return new PostgresDatabase({ label, server, name });
  }

  query(text: string): Promise<Row[]> {
    return ask(this.url, text);
  }

  async watch(tables: readonly Watched[]): Promise<void> {
    // The user's own schema, if there is one, comes before: it may be the product's.
    await this.query(`set search_path = public;
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
      await this.query(`create trigger verify_${table} after ${times} on ${name}
        for each row execute function public.verify_see('${table}')`);
  }

  async cut(whom: number): Promise<boolean> {
    const sessions = await this.query(`select pid from pg_stat_activity
      where datname = current_database() and application_name like 'holdfast%'`);
    const session = sessions[Math.floor(whom * sessions.length)];
    if (session === undefined) return false;
    await this.query(`select pg_terminate_backend(${Number(session["pid"])})`);
    return true;
  }

  async storm(): Promise<void> {
    // Writers of PostgreSQL do not wait for one another's rows.
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await ask(this.#server, `drop database if exists ${this.#name} with (force)`);
  }
}

/** By a connection of its own: the one of before may have been cut. */
async function ask(url: string, text: string): Promise<Row[]> {
  const { default: pg } = await import("pg");
  const client: PgClient = new pg.Client({
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
}
