/** Versions: of tasks, which a job carries in its task's name, and of the builds that enqueue jobs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyTakenError } from "../../src/core/errors.ts";
import { FOLD_LAG_MS } from "../../src/stats/minute-totals.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  done,
  enqueueOne,
  failed,
  HOUR_MS,
  idsOf,
  member,
  newJob,
  settleOne,
  startOne,
  upTo,
} from "../support/jobs.ts";
import { start } from "../support/workers.ts";

const MINUTE_MS = 60_000;

export const versions: Group = (open) => {
  test("a claim takes jobs of the versions it names, and leaves the others alone", async () => {
    const { store } = await open();
    const plain = await enqueueOne(store, { task: "ship" });
    const first = await enqueueOne(store, { task: "ship@1" });
    const second = await enqueueOne(store, { task: "ship@2" });
    const claimed = async (...tasks: string[]): Promise<string[]> =>
      idsOf(await store.jobs.claim(upTo(9, { tasks })));
    assert.deepEqual(await claimed("ship@2", "ship@3"), [second.id]);
    assert.deepEqual(await claimed("ship"), [plain.id]);
    assert.deepEqual(await claimed("ship@1"), [first.id]);
  });

  test("a key is held by a job of any version of its task, from its first day to its last", async () => {
    const { store } = await open();
    const late = (task: string) => newJob({ task, key: "order-42" });
    const holder = await enqueueOne(store, { task: "ship@1", key: "order-42" });
    for (const task of ["ship", "ship@1", "ship@2"]) {
      assert.deepEqual(await store.jobs.enqueue([late(task)]), [{ id: holder.id, added: false }]);
    }
    await settleOne(store, done(await claimOne(store)));
    const next = await enqueueOne(store, { task: "ship@2", key: "order-42" });
    assert.deepEqual(await store.jobs.enqueue([late("ship")]), [{ id: next.id, added: false }]);
    assert.equal((await store.jobs.enqueue([late("shipping")]))[0]?.added, true);
  });

  test("a job is not retried while another version holds its key", async () => {
    const { store } = await open();
    const first = await startOne(store, { task: "ship@1", key: "order-42" });
    await settleOne(store, failed(first));
    const second = await enqueueOne(store, { task: "ship@2", key: "order-42" });
    await assert.rejects(store.jobs.retry(first.id, 1), KeyTakenError);
    await settleOne(store, done(await claimOne(store)));
    assert.equal((await store.jobs.find(second.id))?.status, "done");
    await store.jobs.retry(first.id, 1);
    const late = newJob({ task: "ship", key: "order-42" });
    assert.deepEqual(await store.jobs.enqueue([late]), [{ id: first.id, added: false }]);
  });

  test("a list by a task's name has all its versions; by a version, only that", async () => {
    const { store } = await open();
    const ids: Record<string, string> = {};
    for (const task of ["ship", "ship@1", "ship@12", "shipping", "ship.fast", "shi"]) {
      ids[task] = (await enqueueOne(store, { task })).id;
    }
    const listed = async (task: string): Promise<string[]> =>
      idsOf(await store.jobs.list({ task, limit: 99 }));
    assert.deepEqual(await listed("ship"), [ids["ship@12"], ids["ship@1"], ids["ship"]]);
    assert.deepEqual(await listed("ship@1"), [ids["ship@1"]]);
  });

  test("jobs that no live worker can run are listed, with how long they have waited", async () => {
    const { store, clock } = await open();
    await start(store, { type: "a", slots: null, queues: ["default", "slow"], tasks: ["ship@2"] });
    await start(store, { type: "b", slots: null, queues: ["slow"], tasks: ["print"] });
    const stopped = await start(store, { type: "c", slots: null, tasks: ["ship@1"] });
    await store.workers.move(stopped.id, { state: "stopped", reason: "asked" });
    await enqueueOne(store, { task: "ship@1" });
    clock.advance(5_000);
    await enqueueOne(store, { task: "ship@1" });
    await enqueueOne(store, { task: "ship@2" });
    await enqueueOne(store, { task: "ship@2", queue: "slow" });
    await enqueueOne(store, { task: "print", queue: "slow" });
    await enqueueOne(store, { task: "print" }); // known, but not on this queue
    await enqueueOne(store, { task: "ship@2", queue: "unserved" });
    await enqueueOne(store, { task: "ship@1", start: { delayMs: HOUR_MS } }); // not waiting for a worker yet
    clock.advance(1_000);
    const [longest, ...others] = await store.workers.unclaimable();
    assert.deepEqual(longest, { queue: "default", task: "ship@1", jobs: 2, waitedMs: 6_000 });
    assert.deepEqual(
      new Set(
        others.map(({ queue, task, jobs, waitedMs }) => [queue, task, jobs, waitedMs].join()),
      ),
      new Set(["default,print,1,1000", "unserved,ship@2,1,1000"]),
    );
  });

  test("unclaimable jobs are found behind any number of queues", async () => {
    const { store } = await open();
    const queues = Array.from({ length: 30 }, (_, index) => `queue-${index}`);
    await start(store, { slots: null, queues: queues.slice(1), tasks: ["mail.send"] });
    await store.jobs.enqueue(queues.map((queue) => newJob({ queue })));
    const unclaimable = await store.workers.unclaimable();
    assert.deepEqual(
      unclaimable.map(({ queue }) => queue),
      ["queue-0"],
    );
    assert.deepEqual(await store.workers.unclaimable({ queue: "queue-0" }), unclaimable);
    assert.deepEqual(await store.workers.unclaimable({ queue: "queue-1" }), []);
  });

  test("a queue counts as served while an unregistered program has an unexpired lease in it", async () => {
    const { store, clock } = await open();
    await enqueueOne(store, { queue: "remote" });
    await enqueueOne(store, { queue: "remote" });
    const { id } = await start(store, { slots: null, queues: ["default"], tasks: ["mail.send"] });
    await enqueueOne(store);
    await store.jobs.claim({ ...upTo(1), worker: id });
    assert.deepEqual(await store.workers.outsideQueues(), []);
    assert.deepEqual((await store.workers.unclaimable()).length, 1);
    await store.jobs.claim({ ...upTo(1), worker: "python-1", queues: ["remote"], leaseMs: 5_000 });
    assert.deepEqual(await store.workers.outsideQueues(), ["remote"]);
    assert.deepEqual(await store.workers.unclaimable(), []);
    assert.deepEqual(await store.workers.unclaimable({ queue: "remote" }), []);
    clock.advance(5_001);
    assert.deepEqual(await store.workers.outsideQueues(), []);
    assert.deepEqual((await store.workers.unclaimable()).length, 1);
  });

  test("standbys and programs that acquire leases are seen while they note themselves", async () => {
    const { store, clock } = await open();
    const facts = { hostname: "host-a", pid: 7, version: "abc1234", queues: ["default"] };
    const standby = {
      id: "mailer-2",
      kind: "standby",
      type: "mailer",
      tasks: ["mail.send"],
      ...facts,
    } as const;
    const unknown = { type: null, hostname: null, pid: null, version: null };
    const python = {
      id: "python-1",
      kind: "leases",
      queues: ["remote"],
      tasks: null,
      ...unknown,
    } as const;
    await store.workers.noteUnregistered(standby);
    await store.workers.noteUnregistered(python);
    const startedAt = clock.now();
    clock.advance(20_000);
    await enqueueOne(store, { queue: "remote" });
    await enqueueOne(store, { queue: "other" });
    assert.deepEqual(
      (await store.workers.unclaimable()).map(({ queue }) => queue),
      ["other"],
    );
    await store.jobs.claim({ ...upTo(1), worker: "python-1", queues: ["remote"] });
    await store.jobs.claim({ ...upTo(1), worker: "psql", queues: ["other"] });
    await store.workers.noteUnregistered({ ...python, queues: ["remote", "fax"] });
    const seen = { startedAt, heartbeatAt: clock.now(), silentMs: 0, leases: 1 };
    assert.deepEqual(await store.workers.unregistered(), [
      { ...python, ...seen, queues: ["remote", "fax"] },
      { ...standby, startedAt, heartbeatAt: startedAt, silentMs: 20_000, leases: 0 },
      { ...python, id: "psql", queues: ["other"], ...seen, startedAt: clock.now() },
    ]);
    assert.deepEqual((await store.workers.outsideQueues()).toSorted(), ["fax", "other", "remote"]);
    await store.workers.forgetUnregistered("mailer-2");
    clock.advance(60_001);
    assert.deepEqual(await store.workers.unregistered(), []);
    assert.deepEqual(await store.workers.outsideQueues(), []);
  });

  test("a queue whose jobs ended lately is worked on, unless they may be those of registered workers", async () => {
    const { store, clock } = await open();
    const { id } = await start(store, { slots: null, queues: ["ours"], tasks: ["mail.send"] });
    for (const [queue, worker] of [
      ["remote", "python-1"],
      ["ours", id],
    ] as const) {
      await enqueueOne(store, { queue });
      const [job] = await store.jobs.claim({ ...upTo(1), worker, queues: [queue] });
      await settleOne(store, done(job!));
    }
    // No worker runs the letter: it fails with the job that it waits for.
    const first = await enqueueOne(store, { ...member(), queue: "ours" });
    const letter = await enqueueOne(store, { ...member([first.id]), queue: "letters" });
    const [job] = await store.jobs.claim({ ...upTo(1), worker: id, queues: ["ours"] });
    await settleOne(store, failed(job!));
    assert.equal((await store.jobs.find(letter.id))?.status, "failed");
    await store.workers.move(id, { state: "stopped", reason: "asked" });
    clock.advance(MINUTE_MS + FOLD_LAG_MS + 1_000);
    assert.ok((await store.stats.foldMinutes({ limit: 100 })) > 0);
    assert.deepEqual(await store.workers.outsideQueues(), ["remote"]);
    clock.advance(3 * MINUTE_MS);
    assert.deepEqual(await store.workers.outsideQueues(), []);
  });

  test("the builds that enqueue are noted, once each, with when they last did", async () => {
    const { store, clock } = await open();
    assert.deepEqual(await store.workers.enqueuers(HOUR_MS), []);
    const firstAt = clock.now();
    await Promise.all([
      store.workers.noteEnqueuer("abc1234"),
      store.workers.noteEnqueuer("abc1234"),
    ]);
    clock.advance(60_000);
    await store.workers.noteEnqueuer("def5678");
    await store.workers.noteEnqueuer("abc1234");
    clock.advance(1_000);
    const lastAt = clock.now() - 1_000;
    assert.deepEqual(await store.workers.enqueuers(HOUR_MS), [
      { version: "abc1234", firstAt, lastAt, silentMs: 1_000 },
      { version: "def5678", firstAt: lastAt, lastAt, silentMs: 1_000 },
    ]);
    assert.deepEqual(await store.workers.enqueuers(999), []);
    clock.advance(HOUR_MS);
    await store.workers.noteEnqueuer("def5678");
    assert.equal(await store.workers.prune(HOUR_MS), 1);
    assert.deepEqual(
      (await store.workers.enqueuers(2 * HOUR_MS)).map(({ version }) => version),
      ["def5678"],
    );
  });
};
