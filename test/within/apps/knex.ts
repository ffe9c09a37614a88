/** Applications that use Knex. */
import knex, { type Knex } from "knex";
import { Rollback, rolledBack, type App, type Kind } from "./app.ts";
import { readsBigInts, readsTexts } from "./drivers.ts";

function open(client: string, connection: object): App {
  const db: Knex = knex({ client, connection, pool: { min: 0, max: 2 } });
  return {
    over: /transaction of Knex has ended/,
    notTx: [[db, /knex\.transaction/]],
    order: async (tx, id) => void (await tx("orders").insert({ id })),
    transaction: (body, options) =>
      db.transaction(body, options?.serializable ? { isolationLevel: "serializable" } : {}),
    nested: (outer, inner) =>
      db.transaction(async (tx) => {
        await outer(tx);
        await rolledBack(() =>
          tx.transaction(async (deeper) => {
            await inner(deeper);
            throw new Rollback();
          }),
        );
      }),
    [Symbol.asyncDispose]: () => db.destroy(),
  };
}

export const knexes: readonly Kind[] = [
  {
    name: "Knex",
    database: "PostgreSQL",
    open: async (url) => open("pg", { connectionString: url, ...readsBigInts }),
  },
  {
    name: "Knex",
    database: "MariaDB",
    open: async (url) => open("mysql2", { uri: url, ...readsTexts }),
  },
];
