/** Taking jobs: the right ones, in the right order, each by one worker. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  crash,
  done,
  enqueueInTurn,
  enqueueOne,
  HOUR_MS,
  idsOf,
  LEASE_MS,
  mustFind,
  newJob,
  nextId,
  one,
  pictureOf,
  promoteOne,
  released,
  retry,
  settleOne,
  sortedIds,
  startOne,
  suspended,
  upTo,
} from "../support/jobs.ts";

export const claiming: Group = (open) => {
  test("a claim where nothing is pending takes nothing", async () => {
    const { store } = await open();
    assert.deepEqual(await store.jobs.claim(upTo(10)), []);
  });

  test("a claimed job comes with everything its worker needs", async () => {
    const { store, clock } = await open();
    const job = await enqueueOne(store, { payload: '{"to":"ada"}', priority: -3, maxAttempts: 4 });
    const enqueuedAt = clock.now();
    clock.advance(500);

    assert.deepEqual(await store.jobs.claim(one({ worker: "worker-b", leaseMs: 10_000 })), [
      {
        id: job.id,
        worker: "worker-b",
        epoch: 1,
        queue: "default",
        task: "mail.send",
        payload: '{"to":"ada"}',
        priority: -3,
        attempt: 1,
        maxAttempts: 4,
        crashes: 0,
        enqueuedAt,
        readyAt: enqueuedAt,
        lockedUntil: clock.now() + 10_000,
      },
    ]);
  });

  test("a claimed job is processing, under the lease of its worker", async () => {
    const { store } = await open();
    const claimed = await startOne(store, {}, { worker: "worker-b" });

    const job = await mustFind(store, claimed.id);
    assert.equal(job.status, "processing");
    assert.equal(job.lockedBy, "worker-b");
    assert.equal(job.lockedUntil, claimed.lockedUntil);
    assert.equal(job.attempts, 1);
    assert.equal(job.epoch, 1);
  });

  test("a claimed job cannot be claimed again", async () => {
    const { store } = await open();
    await startOne(store);
    assert.deepEqual(await store.jobs.claim(one({ worker: "worker-a" })), []);
    assert.deepEqual(await store.jobs.claim(one({ worker: "worker-b" })), []);
  });

  test("a job whose lease expired cannot be claimed before it is reclaimed", async () => {
    const { store, clock } = await open();
    await startOne(store);
    clock.advance(LEASE_MS + HOUR_MS);
    assert.deepEqual(await store.jobs.claim(one({ worker: "worker-b" })), []);
  });

  test("higher priorities go first", async () => {
    const bundle = await open();
    const priorities = [0, -1, 32_767, 5, -32_767, 1, 10, 2];
    await enqueueInTurn(
      bundle,
      priorities.map((priority) => ({ priority })),
    );

    const claimed = await bundle.store.jobs.claim(upTo(10));
    assert.deepEqual(
      claimed.map((job) => job.priority),
      priorities.toSorted((a, b) => b - a),
    );
  });

  test("among equals the longest pending goes first", async () => {
    const bundle = await open();
    const ids = Array.from({ length: 6 }, nextId);
    // Against the order of the ids: age decides, whatever ids say.
    await enqueueInTurn(
      bundle,
      ids.toReversed().map((id) => ({ id })),
    );

    for (const id of ids.toReversed()) assert.equal((await claimOne(bundle.store)).id, id);
  });

  test("jobs that became pending at the same instant go in the order of their ids", async () => {
    const { store } = await open();
    const jobs = Array.from({ length: 9 }, () => newJob());
    await store.jobs.enqueue(jobs.toReversed());
    assert.deepEqual(idsOf(await store.jobs.claim(upTo(9))), idsOf(jobs));
  });

  test("priority goes before age", async () => {
    const bundle = await open();
    const [old, , urgent] = await enqueueInTurn(bundle, [{}, {}, { priority: 1 }]);

    assert.deepEqual(idsOf(await bundle.store.jobs.claim(upTo(2))), [urgent, old]);
  });

  test("a job that is retried does not jump ahead of fresh work", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const tried = await startOne(store);
    await settleOne(store, retry(tried, { delayMs: 1_000 }));
    clock.advance(500);
    const fresh = await enqueueOne(store);
    await promoteOne(bundle, tried.id);

    assert.deepEqual(idsOf(await store.jobs.claim(upTo(2))), [fresh.id, tried.id]);
  });

  test("a job that was scheduled long ago does not jump ahead of work that was pending before", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const scheduled = await enqueueOne(store, { start: { delayMs: 1_000 } });
    clock.advance(500);
    const fresh = await enqueueOne(store);
    await promoteOne(bundle, scheduled.id);

    assert.deepEqual(idsOf(await store.jobs.claim(upTo(2))), [fresh.id, scheduled.id]);
  });

  test("a released job comes after jobs that were pending before", async () => {
    const { store, clock } = await open();
    const handedBack = await startOne(store);
    clock.advance(1);
    const fresh = await enqueueOne(store);
    clock.advance(1);
    await settleOne(store, released(handedBack));

    assert.deepEqual(idsOf(await store.jobs.claim(upTo(2))), [fresh.id, handedBack.id]);
  });

  test("a claim takes at most its limit", async () => {
    const { store } = await open();
    const jobs = Array.from({ length: 5 }, () => newJob());
    await store.jobs.enqueue(jobs);

    const [first, second] = [await store.jobs.claim(upTo(2)), await store.jobs.claim(upTo(9))];
    assert.deepEqual([first.length, second.length], [2, 3]);
    assert.deepEqual(sortedIds([...first, ...second]), sortedIds(jobs));
  });

  test("a claim of none takes none", async () => {
    const { store } = await open();
    await enqueueOne(store);
    assert.deepEqual(await store.jobs.claim(upTo(0)), []);
    assert.equal(await store.jobs.hasPending("default"), true);
  });

  test("a claim takes jobs of its queues only", async () => {
    const { store } = await open();
    const mail = await enqueueOne(store, { queue: "mail" });
    await enqueueOne(store, { queue: "print", priority: 9 });

    assert.deepEqual(idsOf(await store.jobs.claim(upTo(9, { queues: ["mail"] }))), [mail.id]);
    assert.deepEqual(await store.jobs.claim(upTo(9, { queues: ["post"] })), []);
    assert.deepEqual(await store.jobs.claim(upTo(9, { queues: [] })), []);
  });

  test("several queues count as one: priority first, then age", async () => {
    const bundle = await open();
    const [a, b, c, d, e] = await enqueueInTurn(bundle, [
      { queue: "one" },
      { queue: "two" },
      { queue: "one", priority: 1 },
      { queue: "three", priority: 5 },
      { queue: "two", priority: 1 },
    ]);
    await enqueueOne(bundle.store, { queue: "four", priority: 9 });

    const wanted = { queues: ["one", "two", "three"] };
    assert.deepEqual(idsOf(await bundle.store.jobs.claim(upTo(3, wanted))), [d, c, e]);
    assert.deepEqual(idsOf(await bundle.store.jobs.claim(upTo(3, wanted))), [a, b]);
  });

  test("a queue that is named twice is claimed from once", async () => {
    const { store } = await open();
    const { id } = await enqueueOne(store, { queue: "mail" });

    assert.deepEqual(idsOf(await store.jobs.claim(upTo(9, { queues: ["mail", "mail"] }))), [id]);
  });

  test("a claim takes jobs of its tasks only", async () => {
    const bundle = await open();
    const [mail, , print] = await enqueueInTurn(bundle, [
      { task: "mail.send" },
      { task: "mail.receive", priority: 9 },
      { task: "print" },
    ]);

    const { store } = bundle;
    assert.deepEqual(await store.jobs.claim(upTo(9, { tasks: ["mail"] })), []);
    assert.deepEqual(await store.jobs.claim(upTo(9, { tasks: [] })), []);
    assert.deepEqual(idsOf(await store.jobs.claim(upTo(9, { tasks: ["print", "mail.send"] }))), [
      mail,
      print,
    ]);
  });

  test("a claim from several queues takes jobs of its tasks only, in order and with their inputs", async () => {
    const bundle = await open();
    const [first, , second] = await enqueueInTurn(bundle, [
      { queue: "b", task: "mail.send", payload: '"1"' },
      { queue: "a", task: "print", payload: '"2"' },
      { queue: "a", task: "mail.send", payload: '"3"' },
    ]);

    const wanted = upTo(9, { queues: ["a", "b"], tasks: ["mail.send"] });
    const claimed = await bundle.store.jobs.claim(wanted);
    assert.deepEqual(
      claimed.map(({ id, payload }) => [id, payload]),
      [
        [first, '"1"'],
        [second, '"3"'],
      ],
    );
  });

  test("jobs of tasks that no worker knows do not block the jobs behind them", async () => {
    const { store } = await open();
    const unwanted = Array.from({ length: 50 }, () => newJob({ task: "old", priority: 5 }));
    await store.jobs.enqueue(unwanted);
    const { id } = await enqueueOne(store, { task: "new" });

    assert.deepEqual(idsOf(await store.jobs.claim(one({ tasks: ["new"] }))), [id]);
  });

  test("a claim never counts an attempt of a job that it does not take", async () => {
    const { store } = await open();
    const left = [
      await enqueueOne(store, { priority: -1 }),
      await enqueueOne(store, { task: "other" }),
      await enqueueOne(store, { queue: "other" }),
      await enqueueOne(store, { start: { delayMs: 5 } }),
    ];
    const before = await Promise.all(left.map(({ id }) => pictureOf(store, id)));
    await enqueueOne(store);
    await claimOne(store, { tasks: ["mail.send"] });

    assert.deepEqual(await Promise.all(left.map(({ id }) => pictureOf(store, id))), before);
    const { status, attempts, epoch } = await mustFind(store, left[0]!.id);
    assert.deepEqual({ status, attempts, epoch }, { status: "pending", attempts: 0, epoch: 0 });
  });

  test("the epoch goes up by one with every claim and is never set back", async () => {
    const bundle = await open();
    const { store } = bundle;
    let claimed = await startOne(store, { maxAttempts: 20 });
    const epochs = [claimed.epoch];
    const again = async (): Promise<void> => {
      claimed = await claimOne(store, { worker: `worker-${epochs.length}` });
      epochs.push(claimed.epoch);
    };

    await settleOne(store, released(claimed));
    await again();
    await settleOne(store, retry(claimed));
    await promoteOne(bundle, claimed.id);
    await again();
    await settleOne(store, suspended(claimed, 10));
    await promoteOne(bundle, claimed.id);
    await again();
    await crash(bundle, claimed);
    await promoteOne(bundle, claimed.id);
    await again();
    await store.jobs.cancel(claimed.id);
    await settleOne(store, done(claimed));
    await store.jobs.retry(claimed.id, 1);
    await again();
    await store.jobs.release([claimed]);
    await again();

    assert.deepEqual(epochs, [1, 2, 3, 4, 5, 6, 7]);
    assert.equal((await mustFind(store, claimed.id)).epoch, 7);
  });

  test("claims at the same moment never hand one job to two workers", async () => {
    const { store } = await open();
    const jobs = Array.from({ length: 40 }, () => newJob());
    await store.jobs.enqueue(jobs);
    const workers = Array.from({ length: 9 }, (_, index) => `worker-${index}`);

    const claims = await Promise.all(
      workers.map((worker) => store.jobs.claim(upTo(4, { worker }))),
    );
    claims.push(await store.jobs.claim(upTo(100)));

    assert.deepEqual(sortedIds(claims.flat()), sortedIds(jobs));
    assert.ok(claims.flat().every((claimed) => claimed.epoch === 1 && claimed.attempt === 1));
  });
};
