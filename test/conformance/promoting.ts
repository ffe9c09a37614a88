/** Waiting jobs become pending when their time has come, and not before. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  crash,
  enqueueOne,
  HOUR_MS,
  idsOf,
  jobIn,
  LEASE_MS,
  mustFind,
  newJob,
  pictureOf,
  retry,
  settleOne,
  sortedIds,
  startOne,
  statusOf,
  suspended,
  upTo,
} from "../support/jobs.ts";

const NOTHING_COMES = {
  dueInMs: null,
  leaseEndsInMs: null,
  pendingUntilMs: null,
  waitingUntilMs: null,
  flowsInMs: null,
  bulkInMs: null,
  schedulesInMs: null,
};

export const promoting: Group = (open) => {
  test("where nothing waits, nothing is promoted and nothing is next", async () => {
    const { store } = await open();
    await jobIn(store, "done");
    await jobIn(store, "pending");
    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 0);
  });

  test("a job is promoted when it is due and not a millisecond before", async () => {
    const { store, clock } = await open();
    const { id } = await enqueueOne(store, { start: { delayMs: 1_000 } });
    clock.advance(999);
    assert.equal((await store.jobs.upcoming()).dueInMs, 1);
    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 0);
    assert.equal(await statusOf(store, id), "scheduled");

    clock.advance(1);
    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 1);
    const job = await mustFind(store, id);
    assert.equal(job.status, "pending");
    assert.equal(job.dueAt, null);
    assert.equal((await claimOne(store)).id, id);
  });

  test("scheduled, retried and suspended jobs are all promoted", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const retried = await startOne(store);
    await settleOne(store, retry(retried, { delayMs: 5_000 }));
    const slept = await startOne(store);
    await settleOne(store, suspended(slept, 5_000));
    const scheduled = await enqueueOne(store, { start: { delayMs: 5_000 } });
    const crashed = await startOne(store, {}, { leaseMs: 100 });
    await crash(bundle, crashed);
    clock.advance(HOUR_MS);

    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 4);
    const ids = sortedIds([retried, slept, scheduled, crashed]);
    assert.deepEqual(sortedIds(await store.jobs.claim(upTo(9))), ids);
  });

  test("a job that waits for no time is not promoted", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    await settleOne(store, suspended(claimed, null));
    const before = await pictureOf(store, claimed.id);
    clock.advance(1e12);

    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 0);
    assert.deepEqual(await pictureOf(store, claimed.id), before);
  });

  test("the longest due is promoted first", async () => {
    const { store, clock } = await open();
    const spans = [300, 100, 500, 200, 400];
    const jobs = spans.map((delayMs) => newJob({ start: { delayMs } }));
    await store.jobs.enqueue(jobs);
    clock.advance(1_000);

    const inOrder = [1, 3, 0, 4, 2].map((index) => jobs[index]!.id);
    for (const id of inOrder) {
      assert.equal(await store.jobs.promoteDue({ limit: 1 }), 1);
      assert.equal((await claimOne(store)).id, id);
    }
  });

  test("promoting takes at most its limit", async () => {
    const { store, clock } = await open();
    await store.jobs.enqueue(Array.from({ length: 5 }, () => newJob({ start: { delayMs: 100 } })));
    clock.advance(200);

    assert.equal(await store.jobs.promoteDue({ limit: 3 }), 3);
    assert.equal((await store.jobs.upcoming()).dueInMs, -100);
    assert.equal((await store.jobs.claim(upTo(9))).length, 3);
    assert.equal(await store.jobs.promoteDue({ limit: 3 }), 2);
    assert.equal((await store.jobs.claim(upTo(9))).length, 2);
  });

  test("a look says when the next job is due", async () => {
    const { store, clock } = await open();
    await enqueueOne(store, { start: { delayMs: 5_000 } });
    await enqueueOne(store, { start: { delayMs: 2_000 } });
    await enqueueOne(store, { start: { delayMs: 9_000 } });
    assert.equal((await store.jobs.upcoming()).dueInMs, 2_000);

    clock.advance(2_500);
    assert.equal((await store.jobs.upcoming()).dueInMs, -500);
    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 1);
    assert.equal((await store.jobs.upcoming()).dueInMs, 2_500);
  });

  test("promoting changes nothing else about a job", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store, { priority: 7, key: "ada", maxAttempts: 4 });
    await settleOne(store, retry(claimed));
    const before = await mustFind(store, claimed.id);
    clock.advance(1_000);
    await store.jobs.promoteDue({ limit: 9 });

    const after = await mustFind(store, claimed.id);
    assert.deepEqual(after, { ...before, status: "pending", dueAt: null });
  });

  test("promoted jobs keep their priority", async () => {
    const { store, clock } = await open();
    const jobs = [1, 9, 5].map((priority) => newJob({ priority, start: { delayMs: 1 } }));
    await store.jobs.enqueue(jobs);
    clock.advance(1);
    await store.jobs.promoteDue({ limit: 9 });

    const inOrder = [jobs[1]!, jobs[2]!, jobs[0]!];
    assert.deepEqual(idsOf(await store.jobs.claim(upTo(9))), idsOf(inOrder));
  });

  test("a job that many promote at the same moment becomes pending once", async () => {
    const { store, clock } = await open();
    const jobs = Array.from({ length: 10 }, () => newJob({ start: { delayMs: 1 } }));
    await store.jobs.enqueue(jobs);
    clock.advance(1);

    const rounds = await Promise.all(
      Array.from({ length: 6 }, () => store.jobs.promoteDue({ limit: 4 })),
    );
    assert.equal(
      rounds.reduce((sum, moved) => sum + moved, 0),
      jobs.length,
    );
    assert.deepEqual(sortedIds(await store.jobs.claim(upTo(99))), sortedIds(jobs));
  });

  test("maintenance learns when the next job is due and when the next lease ends", async () => {
    const { store, clock } = await open();
    assert.deepEqual(await store.jobs.upcoming(), NOTHING_COMES);
    await startOne(store);
    await enqueueOne(store, { start: { delayMs: HOUR_MS } });
    await enqueueOne(store, { start: { delayMs: 1_000 } });
    assert.deepEqual(await store.jobs.upcoming(), {
      ...NOTHING_COMES,
      dueInMs: 1_000,
      leaseEndsInMs: LEASE_MS,
    });
    clock.advance(LEASE_MS + 1);
    assert.deepEqual(await store.jobs.upcoming(), {
      ...NOTHING_COMES,
      dueInMs: 1_000 - LEASE_MS - 1,
      leaseEndsInMs: -1,
    });
  });

  test("a job that waits for no time is never due", async () => {
    const { store } = await open();
    await settleOne(store, suspended(await startOne(store)));
    assert.deepEqual(await store.jobs.upcoming(), NOTHING_COMES);
  });
};
