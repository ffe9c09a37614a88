/** Databases of our own on a server that others may use too: made for a test, gone after it. */
import { createConnection, type Connection, type RowDataPacket } from "mysql2/promise";
import { Client } from "pg";

/** How long to wait for the last connections to leave a database. */
const DROP_LIMIT_S = 10;

/** A server that other tests keep busy accepts a connection this late at most. */
const CONNECT_LIMIT_MS = 30_000;

const SCHEMA = "holdfast";

export type Sql = "postgres" | "mysql";

/** Letters, digits and underscores: these names stand in statements as they are. */
const NAME = /^[a-z][a-z0-9_]{0,62}$/;

/** The same server, another database. */
export function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}

export async function createDatabase(kind: Sql, url: string, name: string): Promise<void> {
  refuseOddName(name);
  await (kind === "postgres"
    ? inPostgres(url, async (client) => {
        await client.query(`create database ${name}`);
        await searchPublic(client, url, name);
      })
    : inMysql(url, async (connection) => connection.query(`create database ${name}`)));
}

/** A copy of a database that has no connections. */
export async function copyInPostgres(url: string, name: string, from: string): Promise<void> {
  refuseOddName(name);
  refuseOddName(from);
  await inPostgres(url, async (client) => {
    await client.query(`create database ${name} template ${from}`);
    await searchPublic(client, url, name);
  });
}

/** The tests may be given a user with the name of our schema, about which they would be warned everywhere. */
async function searchPublic(client: Client, url: string, name: string): Promise<void> {
  if (new URL(url).username !== SCHEMA) return;
  await client.query(`alter database ${name} set search_path = public`);
}

/** Drops it, also while clients are connected. */
export async function dropDatabase(kind: Sql, url: string, name: string): Promise<void> {
  refuseOddName(name);
  await (kind === "postgres"
    ? inPostgres(url, async (client) =>
        client.query(`drop database if exists ${name} with (force)`),
      )
    : inMysql(url, async (connection) => dropInMysql(connection, name)));
}

/** Drops what the tests of a run left behind because they failed or were ended. */
export async function dropAll(kind: Sql, url: string, prefix: string): Promise<string[]> {
  const names = await (kind === "postgres" ? namesInPostgres(url) : namesInMysql(url));
  const left = names.filter((name) => name.startsWith(prefix));
  for (const name of left) await dropDatabase(kind, url, name);
  return left;
}

async function namesInPostgres(url: string): Promise<string[]> {
  return inPostgres(url, async (client) => {
    const { rows } = await client.query<{ name: string }>(
      "select datname as name from pg_database",
    );
    return rows.map(({ name }) => name);
  });
}

async function namesInMysql(url: string): Promise<string[]> {
  return inMysql(url, async (connection) => {
    const [rows] = await connection.query<(RowDataPacket & { name: string })[]>(
      "select schema_name as name from information_schema.schemata",
    );
    return rows.map(({ name }) => name);
  });
}

/** An open transaction would hold the drop up, so its connection is ended first. */
async function dropInMysql(connection: Connection, name: string): Promise<void> {
  const [rows] = await connection.query<(RowDataPacket & { id: number })[]>(
    "select id as id from information_schema.processlist where db = ? and id <> connection_id()",
    [name],
  );
  for (const { id } of rows) await connection.query(`kill ${id}`).catch(() => {}); // It may have left.
  await connection.query(`set session lock_wait_timeout = ${DROP_LIMIT_S}`);
  await connection.query(`drop database if exists ${name}`);
}

async function inPostgres<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

async function inMysql<T>(url: string, work: (connection: Connection) => Promise<T>): Promise<T> {
  const connection = await createConnection({ uri: url, connectTimeout: CONNECT_LIMIT_MS });
  try {
    return await work(connection);
  } finally {
    await connection.end();
  }
}

function refuseOddName(name: string): void {
  if (!NAME.test(name)) throw new Error(`'${name}' is no name for a scratch database.`);
}
