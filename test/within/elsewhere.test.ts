/** A transaction on another database than that of Holdfast: the message names both, and no remedy that changes nothing. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { after, describe, test } from "node:test";
import { drizzle } from "drizzle-orm/node-postgres";
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import { defineTask, type HoldfastError, openHoldfast } from "../../src/index.ts";
import { engines } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";

const ship = defineTask({ name: "ship", run: (id: number) => id });

const begun: Record<string, (url: string, use: (tx: unknown) => Promise<void>) => Promise<void>> = {
  async SQLite(url, use) {
    const tx = new DatabaseSync(url.slice("sqlite:".length));
    tx.exec("begin immediate");
    await use(tx);
    tx.close();
  },
  async PostgreSQL(url, use) {
    const tx = new Client(url);
    await tx.connect();
    await tx.query("begin");
    await use(tx);
    await tx.query("rollback");
    await drizzle(tx)
      .transaction(async (inside) => {
        await use(inside);
        inside.rollback();
      })
      .catch(() => {}); // rolled back, as it should be
    await tx.end();
  },
  async MariaDB(url, use) {
    const tx = await createConnection(url);
    await tx.query("start transaction");
    await use(tx);
    await tx.end();
  },
};

for (const { name, skip, place } of engines) {
  describe(`a transaction on another database, on ${name}`, { skip, timeout: 60_000 }, () => {
    test("is refused, with the names of both", async () => {
      await using own = await place();
      await using other = await place();
      await using holdfast = await openHoldfast(own.url);
      let refused = 0;
      await begun[name]?.(other.url, async (tx) => {
        await assert.rejects(holdfast.within(tx).enqueue(ship, 1), (error: HoldfastError) => {
          const { code, message } = error;
          assert.equal(code, "INVALID_ARGUMENT");
          const [theirs, ours] = [other.url, own.url].map((url) => url.replace(/^.*\//, ""));
          assert.match(message, /^tx: the transaction is on the database '/);
          assert.ok(message.includes(`${theirs}'`) && message.includes(`${ours}. `), message);
          assert.doesNotMatch(message, /migrate/);
          return true;
        });
        refused += 1;
      });
      assert.equal(refused, name === "PostgreSQL" ? 2 : 1);
    });
  });
}

after(assertNothingRuns);
