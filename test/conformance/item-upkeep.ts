/** Items that have to move by themselves, and items whose time is over. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { calledId } from "../../src/core/id.ts";
import type { NewJob } from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import type { DueItem, StoredItem } from "../../src/workflows/item-record.ts";
import type { Bundle, Group, Open } from "../support/bundle.ts";
import {
  cancelled,
  changeItem,
  declareAll,
  folders,
  lines,
  mustFindItem,
  orders,
  pack,
  pay,
  startItem,
  startItems,
  writeOf,
} from "../support/items.ts";
import {
  claimOne,
  done,
  failed,
  HOUR_MS,
  idsOf,
  newJob,
  nextId,
  retry,
  settleOne,
} from "../support/jobs.ts";
import { near } from "../support/near.ts";

async function setUp(open: Open): Promise<Bundle & { store: Store }> {
  const bundle = await open();
  const store = await near(bundle);
  await declareAll(store);
  return { ...bundle, store };
}

const ALL = { workflows: ["order", "line", "folder"], limit: 9 };

async function dueOf(store: Store): Promise<string[]> {
  return (await store.items.due(ALL)).due.map(({ item }) => item);
}

/** A job that an item waits for. */
function calledJob(facts: Partial<NewJob> = {}): NewJob {
  return newJob({ ...facts, id: calledId(nextId()) });
}

export const itemUpkeep: Group = (open) => {
  limits(open);
  jobs(open);
  retention(open);
};

function limits(open: Open): void {
  test("an item is due when its time in the state is over, those first that are longest", async () => {
    const { store, clock } = await setUp(open);
    assert.deepEqual(await store.items.due(ALL), { due: [], nextInMs: null });
    assert.deepEqual(await store.items.due({ workflows: [], limit: 9 }), {
      due: [],
      nextInMs: null,
    });
    const second = await startItem(store, { limitMs: 2_000 });
    const first = await startItem(store, { workflow: "folder", limitMs: 1_000 });
    await startItem(store);
    assert.deepEqual(await store.items.due(ALL), { due: [], nextInMs: 1_000 });
    clock.advance(1_000);
    const { due, nextInMs } = await store.items.due(ALL);
    const { id, workflow, enteredAt } = first;
    assert.deepEqual(due, [
      { item: id, workflow, reason: "limit", enteredAt, dueAt: enteredAt + 1_000 },
    ]);
    assert.equal(nextInMs, 1_000);
    clock.advance(5_000);
    assert.deepEqual(await dueOf(store), [first.id, second.id]);
    const one = await store.items.due({ ...ALL, limit: 1 });
    assert.deepEqual([one.due.length, one.nextInMs], [1, 0]);
    assert.deepEqual((await store.items.due({ workflows: ["line"], limit: 9 })).due, []);
  });

  test("an item that left its state is not due for it, and one that stays is", async () => {
    const { store, clock } = await setUp(open);
    const [left, stayed] = [
      await startItem(store, { limitMs: 1_000 }),
      await startItem(store, { limitMs: 1_000 }),
    ];
    await changeItem(store, stayed, { data: '{"n":1}' });
    const moved = await changeItem(store, left, { ...pay, limitMs: 3_000 });
    clock.advance(1_000);
    assert.deepEqual(await dueOf(store), [stayed.id]);
    clock.advance(3_000);
    const { due } = await store.items.due(ALL);
    assert.deepEqual(
      due.map(({ item, enteredAt }) => [item, enteredAt]),
      [
        [stayed.id, stayed.enteredAt],
        [left.id, moved.enteredAt],
      ],
    );
  });

  test("a move that fails is due later, unless it became due again meanwhile", async () => {
    const { store, clock } = await setUp(open);
    const item = await startItem(store, { limitMs: 1 });
    clock.advance(1);
    const [due] = (await store.items.due(ALL)).due;
    await store.items.postpone(due as DueItem, 500);
    assert.deepEqual(await store.items.due(ALL), { due: [], nextInMs: 500 });
    await store.items.postpone(due as DueItem, 9_000); // it looked before
    assert.equal((await store.items.due(ALL)).nextInMs, 500);
    await changeItem(store, item, { ...pay, limitMs: 7 });
    await store.items.postpone(due as DueItem, 9_000);
    assert.equal((await store.items.due(ALL)).nextInMs, 7);
  });
}

