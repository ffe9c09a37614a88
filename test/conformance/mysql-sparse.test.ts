/** The tables that stand in for partial indexes on MySQL and MariaDB: every row has its entry, and entries do not pile up. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { createConnection, type Connection, type RowDataPacket } from "mysql2/promise";
import { storeOn, type Store } from "../../src/app/store.ts";
import { MysqlEngine } from "../../src/database/mysql/engine.ts";
import { mysqlAddress } from "../../src/database/mysql/address.ts";
import type { ClaimedJob } from "../../src/jobs/store.ts";
import {
  done,
  enqueueOne,
  GRACE_MS,
  HOUR_MS,
  newJob,
  nextId,
  retry,
  sweep,
  upTo,
} from "../support/jobs.ts";
import { testRuntime } from "../support/runtime.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { emptyTables } from "../support/tables.ts";
import { until } from "../worker/observe.ts";

const limits = { timeout: 60_000, skip: missing("mysql") };

let database: ScratchDatabase;
let admin: Connection;
let store: Store;
const runtime = testRuntime();

before(async () => {
  if (limits.skip !== false) return;
  database = await scratchDatabase("mysql");
  admin = await createConnection({ uri: database.url, multipleStatements: true });
  const address = mysqlAddress(database.url);
  store = await storeOn(await MysqlEngine.open({ ...address, runtime }));
  await store.migrate();
});
afterEach(async () => {
  await admin?.query("rollback");
  if (store !== undefined) await emptyTables(store.db.engine);
});
after(async () => {
  await store?.close();
  await admin?.end();
  await database?.drop();
});

async function read(text: string): Promise<unknown[][]> {
  const [rows] = await admin.query<RowDataPacket[][]>({ sql: text, rowsAsArray: true });
  return rows;
}

const entries = (): Promise<unknown[][]> =>
  read("select queue, lane, id, epoch from holdfast_lane_lease order by id");

const leases = (): Promise<unknown[][]> =>
  read("select queue, lane, id, epoch from holdfast_lease order by id");

const deadlines = (): Promise<unknown[][]> =>
  read("select id, start_by from holdfast_deadline order by start_by");

const ada = (): { id: string; actor: string; reason: null } => ({
  id: nextId(),
  actor: "ada",
  reason: null,
});

function limit(concurrency: number): Promise<void> {
  const rule = { kind: "queue", name: "", concurrency, rate: null, weight: null } as const;
  return store.queues.change({ queue: "default", rules: [rule] }, ada());
}

/** Claims all jobs of two lanes under a limit. */
async function claimTwo(): Promise<ClaimedJob[]> {
  await limit(9);
  await store.jobs.enqueue([newJob({ lane: "acme" }), newJob({ lane: "beta" })]);
  const claimed = await store.jobs.claim(upTo(5));
  assert.equal(claimed.length, 2);
  return claimed;
}

describe("the entry of a lease", limits, () => {
  test("comes with a claim under limits and goes with the report, and a plain job has none", async () => {
    await store.jobs.enqueue([newJob({ queue: "plain" })]);
    const plain = await store.jobs.claim(upTo(1, { queues: ["plain"] }));
    assert.deepEqual(await entries(), []);
    const [first, second] = await claimTwo();
    assert.equal((await entries()).length, 2);
    await store.jobs.settle([done(first as ClaimedJob), ...plain.map((job) => done(job))]);
    assert.deepEqual(
      (await entries()).map(([, , id]) => id),
      [second?.id],
    );
    await store.jobs.settle([retry(second as ClaimedJob)]);
    assert.deepEqual(await entries(), []);
  });

  test("goes with a report of jobs that were all done as they were claimed", async () => {
    const claimed = await claimTwo();
    const settlements = claimed.map((job) => ({ ...done(job), claimed: job }));
    await store.jobs.settle(settlements);
    assert.deepEqual(await entries(), []);
  });

  test("comes when the queue gets its rules, for leases that were taken before", async () => {
    await enqueueOne(store);
    await store.jobs.claim(upTo(1));
    assert.deepEqual(await entries(), []);
    await limit(1);
    assert.deepEqual(await entries(), await leases());
  });

  test("comes with the next count if it is missing, as in a copied database", async () => {
    await claimTwo();
    await admin.query("delete from holdfast_lane_lease");
    await store.queues.countLeases();
    assert.deepEqual(await entries(), await leases());
  });

  test("goes with a lease that is taken back", async () => {
    const [first] = await claimTwo();
    runtime.clock.set((first as ClaimedJob).lockedUntil + GRACE_MS + 1);
    assert.equal((await store.jobs.reclaimExpired(sweep)).length, 2);
    assert.deepEqual(await entries(), []);
  });

  test("does not count if it has no lease, and is deleted later", async () => {
    const [first] = await claimTwo();
    await limit(2);
    const old = await entries();
    runtime.clock.set((first as ClaimedJob).lockedUntil + GRACE_MS + 1);
    await store.jobs.reclaimExpired(sweep);
    await admin.query("insert into holdfast_lane_lease values ?", [old]);
    runtime.clock.advance(HOUR_MS);
    await store.jobs.promoteDue({ limit: 10 });
    // Each job has the entry of its first lease, too.
    assert.equal((await store.jobs.claim(upTo(1))).length, 1);
    assert.equal((await store.jobs.claim(upTo(1))).length, 1);
    assert.equal(await store.queues.pruneGates({ forMs: 1_000, limit: 10 }), 2);
    assert.deepEqual(await entries(), await leases());
  });
});

