/** Items: what a change writes, to whom, when, and that it does so as a whole or not at all. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { IntegrityViolationError, ItemNotFoundError } from "../../src/workflows/errors.ts";
import { hashOf } from "../../src/workflows/changes.ts";
import { NO_HASH, sha256 } from "../../src/audit/entry.ts";
import type { Seen, StoredItem } from "../../src/workflows/item-record.ts";
import type { Bundle, Group, Open } from "../support/bundle.ts";
import {
  cancelled,
  changeItem,
  declareAll,
  mustFindItem,
  pack,
  pay,
  pictureOfItems,
  ship,
  startItem,
  startItems,
  writeOf,
  type ChangeFacts,
} from "../support/items.ts";
import { idsOf, newJob, nextId } from "../support/jobs.ts";
import { near } from "../support/near.ts";
import type { Store } from "../../src/app/store.ts";

async function setUp(open: Open): Promise<Bundle & { store: Store }> {
  const bundle = await open();
  const store = await near(bundle);
  await declareAll(store);
  return { ...bundle, store };
}

/** Changes several items in one step. */
function changeItems(
  store: Store,
  items: readonly { id: string }[],
  facts: (item: StoredItem, index: number) => ChangeFacts,
): Promise<StoredItem[]> {
  const found = (seen: Seen, id: string): StoredItem => seen.items.get(id) as StoredItem;
  return store.items.change({
    id: nextId(),
    items: idsOf(items),
    decide: async (seen) =>
      items.map(({ id }, index) => writeOf(found(seen, id), facts(found(seen, id), index))),
  });
}

export const items: Group = (open) => {
  single(open);
  trees(open);
  repeated(open);
  refusals(open);
  times(open);
  lists(open);
};

function single(open: Open): void {
  test("an item is started as it was given, at revision 1", async () => {
    const { store, clock } = await setUp(open);
    const data = JSON.stringify({ cents: 1999, name: "Zoë 😀 \u0000 \\ ' \"" });
    const item = await startItem(store, { data, type: "return", tenant: "acme", identifier: "42" });
    assert.deepEqual(await store.items.find(item.id), item);
    assert.deepEqual(await store.items.list({ prefix: item.id.slice(0, -2), limit: 5 }), [item]);
    const { type, tenant, identifier, status, revision, parent, root, depth } = item;
    assert.deepEqual(
      [type, tenant, identifier, status, revision, parent, root, depth, item.data],
      ["return", "acme", "42", "open", 1, null, item.id, 0, data],
    );
    const now = clock.now();
    assert.deepEqual([item.createdAt, item.updatedAt, item.enteredAt], [now, now, now]);
  });

  test("a move changes the status, a change of data does not, and each is one more revision", async () => {
    const { store, clock } = await setUp(open);
    const item = await startItem(store);
    clock.advance(5);
    const paid = await changeItem(store, item, { ...pay, data: '{"paid":true}' });
    clock.advance(5);
    const patched = await changeItem(store, item, { data: '{"paid":1}' });
    assert.deepEqual(await store.items.find(item.id), patched);
    const facts = ({ status, data, revision, enteredAt, updatedAt }: StoredItem) => [
      status,
      data,
      revision,
      enteredAt - item.createdAt,
      updatedAt - item.createdAt,
    ];
    assert.deepEqual(facts(paid), ["paid", '{"paid":true}', 2, 5, 5]);
    assert.deepEqual(facts(patched), ["paid", '{"paid":1}', 3, 5, 10]);
  });

  test("items are counted by state, up to a limit", async () => {
    const { store } = await setUp(open);
    for (let at = 0; at < 3; at += 1) await startItem(store);
    const { workflow } = await startItem(store);
    await changeItem(store, await startItem(store), pay);
    const states = ["open", "paid"];
    assert.deepEqual(await store.items.counts({ workflow, states, limit: 2 }), [
      { status: "open", items: 2 },
      { status: "paid", items: 1 },
    ]);
  });

  test("every change leaves one line that says who, why, when and with which jobs", async () => {
    const { store, clock } = await setUp(open);
    const item = await startItem(store);
    clock.advance(7);
    const jobs = [newJob(), newJob()];
    const line = { actor: "bob", reason: "he\npaid 😀", traceId: "t-1", lockWaitMs: 1.2345 };
    await changeItem(store, item, { ...pay, jobs, line });
    const [, moved] = await store.items.history({ item: item.id, after: 0, limit: 9 });
    assert.deepEqual(moved, {
      ...line,
      item: item.id,
      seq: 2,
      at: clock.now(),
      action: "move",
      move: "pay",
      oldStatus: "open",
      newStatus: "paid",
      revision: 2,
      lockWaitMs: 1.235, // whole microseconds
      jobs: idsOf(jobs),
      dataHash: sha256(item.data),
      previousHash: item.auditHash,
      hash: (await mustFindItem(store, item)).auditHash,
    });
    for (const { id } of jobs) assert.equal((await store.jobs.find(id))?.status, "pending");
  });

  test("each line carries the hash of the previous line and of its own content", async () => {
    const { store } = await setUp(open);
    const item = await startItem(store);
    const long = { actor: "ä".repeat(128), reason: "😀".repeat(500), traceId: "𝕋".repeat(500) };
    await changeItem(store, item, { ...pay, line: { ...long, lockWaitMs: 0.0004 } });
    await changeItem(store, item, { data: '{"a":1}' });
    await changeItem(store, item, { ...ship, line: { reason: "\u2028 \\ ' \" ? $1 :a" } });
    const history = await store.items.history({ item: item.id, after: 0, limit: 9 });
    assert.equal(history.length, 4);
    let before = NO_HASH;
    for (const { hash, ...entry } of history) {
      assert.equal(entry.previousHash, before);
      assert.equal(hash, hashOf(entry));
      before = hash;
    }
    assert.equal((await mustFindItem(store, item)).auditHash, before);
  });

  test("the largest data that an item may have is stored and read unchanged", async () => {
    const { store } = await setUp(open);
    const data = JSON.stringify({ text: "é".repeat(128 * 1024 - 10) });
    const item = await startItem(store, { data });
    assert.equal((await mustFindItem(store, item)).data, data);
    const moved = await changeItem(store, item, pay);
    assert.equal(moved.data, data);
    assert.deepEqual(await store.items.find(item.id), moved);
  });
}

