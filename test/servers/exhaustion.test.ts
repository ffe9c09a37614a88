/** All connections but the reserved ones are taken: a caller that needs one is told so, and no job is lost. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Pool } from "pg";
import { openStore, type Store } from "../../src/app/store.ts";
import { sql } from "../../src/database/sql.ts";
import { HOUR_MS, mustFind, newJob } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { Crew } from "./crew.ts";
import { adminOf, engines, type Admin, type EngineUnderTest } from "./engines.ts";
import { hurried } from "./hurried.ts";

const LEASE = "1s";
/** As many as Holdfast opens for everything that is not reserved. */
const CONNECTIONS = 10;

/** A running job keeps its lease, ends and is settled, and the next one starts, though no connection is free. */
async function checkWorkGoesOn(crew: Crew, direct: Store): Promise<void> {
  const job = newJob({ task: "held", payload: "null" });
  await direct.jobs.enqueue([job]);
  await until("it runs", () => crew.runs(job.id) === 1);
  const { lockedUntil } = await mustFind(direct, job.id);
  await until("its lease was renewed twice", async () => {
    const now = await mustFind(direct, job.id);
    return Number(now.lockedUntil) > Number(lockedUntil) + 1_000;
  });
  assert.equal(crew.aborts(job.id), undefined);
  const next = newJob({ task: "quick", payload: "1" });
  await direct.jobs.enqueue([next]);
  crew.end(job.id);
  for (const { id } of [job, next]) {
    await until("it is done", async () => (await mustFind(direct, id)).status === "done");
    assert.equal(crew.runs(id), 1);
  }
}

/** A read is repeated on another connection, so ending its session once does not end it. */
async function endAll(admin: Admin, calls: Promise<unknown>): Promise<void> {
  let ended = false;
  const all = calls.then(() => (ended = true));
  await until("all calls have ended", async () => {
    await admin.killSessions();
    return ended;
  });
  await all;
}

/** Lets as many calls as there are connections wait for one row. Returns when they do. */
async function takeAll(
  { kind }: EngineUnderTest,
  { crew, direct, url }: { crew: Crew; direct: Store; url: string },
): Promise<() => Promise<void>> {
  const admin = await adminOf(url);
  const locker = await adminOf(url);
  const job = newJob({ start: { delayMs: HOUR_MS } });
  await direct.jobs.enqueue([job]);
  const [begin, table, waiting] = {
    postgres: ["begin", "holdfast.waiting", BLOCKED.postgres] as const,
    mysql: ["start transaction", "holdfast_waiting", BLOCKED.mysql] as const,
  }[kind];
  await locker.rows(begin);
  await locker.rows(`select id from ${table} where id = '${job.id}' for update`);
  const calls = Array.from({ length: CONNECTIONS }, () => crew.holdfast.jobs.cancel(job.id));
  const all = Promise.allSettled(calls);
  await until("all connections wait", async () => {
    const [row] = await admin.rows<{ blocked: number | string }>(waiting);
    return Number(row?.blocked) === CONNECTIONS;
  });
  return async () => {
    await locker.rows("rollback");
    const cancelled = (await all).map((call) => (call.status === "fulfilled" ? call.value : call));
    assert.deepEqual(new Set(cancelled), new Set(["cancelled"]));
    await admin[Symbol.asyncDispose]();
    await locker[Symbol.asyncDispose]();
  };
}

const BLOCKED = {
  postgres: `
    select count(*) as blocked
      from pg_stat_activity
     where wait_event_type = 'Lock'
       and datname = current_database()`,
  mysql: `
    select count(*) as blocked
      from information_schema.processlist
     where db = database()
       and info like '%holdfast_waiting%for update%'
       and id <> connection_id()`,
};

/** Longer than anybody waits for a connection. */
const SLEEP = { postgres: sql`select pg_sleep(25)::text`, mysql: sql`select sleep(25)` };
const TAKEN =
  /no connection became free.*Look for transactions|pool of 10 connections .* was locked/;
const NO_PLACE = { code: "STORE_UNAVAILABLE", message: /no connection became free.*Look for/ };
/** How much faster our own limits pass; those of the drivers do not. */
const HURRY = 20;

for (const engine of engines) {
  describe(engine.label, { skip: engine.missing, timeout: 90_000 }, () => {
    let database: ScratchDatabase;
    let direct: Store;
    before(async () => {
      database = await scratchDatabase(engine.kind);
      direct = await openStore(database.url);
      await direct.migrate();
    });
    after(async () => {
      await direct?.close();
      await database?.drop();
    });

    test("a worker renews, settles and claims while all other connections are taken", async () => {
      await using crew = await Crew.start(database.url, { lease: LEASE });
      const giveBack = await takeAll(engine, { crew, direct, url: database.url });
      try {
        await checkWorkGoesOn(crew, direct);
      } finally {
        await giveBack();
      }
      assert.deepEqual(await crew.holdfast.jobs.list({ status: "retry" }), []);
    });

    test("a caller that waits too long for a connection gets an error", async () => {
      await using admin = await adminOf(database.url);
      const store = await openStore(database.url, { runtime: hurried(HURRY) });
      const sleeping = Promise.allSettled(
        Array.from({ length: CONNECTIONS }, () => store.db.engine.all(SLEEP[engine.kind])),
      );
      try {
        await assert.rejects(store.jobs.stats(), { name: /^Store/, message: TAKEN });
      } finally {
        await endAll(admin, sleeping);
        await store.close();
      }
    });
  });
}

describe(
  "a pg pool of the user's whose connections are all taken",
  { skip: missing("postgres"), timeout: 60_000 },
  () => {
    let database: ScratchDatabase;
    let direct: Store;
    before(async () => {
      database = await scratchDatabase("postgres");
      direct = await openStore(database.url);
      await direct.migrate();
    });
    after(async () => {
      await direct.close();
      await database.drop();
    });

    test("is a clear error to the caller, and does not affect a worker", async () => {
      const pool = new Pool({
        connectionString: database.url,
        max: 3,
        // As long as a busy machine needs when a connection was returned.
        connectionTimeoutMillis: 1_000,
      });
      try {
        await using crew = await Crew.start(pool, { lease: LEASE });
        const clients = [await pool.connect(), await pool.connect(), await pool.connect()];
        await assert.rejects(crew.holdfast.stats(), NO_PLACE);
        await checkWorkGoesOn(crew, direct);
        for (const client of clients) client.release();
        await crew.holdfast.stats();
        await crew.checkLog({ timesMax: 1 });
      } finally {
        await pool.end();
      }
    });

    test("is a clear error also when the pool itself knows no limit", async () => {
      const pool = new Pool({ connectionString: database.url, max: 1 });
      const store = await openStore(pool, { runtime: hurried(HURRY) });
      const client = await pool.connect();
      try {
        await assert.rejects(store.jobs.stats(), NO_PLACE);
      } finally {
        client.release();
        await store.close();
        await pool.end();
      }
    });
  },
);

after(assertNothingRuns);
