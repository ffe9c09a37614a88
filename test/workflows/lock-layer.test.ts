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
