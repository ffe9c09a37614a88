/** The first layer of every change of an item: a distributed lock on its whole tree, which can be left out. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type HoldfastOptions, openHoldfast } from "../../src/index.ts";
import { LockNotAcquiredError } from "../../src/locks/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { withCode } from "../worker/observe.ts";
import { tempFolder } from "../support/folder.ts";

const tour = defineWorkflow({
  name: "tour",
  initial: "open",
  states: { open: {}, done: { final: true } },
  moves: { finish: { from: "open", to: "done" } },
});
const stop = defineWorkflow({
  name: "stop",
  parent: tour,
  initial: "open",
  states: { open: {}, done: { final: true } },
  moves: { finish: { from: "open", to: "done" } },
});
/** States and moves of no interest. */
const plain = {
  initial: "open",
  states: { open: {}, done: { final: true } },
  moves: { finish: { from: "open", to: "done" } },
} as const;
const ada = { actor: "ada" };
const folder = tempFolder();
after(() => folder[Symbol.dispose]());

async function contested(t: { after(call: () => unknown): void }, options: HoldfastOptions) {
  const url = `sqlite:${folder.file(".db")}`;
  const [holder, other] = [await openHoldfast(url), await openHoldfast(url, options)];
  t.after(() => Promise.all([holder.close(), other.close()]));
  const parent = await holder.workflows.start(tour, { data: {}, ...ada });
  const child = await holder.workflows.start(stop, { data: {}, parent, ...ada });
  const lock = await holder.locks.acquire(`tour:${parent.id}`);
  const move = (): Promise<unknown> =>
    other.workflows.updateChild(stop, child.id, { move: "finish", ...ada });
  return { holder, child, lock, move };
}

test("a change waits for the lock of the whole tree, for as long as openHoldfast was told", async (t) => {
  const { child, lock, move } = await contested(t, { lockWait: "150ms", lockTtl: "5s" });
  await assert.rejects(move(), (error) => {
    assert.ok(error instanceof LockNotAcquiredError);
    assert.ok(error.waitedMs >= 100 && error.waitedMs < 5_000, `${error.waitedMs} ms`);
    return true;
  });
  assert.equal((await child.refresh()).status, "open");
  await lock.release();
  await move();
  const [, line] = await child.history();
  assert.equal(line?.newStatus, "done");
  assert.ok((line.lockWaitMs ?? -1) >= 0, "how long the lock took is in the audit");
});

test("a workflow has times of its own for the lock, and passes them on to those below it", async (t) => {
  const url = `sqlite:${folder.file(".db")}`;
  const [holder, other] = [await openHoldfast(url), await openHoldfast(url, { lockWait: "1h" })];
  t.after(() => Promise.all([holder.close(), other.close()]));
  let heldForMs = Number.POSITIVE_INFINITY;
  const guard = async (): Promise<void> => {
    heldForMs = (await holder.locks.inspect(`order:${top.id}`))?.expiresInMs ?? heldForMs;
  };
  const order = defineWorkflow({ ...plain, name: "order", lock: { wait: "120ms", ttl: "2s" } });
  const moves = { finish: { from: "open", to: "done", guard } } as const;
  const parcel = defineWorkflow({ ...plain, moves, name: "parcel", parent: order });
  const label = defineWorkflow({ ...plain, name: "label", parent: parcel, lock: { wait: 0 } });
  const top = await other.workflows.start(order, { data: {}, ...ada });
  const middle = await other.workflows.start(parcel, { data: {}, parent: top, ...ada });
  const low = await other.workflows.start(label, { data: {}, parent: middle, ...ada });

  const lock = await holder.locks.acquire(`order:${top.id}`);
  const waits: [() => Promise<unknown>, number, number][] = [
    [() => top.move("finish", ada), 100, 5_000],
    [() => middle.move("finish", ada), 100, 5_000],
    [() => low.move("finish", ada), 0, 100],
  ];
  for (const [move, least, most] of waits) {
    await assert.rejects(move(), (error) => {
      assert.ok(error instanceof LockNotAcquiredError);
      assert.ok(error.waitedMs >= least && error.waitedMs < most, `${error.waitedMs} ms`);
      return true;
    });
  }
  await lock.release();
  await low.move("finish", ada);
  await middle.move("finish", ada);
  assert.ok(heldForMs <= 2_000, `${heldForMs} ms: the lock lasts as long as the workflow says`);
});

test("times that a lock cannot have are refused where they are declared", () => {
  const declare = (lock: object) => () => defineWorkflow({ ...plain, name: "order", lock });
  assert.throws(declare({ ttl: "1ms" }), withCode("INVALID_ARGUMENT", "lock.ttl"));
  assert.throws(declare({ wait: -1 }), withCode("INVALID_ARGUMENT", "lock.wait"));
  assert.throws(declare({ waits: 1 }), withCode("INVALID_ARGUMENT", "lock.waits"));
});

test('with locks: "off" no change waits for a lock, and the audit log says that there was none', async (t) => {
  const { child, move } = await contested(t, { locks: "off" });
  await move();
  const [, line] = await child.history();
  assert.deepEqual([line?.newStatus, line?.lockWaitMs], ["done", null]);
});

test("a time that cannot be is refused when Holdfast is opened", async () => {
  const opening = openHoldfast("sqlite::memory:", { lockTtl: 0 });
  await assert.rejects(opening, withCode("INVALID_ARGUMENT", "lockTtl"));
});