function trees(open: Open): void {
  test("whatever happens to a child happens to its parent too, once", async () => {
    const { store, clock } = await setUp(open);
    const parent = await startItem(store);
    const seen = async () => {
      const { revision, updatedAt, enteredAt, auditSeq } = await mustFindItem(store, parent);
      return [revision, updatedAt - parent.createdAt, enteredAt - parent.createdAt, auditSeq];
    };
    clock.advance(1);
    const [first, second] = await startItems(store, [
      { workflow: "line", parent },
      { workflow: "line", parent },
    ]);
    assert.ok(first !== undefined && second !== undefined);
    assert.deepEqual(await seen(), [2, 1, 0, 1]);
    clock.advance(1);
    await changeItem(store, first, { data: '{"n":1}' });
    assert.deepEqual(await seen(), [3, 2, 0, 1]);
    clock.advance(1);
    await changeItem(store, first, pack);
    assert.deepEqual(await seen(), [4, 3, 0, 1]);
    clock.advance(1);
    await changeItems(store, [second, parent], ({ workflow }) =>
      workflow === "order" ? pay : pack,
    );
    assert.deepEqual(await seen(), [5, 4, 4, 2]);
    const { updatedAt } = await mustFindItem(store, second);
    assert.equal(updatedAt, (await mustFindItem(store, parent)).updatedAt);
  });

  test("an item knows how many below it are in which state, of every workflow", async () => {
    const { store } = await setUp(open);
    const parent = await startItem(store, { workflow: "folder" });
    assert.deepEqual(await store.items.progressOf(parent.id), []);
    const facts = { workflow: "folder", parent };
    const [first, second] = await startItems(store, [facts, facts, facts]);
    assert.ok(first !== undefined && second !== undefined);
    await startItem(store, { workflow: "folder", parent: first }); // one deeper is not counted here
    await changeItem(store, second, pack);
    await changeItem(store, second, { data: '{"n":1}' });
    assert.deepEqual(await store.items.progressOf(parent.id), [
      { workflow: "folder", status: "new", isFinal: false, children: 2 },
      { workflow: "folder", status: "packed", isFinal: true, children: 1 },
    ]);
    assert.deepEqual(await store.items.progressOf(nextId()), []);
    assert.deepEqual(await store.items.progressOf("no id at all"), []);
  });

  test("a change reaches all ancestors, however deep, and no sibling", async () => {
    const { store, clock } = await setUp(open);
    const top = await startItem(store, { workflow: "folder" });
    const middle = await startItem(store, { workflow: "folder", parent: top });
    const beside = await startItem(store, { workflow: "folder", parent: top });
    const deep = await startItem(store, { workflow: "folder", parent: middle });
    const other = await startItem(store, { workflow: "folder" });
    const all = [top, middle, beside, deep, other];
    const before = await Promise.all(all.map((item) => mustFindItem(store, item)));
    clock.advance(1);
    await changeItem(store, deep, pack);
    const after = await Promise.all(all.map((item) => mustFindItem(store, item)));
    const grown = after.map(({ revision }, index) => revision - (before[index]?.revision ?? 0));
    assert.deepEqual(grown, [1, 1, 0, 1, 0]);
    for (const index of [0, 1, 3]) assert.equal(after[index]?.updatedAt, clock.now());
    assert.deepEqual([deep.root, deep.depth, middle.depth], [top.id, 2, 1]);
  });

  test("the deciding function sees the current items and all their ancestors", async () => {
    const { store } = await setUp(open);
    const top = await startItem(store, { workflow: "folder" });
    const middle = await startItem(store, { workflow: "folder", parent: top });
    const deep = await startItem(store, { workflow: "folder", parent: middle });
    await startItem(store, { workflow: "folder", parent: middle });
    const now = await Promise.all([top, middle, deep].map((item) => mustFindItem(store, item)));
    const written = await store.items.change({
      id: nextId(),
      items: [deep.id],
      async decide(seen) {
        assert.deepEqual([...seen.items.values()], now);
        assert.deepEqual(await seen.progress(middle.id), [
          { workflow: "folder", status: "new", isFinal: false, children: 2 },
        ]);
        return [];
      },
    });
    assert.deepEqual(written, []);
    assert.deepEqual(await store.items.find(top.id), now[0]);
  });

  test("changes of one tree by many at once are all made, one after the other", async () => {
    const { store, alone, another } = await setUp(open);
    const other = alone === null ? await near({ ...(await bundleOf(another)) }) : store;
    const parent = await startItem(store);
    const children = await startItems(
      store,
      Array.from({ length: 4 }, () => ({ workflow: "line", parent })),
    );
    const count = (text: string): string =>
      JSON.stringify({ n: Number(JSON.parse(text).n ?? 0) + 1 });
    const changing = Array.from({ length: 24 }, (_, index) =>
      changeItems(
        index % 2 === 0 ? store : other,
        [children[index % 4] ?? parent, parent],
        (item) => ({
          data: count(item.data),
        }),
      ),
    );
    await Promise.all(changing);
    const { data, revision, auditSeq } = await mustFindItem(store, parent);
    assert.deepEqual([data, revision, auditSeq], ['{"n":24}', 26, 25]);
    for (const child of children) assert.equal((await mustFindItem(store, child)).data, '{"n":6}');
  });
}

