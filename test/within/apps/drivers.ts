/** Applications that use a driver and nothing else, each told to read values in another way than ours. */
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { createConnection, createPool } from "mysql2";
import { createPool as createPromisePool } from "mysql2/promise";
import { Pool, types } from "pg";
import postgres from "postgres";
import { fileOf, Rollback, rolledBack, said, saidNested, type App, type Kind } from "./app.ts";

const BEGIN = {
  postgres: "begin isolation level serializable",
  mysql: "set transaction isolation level serializable",
};

/** Options of `pg`: big integers as BigInt. */
export const readsBigInts = {
  types: {
    getTypeParser: (oid: number, format?: any): any =>
      oid === 20 ? BigInt : types.getTypeParser(oid, format),
  },
};

/** Options of `mysql2`. */
export const readsTexts = { supportBigNumbers: true, bigNumberStrings: true };

async function openPg(url: string): Promise<App> {
  const pool = new Pool({ connectionString: url, ...readsBigInts });
  const idle = await pool.connect();
  const app: App = {
    over: /no transaction open/,
    notTx: [
      [pool, /pool\.connect\(\)/],
      [idle, /send `begin` first/],
    ],
    order: async (tx, id) => void (await tx.query("insert into orders values ($1)", [id])),
    async transaction(body, options) {
      const client = await pool.connect();
      try {
        const begin = options?.serializable ? BEGIN.postgres : "begin";
        return await said(
          (text) => client.query(text),
          () => body(client),
          begin,
        );
      } finally {
        client.release();
      }
    },
    nested: (outer, inner) =>
      app.transaction((tx) =>
        saidNested(
          (text) => tx.query(text),
          () => outer(tx),
          () => inner(tx),
        ),
      ),
    async [Symbol.asyncDispose]() {
      idle.release();
      await pool.end();
    },
  };
  return app;
}

async function openPostgresJs(url: string): Promise<App> {
  const sql = postgres(url, {
    transform: postgres.camel,
    types: { bigint: postgres.BigInt },
    fetch_types: false,
    max: 2,
    onnotice: () => {},
  });
  return {
    over: /has ended/,
    notTx: [[sql, /sql\.begin/]],
    order: async (tx, id) => void (await tx`insert into orders values (${id})`),
    transaction: (body, options) =>
      sql.begin(options?.serializable ? "isolation level serializable" : "", body) as Promise<any>,
    nested: (outer, inner) =>
      sql.begin(async (tx) => {
        await outer(tx);
        await rolledBack(() =>
          tx.savepoint(async (deeper) => {
            await inner(deeper);
            throw new Rollback();
          }),
        );
      }),
    [Symbol.asyncDispose]: () => sql.end(),
  };
}

/** What is said in a transaction of `mysql2`, which has no word for its isolation level. */
async function mysqlTransaction<T>(
  say: (text: string) => Promise<unknown>,
  body: () => Promise<T>,
  options: { readonly serializable: boolean } | undefined,
): Promise<T> {
  if (options?.serializable) await say(BEGIN.mysql);
  return said(say, body, "start transaction");
}

async function openMysql2(url: string): Promise<App> {
  const pool = createPromisePool({
    uri: url,
    ...readsTexts,
    namedPlaceholders: true,
    rowsAsArray: true,
  });
  const idle = await pool.getConnection();
  const app: App = {
    over: /no transaction open/,
    notTx: [
      [pool, /pool\.getConnection\(\)/],
      [idle, /`start transaction` first/],
    ],
    order: async (tx, id) => void (await tx.query("insert into orders values (?)", [id])),
    async transaction(body, options) {
      const connection = await pool.getConnection();
      try {
        const say = (text: string) => connection.query(text);
        return await mysqlTransaction(say, () => body(connection), options);
      } finally {
        connection.release();
      }
    },
    nested: (outer, inner) =>
      app.transaction((tx) =>
        saidNested(
          (text) => tx.query(text),
          () => outer(tx),
          () => inner(tx),
        ),
      ),
    async [Symbol.asyncDispose]() {
      idle.release();
      await pool.end();
    },
  };
  return app;
}

/** The same with callbacks. */
async function openMysql2Callbacks(url: string): Promise<App> {
  const pool = createPool(url);
  const connection = createConnection({ uri: url, ...readsTexts });
  const say = (text: string): Promise<unknown> =>
    new Promise((resolve, reject) =>
      connection.query(text, (error, answer) => (error === null ? resolve(answer) : reject(error))),
    );
  const app: App = {
    over: /no transaction open/,
    notTx: [
      [pool, /pool\.getConnection\(\)/],
      [connection, /`start transaction` first/],
    ],
    order: async (_tx, id) => void (await say(`insert into orders values (${id})`)),
    transaction: (body, options) => mysqlTransaction(say, () => body(connection), options),
    nested: (outer, inner) =>
      app.transaction((tx) =>
        saidNested(
          say,
          () => outer(tx),
          () => inner(tx),
        ),
      ),
    async [Symbol.asyncDispose]() {
      await promisify(connection.end.bind(connection))();
      await promisify(pool.end.bind(pool))();
    },
  };
  return app;
}

async function openNodeSqlite(url: string): Promise<App> {
  const db = openDatabase(url);
  const say = (text: string): void => db.exec(text);
  const app: App = {
    over: /no transaction open/,
    notTx: [[db, /begin immediate/]],
    order: async (_tx, id) => say(`insert into orders values (${id})`),
    transaction: (body) => said(say, () => body(db), "begin immediate"),
    nested: (outer, inner) =>
      app.transaction((tx) =>
        saidNested(
          say,
          () => outer(tx),
          () => inner(tx),
        ),
      ),
    [Symbol.asyncDispose]: async () => db.close(),
  };
  return app;
}

/** It waits a while for others who write, and gives integers as BigInt. */
export function openDatabase(url: string): DatabaseSync {
  return new DatabaseSync(fileOf(url), { timeout: 5_000, readBigInts: true });
}

export const drivers: readonly Kind[] = [
  { name: "pg", database: "PostgreSQL", open: openPg },
  { name: "postgres", database: "PostgreSQL", open: openPostgresJs },
  { name: "mysql2 with promises", database: "MariaDB", open: openMysql2 },
  { name: "mysql2 with callbacks", database: "MariaDB", open: openMysql2Callbacks },
  { name: "node:sqlite", database: "SQLite", open: openNodeSqlite },
];
