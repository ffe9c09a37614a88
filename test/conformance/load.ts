/** What a store tells of its own work and of its database: right, and never an error for the caller. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Group } from "../support/bundle.ts";
import { enqueueOne, newJob } from "../support/jobs.ts";
import { until } from "../worker/observe.ts";

export const load: Group = (open) => {
  test("no connection of a pool is busy when there are no queries", async () => {
    const { store } = await open();
    await enqueueOne(store);
    // The note to other processes is sent a moment after the commit.
    await until("every pool is at rest", () =>
      store.db.load().pools.every(({ busy, waiting }) => busy + waiting === 0),
    );
  });

  test("a transaction that is refused is counted as rolled back", async () => {
    const { store } = await open();
    const before = { ...store.db.load().transactions };
    await enqueueOne(store, { key: "k" });
    const again = newJob({ key: "k", onConflict: "reject" });
    await assert.rejects(store.jobs.enqueue([again]), { code: "KEY_TAKEN" });
    assert.equal(store.db.load().transactions.rolledBack, before.rolledBack + 1);
    assert.equal(store.db.load().transactions.repeated, before.repeated);
  });

  test("table statistics, if any, name Holdfast's tables", async () => {
    const { store } = await open();
    const condition = await store.db.condition();
    if (condition === null) return;
    const names = condition.tables.map(({ table }) => table);
    assert.ok(names.includes("ready") && names.includes("lease"), names.join(", "));
    for (const { live, dead } of condition.tables) assert.ok(live >= 0 && dead >= 0);
    const { oldestTransactionMs } = condition;
    assert.ok(oldestTransactionMs === null || oldestTransactionMs >= 0);
  });
};
