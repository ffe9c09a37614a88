/** Closing: what was accepted stays, and what comes afterwards is refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClosedError } from "../../src/core/errors.ts";
import type { Store } from "../../src/app/store.ts";
import type { Group } from "../support/bundle.ts";
import { done, enqueueOne, newJob, nextId, one, pictureOf, startOne } from "../support/jobs.ts";

export const closing: Group = (open) => {
  test("a closed store says so", async () => {
    const { store } = await open();
    const claimed = await startOne(store);
    await store.close();

    await assert.rejects(store.jobs.enqueue([newJob()]), ClosedError);
    await assert.rejects(store.jobs.claim(one()), ClosedError);
    await assert.rejects(store.jobs.extend([claimed], 1_000), ClosedError);
    await assert.rejects(store.jobs.cancel(claimed.id), ClosedError);
    await assert.rejects(store.jobs.find(claimed.id), ClosedError);
    await assert.rejects(store.jobs.stats(), ClosedError);
  });

  test("a store that is closed before anything was done with it says so too", async () => {
    const fence = { id: nextId(), worker: "worker-a", epoch: 1 };
    const uses: ((store: Store) => Promise<unknown>)[] = [
      (store) => store.jobs.enqueue([newJob()]),
      (store) => store.jobs.claim(one()),
      (store) => store.jobs.settle([done(fence)]),
      (store) => store.jobs.extend([fence], 1_000),
      (store) => store.jobs.promoteDue({ limit: 1 }),
      (store) => store.migrate(),
    ];
    const { store: first, alone, another } = await open();
    let store = first;
    for (const use of uses) {
      await store.close();
      await assert.rejects(use(store), ClosedError);
      store = alone === null ? await another() : (await open()).store;
    }
  });

  test("closing twice is closing once", async () => {
    const { store } = await open();
    await store.close();
    await store.close();
  });

  test("an accepted job is there for the next process that opens the store", async (t) => {
    const { store, alone, another } = await open();
    if (alone !== null) return t.skip(alone);
    const claimed = await startOne(store);
    const pending = await enqueueOne(store);
    const before = [await pictureOf(store, claimed.id), await pictureOf(store, pending.id)];
    await store.close();

    const next = await another();
    assert.deepEqual(
      [await pictureOf(next, claimed.id), await pictureOf(next, pending.id)],
      before,
    );
  });

  test("a store says where it is, and how another thread opens it", async () => {
    const { store, alone } = await open();
    assert.ok(store.db.name.length > 0);
    assert.equal(store.db.address === null, alone !== null);
  });
};
