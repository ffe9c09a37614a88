/** Query builders on the connection of a `ctx.commit`, as docs/guide/transactions.md shows them. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { CompiledQuery, Kysely, PostgresDialect } from "kysely";
import { Client, type PoolClient } from "pg";
import { defineTask, openHoldfast, type UserTransaction } from "../../src/index.ts";
import { sampledEngines } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";

after(assertNothingRuns);

/** Its declarations do not compile without the libraries of every database that it knows. */
const load = (path: string): Promise<any> => import(`drizzle-orm${path}`);

const builders: Record<string, (tx: UserTransaction, id: number) => Promise<unknown>> = {
  async Drizzle(tx, id) {
    const { drizzle } = await load("/node-postgres");
    const { sql } = await load("");
    const db = drizzle(tx.client);
    await db.execute(sql`insert into orders values (${id})`);
  },
  async Kysely(tx, id) {
    const client = tx.client as PoolClient;
    const connection = { query: client.query.bind(client), release() {} } as PoolClient;
    const pool = { options: {}, connect: async () => connection, end: async () => {} };
    const db = new Kysely<any>({ dialect: new PostgresDialect({ pool }) });
    await db.executeQuery(CompiledQuery.raw("insert into orders values ($1)", [id]));
  },
};

for (const { name, skip, place: open } of sampledEngines) {
  if (name !== "PostgreSQL") continue;
  test("query builders write in the transaction of a ctx.commit", { skip }, async () => {
    await using place = await open();
    await using holdfast = await openHoldfast(place.url);
    const client = new Client(place.url);
    await client.connect();
    await using _ = { [Symbol.asyncDispose]: () => client.end() };
    await client.query("create table orders (id bigint)");
    for (const [at, [library, insert]] of Object.entries(builders).entries()) {
      const book = defineTask({
        name: `book with ${library}`,
        retry: { maxAttempts: 2, backoff: { initial: 0 } },
        run: (id: number, ctx) =>
          ctx.commit("book", async (tx) => {
            await insert(tx, id);
            if (ctx.attempt === 1) throw new Error("not yet");
          }),
      });
      await using worker = await holdfast.startWorker({ tasks: [book] });
      const job = await holdfast.enqueue(book, at);
      await job.result({ timeout: "60s" });
      assert.equal((await job.get()).attempts, 2, library);
      await worker.stop();
    }
    const { rows } = await client.query("select id from orders order by id");
    assert.deepEqual(rows, [{ id: "0" }, { id: "1" }]);
  });
}