function repeated(open: Open): void {
  /** Counts one more, once for this id. */
  const count = (store: Store, { id: item }: StoredItem, id: string): Promise<StoredItem[]> =>
    store.items.change({
      id,
      once: true,
      items: [item],
      async decide({ items: seen }) {
        const found = seen.get(item) as StoredItem;
        const n = Number(JSON.parse(found.data).n ?? 0) + 1;
        return [writeOf(found, { data: JSON.stringify({ n }), jobs: [newJob()] })];
      },
    });

  test("a change that is repeated under its id is not made twice, and returns the current state", async () => {
    const { store } = await setUp(open);
    const item = await startItem(store);
    const id = nextId();
    await count(store, item, id);
    await changeItem(store, item, pay);
    const now = await mustFindItem(store, item);
    assert.deepEqual(await count(store, item, id), [now]);
    assert.deepEqual(await mustFindItem(store, item), now);
    assert.equal((await store.jobs.list({ limit: 10 })).length, 1);
    await count(store, item, nextId());
    assert.equal((await mustFindItem(store, item)).data, '{"n":2}');
  });

  test("a change that many make at once under one id is made by one of them", async () => {
    const { store, alone, another } = await setUp(open);
    const other = alone === null ? await near({ ...(await bundleOf(another)) }) : store;
    const item = await startItem(store);
    const id = nextId();
    const changing = Array.from({ length: 12 }, (_, index) =>
      count(index % 2 === 0 ? store : other, item, id),
    );
    for (const [changed] of await Promise.all(changing)) assert.equal(changed?.data, '{"n":1}');
    assert.equal((await mustFindItem(store, item)).data, '{"n":1}');
    assert.equal((await store.jobs.list({ limit: 10 })).length, 1);
  });
}

