/** Errors by kind: each error counted once, values left out, new builds seen, resolved and back again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../src/database/sql.ts";
import { FOLD_LAG_MS } from "../../src/stats/minute-totals.ts";
import type { Bundle, Group, Open } from "../support/bundle.ts";
import { claimOne, enqueueOne, failed, nextId, retry, settleOne } from "../support/jobs.ts";

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

async function addWorker({ byHand, clock }: Bundle, id: string, version: string): Promise<void> {
  await byHand(sql`
    insert into holdfast.worker (id, type, slot, instance, status, hostname, pid, version, node_version, platform, arch,
                                 queues, tasks, concurrency, started_at, heartbeat_at)
    values (${id}, 'mailer', null, 1, 'running', 'h', 1, ${version}, 'v', 'l', 'a', '[]', '[]', 1, ${clock.now()}, ${clock.now()})`);
}

export const errorsByKind: Group = (open) => {
  test("errors that differ in values are of one kind, and each is counted once", async () => {
    const bundle = await openFolded(open);
    const { store, clock, byHand } = bundle;
    await byHand(sql`insert into holdfast.worker_type (name) values ('mailer')`);
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
    const { store, byHand, clock } = bundle;
    await byHand(sql`insert into holdfast.worker_type (name) values ('mailer')`);
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
