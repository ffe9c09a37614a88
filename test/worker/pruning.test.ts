/** What a worker deletes by itself, and when. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import { silentLogger } from "../../src/core/log.ts";
import { Maintenance } from "../../src/worker/maintenance.ts";
import { done, settleOne, startOne } from "../support/jobs.ts";
import { testRuntime } from "../support/runtime.ts";

test("a worker that has started runs jobs first, and prunes seconds later", async (t) => {
  const runtime = testRuntime();
  const store = await openStore("sqlite::memory:", { runtime });
  t.after(() => store.close());
  await store.migrate();
  const { id } = await settleOne(store, done(await startOne(store)));
  runtime.clock.advance(60_000);
  const maintenance = new Maintenance({
    store,
    runtime,
    logger: silentLogger,
    settings: {
      everyMs: 1_000,
      idleMs: 30_000,
      graceMs: 1_000,
      lastChanceMs: 1_000,
      maxCrashes: 3,
      retention: { done: 1_000, failed: 1_000, cancelled: 1_000, expired: 1_000 },
    },
    onUpcoming: () => {},
    onReclaimed: () => {},
    onExpired: () => {},
  });
  await maintenance.once();
  assert.equal((await store.jobs.find(id))?.status, "done");
  runtime.clock.advance(30_000);
  await maintenance.once();
  assert.equal(await store.jobs.find(id), null);
});