async function bundleOf(another: Bundle["another"]): Promise<Bundle> {
  return { store: await another(), alone: null, another } as unknown as Bundle;
}

function refusals(open: Open): void {
  test("one bad item among several: none is written, no ancestor changes, no job exists", async () => {
    const { store } = await setUp(open);
    const parent = await startItem(store);
    const children = await startItems(store, [
      { workflow: "line", parent },
      { workflow: "line", parent },
      { workflow: "line", parent },
    ]);
    const all = [parent, ...children];
    const before = await pictureOfItems(store, all);
    const jobs = [newJob(), newJob()];
    const changing = changeItems(store, children, (_, index) =>
      index === 1 ? { move: "steal", to: "packed" } : { ...pack, jobs: [jobs[index] ?? newJob()] },
    );
    await assert.rejects(changing, (error) => {
      assert.ok(error instanceof IntegrityViolationError);
      assert.match(error.message, /declares no such move/);
      return true;
    });
    assert.deepEqual(await pictureOfItems(store, all), before);
    for (const { id } of jobs) assert.equal(await store.jobs.find(id), null);
  });

  test("a job that cannot be enqueued keeps its item from changing", async () => {
    const { store } = await setUp(open);
    const item = await startItem(store);
    const before = await pictureOfItems(store, [item]);
    const job = newJob();
    const changing = changeItem(store, item, { ...pay, jobs: [{ ...job, maxAttempts: 0 }] });
    await assert.rejects(changing, IntegrityViolationError);
    assert.deepEqual(await pictureOfItems(store, [item]), before);
  });

  test("an error of the deciding function is thrown unchanged, is not retried, and undoes everything", async () => {
    const { store } = await setUp(open);
    const item = await startItem(store);
    const before = await pictureOfItems(store, [item]);
    // As the databases ask to try again, and as a connection is lost.
    const looks = [
      { code: "40P01" },
      { errno: 1213, sqlState: "40001" },
      { errcode: 5 },
      { code: "ECONNRESET" },
      { code: "23505" },
    ];
    for (const look of looks) {
      const theirs = Object.assign(new Error("no stock"), look);
      let calls = 0;
      const changing = store.items.change({
        id: nextId(),
        items: [item.id],
        async decide() {
          calls += 1;
          throw theirs;
        },
      });
      await assert.rejects(changing, (error) => error === theirs);
      assert.equal(calls, 1);
    }
    assert.deepEqual(await pictureOfItems(store, [item]), before);
    await changeItem(store, item, pay);
  });

  test("an item that does not exist is not found, whatever its id looks like", async () => {
    const { store } = await setUp(open);
    const known = await startItem(store);
    const before = await mustFindItem(store, known);
    for (const id of [nextId(), "no id at all", "", "é".repeat(36), `${known.id} `, "'; --"]) {
      const changing = changeItems(store, [known, { id }], () => pay);
      await assert.rejects(changing, (error) => {
        assert.ok(error instanceof ItemNotFoundError, String(error));
        assert.equal(error.id, id);
        return true;
      });
      assert.equal(await store.items.find(id), null);
      assert.deepEqual(await store.items.history({ item: id, after: 0, limit: 9 }), []);
    }
    assert.deepEqual(await store.items.find(known.id), before);
  });
}

