/** Keys: at most one live job of a task under each, and the key is free again when that job ends. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { finalStatuses, statuses, type FinalStatus } from "../../src/core/job.ts";
import type { ClaimedJob } from "../../src/jobs/store.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import {
  cancelled,
  claimOne,
  crash,
  crashAndClaim,
  done,
  enqueueOne,
  failed,
  HOUR_MS,
  idsOf,
  jobIn,
  mustFind,
  newJob,
  outcomes,
  pictureOf,
  retry,
  settleOne,
  startOne,
  upTo,
} from "../support/jobs.ts";

const live = statuses.filter((status) => !finalStatuses.includes(status as FinalStatus));

export const keys: Group = (open) => {
  for (const status of live) {
    test(`while the holder of a key is ${status}, enqueueing the key again returns it`, async () => {
      const { store } = await open();
      const holder = await jobIn(store, status, { key: "order-42" });
      const before = await pictureOf(store, holder);
      const late = newJob({ key: "order-42", payload: '"other"', queue: "other" });

      assert.deepEqual(await store.jobs.enqueue([late]), [{ id: holder, added: false }]);
      assert.equal(await store.jobs.find(late.id), null);
      assert.deepEqual(await pictureOf(store, holder), before);
    });
  }

  for (const status of finalStatuses) {
    test(`a ${status} job has released its key`, async () => {
      const { store } = await open();
      await jobIn(store, status, { key: "order-42" });
      const next = await enqueueOne(store, { key: "order-42" });

      const late = newJob({ key: "order-42" });
      assert.deepEqual(await store.jobs.enqueue([late]), [{ id: next.id, added: false }]);
    });
  }

  for (const status of live.filter((candidate) => candidate !== "processing")) {
    test(`a ${status} job that is cancelled releases its key`, async () => {
      const { store } = await open();
      const id = await jobIn(store, status, { key: "order-42" });
      assert.equal(await store.jobs.cancel(id), "cancelled");
      await enqueueOne(store, { key: "order-42" });
    });
  }

  test("a running job with a cancel request holds its key until it ends", async () => {
    const { store } = await open();
    const claimed = await startOne(store, { key: "order-42" });
    await store.jobs.cancel(claimed.id);
    assert.deepEqual(await store.jobs.enqueue([newJob({ key: "order-42" })]), [
      { id: claimed.id, added: false },
    ]);

    await settleOne(store, cancelled(claimed));
    await enqueueOne(store, { key: "order-42" });
  });

  test("a job that failed because no attempt was left has released its key", async () => {
    const { store } = await open();
    const claimed = await startOne(store, { key: "order-42", maxAttempts: 1 });
    assert.equal((await settleOne(store, retry(claimed))).status, "failed");
    await enqueueOne(store, { key: "order-42" });
  });

  test("a job whose last worker died has released its key", async () => {
    const bundle = await open();
    const claimed = await startOne(bundle.store, { key: "order-42", maxAttempts: 1 });
    assert.equal((await crash(bundle, claimed)).status, "failed");
    await enqueueOne(bundle.store, { key: "order-42" });
  });

  test("a job that is retried after a crash still holds its key", async () => {
    const bundle = await open();
    const { store } = bundle;
    const claimed = await startOne(store, { key: "order-42" });
    const again = await crashAndClaim(bundle, claimed, "worker-b");
    assert.deepEqual(await store.jobs.enqueue([newJob({ key: "order-42" })]), [
      { id: claimed.id, added: false },
    ]);
    await settleOne(store, done(again));
    await enqueueOne(store, { key: "order-42" });
  });

  test("a pruned job has released its key", async () => {
    const { store, clock } = await open();
    await jobIn(store, "done", { key: "order-42" });
    clock.advance(1);
    assert.equal(
      await store.jobs.prune({
        retention: { done: 0, failed: 0, cancelled: 0, expired: 0 },
        limit: 9,
      }),
      1,
    );
    await enqueueOne(store, { key: "order-42" });
  });

  test("the same key of two tasks are two keys", async () => {
    const { store } = await open();
    const mail = await enqueueOne(store, { task: "mail.send", key: "42" });
    const ship = await enqueueOne(store, { task: "order.ship", key: "42" });

    const again = [
      newJob({ task: "mail.send", key: "42" }),
      newJob({ task: "order.ship", key: "42" }),
    ];
    assert.deepEqual(idsOf(await store.jobs.enqueue(again)), [mail.id, ship.id]);
  });

  const ends: Record<string, (bundle: Bundle, claimed: ClaimedJob) => Promise<unknown>> = {
    "is done": ({ store }, claimed) => settleOne(store, done(claimed)),
    fails: ({ store }, claimed) => settleOne(store, failed(claimed)),
    crashes: (bundle, claimed) => crash(bundle, claimed),
    "is cancelled": async ({ store }, claimed) => {
      await store.jobs.release([claimed]);
      await store.jobs.cancel(claimed.id);
    },
  };
  for (const [how, end] of Object.entries(ends)) {
    test(`a job that ${how} releases its own key and no other`, async () => {
      const bundle = await open();
      const { store } = bundle;
      const otherTask = await enqueueOne(store, { task: "a", key: "42", queue: "a" });
      const otherKey = await enqueueOne(store, { task: "b", key: "43", queue: "b" });
      const claimed = await startOne(store, { task: "b", key: "42", maxAttempts: 1 });
      await end(bundle, claimed);

      const late = [newJob({ task: "a", key: "42" }), newJob({ task: "b", key: "43" })];
      assert.deepEqual(idsOf(await store.jobs.enqueue(late)), [otherTask.id, otherKey.id]);
      await enqueueOne(store, { task: "b", key: "42" });
    });
  }

  test("a key holds in every queue", async () => {
    const { store } = await open();
    const { id } = await enqueueOne(store, { queue: "slow", key: "42" });
    const other = newJob({ queue: "fast", key: "42" });
    assert.deepEqual(await store.jobs.enqueue([other]), [{ id, added: false }]);
  });

  test("jobs without a key do not get in one another's way", async () => {
    const { store } = await open();
    await enqueueOne(store);
    await enqueueOne(store);
    assert.equal((await store.jobs.claim(upTo(9))).length, 2);
  });

  test("a key that is twice in one batch is one job", async () => {
    const { store } = await open();
    const [first, second] = [newJob({ key: "42" }), newJob({ key: "42" })];
    assert.deepEqual(await store.jobs.enqueue([first, second]), [
      { id: first.id, added: true },
      { id: first.id, added: false },
    ]);
    assert.equal(await store.jobs.find(second.id), null);
  });

  test("a key that many enqueue at the same moment is one job", async () => {
    const { store } = await open();
    const jobs = Array.from({ length: 9 }, () => newJob({ key: "42" }));

    const answers = (await Promise.all(jobs.map((job) => store.jobs.enqueue([job])))).flat();
    assert.equal(answers.filter(({ added }) => added).length, 1);
    assert.equal(new Set(idsOf(answers)).size, 1);
    assert.deepEqual(idsOf(await store.jobs.list({ limit: 9 })), [answers[0]!.id]);
  });

  test("an enqueue with a key whose answer was lost can be repeated", async () => {
    const { store } = await open();
    const job = await enqueueOne(store, { key: "42" });
    assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: false }]);
    assert.equal((await mustFind(store, job.id)).key, "42");

    await settleOne(store, done(await claimOne(store)));
    await enqueueOne(store, { key: "42" });
  });

  test("repeating the enqueue of a job that ended does not take its key again", async () => {
    const { store } = await open();
    const job = newJob({ key: "42" });
    await settleOne(store, done(await startOne(store, job)));

    assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: false }]);
    await enqueueOne(store, { key: "42" });
  });

  test("repeating the enqueue of a job that ended does not disturb the next holder", async () => {
    const { store } = await open();
    const job = newJob({ key: "42" });
    await settleOne(store, failed(await startOne(store, job)));
    const next = await enqueueOne(store, { key: "42" });
    const before = [await pictureOf(store, job.id), await pictureOf(store, next.id)];

    const [answer] = await store.jobs.enqueue([job]);
    assert.equal(answer?.added, false);
    assert.deepEqual([await pictureOf(store, job.id), await pictureOf(store, next.id)], before);
  });

  test("a job with an existing id gets no key that it was not accepted with", async () => {
    const { store } = await open();
    const job = await enqueueOne(store);

    assert.deepEqual(await store.jobs.enqueue([{ ...job, key: "42" }]), [
      { id: job.id, added: false },
    ]);
    assert.equal((await mustFind(store, job.id)).key, null);
    await enqueueOne(store, { key: "42" });
  });

  test("an id that exists keeps its key and takes no other", async () => {
    const { store } = await open();
    const job = await enqueueOne(store, { key: "42" });

    assert.deepEqual(await store.jobs.enqueue([{ ...job, key: "43" }]), [
      { id: job.id, added: false },
    ]);
    await enqueueOne(store, { key: "43" });
    assert.deepEqual(await store.jobs.enqueue([newJob({ key: "42" })]), [
      { id: job.id, added: false },
    ]);
  });

  for (const { name, settle, status } of outcomes) {
    test(`a job that was ${name} after it waited for its turn holds its key exactly as long`, async () => {
      const bundle = await open();
      const { store, clock } = bundle;
      const job = await enqueueOne(store, { key: "42", start: { delayMs: HOUR_MS } });
      clock.advance(HOUR_MS);
      await store.jobs.promoteDue({ limit: 9 });
      await settleOne(store, settle(await claimOne(store)));

      const ended = finalStatuses.includes(status as FinalStatus);
      const late = newJob({ key: "42" });
      const expected = ended ? { id: late.id, added: true } : { id: job.id, added: false };
      assert.deepEqual(await store.jobs.enqueue([late]), [expected]);
    });
  }
};