function jobs(open: Open): void {
  async function waiting(
    store: Store,
    ...news: NewJob[]
  ): Promise<{ item: StoredItem; statuses: () => Promise<(string | null)[]> }> {
    const item = await startItem(store, { jobs: news, awaitsJobs: true });
    const statuses = async () => (await store.items.jobsOf(item.id)).map(({ status }) => status);
    return { item, statuses };
  }

  test("an item is due whenever one of its jobs has ended, in any way", async () => {
    const bundle = await setUp(open);
    const { store, clock } = bundle;
    const [first, second, third] = [calledJob(), calledJob(), calledJob({ queue: "other" })];
    const { item, statuses } = await waiting(store, first, second, third);
    assert.deepEqual(await dueOf(store), []);
    await settleOne(store, retry(await claimOne(store)));
    assert.deepEqual(await dueOf(store), []);
    await settleOne(store, failed(await claimOne(store)));
    assert.deepEqual([await dueOf(store), await statuses()], [[item.id], [null, "failed", null]]);
    const [due] = (await store.items.due(ALL)).due;
    await store.jobs.cancel(third.id);
    await store.items.postpone(due as DueItem, 9_000); // it looked before the last one ended
    assert.deepEqual(await dueOf(store), [item.id]);
    clock.advance(1_000);
    await store.jobs.promoteDue({ limit: 9 });
    await settleOne(store, done(await claimOne(store)));
    assert.deepEqual(await statuses(), ["done", "failed", "cancelled"]);
  });

  test("an item that waits for no job is due at once, and one whose jobs did not report their end after a while", async () => {
    const { store, clock } = await setUp(open);
    const { item } = await waiting(store);
    assert.deepEqual(await dueOf(store), [item.id]);
    await changeItem(store, item, cancelled);
    const { item: other } = await waiting(store, newJob());
    assert.deepEqual(await dueOf(store), []);
    await settleOne(store, done(await claimOne(store)));
    clock.advance(HOUR_MS);
    assert.deepEqual(await dueOf(store), [other.id]);
  });

  test("a retried job no longer counts as ended", async () => {
    const { store } = await setUp(open);
    const job = calledJob();
    const { statuses } = await waiting(store, job);
    await settleOne(store, failed(await claimOne(store)));
    await store.jobs.retry(job.id, 1);
    assert.deepEqual(await statuses(), [null]);
    await settleOne(store, done(await claimOne(store)));
    assert.deepEqual(await statuses(), ["done"]);
  });

  test("an item that has moved on waits for those jobs no more", async () => {
    const { store } = await setUp(open);
    const { item, statuses } = await waiting(store, calledJob());
    const next = calledJob({ queue: "next" });
    await changeItem(store, item, { ...pay, jobs: [next], awaitsJobs: true });
    assert.deepEqual(idsOf((await store.items.jobsOf(item.id)).map(({ job }) => ({ id: job }))), [
      next.id,
    ]);
    await settleOne(store, done(await claimOne(store)));
    assert.deepEqual([await dueOf(store), await statuses()], [[], [null]]);
  });

  test("a lease that expires on the last attempt also ends the job", async () => {
    const { store, clock } = await setUp(open);
    const { item, statuses } = await waiting(store, calledJob({ maxAttempts: 1 }));
    const { lockedUntil } = await claimOne(store);
    clock.set(lockedUntil + 1);
    await store.jobs.reclaimExpired({ graceMs: 0, maxCrashes: 3, limit: 9 });
    assert.deepEqual([await dueOf(store), await statuses()], [[item.id], ["failed"]]);
  });
}

