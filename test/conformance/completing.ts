/** Jobs that end inside a user transaction: done if and when it is committed. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JobCancelledError, LeaseLostError } from "../../src/core/errors.ts";
import { calledId } from "../../src/core/id.ts";
import type { Fence } from "../../src/core/job.ts";
import { JOB_ENDED } from "../../src/core/task.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  crashAndClaim,
  done,
  enqueueOne,
  fenceOf,
  HOUR_MS,
  mustFind,
  newJob,
  nextId,
  pictureOf,
  retry,
  settleOne,
  startOne,
  statusOf,
} from "../support/jobs.ts";
import { near } from "../support/near.ts";
import type { Store } from "../../src/app/store.ts";

class RolledBack extends Error {}

/** Completes a job in a transaction of its own, which is committed or rolled back. */
async function complete(
  store: Store,
  fence: Fence,
  { result = '"sent"', commits = true }: { result?: string | null; commits?: boolean } = {},
): Promise<void> {
  const ending = store.db.engine.userTransaction(
    async ({ client }) => {
      await store.db.inUserTransaction(client, (joined) =>
        store.jobs.in(joined).complete(fenceOf(fence), result),
      );
      if (!commits) throw new RolledBack();
    },
    async () => {},
  );
  await (commits ? ending : assert.rejects(ending, RolledBack));
}

export const completing: Group = (open) => {
  test("a job that is completed in a transaction is done when that is committed", async () => {
    const store = await near(await open());
    const claimed = await startOne(store);
    await complete(store, claimed);
    const { status, result, epoch, attempts } = await mustFind(store, claimed.id);
    assert.deepEqual([status, result, epoch, attempts], ["done", '"sent"', 1, 1]);
    assert.deepEqual((await pictureOf(store, claimed.id)).leases, []);

    const [settled, ...more] = await store.jobs.settleCompleted([retry(claimed)]);
    assert.deepEqual([settled?.id, settled?.status, more.length], [claimed.id, "done", 0]);
    assert.equal((await store.jobs.attempts(claimed.id)).length, 1);
  });

  test("a job that leaves no result is completed too", async () => {
    const store = await near(await open());
    const claimed = await startOne(store);
    await complete(store, claimed, { result: null });
    const { status, result } = await mustFind(store, claimed.id);
    assert.deepEqual([status, result], ["done", null]);
  });

  test("a rolled-back completion has no effect, and the outcome of the attempt counts", async () => {
    const store = await near(await open());
    const claimed = await startOne(store, { key: "42" });
    const before = await pictureOf(store, claimed.id);
    await complete(store, claimed, { commits: false });
    assert.deepEqual(await pictureOf(store, claimed.id), before);
    assert.deepEqual((await store.jobs.extend([claimed], HOUR_MS)).length, 1);

    const [settled] = await store.jobs.settleCompleted([retry(claimed)]);
    assert.deepEqual([settled?.id, settled?.status], [claimed.id, "retry"]);
    // Asked again, because the answer was lost, it says the same.
    assert.deepEqual(await store.jobs.settleCompleted([retry(claimed)]), [settled]);
    assert.equal((await store.jobs.attempts(claimed.id)).length, 1);
  });

  test("a job that another worker owns by then is not completed", async () => {
    const bundle = await open();
    const store = await near(bundle);
    const late = await startOne(store);
    const theirs = await crashAndClaim({ ...bundle, store }, late, "worker-b");
    const before = await pictureOf(store, late.id);
    await assert.rejects(complete(store, late), LeaseLostError);
    assert.deepEqual(await pictureOf(store, late.id), before);
    assert.deepEqual(await store.jobs.settleCompleted([done(late)]), []);
    await complete(store, theirs);
    await assert.rejects(complete(store, theirs), LeaseLostError);
  });

  test("a job with a cancel request is not completed, and is cancelled", async () => {
    const store = await near(await open());
    const claimed = await startOne(store);
    await store.jobs.cancel(claimed.id);
    await assert.rejects(complete(store, claimed), JobCancelledError);
    const [settled] = await store.jobs.settleCompleted([retry(claimed)]);
    assert.equal(settled?.status, "cancelled");
  });

  test("a completed job releases its key, or keeps it for its keyFor", async () => {
    const store = await near(await open());
    await complete(store, await startOne(store, { key: "free" }));
    await enqueueOne(store, { key: "free", queue: "other" });
    const claimed = await startOne(store, { key: "kept", keyForMs: HOUR_MS });
    await complete(store, claimed);
    assert.deepEqual(await store.jobs.enqueue([newJob({ key: "kept" })]), [
      { id: claimed.id, added: false },
    ]);
  });

  for (const commits of [true, false]) {
    const words = commits ? "goes on when it is completed" : "waits on when that is rolled back";
    test(`a job that waits for the end of another ${words}`, async () => {
      const store = await near(await open());
      const wait = { event: JOB_ENDED, key: calledId(nextId()) };
      const parent = await startOne(store, { queue: "parents" });
      await store.steps.expect(wait);
      await enqueueOne(store, { id: wait.key });
      const outcome = { kind: "suspended", delayMs: null, waits: [wait] } as const;
      await settleOne(store, { ...fenceOf(parent), outcome });

      await complete(store, await claimOne(store), { commits });
      assert.equal(await statusOf(store, parent.id), commits ? "pending" : "waiting");
    });
  }
};
