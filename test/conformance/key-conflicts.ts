/** What becomes of a job whose key is held: it takes the holder's place, or is refused with all that came with it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyTakenError } from "../../src/core/errors.ts";
import { calledId } from "../../src/core/id.ts";
import { finalStatuses, statuses, type FinalStatus, type Status } from "../../src/core/job.ts";
import { JOB_ENDED } from "../../src/core/task.ts";
import type { NewJob } from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  done,
  enqueueOne,
  fenceOf,
  HOUR_MS,
  idsOf,
  jobIn,
  mustFind,
  newJob,
  nextId,
  one,
  pictureOf,
  settleOne,
  startOne,
  statusOf,
} from "../support/jobs.ts";

const key = "order-42";
const kept = { key, keyForMs: HOUR_MS };
const live = statuses.filter((status) => !finalStatuses.includes(status as FinalStatus));
const rejecting = (facts: Partial<NewJob> = {}) => newJob({ key, onConflict: "reject", ...facts });
const replacing = (facts: Partial<NewJob> = {}) => newJob({ key, onConflict: "replace", ...facts });

/** The call is refused, and says who holds the key. */
async function assertTaken(
  store: Store,
  jobs: readonly NewJob[],
  holder: { id: string; status: Status },
): Promise<void> {
  await assert.rejects(store.jobs.enqueue(jobs), (error) => {
    assert.ok(error instanceof KeyTakenError);
    const { key: named, task, holder: id, status } = error;
    assert.deepEqual([named, task, id, status], [key, "mail.send", holder.id, holder.status]);
    assert.match(error.message, /Wait/);
    return true;
  });
  for (const job of jobs) {
    if (job.id !== holder.id) assert.equal(await store.jobs.find(job.id), null);
  }
}

async function assertHolds(store: Store, id: string): Promise<void> {
  assert.deepEqual(await store.jobs.enqueue([newJob({ key })]), [{ id, added: false }]);
}