describe("the entry of a deadline", limits, () => {
  const START_BY = { startBy: { withinMs: 1_000 } };
  const late = (): void => runtime.clock.advance(2_000);

  test("exists for every pending job that has one, and for no other", async () => {
    await enqueueOne(store);
    const { id } = await enqueueOne(store, START_BY);
    const waiting = await enqueueOne(store, { ...START_BY, start: { delayMs: 500 } });
    assert.deepEqual(await deadlines(), [[id, runtime.now() + 1_000]]);
    runtime.clock.advance(500);
    await store.jobs.promoteDue({ limit: 10 });
    assert.deepEqual(await deadlines(), [
      [id, runtime.now() + 500],
      [waiting.id, runtime.now() + 500],
    ]);
  });

  test("goes with a claim", async () => {
    await enqueueOne(store, { ...START_BY, queue: "plain" });
    assert.equal((await store.jobs.claim(upTo(5, { queues: ["plain"] }))).length, 1);
    await limit(5);
    await enqueueOne(store, { ...START_BY, lane: "acme" });
    assert.equal((await store.jobs.claim(upTo(5))).length, 1);
    assert.deepEqual(await deadlines(), []);
  });

  test("of a job that is no longer pending, or has none any more, is deleted once it has passed", async () => {
    const { id } = await enqueueOne(store, START_BY);
    await enqueueOne(store);
    const [, released] = await read("select id from holdfast_ready order by id");
    await admin.query("insert into holdfast_deadline values (?, ?)", [
      released?.[0],
      runtime.now(),
    ]);
    await store.jobs.cancel(id);
    assert.equal((await deadlines()).length, 2);
    late();
    assert.deepEqual(await store.jobs.expireLate({ limit: 10 }), []);
    assert.deepEqual(await deadlines(), []);
    assert.equal((await store.jobs.upcoming()).pendingUntilMs, null);
  });

  test("goes with the job that has expired", async () => {
    await enqueueOne(store, START_BY);
    late();
    assert.equal((await store.jobs.expireLate({ limit: 10 })).length, 1);
    assert.deepEqual(await deadlines(), []);
  });

  test("stays with a job that becomes pending again while it is being deleted", async () => {
    const { id } = await enqueueOne(store, START_BY);
    late();
    const startBy = runtime.now() - 1_000;
    // The job leaves the table and comes back in a transaction that is not committed when the entry is looked at.
    const [row] = await read("select * from holdfast_ready");
    await admin.query("delete from holdfast_ready");
    await admin.query("begin");
    await admin.query("insert into holdfast_ready values (?)", [row]);
    const expiring = store.jobs.expireLate({ limit: 10 });
    await until("the delete waits", isDeleting);
    await admin.query("commit");
    await expiring;
    assert.deepEqual(await deadlines(), [[id, startBy]]);
    assert.equal((await store.jobs.expireLate({ limit: 10 })).length, 1);
  });
});

describe("the first migration", limits, () => {
  test("can run again, as it must if it was interrupted, and leaves the rows", async () => {
    const claimed = await claimTwo();
    const { id } = await enqueueOne(store, { startBy: { withinMs: 1_000 } });
    await admin.query(`
      drop table holdfast_error_hour;
      drop view holdfast_attempts;
      drop trigger holdfast_copy_is_kept;
      delete from holdfast_migration`);
    assert.deepEqual((await store.migrate()).applied, ["first"]);
    assert.equal(await store.checks.examine("schema-missing", { limit: 9 }), null);
    assert.deepEqual(await deadlines(), [[id, runtime.now() + 1_000]]);
    assert.equal((await entries()).length, claimed.length);
  });
});

async function isDeleting(): Promise<boolean> {
  const sessions = await read(`
    select id
      from information_schema.processlist
     where db = database()
       and id <> connection_id()
       and info like '%delete d%'`);
  return sessions.length > 0;
}
