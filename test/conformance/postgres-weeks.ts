/** On PostgreSQL, jobs stand in a partition of their week, and weeks are let go as a whole. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "pg";
import { makeIds } from "../../src/core/id.ts";
import { WEEK_MS } from "../../src/database/postgres/dialect.ts";
import { openStore, type Store } from "../../src/app/store.ts";
import { claimOne, done, failed, newJob, retry, settleOne } from "../support/jobs.ts";
import { testRuntime, type TestRuntime } from "../support/runtime.ts";

const DAY_MS = WEEK_MS / 7;
const retention = { done: DAY_MS, failed: 30 * DAY_MS, cancelled: DAY_MS, expired: DAY_MS };
const keepBriefly = { done: DAY_MS, failed: DAY_MS, cancelled: DAY_MS, expired: DAY_MS };

const REPORT = { seq: 1, kind: "log", name: null, data: '{"text":"a"}', ageMs: 0 } as const;

interface Weeks extends AsyncDisposable {
  readonly store: Store;
  readonly runtime: TestRuntime;
  /** Enqueues a job of this moment and works it off, with a report; without an outcome it stays pending. */
  add(outcome?: typeof done): Promise<string>;
  /** The tables that hold a job's row, and those there are. */
  tableOf(id: string): Promise<string>;
  tables(): Promise<string[]>;
  /** The jobs that keep a key after their end. */
  keptBy(): Promise<string[]>;
  prune(keep?: typeof retention): Promise<number>;
}

let made = 0;

async function openWeeks(url: string): Promise<Weeks> {
  made += 1;
  const schema = `test_0${made}`;
  const runtime = testRuntime();
  const nextId = makeIds(runtime);
  const store = await openStore(url, { runtime, schema });
  await store.migrate();
  const client = new Client({ connectionString: url });
  await client.connect();
  const list = async (text: string, values: string[] = []): Promise<string[]> => {
    const { rows } = await client.query<{ name: string }>(text, values);
    return rows.map(({ name }) => name);
  };
  return {
    store,
    runtime,
    async add(outcome) {
      const job = newJob({ id: nextId() });
      await store.jobs.enqueue([job]);
      if (outcome === undefined) return job.id;
      const claimed = await claimOne(store);
      await store.reports.put(claimed, [REPORT]);
      await settleOne(store, outcome(claimed));
      return job.id;
    },
    tableOf: async (id) => {
      const text = `select tableoid::regclass::text as name from ${schema}.job where id = $1`;
      return String((await list(text, [id]))[0]).replace(`${schema}.`, "");
    },
    tables: () =>
      list(
        `select relname as name from pg_class
          where relnamespace = '${schema}'::regnamespace and relname ~ '^(job|finished)_[0-9]+$' order by 1`,
      ),
    keptBy: () => list(`select job_id::text as name from ${schema}.kept_key`),
    async prune(keep = retention) {
      let pruned = 0;
      for (let batch = 1; batch > 0; pruned += batch) {
        batch = await store.jobs.prune({ retention: keep, limit: 100 });
      }
      return pruned;
    },
    async [Symbol.asyncDispose]() {
      await client.end();
      await store.close();
    },
  };
}