export const keyConflicts: Group = (open) => {
  for (const status of statuses) {
    test(`a job that shall be rejected is, while a ${status} job holds its key`, async () => {
      const { store } = await open();
      const id = await jobIn(store, status, kept);
      const before = await pictureOf(store, id);
      await assertTaken(store, [rejecting()], { id, status });
      assert.deepEqual(await pictureOf(store, id), before);
    });
  }

  test("a job that shall be rejected is accepted when its key is free", async () => {
    const { store } = await open();
    await jobIn(store, "done", { key });
    const job = rejecting();
    assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: true }]);
    await assertHolds(store, job.id);
  });

  test("of a batch with one job that is rejected, none is accepted", async () => {
    const { store } = await open();
    const { id } = await enqueueOne(store, { key });
    const others = [
      newJob(),
      rejecting({ key: "free", keyForMs: HOUR_MS }),
      newJob({ key: "too" }),
    ];
    await assertTaken(store, [...others, rejecting()], { id, status: "pending" });
    for (const other of others) await enqueueOne(store, { key: other.key });
  });

  test("a batch in which a key is twice is rejected as a whole", async () => {
    const { store } = await open();
    const [first, second] = [rejecting(), rejecting()];
    await assert.rejects(store.jobs.enqueue([newJob(), first, second]), (error) => {
      assert.ok(error instanceof KeyTakenError);
      assert.equal(error.holder, first.id);
      return true;
    });
    assert.deepEqual(await store.jobs.list({ limit: 9 }), []);
    await enqueueOne(store, { key });
  });

  for (const status of live.filter((candidate) => candidate !== "processing")) {
    test(`a ${status} job is replaced: it is cancelled, says by which, and the other holds the key`, async () => {
      const { store } = await open();
      const id = await jobIn(store, status, kept);
      const job = replacing({ payload: '"new"' });
      assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: true }]);

      const { status: became, lastError } = await mustFind(store, id);
      assert.equal(became, "cancelled");
      const { code, message } = JSON.parse(lastError ?? "{}") as Record<string, string>;
      assert.equal(code, "REPLACED");
      assert.ok(message?.includes(job.id));
      await assertHolds(store, job.id);
      const claimed = await claimOne(store);
      assert.deepEqual([claimed.id, claimed.payload], [job.id, '"new"']);
      await settleOne(store, done(claimed));
      await enqueueOne(store, { key }); // neither the old nor the new one keeps it
    });
  }

  test("a running job is not replaced, and is not asked to stop", async () => {
    const { store } = await open();
    const claimed = await startOne(store, { key });
    const before = await pictureOf(store, claimed.id);
    await assertTaken(store, [replacing()], { id: claimed.id, status: "processing" });
    assert.deepEqual(await pictureOf(store, claimed.id), before);
    await settleOne(store, done(claimed));
    await store.jobs.enqueue([replacing()]);
  });

  for (const status of finalStatuses) {
    test(`a ${status} job that keeps its key loses it to the job that replaces it, and stays unchanged`, async () => {
      const { store } = await open();
      const id = await jobIn(store, status, kept);
      const before = await pictureOf(store, id);
      const job = replacing();
      assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: true }]);
      assert.deepEqual(await pictureOf(store, id), before);
      await assertHolds(store, job.id);
      await settleOne(store, done(await claimOne(store)));
      await enqueueOne(store, { key });
    });
  }

  test("a job that replaces another keeps the key for as long as it says itself", async () => {
    const { store, clock } = await open();
    await jobIn(store, "done", kept);
    const job = replacing({ keyForMs: 2 * HOUR_MS });
    await store.jobs.enqueue([job]);
    await settleOne(store, done(await claimOne(store)));
    clock.advance(2 * HOUR_MS - 1);
    await assertHolds(store, job.id);
    clock.advance(1);
    await enqueueOne(store, { key });
  });

  for (const onConflict of ["replace", "reject"] as const) {
    test(`a key whose time is over is free for ${onConflict}, and is kept anew`, async () => {
      const { store, clock } = await open();
      await jobIn(store, "done", kept);
      clock.advance(HOUR_MS);
      const job = newJob({ ...kept, onConflict });
      assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: true }]);
      await settleOne(store, done(await claimOne(store)));
      await assertHolds(store, job.id);
    });
  }

  test("a job that finds no job to replace is accepted", async () => {
    const { store } = await open();
    const job = replacing();
    assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: true }]);
    await assertHolds(store, job.id);
  });

  test("of two jobs of a batch the later replaces the earlier", async () => {
    const { store } = await open();
    const [first, plain, second] = [replacing(), newJob(), replacing()];
    const batch = [first, plain, second];
    assert.deepEqual(
      await store.jobs.enqueue(batch),
      batch.map(({ id }) => ({ id, added: true })),
    );
    assert.equal(await statusOf(store, first.id), "cancelled");
    await assertHolds(store, second.id);
  });

  test("a job that waits for another continues when that one is replaced", async () => {
    const { store } = await open();
    const called = calledId(nextId());
    const wait = { event: JOB_ENDED, key: called };
    const parent = await startOne(store, { queue: "parents" });
    await store.steps.expect(wait);
    await enqueueOne(store, { id: called, key });
    const outcome = { kind: "suspended", delayMs: null, waits: [wait] } as const;
    await settleOne(store, { ...fenceOf(parent), outcome });

    await store.jobs.enqueue([replacing()]);
    assert.equal(await statusOf(store, called), "cancelled");
    assert.equal(await statusOf(store, parent.id), "pending");
  });

  test("repeating the enqueue of a job that replaced another changes nothing", async () => {
    const { store } = await open();
    const { id } = await enqueueOne(store, { key });
    const job = replacing();
    await store.jobs.enqueue([job]);
    const next = await startOne(store, { queue: "other", key: "other" });
    const ids = [id, job.id, next.id];
    const before = await Promise.all(ids.map((each) => pictureOf(store, each)));
    assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: false }]);
    assert.deepEqual(await Promise.all(ids.map((each) => pictureOf(store, each))), before);
  });

  test("a job that was replaced is retried when the key is free again, and not before", async () => {
    const { store } = await open();
    const { id } = await enqueueOne(store, { key });
    const job = replacing();
    await store.jobs.enqueue([job]);
    await assert.rejects(store.jobs.retry(id, 1), KeyTakenError);
    await settleOne(store, done(await claimOne(store)));
    await store.jobs.retry(id, 1);
    await assertHolds(store, id);
  });

  test("of many that replace at the same moment one is left, and holds the key", async () => {
    const { store } = await open();
    const first = await enqueueOne(store, kept);
    const jobs = Array.from({ length: 6 }, () => replacing());
    const answers = (await Promise.all(jobs.map((job) => store.jobs.enqueue([job])))).flat();
    assert.deepEqual(
      answers,
      jobs.map(({ id }) => ({ id, added: true })),
    );
    const left = await store.jobs.list({ status: "pending", limit: 9 });
    assert.equal(left.length, 1);
    await assertHolds(store, left[0]!.id);
    const replaced = await store.jobs.list({ status: "cancelled", limit: 9 });
    assert.equal(replaced.length, jobs.length);
    assert.ok(idsOf(replaced).includes(first.id));
  });

  test("of many that would be rejected one is accepted", async () => {
    const { store } = await open();
    const jobs = Array.from({ length: 6 }, () => rejecting());
    const answers = await Promise.allSettled(jobs.map((job) => store.jobs.enqueue([job])));
    const accepted = answers.flatMap((answer) =>
      answer.status === "fulfilled" ? answer.value : [],
    );
    assert.equal(accepted.length, 1);
    for (const answer of answers) {
      if (answer.status === "rejected") assert.ok(answer.reason instanceof KeyTakenError);
    }
    assert.deepEqual(idsOf(await store.jobs.list({ limit: 9 })), idsOf(accepted));
  });

  test("a job is claimed or replaced, and never both", async () => {
    const { store } = await open();
    for (let round = 0; round < 12; round += 1) {
      const queue = `queue-${round}`;
      const holder = await enqueueOne(store, { queue, key: queue });
      const job = replacing({ queue, key: queue });
      const [replaced, claimed] = await Promise.all([
        store.jobs.enqueue([job]).catch((error: unknown) => error),
        store.jobs.claim(one({ queues: [queue] })),
      ]);
      const isClaimed = idsOf(claimed).includes(holder.id);
      if (replaced instanceof KeyTakenError) {
        assert.ok(isClaimed);
        assert.equal(replaced.holder, holder.id);
        assert.equal(await store.jobs.find(job.id), null);
      } else {
        assert.deepEqual(replaced, [{ id: job.id, added: true }]);
        assert.ok(!isClaimed);
        assert.equal(await statusOf(store, holder.id), "cancelled");
      }
    }
  });
};
