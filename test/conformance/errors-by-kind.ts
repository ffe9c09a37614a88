/** Errors by kind: each error counted once, values left out, new builds seen, resolved and back again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../src/database/sql.ts";
import type { KindsWanted } from "../../src/error-kinds/store.ts";
import { FOLD_LAG_MS } from "../../src/stats/minute-totals.ts";
import type { Bundle, Group, Open } from "../support/bundle.ts";
import {
  addWorker,
  claimOne,
  enqueueOne,
  failed,
  nextId,
  retry,
  settleOne,
} from "../support/jobs.ts";

const MINUTE_MS = 60_000;

async function openFolded(open: Open): Promise<Bundle> {
  const bundle = await open();
  const minute = (Math.floor(bundle.clock.now() / MINUTE_MS) + 1) * MINUTE_MS;
  bundle.clock.set(minute);
  await bundle.byHand(sql`update holdfast.counts set folded_until = ${minute} where id = 1`);
  return bundle;
}

async function fold({ store, clock }: Bundle): Promise<void> {
  clock.set((Math.floor(clock.now() / MINUTE_MS) + 1) * MINUTE_MS + FOLD_LAG_MS);
  while ((await store.stats.foldMinutes({ limit: 100 })) > 0);
}

async function fail(
  { store }: Bundle,
  message: string,
  { again = false, worker = "w-1", task = "order.ship" } = {},
): Promise<string> {
  await enqueueOne(store, { task });
  const job = await claimOne(store, { worker });
  const error = JSON.stringify({ name: "CarrierTimeout", message });
  await settleOne(store, again ? retry(job, { delayMs: 3_600_000, error }) : failed(job, error));
  return job.id;
}

export const errorsByKind: Group = (open) => {
  test("errors that differ in values are of one kind, and each is counted once", async () => {
    const bundle = await openFolded(open);
    const { store, clock } = bundle;
    await addWorker(bundle, "w-1", "9c41d07");
    await fail(bundle, "no answer from 'dhl' within 10 s");
    clock.advance(1_000);
    const last = await fail(bundle, "no answer from 'ups' within 12 s", {
      again: true,
      task: "order.ship@2",
    });
    await fail(bundle, "out of stock", { task: "order.pick" });
    await fold(bundle);
    await fold(bundle);
    const kinds = await store.errorKinds.list({ state: "open" });
    assert.deepEqual(
      kinds.map(({ task, message, failed: bad, retried, builds, isNew }) => [
        task,
        message,
        bad,
        retried,
        builds,
        isNew,
      ]),
      [
        ["order.ship", "no answer from … within … s", 1, 1, ["9c41d07"], true],
        ["order.pick", "out of stock", 1, 0, ["9c41d07"], true],
      ].toSorted((a, b) => (a[0] === kinds[0]?.task ? -1 : b[0] === kinds[0]?.task ? 1 : 0)),
    );
    const kind = kinds.find(({ task }) => task === "order.ship");
    assert.deepEqual(kind?.sample, { job: last, message: "no answer from 'ups' within 12 s" });
    assert.equal(kind?.trend.length, 24);
    const id = kind?.id ?? "";
    const found = await store.errorKinds.withPrefix(id.slice(0, 12), 10);
    assert.deepEqual(found, [{ id, task: "order.ship", name: "CarrierTimeout" }]);
    assert.equal(
      kind?.trend.reduce((sum, n) => sum + n, 0),
      2,
    );
    assert.equal(kind?.first.message, "no answer from 'dhl' within 10 s");
    assert.deepEqual([kind?.failedNow, kind?.isFailedNowExact], [1, true]);
    assert.deepEqual(await store.errorKinds.counts(), { open: 2, resolved: 0, muted: 0, new: 2 });
  });

  test("a resolved kind comes back when it is seen again; a muted one does not", async () => {
    const bundle = await openFolded(open);
    const { store } = bundle;
    await fail(bundle, "boom");
    await fold(bundle);
    const [kind] = await store.errorKinds.list({ state: "open" });
    const id = kind?.id ?? "";
    const by = { id: nextId(), actor: "ada", reason: "fixed" };
    assert.equal(await store.errorKinds.change(id, { state: "resolved" }, by), true);
    assert.equal(
      await store.errorKinds.change(id, { state: "resolved" }, { ...by, id: nextId() }),
      false,
    );
    assert.equal(
      await store.errorKinds.change("0".repeat(32), { state: "muted" }, { ...by, id: nextId() }),
      false,
    );
    assert.deepEqual(await store.errorKinds.list({ state: "open" }), []);
    assert.equal((await store.errorKinds.find(id))?.changedBy, "ada");
    bundle.clock.advance(1_000);
    await fail(bundle, "boom");
    await fold(bundle);
    const back = await store.errorKinds.find(id);
    assert.equal(back?.state, "open");
    assert.notEqual(back?.cameBackAt, null);
    assert.equal(back?.failed, 2);
    await store.errorKinds.change(id, { state: "muted" }, { ...by, id: nextId() });
    bundle.clock.advance(1_000);
    await fail(bundle, "boom");
    await fold(bundle);
    assert.equal((await store.errorKinds.find(id))?.state, "muted");
    const lines = await store.audit.list({ subject: `error ${id}`, limit: 10 });
    assert.deepEqual(
      lines.map(({ action, reason }) => [action, reason]),
      [
        ["error.resolve", "fixed"],
        ["error.mute", "fixed"],
      ],
    );
  });

  test("resolved in the next build: an old build does not bring it back, a new one does", async () => {
    const bundle = await openFolded(open);
    const { store, clock } = bundle;
    await addWorker(bundle, "w-1", "old");
    await addWorker(bundle, "w-2", "new");
    await fail(bundle, "boom");
    await fold(bundle);
    const [kind] = await store.errorKinds.list({ state: "open" });
    const id = kind?.id ?? "";
    await store.errorKinds.change(
      id,
      { state: "resolved", resolvedIn: "new" },
      { id: nextId(), actor: "ada" },
    );
    clock.advance(1_000);
    await fail(bundle, "boom");
    await fold(bundle);
    assert.equal((await store.errorKinds.find(id))?.state, "resolved");
    await fail(bundle, "boom", { worker: "w-2" });
    await fold(bundle);
    assert.equal((await store.errorKinds.find(id))?.state, "open");
  });

  test("kinds of a time, a task or a build, the most frequent first, with what each did in it", async () => {
    const bundle = await openFolded(open);
    const { store, clock, byHand } = bundle;
    const start = clock.now();
    const wait = 10 * MINUTE_MS;
    await addWorker(bundle, "w-1", "old");
    await addWorker(bundle, "w-2", "new");
    await fail(bundle, "disk full");
    await fold(bundle);
    clock.set(start + wait);
    await fail(bundle, "disk full", { worker: "w-2" });
    await fail(bundle, "no address", { worker: "w-2" });
    await fail(bundle, "no address", { worker: "w-2", again: true });
    await fail(bundle, "no address", { task: "order.pick" });
    await fold(bundle);
    const sorted = (some: readonly unknown[][]) =>
      some.toSorted((a, b) => String(a).localeCompare(String(b)));
    const brief = async (wanted: Partial<KindsWanted>) =>
      (await store.errorKinds.list({ state: "open", ...wanted })).map(
        ({ task, message, within }) => [task, message, within?.failed, within?.retried],
      );
    const [ship, pick] = ["order.ship", "order.pick"];
    assert.deepEqual(await brief({ since: start + wait, task: ship }), [
      [ship, "no address", 1, 1],
      [ship, "disk full", 1, 0],
    ]);
    assert.deepEqual(await brief({ since: start, until: start + wait }), [
      [ship, "disk full", 1, 0],
    ]);
    assert.deepEqual(sorted(await brief({ build: "old" })), [
      [pick, "no address", 1, 0],
      [ship, "disk full", 1, 0],
    ]);
    assert.deepEqual(await brief({ build: "new", since: start + wait + MINUTE_MS }), []);
    assert.deepEqual(await brief({ task: pick }), [[pick, "no address", undefined, undefined]]);
    assert.deepEqual(await brief({ build: "never" }), []);
    // Of the last week there are whole hours.
    await byHand(sql`delete from holdfast.error_minute`);
    const week = await brief({ since: start - 30 * 3_600_000, task: ship });
    assert.deepEqual(sorted(week.map(([, message, bad]) => [message, bad])), [
      ["disk full", 2],
      ["no address", 1],
    ]);
  });

  test("tasks are recorded with their schemas, and written only when they change", async () => {
    const { store } = await open();
    const task = { name: "mail.send", inputSchema: '{"type":"object"}' };
    await store.dashboard.noteTasks([task], "v1");
    await store.dashboard.noteTasks([task, { name: "b", inputSchema: null }], "v1");
    await store.dashboard.noteTasks([{ ...task, inputSchema: '{"type":"array"}' }], "v2");
    assert.deepEqual(await store.dashboard.tasks(), [
      { name: "b", inputSchema: null },
      { name: "mail.send", inputSchema: '{"type":"array"}' },
    ]);
  });
};
