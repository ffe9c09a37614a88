/** Failed and cancelled jobs: they stay for an operator to look at and to retry. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { IllegalMoveError, JobNotFoundError, KeyTakenError } from "../../src/core/errors.ts";
import { moves, statuses, type Status } from "../../src/core/job.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  crash,
  crashAndClaim,
  done,
  enqueueOne,
  ERROR,
  failed,
  idsOf,
  jobIn,
  mustFind,
  newJob,
  nextId,
  pictureOf,
  promoteOne,
  retry,
  settleOne,
  startOne,
  statusOf,
  upTo,
} from "../support/jobs.ts";

const retriable: readonly Status[] = moves.reopen.from;

export const reopening: Group = (open) => {
  test("a failed job is not tried again by itself", async () => {
    const { store, clock } = await open();
    await jobIn(store, "failed");
    clock.advance(1e9);

    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 0);
    assert.deepEqual(await store.jobs.claim(upTo(9)), []);
  });

  for (const status of retriable) {
    test(`a ${status} job can be retried: it is pending again and may be attempted`, async () => {
      const { store } = await open();
      const id = await jobIn(store, status, { payload: '"kept"', priority: 4 });
      await store.jobs.retry(id, 1);

      const job = await mustFind(store, id);
      assert.equal(job.status, "pending");
      assert.equal(job.finishedAt, null);
      assert.equal(job.priority, 4);
      const claimed = await claimOne(store);
      assert.equal(claimed.id, id);
      assert.equal(claimed.payload, '"kept"');
      assert.equal((await settleOne(store, done(claimed, '"at last"'))).status, "done");
      assert.equal((await mustFind(store, id)).result, '"at last"');
    });
  }

  test("the refusal names the next attempt of a job that will be retried, and its time", async () => {
    const { store, clock } = await open();
    const started = await startOne(store, { maxAttempts: 7 });
    await settleOne(store, retry(started, { delayMs: 5_000 }));
    const { id } = started;
    const message = (due: string): string =>
      `Job ${id} is waiting for its next attempt (2 of 7, ${due}). Only failed, cancelled or expired jobs can be retried.`;
    await assert.rejects(store.jobs.retry(id, 1), { message: message("in 5s") });
    clock.advance(5_000);
    await assert.rejects(store.jobs.retry(id, 1), { message: message("now") });
  });

  for (const status of statuses.filter((candidate) => !retriable.includes(candidate))) {
    test(`a ${status} job cannot be retried`, async () => {
      const { store } = await open();
      const id = await jobIn(store, status);
      const before = await pictureOf(store, id);

      await assert.rejects(store.jobs.retry(id, 1), (error) => {
        assert.ok(error instanceof IllegalMoveError);
        assert.equal(error.id, id);
        assert.equal(error.status, status);
        assert.equal(error.move, "retry");
        return true;
      });
      assert.deepEqual(await pictureOf(store, id), before);
    });
  }

  test("a job that does not exist cannot be retried", async () => {
    const { store } = await open();
    const id = nextId();
    await assert.rejects(store.jobs.retry(id, 1), (error) => {
      assert.ok(error instanceof JobNotFoundError);
      assert.equal(error.id, id);
      return true;
    });
    assert.equal(await store.jobs.find(id), null);
  });

  test("a job that used up its attempts gets as many more as the operator gives it", async () => {
    const bundle = await open();
    const { store } = bundle;
    const first = await startOne(store, { maxAttempts: 1 });
    assert.equal((await settleOne(store, retry(first))).status, "failed");
    await store.jobs.retry(first.id, 2);
    assert.equal((await mustFind(store, first.id)).maxAttempts, 3);

    const second = await claimOne(store);
    assert.equal(second.attempt, 2);
    assert.equal(second.maxAttempts, 3);
    assert.equal((await settleOne(store, retry(second))).status, "retry");
    await promoteOne(bundle, first.id);
    assert.equal((await settleOne(store, retry(await claimOne(store)))).status, "failed");
  });

  test("a retried job keeps its history, and its epoch keeps growing", async () => {
    const bundle = await open();
    const { store } = bundle;
    const first = await startOne(store, { maxAttempts: 2 });
    await settleOne(store, retry(first, { error: '"one"' }));
    await promoteOne(bundle, first.id);
    await settleOne(store, retry(await claimOne(store), { error: '"two"' }));
    const before = await store.jobs.attempts(first.id);

    await store.jobs.retry(first.id, 1);
    assert.deepEqual(await store.jobs.attempts(first.id), before);
    assert.equal((await mustFind(store, first.id)).lastError, '"two"');
    const third = await claimOne(store);
    assert.equal(third.epoch, 3);
    await settleOne(store, done(third));

    const told = await store.jobs.attempts(first.id);
    assert.deepEqual(
      told.map(({ epoch, attempt, outcome, error }) => [epoch, attempt, outcome, error]),
      [
        [1, 1, "retry", '"one"'],
        [2, 2, "failed", '"two"'],
        [3, 3, "done", null],
      ],
    );
  });

  test("a job can fail and be retried again and again", async () => {
    const { store } = await open();
    const first = await startOne(store, { maxAttempts: 1 });
    await settleOne(store, failed(first));
    for (let round = 2; round <= 5; round += 1) {
      await store.jobs.retry(first.id, 1);
      const claimed = await claimOne(store);
      assert.equal(claimed.epoch, round);
      assert.equal(claimed.attempt, round);
      assert.equal((await settleOne(store, retry(claimed))).status, "failed");
    }
    assert.equal((await store.jobs.attempts(first.id)).length, 5);
  });

  test("a retried job comes after jobs that were pending before", async () => {
    const { store, clock } = await open();
    const id = await jobIn(store, "failed");
    clock.advance(1);
    const fresh = await enqueueOne(store);
    clock.advance(1);
    await store.jobs.retry(id, 1);

    assert.deepEqual(idsOf(await store.jobs.claim(upTo(2))), [fresh.id, id]);
  });

  test("a job that was cancelled before it was claimed can be retried", async () => {
    const { store } = await open();
    const { id } = await enqueueOne(store);
    await store.jobs.cancel(id);
    await store.jobs.retry(id, 1);

    assert.deepEqual(await store.jobs.attempts(id), []);
    const claimed = await claimOne(store);
    assert.equal(claimed.epoch, 1);
    assert.equal((await settleOne(store, done(claimed))).status, "done");
  });

  test("a job that was cancelled while it ran is not cancelled again when it is retried", async () => {
    const { store } = await open();
    const first = await startOne(store);
    await store.jobs.cancel(first.id);
    await settleOne(store, done(first));
    await store.jobs.retry(first.id, 1);

    const second = await claimOne(store);
    const [extended] = await store.jobs.extend([second], 60_000);
    assert.equal(extended?.cancelRequested, false);
    assert.equal((await settleOne(store, done(second))).status, "done");
  });

  test("a poisonous job can be retried, and completes when its reason is gone", async () => {
    const bundle = await open();
    const { store } = bundle;
    let claimed = await startOne(store, { maxAttempts: 9 });
    claimed = await crashAndClaim(bundle, claimed, "worker-b");
    claimed = await crashAndClaim(bundle, claimed, "worker-c");
    assert.equal((await crash(bundle, claimed)).status, "failed");

    await store.jobs.retry(claimed.id, 1);
    const retried = await claimOne(store);
    assert.equal(retried.epoch, 4);
    assert.equal((await settleOne(store, done(retried))).status, "done");
    assert.equal((await store.jobs.attempts(claimed.id)).length, 4);
  });

  test("a retried job holds its key again", async () => {
    const { store } = await open();
    const id = await jobIn(store, "failed", { key: "ada" });
    await store.jobs.retry(id, 1);

    assert.deepEqual(await store.jobs.enqueue([newJob({ key: "ada" })]), [{ id, added: false }]);
    await settleOne(store, done(await claimOne(store)));
    await enqueueOne(store, { key: "ada" });
  });

  test("a job whose key another one holds by now cannot be retried, and nothing changes", async () => {
    const { store } = await open();
    const id = await jobIn(store, "failed", { key: "ada" });
    const holder = await enqueueOne(store, { key: "ada" });
    const before = [await pictureOf(store, id), await pictureOf(store, holder.id)];

    await assert.rejects(store.jobs.retry(id, 1), (error) => {
      assert.ok(error instanceof KeyTakenError);
      assert.equal(error.key, "ada");
      assert.equal(error.holder, holder.id);
      return true;
    });
    assert.deepEqual([await pictureOf(store, id), await pictureOf(store, holder.id)], before);

    await store.jobs.cancel(holder.id);
    await store.jobs.retry(id, 1);
    assert.equal(await statusOf(store, id), "pending");
  });

  test("when several processes retry a job at the same moment, one does", async () => {
    const { store } = await open();
    const id = await jobIn(store, "failed");

    const answers = await Promise.allSettled(
      Array.from({ length: 4 }, () => store.jobs.retry(id, 1)),
    );
    assert.equal(answers.filter(({ status }) => status === "fulfilled").length, 1);
    for (const answer of answers) {
      if (answer.status === "rejected") assert.ok(answer.reason instanceof IllegalMoveError);
    }
    assert.deepEqual(idsOf(await store.jobs.claim(upTo(9))), [id]);
  });

  test("a failed job records its error", async () => {
    const { store } = await open();
    const id = await jobIn(store, "failed");
    assert.deepEqual(await store.jobs.findFinished([id]), [
      { id, task: "mail.send", status: "failed", attempts: 1, result: null, error: ERROR },
    ]);
  });
};
