/**
 * A lease that ended because the database did not answer is no crash: its owner is alive and reports it, before another
 * worker takes the job back or after.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { OutageReport, Settlement } from "../../src/core/job.ts";
import { OUTAGES_MAX } from "../../src/jobs/outages.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import {
  claimOne,
  crash,
  done,
  enqueueOne,
  failed,
  GRACE_MS,
  LEASE_MS,
  mustFind,
  promoteOne,
  retry,
  startOne,
  statusOf,
  sweep,
} from "../support/jobs.ts";

function gaveUp(settlement: Settlement): OutageReport {
  return { ...settlement, gaveUp: true };
}

async function countersOf({ store }: Bundle, id: string): Promise<unknown[]> {
  const { status, attempts, crashes, epoch } = await mustFind(store, id);
  return [status, attempts, crashes, epoch];
}

async function outcomesOf({ store }: Bundle, id: string): Promise<string[]> {
  return (await store.jobs.attempts(id)).map(({ outcome }) => outcome);
}

export const outages: Group = (open) => {
  test("an owner that reports first hands its job back without using up an attempt", async () => {
    const bundle = await open();
    const claimed = await startOne(bundle.store);
    const [settled] = await bundle.store.jobs.settleOutages([gaveUp(retry(claimed))]);
    assert.deepEqual([settled?.status, settled?.attempts], ["pending", 0]);
    assert.deepEqual(await countersOf(bundle, claimed.id), ["pending", 0, 0, 1]);
    const [attempt] = await bundle.store.jobs.attempts(claimed.id);
    assert.equal(attempt?.outcome, "released");
    assert.match(attempt?.error ?? "", /LEASE_LOST/);
  });

  test("an owner that comes after the sweep has its crash and its attempt given back, once", async () => {
    const bundle = await open();
    const { store } = bundle;
    const claimed = await startOne(store);
    await crash(bundle, claimed);
    assert.deepEqual(await countersOf(bundle, claimed.id), ["retry", 1, 1, 1]);
    for (const time of ["first", "again"]) {
      const [settled] = await store.jobs.settleOutages([gaveUp(retry(claimed))]);
      assert.equal(settled?.id, claimed.id, time);
      assert.deepEqual(await countersOf(bundle, claimed.id), ["retry", 0, 0, 1]);
      assert.deepEqual(await outcomesOf(bundle, claimed.id), ["released"]);
    }
  });

  test("the same when the job is pending again, and when another worker has it", async () => {
    const bundle = await open();
    const { store } = bundle;
    const first = await startOne(store);
    await crash(bundle, first);
    await promoteOne(bundle, first.id);
    await store.jobs.settleOutages([gaveUp(retry(first))]);
    assert.deepEqual(await countersOf(bundle, first.id), ["pending", 0, 0, 1]);

    const second = await claimOne(store);
    await crash(bundle, second);
    await promoteOne(bundle, first.id);
    const third = await claimOne(store, { worker: "another" });
    await store.jobs.settleOutages([gaveUp(retry(second))]);
    // The other worker was told which attempt it makes; only the crash is given back.
    assert.deepEqual(await countersOf(bundle, first.id), ["processing", 2, 0, 3]);
    assert.deepEqual(await store.jobs.settle([retry(second)]), []);
    assert.equal((await store.jobs.settle([done(third)]))[0]?.status, "done");
    assert.deepEqual(await outcomesOf(bundle, first.id), ["released", "released", "done"]);
  });

  test("a worker that is not the owner, or was at another epoch, gives nothing back", async () => {
    const bundle = await open();
    const { store } = bundle;
    const claimed = await startOne(store);
    await crash(bundle, claimed);
    const others = [
      { ...claimed, worker: "another" },
      { ...claimed, epoch: claimed.epoch + 1 },
    ];
    for (const fence of others)
      assert.deepEqual(await store.jobs.settleOutages([gaveUp(retry(fence))]), []);
    assert.deepEqual(await countersOf(bundle, claimed.id), ["retry", 1, 1, 1]);
  });

  test("a job that ended meanwhile stays unchanged", async () => {
    const bundle = await open();
    const { store } = bundle;
    const claimed = await startOne(store, { maxAttempts: 1 });
    await crash(bundle, claimed);
    assert.deepEqual(await countersOf(bundle, claimed.id), ["failed", 1, 1, 1]);
    assert.deepEqual(await store.jobs.settleOutages([gaveUp(failed(claimed))]), []);
    assert.deepEqual(await countersOf(bundle, claimed.id), ["failed", 1, 1, 1]);
  });

  test("a crash from before a job was retried is not given back", async () => {
    const bundle = await open();
    const { store } = bundle;
    const first = await startOne(store, { maxAttempts: 2 });
    await crash(bundle, first);
    await promoteOne(bundle, first.id);
    await crash(bundle, await claimOne(store));
    await store.jobs.retry(first.id, 2);
    await crash(bundle, await claimOne(store));
    assert.deepEqual(await countersOf(bundle, first.id), ["retry", 3, 1, 3]);
    assert.deepEqual(await store.jobs.settleOutages([gaveUp(retry(first))]), []);
    assert.deepEqual(await countersOf(bundle, first.id), ["retry", 3, 1, 3]);
  });

  test("nor is one from before it was cancelled while it waited, and retried", async () => {
    const bundle = await open();
    const { store } = bundle;
    const first = await startOne(store);
    await crash(bundle, first);
    await store.jobs.cancel(first.id);
    await store.jobs.retry(first.id, 2);
    const second = await claimOne(store);
    const before = await countersOf(bundle, first.id);
    assert.deepEqual(await store.jobs.settleOutages([gaveUp(retry(first))]), []);
    assert.deepEqual(await countersOf(bundle, first.id), before);
    await crash(bundle, second);
    assert.deepEqual(await store.jobs.settleOutages([gaveUp(retry(first))]), []);
    await store.jobs.settleOutages([gaveUp(retry(second))]);
    assert.deepEqual(await outcomesOf(bundle, first.id), ["crashed", "released"]);
  });

  test("the result of an attempt that has one counts, if its lease is still there", async () => {
    const bundle = await open();
    const claimed = await startOne(bundle.store);
    const report = { ...done(claimed, '"kept"'), gaveUp: false };
    assert.equal((await bundle.store.jobs.settleOutages([report]))[0]?.status, "done");
    assert.equal((await mustFind(bundle.store, claimed.id)).result, '"kept"');
  });

  test("a job that is to be cancelled is", async () => {
    const bundle = await open();
    const claimed = await startOne(bundle.store);
    await bundle.store.jobs.cancel(claimed.id);
    await bundle.store.jobs.settleOutages([gaveUp(retry(claimed))]);
    assert.equal(await statusOf(bundle.store, claimed.id), "cancelled");
  });

  test(`outages of a job beyond ${OUTAGES_MAX} count as crashes`, async () => {
    const bundle = await open();
    const { store } = bundle;
    const { id } = await enqueueOne(store, { maxAttempts: 2 });
    for (let outage = 0; outage < OUTAGES_MAX; outage += 1) {
      await store.jobs.settleOutages([gaveUp(retry(await claimOne(store)))]);
    }
    assert.deepEqual(await countersOf(bundle, id), ["pending", 0, 0, OUTAGES_MAX]);
    const claimed = await claimOne(store);
    await crash(bundle, claimed);
    await store.jobs.settleOutages([gaveUp(retry(claimed))]);
    assert.deepEqual(await countersOf(bundle, id), ["retry", 1, 1, OUTAGES_MAX + 1]);
    await promoteOne(bundle, id);
    await store.jobs.settleOutages([gaveUp(retry(await claimOne(store)))]);
    assert.equal(await statusOf(store, id), "failed");
  });

  test("a sweep can leave those leases alone whose end would be their job's end", async () => {
    const { store, clock } = await open();
    const last = await startOne(store, { maxAttempts: 1 });
    const other = await startOne(store, { maxAttempts: 2 });
    const unwanted = await startOne(store, { maxAttempts: 1 });
    await store.jobs.cancel(unwanted.id);
    clock.advance(LEASE_MS + GRACE_MS + 1);
    const taken = await store.jobs.reclaimExpired({ ...sweep, spareLast: true });
    const ids = taken.map(({ id }) => id);
    assert.deepEqual(new Set(ids), new Set([other.id, unwanted.id]));
    const [ended] = await store.jobs.reclaimExpired(sweep);
    assert.deepEqual([ended?.id, ended?.status], [last.id, "failed"]);

    const poison = await startOne(store);
    clock.advance(LEASE_MS + GRACE_MS + 1);
    const once = { ...sweep, maxCrashes: 1 };
    assert.deepEqual(await store.jobs.reclaimExpired({ ...once, spareLast: true }), []);
    assert.equal((await store.jobs.reclaimExpired(once))[0]?.id, poison.id);
  });
};
