/** Forgetting jobs that ended long enough ago, with everything that belongs to them, and no others. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JobNotFoundError } from "../../src/core/errors.ts";
import { finalStatuses, statuses, type FinalStatus } from "../../src/core/job.ts";
import type { Store } from "../../src/app/store.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  done,
  HOUR_MS,
  jobIn,
  pictureOf,
  promoteOne,
  retry,
  settleOne,
  startOne,
} from "../support/jobs.ts";

const keepNothing = { done: 0, failed: 0, cancelled: 0, expired: 0 };

async function inEachFinalState(store: Store): Promise<Record<FinalStatus, string>> {
  return {
    done: await jobIn(store, "done"),
    failed: await jobIn(store, "failed"),
    cancelled: await jobIn(store, "cancelled"),
    expired: await jobIn(store, "expired"),
  };
}

export const pruning: Group = (open) => {
  test("where nothing is old enough, nothing is pruned", async () => {
    const { store } = await open();
    assert.equal(await store.jobs.prune({ retention: keepNothing, limit: 9 }), 0);
    const id = await jobIn(store, "done");
    const before = await pictureOf(store, id);

    const retention = { done: HOUR_MS, failed: HOUR_MS, cancelled: HOUR_MS, expired: HOUR_MS };
    assert.equal(await store.jobs.prune({ retention, limit: 9 }), 0);
    assert.deepEqual(await pictureOf(store, id), before);
  });

  test("a job is kept for its whole time and not a millisecond longer", async () => {
    const { store, clock } = await open();
    const id = await jobIn(store, "done");
    const retention = { ...keepNothing, done: 1_000 };
    clock.advance(1_000);
    assert.equal(await store.jobs.prune({ retention, limit: 9 }), 0);

    clock.advance(1);
    assert.equal(await store.jobs.prune({ retention, limit: 9 }), 1);
    assert.equal(await store.jobs.find(id), null);
  });

  test("the time counts from the end of a job, not from its beginning", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    clock.advance(10 * HOUR_MS);
    await settleOne(store, done(claimed));
    clock.advance(1_000);

    assert.equal(
      await store.jobs.prune({ retention: { ...keepNothing, done: HOUR_MS }, limit: 9 }),
      0,
    );
  });

  for (const status of finalStatuses) {
    test(`${status} jobs have a time of their own`, async () => {
      const { store, clock } = await open();
      const ids = await inEachFinalState(store);
      clock.advance(HOUR_MS);
      const retention = {
        done: 2 * HOUR_MS,
        failed: 2 * HOUR_MS,
        cancelled: 2 * HOUR_MS,
        expired: 2 * HOUR_MS,
      };

      assert.equal(
        await store.jobs.prune({ retention: { ...retention, [status]: 1_000 }, limit: 9 }),
        1,
      );
      for (const other of finalStatuses) {
        const gone = (await store.jobs.find(ids[other])) === null;
        assert.equal(gone, other === status);
      }
    });
  }

  test("a pruned job takes its history along", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const first = await startOne(store);
    await settleOne(store, retry(first));
    await promoteOne(bundle, first.id);
    await settleOne(store, done(await claimOne(store)));
    assert.equal((await store.jobs.attempts(first.id)).length, 2);
    clock.advance(1);

    assert.equal(await store.jobs.prune({ retention: keepNothing, limit: 9 }), 1);
    assert.deepEqual(await pictureOf(store, first.id), { job: null, attempts: [], leases: [] });
    assert.deepEqual(await store.jobs.findFinished([first.id]), []);
    assert.deepEqual(await store.jobs.list({ limit: 9 }), []);
    assert.deepEqual(await store.jobs.stats(), []);
  });

  test("a pruned job was never there: it cannot be cancelled or retried", async () => {
    const { store, clock } = await open();
    const id = await jobIn(store, "failed");
    clock.advance(1);
    await store.jobs.prune({ retention: keepNothing, limit: 9 });

    assert.equal(await store.jobs.cancel(id), null);
    await assert.rejects(store.jobs.retry(id, 1), JobNotFoundError);
  });

  test("pruning takes at most its limit and says how many", async () => {
    const { store, clock } = await open();
    for (const status of finalStatuses) {
      await jobIn(store, status);
      await jobIn(store, status);
    }
    clock.advance(1);

    const pruned = [];
    for (let round = 0; round < 3; round += 1) {
      pruned.push(await store.jobs.prune({ retention: keepNothing, limit: 4 }));
    }
    assert.deepEqual(pruned, [4, 4, 0]);
    assert.deepEqual(await store.jobs.list({ limit: 9 }), []);
  });

  for (const status of statuses.filter((one) => !finalStatuses.includes(one as FinalStatus))) {
    test(`a ${status} job is never pruned, however old it is`, async () => {
      const { store, clock } = await open();
      const id = await jobIn(store, status);
      const finished = await jobIn(store, "done", { queue: "other" });
      clock.advance(1e10);
      const before = await pictureOf(store, id);

      assert.equal(await store.jobs.prune({ retention: keepNothing, limit: 9 }), 1);
      assert.equal(await store.jobs.find(finished), null);
      assert.deepEqual(await pictureOf(store, id), before);
    });
  }

  test("a job that was retried is not pruned for having ended once", async () => {
    const { store, clock } = await open();
    const id = await jobIn(store, "failed");
    clock.advance(HOUR_MS);
    await store.jobs.retry(id, 1);
    const before = await pictureOf(store, id);

    assert.equal(await store.jobs.prune({ retention: keepNothing, limit: 9 }), 0);
    assert.deepEqual(await pictureOf(store, id), before);
  });
};
