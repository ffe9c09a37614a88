/** A database that logs every statement it receives. No other process uses it. */
import { createConnection, type Connection, type RowDataPacket } from "mysql2/promise";
import type { ServerName } from "../scripts/services/names.ts";
import { Supply } from "../scripts/services/supply.ts";
import { startMariadb, startPostgres, type GuardedServer } from "../test/support/servers.ts";
import { progress } from "./figures.ts";
import type { SqlEngine } from "./fill.ts";
import { scratchPlace } from "./places.ts";

export interface Heard {
  /** How it was heard. */
  readonly source: string;
  /** The beginning of each. */
  readonly statements: readonly string[];
}

export interface Witness extends AsyncDisposable {
  readonly url: string;
  begin(): Promise<void>;
  /** What came since the beginning; null where a database has no server. */
  end(): Promise<Heard | null>;
}

const SHOWN = 100;

export async function openWitness(engine: SqlEngine): Promise<Witness> {
  switch (engine) {
    case "sqlite":
      return openFile();
    case "postgres":
      return openPostgres();
    case "mariadb":
      return openMariadb();
  }
}

async function openFile(): Promise<Witness> {
  const place = await scratchPlace("sqlite");
  return {
    url: place.url,
    async begin() {},
    end: async () => null,
    [Symbol.asyncDispose]: () => place[Symbol.asyncDispose](),
  };
}

/** Makes sure that the programs are there, as the tests do. */
async function bringPrograms(name: ServerName): Promise<void> {
  const surroundings = { env: process.env, say: progress };
  await using supply = await Supply.for({ shared: [], own: [name] }, surroundings);
  const [missing] = supply.missing;
  if (missing !== undefined) throw new Error(missing.reason);
}

/** A line for every statement that is executed, whichever way it was sent. */
const PG_LOGGED = /LOG: {2}(?:statement|execute ([^:]*)): ([^]*?)(?=\n\d{4}-|$)/g;

async function openPostgres(): Promise<Witness> {
  await bringPrograms("postgres");
  const server = await startPostgres({ settings: { log_statement: "all" } });
  let from = 0;
  return {
    url: server.url,
    async begin() {
      from = server.log().length;
    },
    async end() {
      const found = [...server.log().slice(from).matchAll(PG_LOGGED)];
      const statements = found.map(([, name = "", text = ""]) => `${nameOf(name)}${shown(text)}`);
      return { source: "by log_statement=all", statements };
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

function nameOf(prepared: string): string {
  return prepared.startsWith("<") || prepared === "" ? "" : `[${prepared}] `;
}

function shown(text: string): string {
  return text.trim().replaceAll(/\s+/g, " ").slice(0, SHOWN);
}

async function openMariadb(): Promise<Witness> {
  await bringPrograms("mysql");
  const server = await startMariadb({ settings: { "log-output": "TABLE" } });
  const listener = await createConnection(server.url);
  return {
    url: server.url,
    async begin() {
      await listener.query("set global general_log = on");
    },
    async end() {
      await listener.query("set global general_log = off");
      return { source: "by general_log", statements: await generalLog(listener) };
    },
    [Symbol.asyncDispose]: () => endBoth(listener, server),
  };
}

async function generalLog(listener: Connection): Promise<string[]> {
  const [rows] = await listener.query<(RowDataPacket & { argument: Buffer | string })[]>(`
    select argument
      from mysql.general_log
     where command_type in ('Query', 'Execute')
       and thread_id <> connection_id()`);
  return rows.map(({ argument }) => shown(argument.toString()));
}

async function endBoth(listener: Connection, server: GuardedServer): Promise<void> {
  await listener.end();
  await server[Symbol.asyncDispose]();
}
