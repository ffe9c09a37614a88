/** For every check, a violation is planted, and the check finds it: with its name, on every database. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Doctor } from "../../src/app/ops.ts";
import { openHoldfast } from "../../src/index.ts";
import { partsOf } from "../../src/database/dialect.ts";
import { traceId } from "../../src/core/job.ts";
import { violations } from "../support/violations.ts";
import {
  claimOne,
  done,
  enqueueOne,
  fenceOf,
  HOUR_MS,
  jobIn,
  LEASE_MS,
  nextId,
  released,
  settleOne,
  startOne,
  suspended,
} from "../support/jobs.ts";
import { start } from "../support/workers.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { engines, sampledEngines } from "../registry/places.ts";
import { assertFound, DoctorDatabase } from "./doctor-database.ts";

/** Planted in doctor-servers.test.ts. */
const OF_SERVERS: Readonly<Record<string, readonly string[]>> = {
  sqlite: ["wal-file", "file-permissions", "file-integrity"],
  postgres: [
    "push-down",
    "dead-rows",
    "foreign-table", // test/servers/search-path.test.ts
    "schema-before-public", // the same
    "autovacuum-off",
    "old-transaction",
    "prepared-transaction",
    "replication-slot",
  ],
  mysql: ["push-down", "old-transaction", "history-list"],
};

/** A second later, or by another's hand, it would be. */
const nearly: Readonly<Record<string, (database: DoctorDatabase) => Promise<unknown>>> = {
  async "lease-of-stopped-worker"({ store, clock }) {
    const { id } = await start(store);
    await startOne(store, {}, { worker: id, leaseMs: HOUR_MS });
    await store.workers.move(id, { state: "stopped", reason: "stale" });
    clock.advance(60_000);
  },
  async "lease-expired"({ store, clock }) {
    await startOne(store);
    clock.advance(30_000 + 2_000 + 60_000);
  },
  async "lease-never-renewed"({ store, clock }) {
    const claimed = await startOne(store);
    await startOne(store, { queue: "slow" }, { leaseMs: HOUR_MS });
    clock.advance(15_000);
    await store.jobs.extend([fenceOf(claimed)], LEASE_MS);
    clock.advance(29_000);
  },
  async "lease-of-unknown-worker"({ store }) {
    await start(store);
    await startOne(store, {}, { worker: `clerk-${nextId()}` }); // a program of the user's own
  },
  async "claim-of-two-workers"({ store }) {
    for (const worker of ["worker-a", "worker-b"]) await startOne(store, {}, { worker });
  },
  async "worker-stale"({ store, clock }) {
    await start(store);
    clock.advance(60_000);
  },
  async "worker-hung"({ store, clock }) {
    const { id } = await start(store);
    await store.workers.move(id, { state: "stopping", reason: "asked" });
    clock.advance(120_000);
  },
  async "worker-too-many"({ store }) {
    for (let slot = 0; slot < 2; slot += 1) await start(store, { slots: 2 });
    for (let n = 0; n < 3; n += 1) await start(store, { type: "helper", slots: null });
  },
  async "worker-version-drift"({ store }) {
    await start(store, { slots: null, version: "abc1234" });
    await start(store, { slots: null, version: "build-1800000000000" }); // it does not know its version
    await start(store, { type: "other", slots: null, version: "def5678" });
  },
  async "enqueuer-version-drift"({ store, clock }) {
    await store.workers.noteEnqueuer("old0001");
    clock.advance(5 * 60_000 + 1);
    await start(store);
    await store.workers.noteEnqueuer("abc1234");
  },
  async "job-overdue"({ store, clock }) {
    await enqueueOne(store, { start: { delayMs: 1_000 } });
    clock.advance(61_000);
  },
  async "waiting-for-nothing"(database) {
    await violations["effect-in-doubt"]?.plant(database);
    await settleOne(database.store, suspended(await startOne(database.store), HOUR_MS));
  },
  async "job-unclaimable"({ store, clock }) {
    await start(store, { tasks: ["mail.send"] });
    await enqueueOne(store);
    clock.advance(30_000);
    await enqueueOne(store, { queue: "nobody" });
    clock.advance(60_000);
  },
  async "effect-left-open"(database) {
    await violations["effect-in-doubt"]?.plant(database);
  },
  async "key-orphaned"({ store }) {
    for (const status of ["pending", "scheduled", "processing"] as const) {
      await jobIn(store, status, { key: status, queue: status });
    }
  },
  async "kept-key-orphaned"({ store }) {
    await settleOne(store, done(await startOne(store, { key: "k", keyForMs: HOUR_MS })));
  },
  async "item-waits-for-missing-job"(database) {
    await violations["item-job-orphaned"]?.plant(database); // of one that ended it is known how
  },
  async "lock-left-behind"({ store, clock }) {
    const request = { key: "order:42", holder: nextId(), owner: "shop", trace: null };
    await store.locks.take({ ...request, ttlMs: 15_000, contender: nextId() });
    clock.advance(15_000 + 10 * 60_000);
  },
  async "trace-of-another-owner"({ store }) {
    const claimed = await startOne(store);
    const action = { action: "job.cancel", subject: `job ${claimed.id}` };
    await settleOne(store, released(claimed));
    const again = await claimOne(store, { worker: "another" }); // of the same number
    for (const trace of [traceId(claimed), traceId(again), "whatever the actor traces by"]) {
      await store.audit.note({ id: nextId(), actor: "ada", traceId: trace }, action);
    }
  },
};

