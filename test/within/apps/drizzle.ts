/** Applications that use Drizzle. */
import { createPool } from "mysql2/promise";
import { Pool } from "pg";
import postgres from "postgres";
import { Rollback, rolledBack, type App, type Kind } from "./app.ts";
import { readsBigInts, readsTexts } from "./drivers.ts";

/** Its declarations do not compile without the libraries of every database that it knows. */
const load = (path: string): Promise<any> => import(`drizzle-orm${path}`);
const { sql } = await load("");
const { drizzle: onPg } = await load("/node-postgres");
const { drizzle: onPostgresJs } = await load("/postgres-js");
const { drizzle: onMysql2 } = await load("/mysql2");

function open(db: any, close: () => Promise<void>): App {
  return {
    over: /this transaction of Drizzle has ended\. Await within\(tx\)\.enqueue/,
    notTx: [[db, /db\.transaction/]],
    order: async (tx, id) => void (await tx.execute(sql`insert into orders values (${id})`)),
    transaction: (body, options) =>
      db.transaction(body, options?.serializable ? { isolationLevel: "serializable" } : undefined),
    nested: (outer, inner) =>
      db.transaction(async (tx: any) => {
        await outer(tx);
        await rolledBack(() =>
          tx.transaction(async (deeper: any) => {
            await inner(deeper);
            throw new Rollback();
          }),
        );
      }),
    [Symbol.asyncDispose]: close,
  };
}

export const drizzles: readonly Kind[] = [
  {
    name: "Drizzle on pg",
    database: "PostgreSQL",
    async open(url) {
      const pool = new Pool({ connectionString: url, ...readsBigInts });
      return open(onPg(pool), () => pool.end());
    },
  },
  {
    name: "Drizzle on postgres",
    database: "PostgreSQL",
    async open(url) {
      const client = postgres(url, { max: 2 });
      return open(onPostgresJs(client), () => client.end());
    },
  },
  {
    name: "Drizzle on mysql2",
    database: "MariaDB",
    async open(url) {
      const pool = createPool({ uri: url, ...readsTexts });
      return open(onMysql2(pool), () => pool.end());
    },
  },
];
