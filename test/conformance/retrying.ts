/** Attempts: what charges them, what gives them back, and what happens when they are used up. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  crash,
  done,
  ERROR,
  failed,
  mustFind,
  promoteOne,
  released,
  retry,
  settleOne,
  startOne,
  statusOf,
  suspended,
} from "../support/jobs.ts";

/** Far more often than any job may be attempted. */
const ROUNDS = 20;

export const retrying: Group = (open) => {
  test("an attempt counts when the job is claimed", async () => {
    const { store } = await open();
    const claimed = await startOne(store);
    assert.equal(claimed.attempt, 1);
    assert.equal((await mustFind(store, claimed.id)).attempts, 1);
  });

  test("attempts are numbered from 1 to the most that are allowed, and read in pages", async () => {
    const bundle = await open();
    const { store } = bundle;
    const first = await startOne(store, { maxAttempts: 3 });
    await settleOne(store, retry(first));
    await promoteOne(bundle, first.id);
    const second = await claimOne(store);
    await settleOne(store, retry(second));
    await promoteOne(bundle, first.id);
    const third = await claimOne(store);

    assert.deepEqual([first.attempt, second.attempt, third.attempt], [1, 2, 3]);
    const last = await settleOne(store, retry(third));
    assert.equal(last.status, "failed");
    assert.equal(last.attempts, 3);
    const page = async (before?: number): Promise<number[]> => {
      const from = before === undefined ? {} : { before };
      const found = await store.jobs.attempts(first.id, { limit: 2, ...from });
      return found.map(({ epoch }) => epoch);
    };
    assert.deepEqual([await page(), await page(2), await page(1)], [[2, 3], [1], []]);
  });

  test("a retry with no attempt left is a failure, with the error of that attempt", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store, { maxAttempts: 1 });

    const settled = await settleOne(store, retry(claimed, { error: ERROR }));
    assert.equal(settled.status, "failed");
    assert.equal(settled.dueAt, null);
    const job = await mustFind(store, claimed.id);
    assert.equal(job.status, "failed");
    assert.equal(job.lastError, ERROR);
    assert.equal(job.finishedAt, clock.now());
    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 0);
  });

  test("a failure ends the job even when attempts are left", async () => {
    const { store } = await open();
    const claimed = await startOne(store, { maxAttempts: 9 });
    assert.equal((await settleOne(store, failed(claimed))).status, "failed");
    assert.equal(await statusOf(store, claimed.id), "failed");
  });

  test("the last attempt may complete the job", async () => {
    const bundle = await open();
    const { store } = bundle;
    const first = await startOne(store, { maxAttempts: 2 });
    await settleOne(store, retry(first));
    await promoteOne(bundle, first.id);

    assert.equal((await settleOne(store, done(await claimOne(store)))).status, "done");
    assert.equal((await mustFind(store, first.id)).attempts, 2);
  });

  test("a job may be released any number of times without using up attempts", async () => {
    const { store } = await open();
    let claimed = await startOne(store, { maxAttempts: 2 });
    for (let round = 1; round <= ROUNDS; round += 1) {
      assert.equal(claimed.attempt, 1);
      assert.equal(claimed.epoch, round);
      const [handedBack] = await store.jobs.release([claimed]);
      assert.equal(handedBack?.status, "pending");
      assert.equal(handedBack.attempts, 0);
      claimed = await claimOne(store);
    }
    assert.equal((await settleOne(store, done(claimed))).status, "done");
  });

  test("a job may be suspended any number of times without using up attempts", async () => {
    const bundle = await open();
    const { store } = bundle;
    let claimed = await startOne(store, { maxAttempts: 2 });
    for (let round = 1; round <= ROUNDS; round += 1) {
      assert.equal(claimed.attempt, 1);
      assert.equal(claimed.epoch, round);
      const settled = await settleOne(store, suspended(claimed, 1_000));
      assert.equal(settled.status, "waiting");
      assert.equal(settled.attempts, 0);
      await promoteOne(bundle, claimed.id);
      claimed = await claimOne(store);
    }
    assert.equal((await settleOne(store, done(claimed))).status, "done");
  });

  test("releases and suspensions do not use up the retries of a job", async () => {
    const bundle = await open();
    const { store } = bundle;
    const next = async () => {
      if ((await statusOf(store, claimed.id)) !== "pending") await promoteOne(bundle, claimed.id);
      return claimOne(store);
    };
    let claimed = await startOne(store, { maxAttempts: 2 });
    for (let round = 0; round < ROUNDS / 2; round += 1) {
      await settleOne(store, round % 2 === 0 ? released(claimed) : suspended(claimed, 5));
      claimed = await next();
    }
    assert.equal(claimed.attempt, 1);
    assert.equal((await settleOne(store, retry(claimed))).status, "retry");
    claimed = await next();
    for (let round = 0; round < ROUNDS / 2; round += 1) {
      assert.equal(claimed.attempt, 2);
      await settleOne(store, round % 2 === 0 ? suspended(claimed, 5) : released(claimed));
      claimed = await next();
    }
    assert.equal((await settleOne(store, retry(claimed))).status, "failed");
    assert.equal((await mustFind(store, claimed.id)).attempts, 2);
  });

  test("giving an attempt back does not make a crash forgotten", async () => {
    const bundle = await open();
    const { store } = bundle;
    const first = await startOne(store, { maxAttempts: 5 });
    await crash(bundle, first);
    await promoteOne(bundle, first.id);
    await store.jobs.release([await claimOne(store)]);

    const { attempts, crashes } = await mustFind(store, first.id);
    assert.deepEqual({ attempts, crashes }, { attempts: 1, crashes: 1 });
  });

  test("a job that was put off by its task knows how often", async () => {
    const bundle = await open();
    const { store } = bundle;
    const claimed = await startOne(store);
    const error = JSON.stringify({ name: "Snooze", code: "SNOOZED", message: "later" });
    const { id, worker, epoch } = claimed;
    const outcome = { kind: "suspended", delayMs: 5, error } as const;
    await settleOne(store, { id, worker, epoch, outcome });
    await promoteOne(bundle, id);
    await settleOne(store, suspended(await claimOne(store), 5));
    assert.equal(await store.jobs.snoozes(id), 1);
  });
};
