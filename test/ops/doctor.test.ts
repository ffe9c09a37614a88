/** For every check, a violation is planted, and the check finds it: with its name, on every database. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Doctor } from "../../src/ops/doctor.ts";
import { partsOf } from "../../src/store/schema-parts.ts";
import { ailments } from "../support/ailments.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { assertFound, engines, Sickbed } from "./sickbed.ts";

/** Planted in doctor-servers.test.ts. */
const OF_SERVERS: Readonly<Record<string, readonly string[]>> = {
  sqlite: ["wal-file", "file-integrity"],
  postgres: [
    "dead-rows",
    "autovacuum-off",
    "old-transaction",
    "prepared-transaction",
    "replication-slot",
  ],
  mysql: ["old-transaction", "history-list"],
};

for (const engine of engines) {
  describe(engine.name, { skip: engine.skip, timeout: 120_000 }, () => {
    let bed: Sickbed;
    before(async () => void (bed = await Sickbed.make(engine)));
    after(() => bed[Symbol.asyncDispose]());

    test("every check has a violation that it is tried with", async () => {
      const known = (await bed.store.checks()).map(({ name }) => name);
      const tried = [...Object.keys(ailments), "schema-missing", ...(OF_SERVERS[bed.kind] ?? [])];
      assert.deepEqual(known.toSorted(), tried.toSorted());
      assert.equal(new Set(known).size, known.length);
    });

    for (const [name, { befall }] of Object.entries(ailments)) {
      test(`${name} is found, and was not there before`, async () => {
        await bed.recover();
        assert.equal(await bed.store.examine(name, { limit: 10 }), null);
        await assertFound(bed.store, name, await befall(bed));
      });
    }

    test("a job that is nowhere is found though another has no row: they do not make up for each other", async () => {
      await bed.recover();
      const stray = await ailments["state-without-job"]?.befall(bed);
      const nowhere = await ailments["job-nowhere"]?.befall(bed);
      await assertFound(bed.store, "job-nowhere", nowhere ?? "");
      await assertFound(bed.store, "state-without-job", stray ?? "");
    });

    test("what is older than a date is left alone where only its form is wrong", async () => {
      await bed.recover();
      await ailments["worker-id-format"]?.befall(bed);
      const look = { limit: 1, sinceAt: bed.clock.now() + 1 };
      assert.equal(await bed.store.examine("worker-id-format", look), null);
      assert.equal(
        (await bed.store.examine("worker-id-format", { limit: 1, deep: true })) === null,
        false,
      );
    });
  });

  describe(`the schema on ${engine.name}`, { skip: engine.skip, timeout: 60_000 }, () => {
    test("is read off the migrations as it is, and what is missing is found", async () => {
      await using bed = await Sickbed.make(engine);
      const { store } = bed;
      const wanted = partsOf(store.engine.migrations);
      // What makes the rest of it by itself: keys' own indexes, weeks, and the table of migrations.
      const byItself =
        /migration|_pkey$|_key$|_idx\d*$|_\d{8}|_default\.|of \w+_default$|\.workflow$/;
      const ofView = /^column (?:job_state|jobs|attempts)\./;
      const there = await store.engine.anatomy.catalogue(store.engine);
      const extra = there.filter((part) => !wanted.includes(part));
      assert.deepEqual(
        extra.filter((part) => !byItself.test(part) && !ofView.test(part)),
        [],
      );
      const gone = await breakSchema(bed);
      const found = await store.examine("schema-missing", { limit: 1_000 });
      const subjects = found?.offenders.map(({ subject }) => subject) ?? [];
      for (const part of gone) assert.ok(subjects.includes(part), `${part} is not missed`);
    });
  });
}

describe("the schema that nobody has touched", { timeout: 60_000 }, () => {
  for (const engine of engines) {
    test(`is whole on ${engine.name}`, { skip: engine.skip }, async () => {
      await using place = await engine.place();
      const { openHoldfast } = await import("../../src/index.ts");
      await using holdfast = await openHoldfast(place.url);
      const { findings } = await new Doctor(holdfast).examine({ checks: ["schema-missing"] });
      assert.deepEqual(findings, []);
    });
  }
});

/** Returns what is gone then. */
async function breakSchema(bed: Sickbed): Promise<string[]> {
  const { kind } = bed;
  if (kind === "mysql") {
    await bed.byHand("drop index by_due on holdfast.waiting");
    await bed.byHand("drop view holdfast.jobs");
    await bed.byHand("drop table holdfast.rollup");
    await bed.byHand("alter table holdfast.attempt drop column error");
    await bed.byHand("drop trigger holdfast.step_stays");
    return [
      "index waiting.by_due",
      "view jobs",
      "table rollup",
      "column attempt.error",
      "trigger step_stays",
    ];
  }
  await bed.byHand(
    kind === "sqlite" ? "drop index holdfast_waiting_due" : "drop index holdfast.waiting_due",
  );
  await bed.byHand("drop view holdfast.jobs");
  await bed.byHand("drop table holdfast.rollup");
  if (kind === "sqlite") await bed.byHand("drop trigger holdfast.step_stays");
  const gone = ["index waiting_due", "view jobs", "table rollup", "trigger step_stays"];
  if (kind === "sqlite") return gone;
  await bed.byHand("alter table holdfast.step disable trigger step_stays");
  await bed.byHand("alter table holdfast.lease drop constraint lease_pkey");
  await bed.byHand("alter table holdfast.job_key drop constraint job_key_job_id_key");
  await bed.byHand("alter table holdfast.worker drop column arch");
  const more = ["primary key of lease", "unique job_key.job_id", "column worker.arch"];
  return [...gone, ...more];
}

after(assertNothingRuns);
