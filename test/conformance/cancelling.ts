/** Cancelling: from every state, at once if no worker runs the job, otherwise by its owner. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { finalStatuses, moves } from "../../src/core/job.ts";
import type { Group } from "../support/bundle.ts";
import {
  cancelled,
  claimOne,
  done,
  enqueueOne,
  fenceOf,
  HOUR_MS,
  idsOf,
  jobIn,
  LEASE_MS,
  mustFind,
  nextId,
  outcomes,
  pictureOf,
  settleOne,
  sortedIds,
  startOne,
  statusOf,
  upTo,
} from "../support/jobs.ts";

const idle = moves.cancel.from.filter((status) => status !== "processing");

export const cancelling: Group = (open) => {
  for (const status of idle) {
    test(`a ${status} job is cancelled at once, and no worker claims it`, async () => {
      const { store, clock } = await open();
      const id = await jobIn(store, status);
      clock.advance(10);

      assert.equal(await store.jobs.cancel(id), "cancelled");
      const job = await mustFind(store, id);
      assert.equal(job.status, "cancelled");
      assert.equal(job.finishedAt, clock.now());
      assert.equal(job.dueAt, null);
      clock.advance(2 * HOUR_MS);
      assert.equal(await store.jobs.promoteDue({ limit: 9 }), 0);
      assert.deepEqual(await store.jobs.claim(upTo(9)), []);
    });

    test(`a ${status} job that is cancelled twice is cancelled once`, async () => {
      const { store, clock } = await open();
      const id = await jobIn(store, status);
      await store.jobs.cancel(id);
      const before = await pictureOf(store, id);
      clock.advance(10);

      assert.equal(await store.jobs.cancel(id), "cancelled");
      assert.deepEqual(await pictureOf(store, id), before);
    });
  }

  for (const status of finalStatuses) {
    test(`a ${status} job stays unchanged`, async () => {
      const { store, clock } = await open();
      const id = await jobIn(store, status);
      const before = await pictureOf(store, id);
      clock.advance(10);

      assert.equal(await store.jobs.cancel(id), status);
      assert.deepEqual(await pictureOf(store, id), before);
    });
  }

  test("cancelling a job that does not exist says so", async () => {
    const { store } = await open();
    await enqueueOne(store);
    assert.equal(await store.jobs.cancel(nextId()), null);
    assert.equal(await store.jobs.hasPending("default"), true);
  });

  test("a running job is marked, and stays with its worker", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    clock.advance(100);

    assert.equal(await store.jobs.cancel(claimed.id), "processing");
    const job = await mustFind(store, claimed.id);
    assert.equal(job.status, "processing");
    assert.equal(job.lockedBy, claimed.worker);
    assert.equal(job.lockedUntil, claimed.lockedUntil);
    assert.equal(job.cancelRequestedAt, clock.now());
  });

  test("a running job that is cancelled twice keeps the first mark", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    await store.jobs.cancel(claimed.id);
    const before = await pictureOf(store, claimed.id);
    clock.advance(100);

    assert.equal(await store.jobs.cancel(claimed.id), "processing");
    assert.deepEqual(await pictureOf(store, claimed.id), before);
  });

  test("the owner of a running job learns with its next extension that it was cancelled", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    const [before] = await store.jobs.extend([claimed], LEASE_MS);
    assert.equal(before?.cancelRequested, false);
    await store.jobs.cancel(claimed.id);
    clock.advance(1_000);

    const expected = { ...fenceOf(claimed), cancelRequested: true };
    for (let time = 1; time <= 2; time += 1) {
      const [extended] = await store.jobs.extend([claimed], LEASE_MS);
      assert.deepEqual(extended, { ...expected, lockedUntil: clock.now() + LEASE_MS });
    }
  });

  test("a worker can ask which of its jobs have a cancel request", async () => {
    const { store } = await open();
    assert.deepEqual(await store.jobs.cancelRequests("worker-a"), []);
    const [first, second] = [await startOne(store), await startOne(store)];
    const theirs = await startOne(store, {}, { worker: "worker-b" });
    const pending = await enqueueOne(store);
    for (const { id } of [first, theirs, pending]) await store.jobs.cancel(id);

    assert.deepEqual(await store.jobs.cancelRequests("worker-a"), [fenceOf(first)]);
    await store.jobs.cancel(second.id);
    assert.deepEqual(
      sortedIds(await store.jobs.cancelRequests("worker-a")),
      sortedIds([first, second]),
    );
    await settleOne(store, done(first));
    assert.deepEqual(await store.jobs.cancelRequests("worker-a"), [fenceOf(second)]);
    assert.deepEqual(await store.jobs.cancelRequests("worker-c"), []);
  });

  for (const { name, settle } of outcomes) {
    test(`a running job that was cancelled is cancelled, though its worker says ${name}`, async () => {
      const { store, clock } = await open();
      const claimed = await startOne(store);
      await store.jobs.cancel(claimed.id);
      clock.advance(100);

      const settled = await settleOne(store, settle(claimed));
      assert.equal(settled.status, "cancelled");
      assert.equal(settled.dueAt, null);
      const job = await mustFind(store, claimed.id);
      assert.equal(job.status, "cancelled");
      assert.equal(job.finishedAt, clock.now());
      assert.deepEqual(await store.jobs.claim(upTo(9)), []);
    });
  }

  test("a running job that was cancelled is cancelled when its worker hands it back", async () => {
    const { store } = await open();
    const claimed = await startOne(store);
    await store.jobs.cancel(claimed.id);

    const [handedBack] = await store.jobs.release([claimed]);
    assert.equal(handedBack?.status, "cancelled");
    assert.equal(await statusOf(store, claimed.id), "cancelled");
  });

  test("a job that was cancelled while it ran records the error its worker reported", async () => {
    const { store } = await open();
    const claimed = await startOne(store);
    await store.jobs.cancel(claimed.id);
    await settleOne(store, cancelled(claimed, '"stopped half way"'));
    assert.equal((await mustFind(store, claimed.id)).lastError, '"stopped half way"');
  });

  test("cancelling one job leaves the others alone", async () => {
    const { store } = await open();
    const other = await startOne(store);
    const pending = await enqueueOne(store);
    const doomed = await enqueueOne(store);
    const before = [await pictureOf(store, other.id), await pictureOf(store, pending.id)];
    await store.jobs.cancel(doomed.id);

    assert.deepEqual(
      [await pictureOf(store, other.id), await pictureOf(store, pending.id)],
      before,
    );
  });

  test("a cancel and a claim at the same moment agree on what became of the job", async () => {
    const { store } = await open();
    for (let round = 0; round < 5; round += 1) {
      const queue = `round-${round}`;
      const { id } = await enqueueOne(store, { queue });
      const [answer, claimed] = await Promise.all([
        store.jobs.cancel(id),
        store.jobs.claim(upTo(1, { queues: [queue] })),
      ]);
      assert.equal(answer, claimed.length === 0 ? "cancelled" : "processing");
      if (claimed.length === 0) continue;
      assert.equal((await settleOne(store, done(claimed[0]!))).status, "cancelled");
    }
  });

  test("a cancel and a settlement at the same moment agree on what became of the job", async () => {
    const { store } = await open();
    for (let round = 0; round < 5; round += 1) {
      const queue = `round-${round}`;
      const claimed = await startOne(store, { queue });
      const [answer, settled] = await Promise.all([
        store.jobs.cancel(claimed.id),
        store.jobs.settle([done(claimed)]),
      ]);
      assert.deepEqual(idsOf(settled), [claimed.id]);
      const expected = answer === "processing" ? "cancelled" : "done";
      assert.equal(settled[0]!.status, expected);
      assert.equal(await statusOf(store, claimed.id), expected);
    }
  });

  test("cancelling does not touch what comes after: the next claim takes the next job", async () => {
    const { store } = await open();
    const doomed = await enqueueOne(store, { priority: 9 });
    const next = await enqueueOne(store);
    await store.jobs.cancel(doomed.id);
    assert.equal((await claimOne(store)).id, next.id);
  });
};
