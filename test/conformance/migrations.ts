/** Bringing a database's tables up to date: once, whoever asks, and never past a version that would break. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { HoldfastError, SchemaTooNew, SchemaTooOld } from "../../src/core/errors.ts";
import type { Migrated, Store } from "../../src/store/store.ts";
import type { Group } from "../support/bundle.ts";
import {
  done,
  idsOf,
  jobIn,
  newJob,
  nextId,
  one,
  pictureOf,
  settleOne,
  startOne,
} from "../support/jobs.ts";

function assertAppliedOnce(answers: readonly Migrated[]): void {
  const working = answers.filter(({ applied }) => applied.length > 0);
  assert.equal(working.length, 1);
  const { from, to } = working[0]!;
  assert.equal(from, 0);
  for (const answer of answers) {
    assert.equal(answer.to, to);
    if (answer !== working[0]) assert.equal(answer.from, to);
  }
}

export const migrations: Group = (open) => {
  // To make the tables takes longer than most tests: one database is enough for what happens before, and one for after.
  test("an empty database is brought to the newest version, once; then its jobs stay", async () => {
    const { store } = await open({ migrate: false });
    const { from, to, applied } = await store.migrate();
    assert.equal(from, 0);
    assert.ok(to >= 1);
    assert.equal(new Set(applied).size, to);

    await store.checkSchema();
    await settleOne(store, done(await startOne(store)));

    const ids = [await jobIn(store, "processing"), await jobIn(store, "done")];
    const before = await Promise.all(ids.map((id) => pictureOf(store, id)));
    assert.deepEqual(await store.migrate(), { from: to, to, applied: [] });
    assert.deepEqual(await Promise.all(ids.map((id) => pictureOf(store, id))), before);
  });

  test("migrations that are asked for many times at once are applied once", async () => {
    const { store } = await open({ migrate: false });
    assertAppliedOnce(await Promise.all(Array.from({ length: 6 }, () => store.migrate())));
    await store.checkSchema();
  });

  test("migrations that several openers ask for at once are applied once", async (t) => {
    const { store, alone, another } = await open({ migrate: false });
    if (alone !== null) return t.skip(alone);
    const openers = [store, await another(), await another(), await another()];
    assertAppliedOnce(await Promise.all(openers.map((opener) => opener.migrate())));

    for (const opener of openers) await opener.checkSchema();
    const claimed = await startOne(openers[1]!);
    assert.deepEqual(idsOf(await openers[2]!.settle([done(claimed)])), [claimed.id]);
  });

  const uses: Record<string, (store: Store) => Promise<unknown>> = {
    enqueue: (store) => store.enqueue([newJob()]),
    claim: (store) => store.claim(one()),
    settle: (store) => store.settle([done({ id: nextId(), worker: "worker-a", epoch: 1 })]),
    extend: (store) => store.extend([{ id: nextId(), worker: "worker-a", epoch: 1 }], 1_000),
    promoteDue: (store) => store.promoteDue({ limit: 1 }),
    find: (store) => store.find(nextId()),
    stats: (store) => store.stats(),
  };
  test("without tables a database is too old, and every verb says so without the driver's words", async () => {
    const { store } = await open({ migrate: false });
    await assert.rejects(store.checkSchema(), (error) => {
      assert.ok(error instanceof SchemaTooOld);
      assert.equal(error.found, 0);
      assert.ok(error.needed >= 1);
      return true;
    });
    for (const [verb, use] of Object.entries(uses)) {
      await assert.rejects(use(store), HoldfastError, verb);
    }
    assert.equal((await store.migrate()).from, 0);
    for (const use of Object.values(uses)) await use(store);
  });

  test("a newer schema that breaks this version is refused", async () => {
    const { store, pretendMigration } = await open();
    const { to } = await store.migrate();
    await pretendMigration(to + 1, { breaking: true });

    const refusal = (error: unknown): boolean => {
      assert.ok(error instanceof SchemaTooNew);
      assert.equal(error.found, to + 1);
      assert.equal(error.supported, to);
      return true;
    };
    await assert.rejects(store.checkSchema(), refusal);
    await assert.rejects(store.migrate(), refusal);
  });

  test("a newer schema that breaks this version is refused, whatever came after", async () => {
    const { store, pretendMigration } = await open();
    const { to } = await store.migrate();
    await pretendMigration(to + 1, { breaking: true });
    await pretendMigration(to + 2, { breaking: false });

    await assert.rejects(store.checkSchema(), SchemaTooNew);
    await assert.rejects(store.migrate(), SchemaTooNew);
  });

  test("a newer schema that breaks nothing is accepted and left as it is", async () => {
    const { store, pretendMigration } = await open();
    const { to } = await store.migrate();
    await pretendMigration(to + 1, { breaking: false });

    await store.checkSchema();
    assert.deepEqual(await store.migrate(), { from: to + 1, to: to + 1, applied: [] });
    await settleOne(store, done(await startOne(store)));
  });
};