function retention(open: Open): void {
  async function keep(open_: Open, keepMs: number): Promise<Bundle & { store: Store }> {
    const bundle = await open_();
    const store = await near(bundle);
    await store.items.declare(orders({ keepMs }));
    await store.items.declare(lines());
    await store.items.declare(folders({ keepMs }));
    return { ...bundle, store };
  }

  const gone = async (store: Store, item: StoredItem): Promise<boolean> => {
    const history = await store.items.history({ item: item.id, after: 0, limit: 9 });
    const isGone = (await store.items.find(item.id)) === null;
    assert.equal(history.length === 0, isGone);
    return isGone;
  };

  test("items are deleted with their history when their workflow keeps them no longer", async () => {
    const { store, clock } = await keep(open, HOUR_MS);
    const [old, young, living] = [
      await startItem(store),
      await startItem(store),
      await startItem(store, { limitMs: 1 }),
    ];
    clock.advance(1);
    await changeItem(store, old, cancelled);
    clock.advance(HOUR_MS);
    await changeItem(store, young, cancelled);
    assert.equal(await store.items.prune(9), 0);
    clock.advance(1);
    assert.equal(await store.items.prune(9), 1);
    assert.deepEqual(await Promise.all([old, young, living].map((item) => gone(store, item))), [
      true,
      false,
      false,
    ]);
    assert.deepEqual(await dueOf(store), [living.id]);
  });

  test("a workflow without a retention keeps its items forever", async () => {
    const { store, clock } = await setUp(open);
    const item = await changeItem(store, await startItem(store), cancelled);
    clock.advance(1_000 * HOUR_MS);
    assert.equal(await store.items.prune(9), 0);
    assert.equal(await gone(store, item), false);
  });

  test("a tree is deleted as a whole, and only when every item in it has ended", async () => {
    const { store, clock } = await keep(open, 0);
    const top = await startItem(store, { workflow: "folder" });
    const middle = await startItem(store, { workflow: "folder", parent: top });
    const deep = await startItem(store, { workflow: "folder", parent: middle });
    const all = [top, middle, deep];
    clock.advance(1);
    for (const item of [middle, top]) {
      await changeItem(store, item, pack);
      clock.advance(10);
      assert.equal(await store.items.prune(9), 0);
    }
    await changeItem(store, deep, pack);
    clock.advance(10);
    assert.equal(await store.items.prune(9), 1);
    for (const item of all) {
      assert.equal(await gone(store, item), true);
      assert.deepEqual(await store.items.progressOf(item.id), []);
      assert.deepEqual(await store.items.jobsOf(item.id), []);
    }
  });

  test("a change in a child keeps a tree from being deleted", async () => {
    const { store, clock } = await keep(open, HOUR_MS);
    const parent = await startItem(store);
    const child = await startItem(store, { workflow: "line", parent });
    await changeItem(store, child, pack);
    await changeItem(store, parent, cancelled);
    clock.advance(HOUR_MS);
    await changeItem(store, child, { data: '{"n":1}' });
    clock.advance(HOUR_MS);
    assert.equal(await store.items.prune(9), 0);
    clock.advance(1);
    assert.equal(await store.items.prune(9), 1);
    assert.equal(await gone(store, child), true);
  });

  test("a thousand items are started and moved in one step each, and go with their tree", async () => {
    const { store, clock } = await keep(open, 0);
    const parent = await startItem(store);
    const news = Array.from({ length: 1_000 }, () => ({ workflow: "line", parent }));
    const children = await startItems(store, news);
    await store.items.change({
      id: nextId(),
      items: idsOf(children),
      decide: async ({ items }) =>
        children.map(({ id }) => writeOf(items.get(id) as StoredItem, pack)),
    });
    assert.deepEqual(await store.items.progressOf(parent.id), [
      { workflow: "line", status: "packed", isFinal: true, children: 1_000 },
    ]);
    assert.equal((await mustFindItem(store, parent)).revision, 3);
    await changeItem(store, parent, cancelled);
    clock.advance(10);
    assert.equal(await store.items.prune(9), 1);
    assert.deepEqual(await store.items.list({ workflow: "line", limit: 9 }), []);
    assert.equal(await gone(store, parent), true);
  });

  test("no more trees are deleted at once than requested", async () => {
    const { store, clock } = await keep(open, 0);
    for (const item of await startItems(store, [{}, {}, {}]))
      await changeItem(store, item, cancelled);
    clock.advance(10);
    const pruned = [
      await store.items.prune(2),
      await store.items.prune(2),
      await store.items.prune(2),
    ];
    assert.deepEqual(pruned, [2, 1, 0]);
  });
}
