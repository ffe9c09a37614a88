/** Bringing a database's tables up to date: once, however many processes ask, and never past a version that would break. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { HoldfastError, SchemaTooNewError, SchemaTooOldError } from "../../src/core/errors.ts";
import type { Migration, Migrated } from "../../src/database/engine.ts";
import { storeOn, type Store } from "../../src/app/store.ts";
import type { Group } from "../support/bundle.ts";
import { sql } from "../../src/database/sql.ts";
import { withMigrations } from "../support/later-version.ts";
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
import { isNear } from "../support/near.ts";

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
    assert.ok(applied.length > 0);

    await store.checkSchema();
    await settleOne(store, done(await startOne(store)));

    const ids = [await jobIn(store, "processing"), await jobIn(store, "done")];
    const before = await Promise.all(ids.map((id) => pictureOf(store, id)));
    assert.deepEqual(await store.migrate(), { from: to, to, applied: [] });
    assert.deepEqual(await Promise.all(ids.map((id) => pictureOf(store, id))), before);
  });

  test("a later version applies what is missing, and the earlier one works on beside it", async () => {
    const { store, another } = await open({ migrate: false });
    const { engine } = (isNear(store) ? store : await another()).db;
    const { to } = await store.migrate();
    const id = await jobIn(store, "processing");
    const before = await pictureOf(store, id);

    const added = (version: number): Migration => ({
      version,
      name: `version ${version}`,
      breaking: false,
      script: engine.migrationDialect.named(
        `create table holdfast.later_${version} (id integer not null primary key);`,
      ),
    });
    const indexed: Migration = {
      ...added(to + 2),
      online: true,
      script: engine.migrationDialect.named(
        `create index later on holdfast.finished (status, id); create index soon on holdfast.ready (task);`,
      ),
    };
    const history = [...engine.migrations, added(to + 1), indexed, added(to + 3)];
    const later = await storeOn(withMigrations(engine, history));
    await assert.rejects(later.checkSchema(), SchemaTooOldError);
    const plan = await later.planMigration();
    assert.deepEqual(
      plan.migrations.map(({ version }) => version),
      [to + 1, to + 2, to + 3],
    );
    assert.match(
      plan.sql,
      new RegExp(`-- Migration ${to + 2}: .*\n-- These indexes block writers`),
    );
    const other = { ...added(to + 1), online: true };
    const mistaken = await storeOn(withMigrations(engine, [...engine.migrations, other]));
    await assert.rejects(mistaken.migrate(), /online migration .* has: create table/);
    const names = [to + 1, to + 2, to + 3].map((version) => `version ${version}`);
    assert.deepEqual(await later.migrate(), { from: to, to: to + 3, applied: names });
    assert.deepEqual(await later.migrate(), { from: to + 3, to: to + 3, applied: [] });

    await store.checkSchema();
    assert.deepEqual(await pictureOf(store, id), before);
    await settleOne(store, done(await startOne(store)));
  });

  test("migrations that many processes request at once are applied once", async () => {
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
    assert.deepEqual(idsOf(await openers[2]!.jobs.settle([done(claimed)])), [claimed.id]);
  });

  const uses: Record<string, (store: Store) => Promise<unknown>> = {
    enqueue: (store) => store.jobs.enqueue([newJob()]),
    claim: (store) => store.jobs.claim(one()),
    settle: (store) => store.jobs.settle([done({ id: nextId(), worker: "worker-a", epoch: 1 })]),
    extend: (store) => store.jobs.extend([{ id: nextId(), worker: "worker-a", epoch: 1 }], 1_000),
    promoteDue: (store) => store.jobs.promoteDue({ limit: 1 }),
    find: (store) => store.jobs.find(nextId()),
    stats: (store) => store.jobs.stats(),
  };
  test("without tables a database is too old, and every verb says so without the driver's words", async () => {
    const { store } = await open({ migrate: false });
    await assert.rejects(store.checkSchema(), (error) => {
      assert.ok(error instanceof SchemaTooOldError);
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

  test("tables of a development version are refused with a remedy, and stay as they are", async () => {
    const { store, byHand } = await open({ migrate: false });
    const { to } = await store.migrate();
    // As they were recorded before the first release: from 10 on, the second as breaking.
    await byHand(sql`update holdfast.migration set version = 10 where version = 1`);
    await byHand(sql`
      insert into holdfast.migration (version, name, breaking, applied_at)
      values (11, 'lanes and limits', 1, 1), (17, 'open runs', 0, 1)`);
    const refusal = (error: unknown): boolean => {
      assert.ok(error instanceof SchemaTooOldError);
      assert.deepEqual([error.found, error.needed], [17, to]);
      assert.match(
        error.message,
        /development version of holdfast \(schema version 17\).* drop these tables and run/,
      );
      return true;
    };
    await assert.rejects(store.checkSchema(), refusal);
    await assert.rejects(store.migrate(), refusal);
    assert.equal(await byHand(sql`update holdfast.migration set applied_at = 2`), 3);
  });

  test("a newer schema that breaks this version is refused", async () => {
    const { store, pretendMigration } = await open();
    const { to } = await store.migrate();
    await pretendMigration(to + 1, { breaking: true });

    const refusal = (error: unknown): boolean => {
      assert.ok(error instanceof SchemaTooNewError);
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

    await assert.rejects(store.checkSchema(), SchemaTooNewError);
    await assert.rejects(store.migrate(), SchemaTooNewError);
  });

  test("a newer schema without breaking changes is accepted and left unchanged", async () => {
    const { store, pretendMigration } = await open();
    const { to } = await store.migrate();
    await pretendMigration(to + 1, { breaking: false });

    await store.checkSchema();
    assert.deepEqual(await store.migrate(), { from: to + 1, to: to + 1, applied: [] });
    await settleOne(store, done(await startOne(store)));
  });
};
