/** Events, and the jobs that wait for them or for one another: whichever comes first, no job waits in vain. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreRefusedError } from "../../src/core/errors.ts";
import { calledId } from "../../src/core/id.ts";
import type { Fence, Outcome, Settlement } from "../../src/core/job.ts";
import { JOB_ENDED } from "../../src/core/task.ts";
import { sql } from "../../src/database/sql.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import {
  cancelled,
  claimOne,
  crash,
  done,
  enqueueOne,
  failed,
  mustFind,
  nextId,
  settleOne,
  startOne,
  statusOf,
} from "../support/jobs.ts";

const packed = { event: "packed", key: "order-42" };

function waiting(fence: Fence, wait = packed, delayMs: number | null = null): Settlement {
  const { id, worker, epoch } = fence;
  return { id, worker, epoch, outcome: { kind: "suspended", delayMs, waits: [wait] } };
}

const say = { name: packed.event, key: packed.key, payload: '{"tracking":"x"}' };

/** A job that another waits for, and that one. */
async function caller({ store }: Bundle): Promise<{ parent: string; child: string }> {
  const parent = await startOne(store, { queue: "parents" });
  const child = calledId(nextId());
  const wait = { event: JOB_ENDED, key: child };
  await store.steps.expect(wait);
  await enqueueOne(store, { id: child, queue: "children" });
  assert.equal((await settleOne(store, waiting(parent, wait))).status, "waiting");
  return { parent: parent.id, child };
}

const claimChild = (bundle: Bundle) => claimOne(bundle.store, { queues: ["children"] });

