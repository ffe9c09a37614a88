/** The attempts of a job: every claim leaves exactly one, and it says how it ended. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  crash,
  done,
  enqueueOne,
  ERROR,
  mustFind,
  outcomes,
  promoteOne,
  released,
  retry,
  settleOne,
  startOne,
  suspended,
} from "../support/jobs.ts";

export const history: Group = (open) => {
  test("a job that was never claimed has no attempts", async () => {
    const { store } = await open();
    const { id } = await enqueueOne(store);
    assert.deepEqual(await store.jobs.attempts(id), []);
    await store.jobs.cancel(id);
    assert.deepEqual(await store.jobs.attempts(id), []);
  });

  test("the attempt of a running job is running", async () => {
    const { store, clock } = await open();
    const startedAt = clock.now();
    const claimed = await startOne(store);
    clock.advance(100);

    assert.deepEqual(await store.jobs.attempts(claimed.id), [
      {
        epoch: 1,
        attempt: 1,
        worker: claimed.worker,
        outcome: "running",
        startedAt,
        endedAt: null,
        error: null,
      },
    ]);
  });

  const errors: Record<string, string> = { retry: ERROR, failed: ERROR };
  for (const { name, settle } of outcomes) {
    test(`an attempt that ended as ${name} says so, with its worker and its times`, async () => {
      const { store, clock } = await open();
      const startedAt = clock.now();
      const claimed = await startOne(store, {}, { worker: "worker-x" });
      clock.advance(100);
      await settleOne(store, settle(claimed));

      assert.deepEqual(await store.jobs.attempts(claimed.id), [
        {
          epoch: 1,
          attempt: 1,
          worker: "worker-x",
          outcome: name,
          startedAt,
          endedAt: clock.now(),
          error: errors[name] ?? null,
        },
      ]);
    });
  }

  test("every claim leaves one attempt, oldest first, and released attempts repeat their number", async () => {
    const bundle = await open();
    const { store } = bundle;
    const first = await startOne(store, { maxAttempts: 9 }, { worker: "w1" });
    await settleOne(store, released(first));
    await settleOne(store, retry(await claimOne(store, { worker: "w2" }), { error: '"two"' }));
    await promoteOne(bundle, first.id);
    await settleOne(store, suspended(await claimOne(store, { worker: "w3" }), 1));
    await promoteOne(bundle, first.id);
    await crash(bundle, await claimOne(store, { worker: "w4" }));
    await promoteOne(bundle, first.id);
    await settleOne(store, done(await claimOne(store, { worker: "w5" })));

    const told = await store.jobs.attempts(first.id);
    assert.deepEqual(
      told.map(({ epoch, attempt, worker, outcome }) => [epoch, attempt, worker, outcome]),
      [
        [1, 1, "w1", "released"],
        [2, 1, "w2", "retry"],
        [3, 2, "w3", "suspended"],
        [4, 2, "w4", "crashed"],
        [5, 3, "w5", "done"],
      ],
    );
  });

  test("the last error of a job is that of its latest attempt that had one", async () => {
    const bundle = await open();
    const { store } = bundle;
    const first = await startOne(store, { maxAttempts: 9 });
    await settleOne(store, retry(first, { error: '"one"' }));
    await promoteOne(bundle, first.id);
    await settleOne(store, retry(await claimOne(store), { error: '"two"' }));
    await promoteOne(bundle, first.id);
    const third = await claimOne(store);
    assert.equal((await mustFind(store, first.id)).lastError, '"two"');

    await settleOne(store, released(third));
    assert.equal((await mustFind(store, first.id)).lastError, '"two"');
  });
};
