/** Debounce and throttle: many calls with one key are one job, and no call is lost. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { NewJob, Pace } from "../../src/jobs/store.ts";
import { sql } from "../../src/database/sql.ts";
import type { Store } from "../../src/app/store.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  done,
  idsOf,
  mustFind,
  newJob,
  settleOne,
  statusOf,
  upTo,
} from "../support/jobs.ts";

const WAIT_MS = 1_000;

function debounced(facts: Partial<NewJob> = {}, maxWaitMs: number | null = null): NewJob {
  const pace: Pace = { kind: "debounce", key: "shop 1", waitMs: WAIT_MS, maxWaitMs };
  return newJob({ pace, ...facts });
}

function throttled(facts: Partial<NewJob> = {}, key = "shop 1"): NewJob {
  return newJob({ pace: { kind: "throttle", key, periodMs: WAIT_MS }, ...facts });
}

async function enqueue(store: Store, job: NewJob): Promise<{ id: string; added: boolean }> {
  const [answer] = await store.jobs.enqueue([job]);
  return answer!;
}

const retention = { done: 0, failed: 0, cancelled: 0, expired: 0 };

export const pacing: Group = (open) => {
  test("the last of several calls wins, after so long without another", async () => {
    const { store, clock } = await open();
    const first = debounced({ payload: "1" });
    assert.deepEqual(await enqueue(store, first), { id: first.id, added: true });
    assert.equal(await statusOf(store, first.id), "scheduled");
    for (const payload of ["2", "3"]) {
      clock.advance(WAIT_MS - 1);
      assert.equal(await store.jobs.promoteDue({ limit: 9 }), 0);
      const call = debounced({ payload });
      assert.deepEqual(await enqueue(store, call), { id: first.id, added: false });
      assert.equal(await store.jobs.find(call.id), null);
    }
    assert.equal((await mustFind(store, first.id)).dueAt, clock.now() + WAIT_MS);
    clock.advance(WAIT_MS);
    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 1);
    const claimed = await claimOne(store);
    assert.deepEqual([claimed.id, claimed.payload], [first.id, "3"]);
  });

  test("calls that never pause wait no longer than the longest wait", async () => {
    const { store, clock } = await open();
    const first = debounced({ payload: "0" }, 2_500);
    const begun = clock.now();
    await enqueue(store, first);
    for (let call = 1; call <= 3; call += 1) {
      clock.advance(800);
      await enqueue(store, debounced({ payload: String(call) }, 2_500));
    }
    assert.equal((await mustFind(store, first.id)).dueAt, begun + 2_500);
    clock.advance(100);
    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 1);
    assert.equal((await claimOne(store)).payload, "3");
  });

  test("a job that is pending takes the input of the last call, at its place", async () => {
    const { store, clock } = await open();
    const first = debounced({ payload: "1" });
    await enqueue(store, first);
    clock.advance(WAIT_MS);
    await store.jobs.promoteDue({ limit: 9 });
    clock.advance(1);
    const behind = newJob();
    await store.jobs.enqueue([behind]);
    clock.advance(1);
    assert.equal((await enqueue(store, debounced({ payload: "2" }))).id, first.id);
    const claimed = await store.jobs.claim(upTo(9));
    assert.deepEqual(idsOf(claimed), [first.id, behind.id]);
    assert.equal(claimed[0]?.payload, "2");
  });

  for (const how of ["running", "done", "cancelled", "to be retried"] as const) {
    test(`a call while the job is ${how} makes another job`, async () => {
      const { store, clock } = await open();
      const first = debounced({ payload: "1" });
      await enqueue(store, first);
      clock.advance(WAIT_MS);
      await store.jobs.promoteDue({ limit: 9 });
      if (how === "cancelled") await store.jobs.cancel(first.id);
      else {
        const claimed = await claimOne(store);
        if (how === "done") await settleOne(store, done(claimed));
        if (how === "to be retried") await store.jobs.release([claimed]);
      }
      const second = debounced({ payload: "2" });
      assert.deepEqual(await enqueue(store, second), { id: second.id, added: true });
      assert.equal((await mustFind(store, first.id)).payload, "1");
      assert.equal((await enqueue(store, debounced({ payload: "3" }))).id, second.id);
      assert.equal((await mustFind(store, second.id)).payload, "3");
    });
  }

  test("keys belong to a task without its version, and to debounce or throttle", async () => {
    const { store } = await open();
    const first = await enqueue(store, debounced({ task: "a@1" }));
    assert.equal((await enqueue(store, debounced({ task: "a@2" }))).id, first.id);
    for (const other of [debounced({ task: "b" }), throttled({ task: "a" })]) {
      assert.ok((await enqueue(store, other)).added);
    }
    const plain = newJob({ task: "a", key: "shop 1" });
    assert.ok((await enqueue(store, plain)).added);
    const listed = await store.jobs.list({ key: "shop 1", limit: 9 });
    assert.equal(listed.length, 4); // lists find them by the key
  });

  test("the first of several calls wins, for so long from when it came", async () => {
    const { store, clock } = await open();
    const first = throttled();
    assert.deepEqual(await enqueue(store, first), { id: first.id, added: true });
    assert.equal(await statusOf(store, first.id), "pending");
    await settleOne(store, done(await claimOne(store)));
    clock.advance(WAIT_MS - 1);
    assert.deepEqual(await enqueue(store, throttled()), { id: first.id, added: false });
    assert.ok((await enqueue(store, throttled({}, "shop 2"))).added);
    clock.advance(1);
    const next = throttled({ start: { delayMs: 5 } });
    assert.deepEqual(await enqueue(store, next), { id: next.id, added: true });
    assert.equal(await statusOf(store, next.id), "scheduled");
    clock.advance(-5 * WAIT_MS); // a clock that was set back must not hold the key for longer
    assert.ok((await enqueue(store, throttled())).added);
  });

  test("several calls in one batch are one job", async () => {
    const { store } = await open();
    const batch = [
      debounced({ payload: "1" }),
      throttled(),
      debounced({ payload: "2" }),
      throttled(),
    ];
    const [a, b] = batch;
    assert.deepEqual(await store.jobs.enqueue(batch), [
      { id: a!.id, added: true },
      { id: b!.id, added: true },
      { id: a!.id, added: false },
      { id: b!.id, added: false },
    ]);
    assert.equal((await mustFind(store, a!.id)).payload, "2");
    assert.deepEqual(await store.jobs.enqueue([a!]), [{ id: a!.id, added: false }]); // sent again
  });

  test("of many calls at the same moment one is added, and the last input stays", async () => {
    const { store } = await open();
    const calls = Array.from({ length: 9 }, (_, n) => debounced({ payload: String(n) }));
    const answers = await Promise.all(calls.map((call) => enqueue(store, call)));
    assert.equal(answers.filter(({ added }) => added).length, 1);
    assert.equal(new Set(idsOf(answers)).size, 1);
    const others = Array.from({ length: 9 }, () => throttled());
    const first = await Promise.all(others.map((call) => enqueue(store, call)));
    assert.equal(first.filter(({ added }) => added).length, 1);
    assert.equal((await store.jobs.list({ limit: 99 })).length, 2);
  });

  test("a call that races with promotion and claims is never lost", async () => {
    const { store, clock } = await open();
    for (let round = 0; round < 20; round += 1) {
      const queue = `round ${round}`;
      const facts = { queue, task: queue };
      await enqueue(store, debounced({ ...facts, payload: '"old"' }));
      clock.advance(WAIT_MS);
      const [answer, , claimed] = await Promise.all([
        enqueue(store, debounced({ ...facts, payload: '"new"' })),
        store.jobs.promoteDue({ limit: 99 }),
        store.jobs.claim(upTo(1, { queues: [queue] })),
      ]);
      clock.advance(WAIT_MS);
      await store.jobs.promoteDue({ limit: 99 });
      const later = await store.jobs.claim(upTo(9, { queues: [queue] }));
      const ran = [...claimed, ...later];
      assert.ok(
        ran.some(({ payload }) => payload === '"new"'),
        `round ${round}: the call was lost`,
      );
      assert.ok(ran.some(({ id }) => id === answer.id));
    }
  });

  test("keys whose time is over are deleted, and those of waiting jobs are kept", async () => {
    const { store, clock, byHand } = await open();
    await enqueue(store, throttled());
    await settleOne(store, done(await claimOne(store)));
    const waiting = debounced();
    await enqueue(store, waiting);
    clock.advance(WAIT_MS + 1);
    await store.jobs.prune({ retention, limit: 9 });
    assert.equal((await enqueue(store, debounced())).id, waiting.id);
    assert.equal(await byHand(sql`delete from holdfast.pacing`), 1);
  });
};
