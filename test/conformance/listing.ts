/** Looking: one job, the finished ones, pages of many, and the counts of each queue. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { statuses, type Status } from "../../src/core/job.ts";
import type { JobListFilter } from "../../src/jobs/filter.ts";
import type { Store } from "../../src/app/store.ts";
import type { Group } from "../support/bundle.ts";
import {
  done,
  claimOne,
  enqueueInTurn,
  enqueueOne,
  ERROR,
  EXPIRED,
  idsOf,
  jobIn,
  mustFind,
  newJob,
  nextId,
  startOne,
} from "../support/jobs.ts";
import { withCode } from "../worker/observe.ts";

/** Two jobs in every state, each in a queue of its own so that they do not take one another's place. */
async function twoInEachState(store: Store): Promise<Record<Status, string[]>> {
  const ids = {} as Record<Status, string[]>;
  for (const status of statuses) {
    ids[status] = [
      await jobIn(store, status, { queue: `${status}-1` }),
      await jobIn(store, status, { queue: `${status}-2` }),
    ];
  }
  return ids;
}

function byId(a: { id: string }, b: { id: string }): number {
  return a.id < b.id ? -1 : 1;
}

export const listing: Group = (open) => {
  test("a job that does not exist is not found", async () => {
    const { store } = await open();
    await enqueueOne(store);
    assert.equal(await store.jobs.find(nextId()), null);
    assert.deepEqual(await store.jobs.attempts(nextId()), []);
  });

  for (const status of statuses) {
    test(`a ${status} job is found with its status and its payload`, async () => {
      const { store } = await open();
      const id = await jobIn(store, status, { payload: '"here"' });
      const job = await mustFind(store, id);
      assert.equal(job.status, status);
      assert.equal(job.payload, '"here"');
    });

    test(`a list of ${status} jobs has all of them and no others, newest first`, async () => {
      const { store } = await open();
      const ids = await twoInEachState(store);
      const listed = await store.jobs.list({ status, limit: 99 });
      assert.deepEqual(idsOf(listed), ids[status].toReversed());
      assert.ok(listed.every((job) => job.status === status));
    });

    test(`${status} jobs are listed a page at a time`, async () => {
      const { store } = await open();
      const ids = await twoInEachState(store);
      const [older, newer] = ids[status];
      assert.deepEqual(idsOf(await store.jobs.list({ status, limit: 1 })), [newer]);
      assert.deepEqual(idsOf(await store.jobs.list({ status, limit: 1, before: newer! })), [older]);
      assert.deepEqual(await store.jobs.list({ status, limit: 1, before: older! }), []);
    });
  }

  test("a list without a status has jobs in every state, newest first", async () => {
    const { store } = await open();
    const ids = Object.values(await twoInEachState(store)).flat();
    assert.deepEqual(idsOf(await store.jobs.list({ limit: 99 })), ids.toSorted().toReversed());
  });

  test("a listed job says what the job itself says, but for payload and result", async () => {
    const { store } = await open();
    for (const status of statuses) {
      const facts = { queue: status, key: `key-${status}`, priority: 3, maxAttempts: 8 };
      const id = await jobIn(store, status, facts);
      const job = await mustFind(store, id);
      const { payload, result, cancelRequestedAt, ...summary } = job;
      assert.deepEqual([typeof payload, cancelRequestedAt], ["string", null]);
      assert.deepEqual(
        [result !== null, summary.lastError !== null],
        [status === "done", ["retry", "failed", "expired"].includes(status)],
      );
      assert.deepEqual(await store.jobs.list({ queue: status, limit: 9 }), [summary]);
    }
  });

  test("a list can be of one queue, one task, or both", async () => {
    const { store } = await open();
    const a = await enqueueOne(store, { queue: "mail", task: "send" });
    const b = await enqueueOne(store, { queue: "mail", task: "receive" });
    const c = await enqueueOne(store, { queue: "post", task: "send" });

    assert.deepEqual(idsOf(await store.jobs.list({ queue: "mail", limit: 9 })), [b.id, a.id]);
    assert.deepEqual(idsOf(await store.jobs.list({ task: "send", limit: 9 })), [c.id, a.id]);
    const both = { queue: "mail", task: "send", limit: 9 };
    assert.deepEqual(idsOf(await store.jobs.list(both)), [a.id]);
    assert.deepEqual(idsOf(await store.jobs.list({ ...both, status: "pending" })), [a.id]);
    assert.deepEqual(await store.jobs.list({ ...both, status: "done" }), []);
    assert.deepEqual(await store.jobs.list({ queue: "nowhere", limit: 9 }), []);
  });

  test("a list can be of one key, whatever became of the jobs that had it", async () => {
    const { store } = await open();
    const ended = await jobIn(store, "done", { queue: "a", task: "send", key: "order 42" });
    const live = await enqueueOne(store, { queue: "b", task: "send", key: "order 42" });
    const other = await enqueueOne(store, { queue: "b", task: "pack", key: "order 42" });
    await enqueueOne(store, { task: "send", key: "order 4" });
    await enqueueOne(store, { task: "send" });

    const list = async (filter: JobListFilter) =>
      idsOf(await store.jobs.list({ key: "order 42", limit: 9, ...filter }));
    assert.deepEqual(await list({}), [other.id, live.id, ended]);
    assert.deepEqual(await list({ limit: 1 }), [other.id]);
    assert.deepEqual(await list({ before: other.id }), [live.id, ended]);
    assert.deepEqual(await list({ status: "done" }), [ended]);
    assert.deepEqual(await list({ status: "pending", task: "send" }), [live.id]);
    assert.deepEqual(await list({ queue: "b" }), [other.id, live.id]);
    assert.deepEqual(await list({ key: "ORDER 42" }), []);
  });

  test("a list can be of the ids that begin with a prefix", async () => {
    const { store } = await open();
    const ids = [
      "01a1e35b-c448-7fff-bfff-ffffffffffff",
      "01a1e35b-c449-7000-8000-000000000000",
      "01a1e35b-c449-7001-a000-00000000000a",
      "01a1e35b-c44a-7000-8000-000000000000",
    ];
    await store.jobs.enqueue(ids.map((id) => newJob({ id })));
    const list = async (prefix: string, limit = 9) =>
      idsOf(await store.jobs.list({ id: prefix, limit })).toReversed();
    assert.deepEqual(await list("01a1e35b-c449"), ids.slice(1, 3));
    assert.deepEqual(await list("01A1E35BC449"), ids.slice(1, 3));
    assert.deepEqual(await list("01a1e35b-c449-7001"), [ids[2]]);
    assert.deepEqual(await list("0", 2), ids.slice(2));
    assert.deepEqual(await list(ids[0]!), [ids[0]]);
    assert.deepEqual(await list("01a1e35c"), []);
    for (const none of ["mail", "%", ""])
      await assert.rejects(list(none), withCode("INVALID_ARGUMENT", "id[0]"));

    const beside = async (...some: string[]) => (await store.jobs.neighbours(some)).toSorted();
    assert.deepEqual(await beside(ids[1]!), [ids[0], ids[2]]);
    assert.deepEqual(await beside(ids[0]!, ids[3]!), [ids[1], ids[2]]);
    assert.deepEqual(await beside(), []);
    assert.deepEqual(await store.items.neighbours(ids), []);
  });

  test("pages have no gap and no repetition while new jobs arrive", async () => {
    const { store } = await open();
    const jobs = Array.from({ length: 23 }, () => newJob());
    await store.jobs.enqueue(jobs);

    const seen: string[] = [];
    // A repetition would go round in circles, so there is an end to it.
    for (let pages = 0; pages < jobs.length; pages += 1) {
      const before = seen.at(-1);
      const page = await store.jobs.list({ limit: 5, ...(before === undefined ? {} : { before }) });
      seen.push(...idsOf(page));
      await enqueueOne(store);
      await enqueueOne(store, { start: { delayMs: 9 } });
    }
    assert.deepEqual(seen, idsOf(jobs).toReversed());
  });

  test("pages have no gap and no repetition while jobs go from state to state", async () => {
    const { store } = await open();
    const jobs = Array.from({ length: 12 }, () => newJob());
    await store.jobs.enqueue(jobs);

    const seen = idsOf(await store.jobs.list({ limit: 5 }));
    await claimOne(store);
    await store.jobs.cancel(jobs[3]!.id);
    seen.push(...idsOf(await store.jobs.list({ limit: 5, before: seen.at(-1)! })));
    await claimOne(store);
    seen.push(...idsOf(await store.jobs.list({ limit: 5, before: seen.at(-1)! })));
    assert.deepEqual(seen, idsOf(jobs).toReversed());
  });

  test("finished jobs are found by id with their results, and the others are left out", async () => {
    const { store } = await open();
    const ids = await twoInEachState(store);
    const found = await store.jobs.findFinished([...Object.values(ids).flat(), nextId()]);

    const facts = { task: "mail.send", attempts: 1, result: null, error: null };
    const expected = [
      ...ids.done.map((id) => ({ ...facts, id, status: "done", result: '"sent"' })),
      ...ids.failed.map((id) => ({ ...facts, id, status: "failed", error: ERROR })),
      ...ids.cancelled.map((id) => ({ ...facts, id, status: "cancelled" })),
      ...ids.expired.map((id) => ({
        ...facts,
        id,
        attempts: 0,
        status: "expired",
        error: EXPIRED,
      })),
    ];
    assert.deepEqual(found.toSorted(byId), expected.toSorted(byId));
    assert.deepEqual(await store.jobs.findFinished([]), []);
  });

  test("statistics count the jobs of each queue by status", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const since = clock.now();
    await enqueueInTurn(bundle, [{ queue: "b" }, { queue: "b" }]);
    for (const status of statuses.filter((one) => one !== "pending")) {
      await jobIn(store, status, { queue: "a" });
    }

    const none = Object.fromEntries(statuses.map((status) => [status, 0]));
    const each = Object.fromEntries(statuses.map((status) => [status, 1]));
    const stats = new Map((await store.jobs.stats()).map((queue) => [queue.queue, queue]));
    assert.deepEqual([...stats.keys()].toSorted(), ["a", "b"]);
    assert.deepEqual(stats.get("a")?.counts, { ...each, pending: 0 });
    assert.equal(stats.get("a")?.oldestPendingAt, null);
    assert.deepEqual(stats.get("b")?.counts, { ...none, pending: 2 });
    assert.equal(stats.get("b")?.oldestPendingAt, since);
  });

  test("the oldest pending job counts since it became pending", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    clock.advance(5_000);
    await store.jobs.release([claimed]);
    const [queue] = await store.jobs.stats();
    assert.equal(queue?.oldestPendingAt, clock.now());
  });

  test("an empty database has no queues", async () => {
    const { store } = await open();
    assert.deepEqual(await store.jobs.stats(), []);
    assert.equal(await store.jobs.hasPending("default"), false);
  });

  test("a queue has pending jobs exactly while a job of it is pending", async () => {
    const { store } = await open();
    for (const status of statuses) {
      await jobIn(store, status, { queue: status });
      assert.equal(await store.jobs.hasPending(status), status === "pending");
    }
    await claimOne(store, { queues: ["pending"] });
    assert.equal(await store.jobs.hasPending("pending"), false);
  });

  test("an invalid id belongs to no job", async () => {
    const { store } = await open();
    const claimed = await startOne(store);
    for (const id of ["", "nope", "{}", `${claimed.id} `, claimed.id.toUpperCase()]) {
      assert.equal(await store.jobs.find(id), null);
      assert.deepEqual(await store.jobs.attempts(id), []);
      assert.deepEqual(await store.jobs.findFinished([id]), []);
      assert.equal(await store.jobs.cancel(id), null);
      await assert.rejects(store.jobs.retry(id, 1), withCode("JOB_NOT_FOUND"));
      assert.deepEqual(await store.jobs.extend([{ ...claimed, id }], 1_000), []);
      assert.deepEqual(await store.jobs.settle([done({ ...claimed, id })]), []);
    }
    assert.equal((await store.jobs.settle([done(claimed)])).length, 1);
  });
};
