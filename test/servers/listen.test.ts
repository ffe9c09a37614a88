/** PostgreSQL's push: its connection dies, loudly or silently, and comes back by itself. Meanwhile a poll does its work. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import { openHoldfast } from "../../src/index.ts";
import { Health } from "../../src/monitoring/health.ts";
import type { Hint } from "../../src/database/engine.ts";
import { newJob } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { Proxy } from "../support/proxy.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { Crew } from "./crew.ts";
import { adminOf, type Admin } from "./engines.ts";
import { hurried } from "./hurried.ts";

const LISTEN = /listen "/;

async function listeners(admin: Admin): Promise<number[]> {
  const rows = await admin.rows<{ pid: number }>(`
    select pid
      from pg_stat_activity
     where application_name = 'holdfast listen'
       and datname = current_database()
       and query ilike 'listen%'`);
  return rows.map(({ pid }) => pid);
}

async function killListener(admin: Admin): Promise<void> {
  const [pid, ...others] = await listeners(admin);
  assert.ok(pid !== undefined && others.length === 0, "there is one who listens");
  await admin.rows(`select pg_terminate_backend(${pid})`);
  await until("it is gone", async () => !(await listeners(admin)).includes(pid));
}

/** A hint that says which queue: only push does, a poll never knows. */
async function untilPushed(store: Store, hints: readonly Hint[], queue: string): Promise<void> {
  await until(`push for ${queue} arrives`, async () => {
    await store.jobs.enqueue([newJob({ queue })]);
    return hints.some((hint) => hint.kind === "pending" && hint.queue === queue);
  });
}

describe("PostgreSQL", { skip: missing("postgres"), timeout: 60_000 }, () => {
  let database: ScratchDatabase;
  let admin: Admin;
  let direct: Store;
  before(async () => {
    database = await scratchDatabase("postgres");
    admin = await adminOf(database.url);
    direct = await openStore(database.url);
    await direct.migrate();
  });
  after(async () => {
    await admin?.[Symbol.asyncDispose]();
    await direct?.close();
    await database?.drop();
  });

  test("push comes back by itself when its connection was killed", async () => {
    await using proxy = await Proxy.before(database.url);
    const store = await openStore(proxy.url);
    const hints: Hint[] = [];
    store.db.watch((hint) => void hints.push(hint));
    try {
      await until("it listens", async () => (await listeners(admin)).length === 1);
      await untilPushed(direct, hints, "before");
      await until("its state follows", () => store.db.pushState() === "up");
      await killListener(admin);
      await untilPushed(direct, hints, "after");
    } finally {
      await store.close();
    }
  });

  test("jobs of other processes start while LISTEN is down, and push works again afterwards", async () => {
    await using proxy = await Proxy.before(database.url);
    // A poll of its own that comes too late to be what starts them.
    await using crew = await Crew.start(proxy.url, { poll: "10m" });
    await using other = await openHoldfast(database.url);
    const hints: Hint[] = [];
    crew.holdfast.store.db.watch((hint) => void hints.push(hint));
    await until("it listens", async () => (await listeners(admin)).length === 1);
    proxy.ban(LISTEN);
    const { resets } = proxy.counters;
    await killListener(admin);
    for (let jobs = 0; jobs < 5; jobs += 1) {
      const { id } = await other.enqueue("quick", jobs);
      await until("it is run", () => crew.runs(id) === 1);
    }
    await until("it tried to listen again", () => proxy.counters.resets > resets);
    assert.deepEqual(await listeners(admin), []);
    assert.equal(crew.holdfast.store.db.pushState(), "down");
    const health = new Health({ holdfast: crew.holdfast });
    const { status, checks } = await health.health();
    assert.equal(status, "degraded");
    assert.match(checks.find(({ name }) => name === "push")?.detail ?? "", /by polling/);
    const finding = await crew.holdfast.store.checks.examine("push-down", { limit: 1 });
    assert.equal(finding?.severity, "warning");
    proxy.ban(null);
    await until("it listens again", async () => (await listeners(admin)).length === 1);
    await untilPushed(direct, hints, "after");
    assert.equal(await crew.holdfast.store.checks.examine("push-down", { limit: 1 }), null);
    assert.deepEqual(
      crew.log.lines.filter(({ level }) => level === "warn" || level === "error"),
      [],
    );
  });

  test("push comes back by itself when its connection went silent", async () => {
    await using proxy = await Proxy.before(database.url);
    const store = await openStore(proxy.url, { runtime: hurried(100) });
    const hints: Hint[] = [];
    store.db.watch((hint) => void hints.push(hint));
    try {
      await until("it listens", async () => (await listeners(admin)).length === 1);
      await untilPushed(direct, hints, "before");
      assert.equal(proxy.forget(LISTEN), 1);
      await untilPushed(direct, hints, "after");
    } finally {
      await store.close();
    }
  });
});

after(assertNothingRuns);