export function inWeeks(url: () => string): void {
  test("a job is in the partition of its week", async () => {
    await using weeks = await openWeeks(url());
    assert.equal((await weeks.tables()).length, 4); // two weeks of two tables
    assert.match(await weeks.tableOf(await weeks.add()), /^job_2027/);
  });

  test("a job from a clock that is far ahead is still stored", async () => {
    await using weeks = await openWeeks(url());
    weeks.runtime.clock.advance(10 * WEEK_MS);
    const id = await weeks.add(done);
    assert.equal(await weeks.tableOf(id), "job_default");
    await weeks.prune(); // makes the tables of that week, but for those rows
    assert.equal((await weeks.store.jobs.find(id))?.status, "done");
    weeks.runtime.clock.advance(2 * DAY_MS);
    assert.equal(await weeks.prune(), 1);
    assert.equal(await weeks.store.jobs.find(id), null);
  });

  test("the tables of the next week are there before it begins", async () => {
    await using weeks = await openWeeks(url());
    for (let week = 0; week < 3; week += 1) {
      weeks.runtime.clock.advance(WEEK_MS);
      await weeks.prune();
      assert.match(await weeks.tableOf(await weeks.add()), /^job_2027/);
    }
  });

  test("a week whose jobs are all past their time is dropped as a whole", async () => {
    await using weeks = await openWeeks(url());
    const ids = [await weeks.add(done), await weeks.add((fence) => failed(fence))];
    for (const id of ids) assert.equal(await weeks.store.reports.last(id), 1);
    const table = await weeks.tableOf(String(ids[0]));
    weeks.runtime.clock.advance(5 * WEEK_MS + 2 * DAY_MS);
    assert.equal(await weeks.prune(), 0); // nothing was left to delete row by row
    assert.ok(!(await weeks.tables()).includes(table));
    for (const id of ids) {
      assert.equal(await weeks.store.jobs.find(id), null);
      assert.deepEqual(await weeks.store.jobs.attempts(id), []);
      assert.equal(await weeks.store.reports.last(id), 0);
    }
  });

  test("a week that is dropped takes the traces of its jobs along", async () => {
    await using weeks = await openWeeks(url());
    const { store, runtime } = weeks;
    const id = makeIds(runtime)();
    const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    await store.jobs.enqueue([newJob({ id, trace: { traceparent, tracestate: null } })]);
    await settleOne(store, done(await claimOne(store)));
    runtime.clock.advance(5 * WEEK_MS + 2 * DAY_MS);
    assert.equal((await store.traces.list([id])).length, 1);
    assert.equal(await weeks.prune(), 0);
    assert.deepEqual(await store.traces.list([id]), []);
  });

  test("a week that is dropped takes the keys along that its jobs kept", async () => {
    await using weeks = await openWeeks(url());
    const kept = { key: "k", keyForMs: 52 * WEEK_MS };
    const { store, runtime } = weeks;
    const id = makeIds(runtime)();
    await store.jobs.enqueue([newJob({ id, ...kept })]);
    await settleOne(store, done(await claimOne(store)));
    runtime.clock.advance(5 * WEEK_MS + 2 * DAY_MS);
    assert.deepEqual(await store.jobs.enqueue([newJob(kept)]), [{ id, added: false }]);
    assert.equal(await weeks.prune(), 0);
    assert.deepEqual(await weeks.keptBy(), []);
    const next = newJob(kept);
    assert.deepEqual(await store.jobs.enqueue([next]), [{ id: next.id, added: true }]);
    assert.deepEqual(await weeks.keptBy(), [next.id]);
  });

  const stays: [what: string, add: (weeks: Weeks) => Promise<string>][] = [
    ["a job that is pending", (weeks) => weeks.add()],
    ["a job that waits", (weeks) => weeks.add((fence) => retry(fence, { delayMs: WEEK_MS * 52 }))],
    [
      "a job that was retried",
      async (weeks) => {
        const id = await weeks.add((fence) => failed(fence));
        await weeks.store.jobs.retry(id, 1);
        return id;
      },
    ],
  ];
  for (const [what, add] of stays) {
    test(`a week with ${what} stays, and so does the job`, async () => {
      await using weeks = await openWeeks(url());
      const over = await weeks.add(done);
      const id = await add(weeks);
      const before = await weeks.store.jobs.find(id);
      weeks.runtime.clock.advance(20 * WEEK_MS);
      assert.equal(await weeks.prune(), 1); // the one that is over is deleted by itself
      assert.equal(await weeks.store.jobs.find(over), null);
      assert.deepEqual(await weeks.store.jobs.find(id), before);
      assert.match(await weeks.tableOf(id), /^job_2027/);
    });
  }

  test("a job with a longer retention keeps its week", async () => {
    await using weeks = await openWeeks(url());
    await weeks.add(done);
    const id = await weeks.add((fence) => failed(fence));
    weeks.runtime.clock.advance(2 * WEEK_MS + DAY_MS);
    assert.equal(await weeks.prune(), 1);
    assert.equal((await weeks.store.jobs.find(id))?.status, "failed");
    await weeks.prune(keepBriefly);
    assert.equal(await weeks.store.jobs.find(id), null);
  });
}