function times(open: Open): void {
  test("a clock that goes back takes no item back, and no child gets ahead of its parent", async () => {
    const { store, clock } = await setUp(open);
    const parent = await startItem(store);
    const child = await startItem(store, { workflow: "line", parent });
    clock.set(clock.now() - 60_000);
    const patched = await changeItem(store, child, { data: '{"n":1}' });
    assert.equal(patched.updatedAt, child.updatedAt);
    const late = await startItem(store, { workflow: "line", parent });
    assert.equal(late.createdAt, parent.updatedAt);
    const moved = await changeItem(store, child, pack);
    assert.equal((await mustFindItem(store, parent)).updatedAt, moved.updatedAt);
    const history = await store.items.history({ item: child.id, after: 0, limit: 9 });
    const at = history.map((line) => line.at);
    assert.deepEqual(
      at,
      at.toSorted((a, b) => a - b),
    );
  });

  test("no two stays of an item in a state begin at the same time, even if the clock does not advance", async () => {
    const { store } = await setUp(open);
    const item = await startItem(store);
    const paid = await changeItem(store, item, pay);
    const ended = await changeItem(store, item, cancelled);
    assert.ok(item.enteredAt < paid.enteredAt && paid.enteredAt < ended.enteredAt);
    assert.equal(ended.enteredAt, ended.updatedAt);
  });
}

function lists(open: Open): void {
  test("items are listed newest first, by whatever is known of them, a page at a time", async () => {
    const { store } = await setUp(open);
    const parent = await startItem(store, { tenant: "acme", identifier: "7" });
    const children = await startItems(store, [
      { workflow: "line", parent, tenant: "acme", identifier: "7" },
      { workflow: "line", parent, tenant: "acme", identifier: "8" },
      { workflow: "line", parent, tenant: "Acme", identifier: "7" },
    ]);
    const [first, second, third] = children;
    assert.ok(first !== undefined && second !== undefined && third !== undefined);
    await changeItem(store, second, pack);
    const list = async (filter: object): Promise<string[]> =>
      idsOf(await store.items.list({ workflow: "line", limit: 9, ...filter }));
    const newest = [third.id, second.id, first.id];
    assert.deepEqual(await list({}), newest);
    assert.deepEqual(await list({ limit: 2 }), newest.slice(0, 2));
    assert.deepEqual(await list({ limit: 2, before: second.id }), [first.id]);
    assert.deepEqual(await list({ status: "packed" }), [second.id]);
    assert.deepEqual(await list({ tenant: "acme" }), [second.id, first.id]);
    assert.deepEqual(await list({ tenant: "acme", status: "new" }), [first.id]);
    assert.deepEqual(await list({ identifier: "7" }), [third.id, first.id]);
    assert.deepEqual(await list({ identifier: "7", tenant: "acme" }), [first.id]);
    assert.deepEqual(await list({ parent: parent.id }), newest);
    assert.deepEqual(await list({ parent: parent.id, status: "new", before: third.id }), [
      first.id,
    ]);
    assert.deepEqual(await list({ parent: parent.id, identifier: "7" }), [third.id, first.id]);
    assert.deepEqual(await list({ workflow: "order", identifier: "7" }), [parent.id]);
    const all = await store.items.list({ limit: 9 });
    assert.deepEqual(idsOf(all), [...newest, parent.id]);
    assert.deepEqual(await list({ workflow: "order", parent: parent.id }), []);
    for (const wrong of ["no id at all", "é"]) assert.deepEqual(await list({ parent: wrong }), []);
    const [page, rest] = [await store.items.after(null, 3), await store.items.after(second.id, 9)];
    assert.deepEqual(idsOf(page), [parent.id, first.id, second.id]);
    assert.deepEqual(idsOf(rest), [third.id]);
  });

  test("the history of an item is read a page at a time", async () => {
    const { store } = await setUp(open);
    const item = await startItem(store);
    for (const n of [1, 2, 3]) await changeItem(store, item, { data: `{"n":${n}}` });
    const page = async (after: number, limit: number): Promise<number[]> =>
      (await store.items.history({ item: item.id, after, limit })).map(({ seq }) => seq);
    assert.deepEqual([await page(0, 3), await page(3, 3), await page(4, 3)], [[1, 2, 3], [4], []]);
  });
}