for (const engine of sampledEngines) {
  describe(engine.name, { skip: engine.skip, timeout: 120_000 }, () => {
    let database: DoctorDatabase;
    before(async () => void (database = await DoctorDatabase.make(engine)));
    after(() => database[Symbol.asyncDispose]());

    test("every check is tested with a violation", async () => {
      const known = (await database.store.checks.list()).map(({ name }) => name);
      const planted = new Set(Object.keys(violations).map(checkOf));
      const tried = [...planted, "schema-missing", ...(OF_SERVERS[database.kind] ?? [])];
      assert.deepEqual(known.toSorted(), tried.toSorted());
      assert.equal(new Set(known).size, known.length);
    });

    for (const [violation, { plant }] of Object.entries(violations)) {
      test(`${violation} is found, and was not there before`, async () => {
        const name = checkOf(violation);
        await database.recover();
        assert.equal(await database.store.checks.examine(name, { limit: 10 }), null);
        await assertFound(database.store, name, await plant(database));
      });
    }

    for (const [name, plant] of Object.entries(nearly)) {
      test(`${name} is not found where it is not so yet`, async () => {
        await database.recover();
        await plant(database);
        assert.equal(await database.store.checks.examine(name, { limit: 10 }), null);
      });
    }

    test("a job that is nowhere is found though another has no row: they do not make up for each other", async () => {
      await database.recover();
      const stray = await violations["state-without-job"]?.plant(database);
      const nowhere = await violations["job-nowhere"]?.plant(database);
      await assertFound(database.store, "job-nowhere", nowhere ?? "");
      await assertFound(database.store, "state-without-job", stray ?? "");
    });

    test("format violations before a given date are ignored", async () => {
      await database.recover();
      const look = { limit: 1, sinceAt: database.clock.now() + 1 };
      for (const check of ["worker-id-format", "trace-of-another-owner"]) {
        await violations[check]?.plant(database);
        assert.equal(await database.store.checks.examine(check, look), null);
        assert.notEqual(await database.store.checks.examine(check, { limit: 1, deep: true }), null);
      }
    });
  });
}

for (const engine of engines) {
  describe(`the schema on ${engine.name}`, { skip: engine.skip, timeout: 60_000 }, () => {
    test("is read from the migrations, and missing parts are found", async () => {
      await using database = await DoctorDatabase.make(engine);
      const { store } = database;
      const wanted = partsOf(store.db.engine.migrations);
      // What makes the rest of it by itself: keys' own indexes, weeks, and the table of migrations.
      const byItself =
        /migration|_pkey$|_key$|_idx\d*$|_\d{8}|_default\.|of \w+_default$|\.workflow$/;
      const ofView = /^column (?:job_state|jobs|attempts|leases|workers)\./;
      const there = await store.db.engine.dialect.catalogue(store.db.engine);
      const extra = there.filter((part) => !wanted.includes(part));
      assert.deepEqual(
        extra.filter((part) => !byItself.test(part) && !ofView.test(part)),
        [],
      );
      const gone = await breakSchema(database);
      const found = await store.checks.examine("schema-missing", { limit: 1_000 });
      const subjects = found?.offenders.map(({ subject }) => subject) ?? [];
      for (const part of gone) assert.ok(subjects.includes(part), `${part} is not missed`);
    });
  });
}

describe("an untouched schema", { timeout: 60_000 }, () => {
  for (const engine of engines) {
    test(`is whole on ${engine.name}`, { skip: engine.skip }, async () => {
      await using place = await engine.place();
      await using holdfast = await openHoldfast(place.url);
      const { findings } = await new Doctor(holdfast).examine({ checks: ["schema-missing"] });
      assert.deepEqual(findings, []);
    });
  }
});

/** What stands before the colon. */
function checkOf(violation: string): string {
  return violation.split(":")[0] ?? "";
}

/** Returns what is gone then. */
async function breakSchema(database: DoctorDatabase): Promise<string[]> {
  const { kind } = database;
  if (kind === "mysql") {
    await database.byHand("drop index by_due on holdfast.waiting");
    await database.byHand("drop view holdfast.jobs");
    await database.byHand("drop table holdfast.minute_total");
    await database.byHand("alter table holdfast.attempt drop column error");
    await database.byHand("drop trigger holdfast.step_stays");
    return [
      "index waiting.by_due",
      "view jobs",
      "table minute_total",
      "column attempt.error",
      "trigger step_stays",
    ];
  }
  await database.byHand(
    kind === "sqlite" ? "drop index holdfast_waiting_due" : "drop index holdfast.waiting_due",
  );
  await database.byHand("drop view holdfast.jobs");
  await database.byHand("drop table holdfast.minute_total");
  if (kind === "sqlite") await database.byHand("drop trigger holdfast.step_stays");
  const gone = ["index waiting_due", "view jobs", "table minute_total", "trigger step_stays"];
  if (kind === "sqlite") return gone;
  await database.byHand("alter table holdfast.step disable trigger step_stays");
  await database.byHand("alter table holdfast.lease drop constraint lease_pkey");
  await database.byHand("alter table holdfast.job_key drop constraint job_key_job_id_key");
  await database.byHand("alter table holdfast.worker drop column arch");
  const more = ["primary key of lease", "unique job_key.job_id", "column worker.arch"];
  return [...gone, ...more];
}

after(assertNothingRuns);
