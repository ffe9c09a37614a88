/** Connections of an application's own, with the drivers themselves. */
import { DatabaseSync } from "node:sqlite";
import { createConnection } from "mysql2/promise";
import { Client } from "pg";

export interface Connection extends AsyncDisposable {
  /** What a transaction is given as. */
  readonly tx: unknown;
  run(text: string): Promise<void>;
  count(): Promise<number>;
}

const COUNT = "select count(*) as n from orders";

export const connections: Readonly<Record<string, (url: string) => Promise<Connection>>> = {
  async SQLite(url) {
    // It waits for the worker's own short writes.
    const db = new DatabaseSync(url.slice("sqlite:".length), { timeout: 5_000 });
    return {
      tx: db,
      run: async (text) => db.exec(text === "begin" ? "begin immediate" : text),
      count: async () => Number(db.prepare(COUNT).get()?.["n"]),
      [Symbol.asyncDispose]: async () => db.close(),
    };
  },
  async PostgreSQL(url) {
    const client = new Client(url);
    await client.connect();
    return {
      tx: client,
      run: async (text) => void (await client.query(text)),
      count: async () => Number((await client.query<{ n: string }>(COUNT)).rows[0]?.n),
      [Symbol.asyncDispose]: () => client.end(),
    };
  },
  async MariaDB(url) {
    const connection = await createConnection(url);
    return {
      tx: connection,
      run: async (text) => void (await connection.query(text)),
      async count() {
        const [rows] = await connection.query(COUNT);
        return Number((rows as { n: number }[])[0]?.n);
      },
      [Symbol.asyncDispose]: () => connection.end(),
    };
  },
};