export const events: Group = (open) => {
  test("a waiting job continues when the event is emitted", async () => {
    const { store } = await open();
    const job = await startOne(store);
    const settled = await settleOne(store, waiting(job));
    assert.deepEqual([settled.status, settled.attempts], ["waiting", 0]); // the attempt is given back
    assert.equal(await store.steps.findEvent("packed", "order-42"), null);
    assert.deepEqual(await store.steps.emit(say), { first: true, woken: 1 });
    assert.equal((await claimOne(store)).id, job.id);
  });

  test("a job that waits for an event that was already emitted continues at once", async () => {
    const { store } = await open();
    const job = await startOne(store);
    assert.deepEqual(await store.steps.emit(say), { first: true, woken: 0 });
    assert.equal((await settleOne(store, waiting(job))).status, "pending");
    assert.equal((await claimOne(store)).id, job.id);
  });

  test("the first payload stays, even if another process emits the event again", async () => {
    const { store, clock, byHand } = await open();
    const emittedAt = clock.now();
    await store.steps.emit(say);
    clock.advance(1_000);
    assert.deepEqual(await store.steps.emit({ ...say, payload: "2" }), { first: false, woken: 0 });
    assert.deepEqual(await store.steps.findEvent("packed", "order-42"), { ...say, emittedAt });
    await assert.rejects(byHand(sql`update holdfast.event set payload = '3'`), StoreRefusedError);
  });

  test("names and keys are distinguished, and all jobs that wait for the same event continue", async () => {
    const { store } = await open();
    const [first, second] = [await startOne(store), await startOne(store)];
    const third = await startOne(store);
    await settleOne(store, waiting(first));
    await settleOne(store, waiting(second));
    await settleOne(store, waiting(third, { event: "packed", key: "Order-42" }));
    assert.deepEqual(await store.steps.emit({ ...say, name: "Packed" }), { first: true, woken: 0 });
    assert.deepEqual(await store.steps.emit(say), { first: true, woken: 2 });
    assert.equal(await statusOf(store, third.id), "waiting");
  });

  test("a wait with a timeout ends with it, and the event then wakes no job", async () => {
    const { store, clock } = await open();
    const job = await startOne(store);
    await settleOne(store, waiting(job, packed, 5_000));
    clock.advance(4_999);
    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 0);
    clock.advance(1);
    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 1);
    assert.deepEqual(await store.steps.emit(say), { first: true, woken: 0 });
    assert.equal(await statusOf(store, job.id), "pending");
  });

  test("a job that is cancelled waits no more", async () => {
    const { store } = await open();
    const job = await startOne(store);
    await settleOne(store, waiting(job));
    assert.equal(await store.jobs.cancel(job.id), "cancelled");
    assert.deepEqual(await store.steps.emit(say), { first: true, woken: 0 });
    assert.equal(await statusOf(store, job.id), "cancelled");
  });

  test("a job that waits for several events continues with the first, and no longer waits for the others", async () => {
    const { store } = await open();
    const job = await startOne(store);
    const other = { event: "lost", key: "order-42" };
    const outcome = { kind: "suspended", delayMs: null, waits: [packed, other, packed] } as const;
    await settleOne(store, { ...waiting(job), outcome });
    assert.deepEqual(await store.steps.emit({ ...say, name: "lost" }), { first: true, woken: 1 });
    assert.deepEqual(await store.steps.emit(say), { first: true, woken: 0 });
    const again = await claimOne(store);
    assert.equal((await settleOne(store, { ...waiting(again), outcome })).status, "pending");
  });

  test("a worker that lost a job cannot suspend it", async () => {
    const bundle = await open();
    const { store } = bundle;
    const job = await startOne(store);
    await crash(bundle, job);
    assert.deepEqual(await store.jobs.settle([waiting(job)]), []);
    assert.deepEqual(await store.steps.emit(say), { first: true, woken: 0 });
  });

  test("an event emitted while jobs begin to wait reaches all of them", async () => {
    const bundle = await open();
    const { store } = bundle;
    for (let round = 0; round < 10; round += 1) {
      const wait = { event: "packed", key: `order-${round}` };
      const job = await startOne(store, { queue: "default" });
      const [settled, emitted] = await Promise.all([
        settleOne(store, waiting(job, wait)),
        store.steps.emit({ ...say, key: wait.key }),
      ]);
      assert.equal(emitted.woken, settled.status === "waiting" ? 1 : 0);
      const again = await claimOne(store);
      assert.equal(again.id, job.id);
      await settleOne(store, done(again));
    }
  });

  const ends: Record<string, (fence: Fence) => Settlement> = {
    "is done": (fence) => done(fence, "7"),
    failed: (fence) => failed(fence),
    "is cancelled while it runs": (fence) => cancelled(fence),
  };
  for (const [how, end] of Object.entries(ends)) {
    test(`a job that waits for another continues when that one ${how}`, async () => {
      const bundle = await open();
      const { store } = bundle;
      const { parent } = await caller(bundle);
      await settleOne(store, end(await claimChild(bundle)));
      assert.equal((await claimOne(store, { queues: ["parents"] })).id, parent);
    });
  }

  test("a job that waits for another continues when that one is cancelled before it runs", async () => {
    const bundle = await open();
    const { parent, child } = await caller(bundle);
    assert.equal(await bundle.store.jobs.cancel(child), "cancelled");
    assert.equal(await statusOf(bundle.store, parent), "pending");
  });

  test("a job that waits for another continues when that one has crashed too often", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const { parent, child } = await caller(bundle);
    while ((await mustFind(store, child)).status !== "failed") {
      assert.equal(await statusOf(store, parent), "waiting");
      await crash(bundle, await claimChild(bundle));
      clock.advance(120_000);
      await store.jobs.promoteDue({ limit: 9 });
    }
    assert.equal(await statusOf(store, parent), "pending");
  });

  test("a job that was called and is retried ends once more, and is waited for until then", async () => {
    const bundle = await open();
    const { store } = bundle;
    const { parent, child } = await caller(bundle);
    await settleOne(store, failed(await claimChild(bundle)));
    const again = await claimOne(store, { queues: ["parents"] });
    await store.jobs.retry(child, 1);
    const wait = { event: JOB_ENDED, key: child };
    assert.equal((await settleOne(store, waiting(again, wait))).status, "waiting");
    await settleOne(store, done(await claimChild(bundle)));
    assert.equal(await statusOf(store, parent), "pending");
  });

  test("an event is kept as long as finished jobs, and the end of a called job until its caller has received it", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const { child } = await caller(bundle);
    await settleOne(store, done(await claimChild(bundle)));
    await store.steps.emit(say);
    const prune = (ms: number): Promise<number> =>
      store.jobs.prune({
        retention: { done: ms, failed: ms, cancelled: ms, expired: ms },
        limit: 9,
      });
    clock.advance(10_000);
    await prune(10_000);
    assert.notEqual(await store.steps.findEvent("packed", "order-42"), null);
    await prune(9_999);
    assert.equal(await store.steps.findEvent("packed", "order-42"), null);
    assert.notEqual(await store.steps.findEvent(JOB_ENDED, child), null);
    await store.steps.forget({ event: JOB_ENDED, key: child });
    assert.equal(await store.steps.findEvent(JOB_ENDED, child), null);
  });

  test("a job whose end the database refuses keeps no other from its own", async () => {
    const { store, byHand } = await open();
    const [odd, other] = [await startOne(store), await startOne(store)];
    // Rows that were left behind by hand: they are replaced.
    await byHand(sql`
      insert into holdfast.wait (job_id, name, event_key) values (${odd.id}, 'packed', 'order-42')`);
    const settled = await store.jobs.settle([waiting(odd), done(other)]);
    assert.deepEqual(new Set(settled.map(({ status }) => status)), new Set(["waiting", "done"]));
    assert.equal((await store.steps.emit(say)).woken, 1);
  });

  test("a settlement that is offered again is known to have been made", async () => {
    const { store } = await open();
    const job = await startOne(store);
    const settlement = waiting(job);
    const first = await store.jobs.settle([settlement]);
    assert.deepEqual(await store.jobs.settle([settlement]), first);
    assert.deepEqual(await store.jobs.settle([{ ...settlement, epoch: 7 }]), []);
  });

  test("a job that is tried again has not ended", async () => {
    const bundle = await open();
    const { store } = bundle;
    const { parent } = await caller(bundle);
    const again: Outcome = { kind: "retry", delayMs: 0, error: "{}" };
    await settleOne(store, { ...(await claimChild(bundle)), outcome: again });
    assert.equal(await statusOf(store, parent), "waiting");
  });

  test("a job that waits for a job that has already ended continues at once", async () => {
    const { store } = await open();
    const parent = await startOne(store, { queue: "parents" });
    const child = calledId(nextId());
    const wait = { event: JOB_ENDED, key: child };
    await store.steps.expect(wait);
    await enqueueOne(store, { id: child, queue: "children" });
    await settleOne(store, done(await claimOne(store, { queues: ["children"] })));
    assert.equal((await settleOne(store, waiting(parent, wait))).status, "pending");
  });
};
