/** Counts when a process dies in the middle, when counting fails, and as an application reads them. */
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { firstIdAt } from "../../src/core/id.ts";
import { openStore, storeOn, type Store } from "../../src/app/store.ts";
import { sql, type Sql } from "../../src/database/sql.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { drawnEngines } from "../registry/places.ts";
import { claimOne, done, newJob, nextId, settleOne } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { testRuntime } from "../support/runtime.ts";
import { withCode } from "../worker/observe.ts";

after(assertNothingRuns);

const MINUTE_MS = 60_000;
const VICTIM = join(import.meta.dirname, "fold-victim.ts");
const all = { forMs: 60 * MINUTE_MS, limit: 100 };

/** Enqueues and runs this many jobs in the minute that is. */
async function runSome(store: Store, now: number, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    const id = firstIdAt(now).slice(0, 24) + nextId().slice(24);
    await store.jobs.enqueue([newJob({ id })]);
    await settleOne(store, done(await claimOne(store)));
  }
}

suite("a process that folds minutes and is killed before it commits", () => {
  for (const { name, skip, place } of drawnEngines("figures")) {
    test(`has lost nothing and doubled nothing on ${name}`, { skip, timeout: 60_000 }, async () => {
      await using where = await place();
      const runtime = testRuntime();
      const { clock } = runtime;
      const store = await openStore(where.url, { runtime });
      await store.migrate();
      await store.db.engine.run(sql`
        update holdfast.counts set folded_until = ${clock.now()} where id = 1`);
      await runSome(store, clock.now(), 3);
      clock.advance(2 * MINUTE_MS);
      await runSome(store, clock.now(), 2);
      clock.advance(2 * MINUTE_MS);

      const victim = fork(VICTIM, [where.url, String(clock.now())], { execArgv: [] });
      const [said] = (await once(victim, "message")) as unknown[];
      assert.equal(said, "written");
      const exit = once(victim, "exit");
      victim.kill("SIGKILL");
      const [, signal] = (await exit) as unknown[];
      assert.equal(signal, "SIGKILL");
      assert.deepEqual(await store.stats.minutes(all), []);

      assert.equal(await store.stats.foldMinutes({ limit: 10 }), 3);
      assert.deepEqual(
        (await store.stats.minutes(all)).map((row) => [row.arrived, row.done]),
        [
          [3, 3],
          [2, 2],
        ],
      );
      await store.close();
    });
  }
});

test("a count that fails rests for a hundred times as long as it took, too", async () => {
  const runtime = testRuntime();
  const { clock } = runtime;
  const real = await openStore("sqlite::memory:", { runtime });
  await real.migrate();
  const course = { failing: true, counts: 0 };
  const read = async (query: Sql): Promise<unknown[]> => {
    if (!query.strings.join("").includes("from holdfast.ready")) return real.db.engine.all(query);
    course.counts += 1;
    clock.advance(30_000);
    if (course.failing) throw new Error("canceling statement due to statement timeout");
    return real.db.engine.all(query);
  };
  const engine = new Proxy(real.db.engine, {
    get(target, name) {
      if (name === "all") return read;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? (member.bind(target) as unknown) : member;
    },
  });
  const store = await storeOn(engine);
  await assert.rejects(store.stats.takeCounts({ everyMs: 1_000 }), /statement timeout/);
  const failedAt = clock.now();
  while (clock.now() < failedAt + 100 * 30_000 - 30_000) {
    assert.equal(await store.stats.takeCounts({ everyMs: 1_000 }), null);
    clock.advance(10_000);
  }
  assert.equal(course.counts, 1);
  course.failing = false;
  assert.equal((await store.stats.takeCounts({ everyMs: 1_000 }))?.tookMs, 30_000);
  await real.close();
});

test("an application reads what was counted, and how long ago", async () => {
  await using kit = await openTestHoldfast();
  const { holdfast, clock } = kit;
  assert.equal(await holdfast.metrics.counts(), null);
  await holdfast.enqueue("mail", null, { queue: "mail" });
  await holdfast.enqueue("mail", null);
  await holdfast.store.stats.takeCounts({ everyMs: 0 });
  await clock.advance("2m");
  await holdfast.store.stats.foldMinutes({ limit: 100 });
  const counted = await holdfast.metrics.counts();
  assert.equal(counted?.ageMs, 120_000);
  assert.deepEqual(
    counted.queues.map(({ queue, counts }) => [queue, counts.pending]),
    [
      ["default", 1],
      ["mail", 1],
    ],
  );
  assert.equal((await holdfast.metrics.minutes()).length, 2);
  assert.equal((await holdfast.metrics.minutes({ queue: "mail" }))[0]?.arrived, 1);
  assert.deepEqual(await holdfast.metrics.minutes({ for: "1m" }), []);
  await assert.rejects(
    holdfast.metrics.minutes({ for: "8d" }),
    withCode("INVALID_ARGUMENT", "for"),
  );
  const misspelt = { last: "1h" } as object;
  await assert.rejects(holdfast.metrics.minutes(misspelt), withCode("INVALID_ARGUMENT", "last"));
});
