/** Keys that jobs keep for a while after their end: until then the same is not enqueued again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyTakenError } from "../../src/core/errors.ts";
import { finalStatuses, statuses, type FinalStatus } from "../../src/core/job.ts";
import { sql } from "../../src/database/sql.ts";
import type { NewJob } from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  crash,
  done,
  enqueueOne,
  failed,
  HOUR_MS,
  idsOf,
  jobIn,
  newJob,
  pictureOf,
  settleOne,
  startOne,
  statusOf,
} from "../support/jobs.ts";

const kept = { key: "order-42", keyForMs: HOUR_MS };
const keepNothing = { retention: { done: 0, failed: 0, cancelled: 0, expired: 0 }, limit: 9 };

/** A call that enqueues the key again, with keyFor or without, gets the holder. */
async function assertHeld(store: Store, holder: string, facts: Partial<NewJob> = kept) {
  for (const late of [
    newJob({ key: facts.key ?? null, task: facts.task ?? "mail.send" }),
    newJob(facts),
  ]) {
    assert.deepEqual(await store.jobs.enqueue([late]), [{ id: holder, added: false }]);
    assert.equal(await store.jobs.find(late.id), null);
  }
}

export const keptKeys: Group = (open) => {
  for (const status of statuses.filter((one) => !finalStatuses.includes(one as FinalStatus))) {
    test(`a ${status} job that will keep its key holds it`, async () => {
      const { store } = await open();
      await assertHeld(store, await jobIn(store, status, kept));
    });
  }

  for (const status of finalStatuses) {
    test(`a ${status} job keeps its key for its whole time and not a millisecond longer`, async () => {
      const { store, clock } = await open();
      const id = await jobIn(store, status, kept);
      const before = await pictureOf(store, id);
      await assertHeld(store, id);
      clock.advance(HOUR_MS - 1);
      await assertHeld(store, id);
      assert.deepEqual(await pictureOf(store, id), before);

      clock.advance(1);
      await enqueueOne(store, kept);
    });
  }

  test("the time counts from the end of a job, not from its beginning", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store, kept);
    clock.advance(10 * HOUR_MS);
    await settleOne(store, done(claimed));
    await assertHeld(store, claimed.id);
  });

  test("a job that is cancelled before it began keeps its key", async () => {
    const { store } = await open();
    const { id } = await enqueueOne(store, kept);
    await store.jobs.cancel(id);
    await assertHeld(store, id);
  });

  test("a job whose last worker died keeps its key", async () => {
    const bundle = await open();
    const claimed = await startOne(bundle.store, { ...kept, maxAttempts: 1 });
    assert.equal((await crash(bundle, claimed)).status, "failed");
    await assertHeld(bundle.store, claimed.id);
  });

  test("after the time of one holder, the next holds the key for its own", async () => {
    const { store, clock } = await open();
    await jobIn(store, "done", kept);
    clock.advance(HOUR_MS);
    const second = await jobIn(store, "done", { ...kept, keyForMs: 2 * HOUR_MS });
    clock.advance(2 * HOUR_MS - 1);
    await assertHeld(store, second);
    clock.advance(1);
    // One that keeps nothing: the key is free at its end, whichever job kept it before.
    await jobIn(store, "done", { key: kept.key });
    await enqueueOne(store, kept);
  });

  test("a key is remembered no longer than its job", async () => {
    const { store, clock, byHand } = await open();
    const id = await jobIn(store, "done", kept);
    clock.advance(1);
    assert.equal(await store.jobs.prune(keepNothing), 1);
    assert.equal(await byHand(sql`delete from holdfast.kept_key where job_id = ${id}`), 0);
    await enqueueOne(store, kept);
  });

  test("pruning leaves the keys of others alone", async () => {
    const { store, clock } = await open();
    await jobIn(store, "done", { ...kept, key: "old" });
    clock.advance(1);
    const id = await jobIn(store, "done", kept);
    assert.equal(await store.jobs.prune(keepNothing), 1);
    await assertHeld(store, id);
  });

  test("a kept key belongs to its task, whatever its version, and to no other", async () => {
    const { store } = await open();
    const id = await jobIn(store, "done", { ...kept, task: "mail.send@1" });
    await assertHeld(store, id, { ...kept, task: "mail.send@2" });
    await assertHeld(store, id, { ...kept, task: "mail.send" });
    await enqueueOne(store, { ...kept, task: "order.ship" });
    await enqueueOne(store, { ...kept, key: "order-43" });
  });

  test("in a batch, jobs whose key is kept are not added, and the others are accepted", async () => {
    const { store } = await open();
    const id = await jobIn(store, "done", kept);
    const jobs = [newJob(kept), newJob(), newJob({ key: "free" }), newJob({ key: kept.key })];
    const [, plain, free] = jobs;
    assert.deepEqual(await store.jobs.enqueue(jobs), [
      { id, added: false },
      { id: plain!.id, added: true },
      { id: free!.id, added: true },
      { id, added: false },
    ]);
  });

  test("a kept key that many enqueue at once goes to none of them, and to one when its time is over", async () => {
    const { store, clock } = await open();
    const id = await jobIn(store, "done", kept);
    const enqueueMany = async () => {
      const jobs = Array.from({ length: 9 }, (_, n) =>
        newJob(n % 2 === 0 ? kept : { key: kept.key }),
      );
      return (await Promise.all(jobs.map((job) => store.jobs.enqueue([job])))).flat();
    };
    assert.deepEqual(new Set(idsOf(await enqueueMany())), new Set([id]));

    clock.advance(HOUR_MS);
    const answers = await enqueueMany();
    assert.equal(answers.filter(({ added }) => added).length, 1);
    assert.equal(new Set(idsOf(answers)).size, 1);
  });

  test("a job that ends while its key is requested still holds it", async () => {
    const { store } = await open();
    for (let round = 0; round < 10; round += 1) {
      const facts = { ...kept, key: `order-${round}` };
      const claimed = await startOne(store, facts);
      const late = [newJob(facts), newJob({ key: facts.key }), newJob(facts)];
      const [settled, ...answers] = await Promise.all([
        store.jobs.settle([done(claimed)]),
        ...late.map((job) => store.jobs.enqueue([job])),
      ]);
      assert.equal(settled.length, 1);
      for (const answer of answers) assert.deepEqual(answer, [{ id: claimed.id, added: false }]);
    }
  });

  test("repeating the enqueue of a job that ended and keeps its key changes nothing", async () => {
    const { store } = await open();
    const job = newJob(kept);
    await settleOne(store, done(await startOne(store, job)));
    const before = await pictureOf(store, job.id);
    assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: false }]);
    assert.deepEqual(await pictureOf(store, job.id), before);
  });

  test("a job that is retried holds its key, and keeps it again after its next end", async () => {
    const { store, clock } = await open();
    const id = await jobIn(store, "failed", kept);
    clock.advance(HOUR_MS);
    await store.jobs.retry(id, 1);
    await assertHeld(store, id);
    await settleOne(store, done(await claimOne(store)));
    clock.advance(HOUR_MS - 1);
    await assertHeld(store, id);
  });

  test("a job whose key another one keeps is not retried", async () => {
    const { store } = await open();
    const first = await jobIn(store, "failed", { key: kept.key });
    const second = await jobIn(store, "done", kept);
    await assert.rejects(store.jobs.retry(first, 1), (error) => {
      assert.ok(error instanceof KeyTakenError);
      assert.deepEqual([error.holder, error.status], [second, "done"]);
      return true;
    });
    assert.equal(await statusOf(store, first), "failed");
    await assertHeld(store, second);
  });

  test("a time to keep a key is no reason to keep a job from others", async () => {
    const { store } = await open();
    await settleOne(store, failed(await startOne(store, { ...kept, key: "a" })));
    await enqueueOne(store, { ...kept, key: "b" });
    await enqueueOne(store);
  });
};
