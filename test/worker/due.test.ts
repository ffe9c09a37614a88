/** Jobs that wait for their time: how soon after it they start. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { openTestHoldfast, testClock } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { wrapStore } from "./wrapped-store.ts";

after(assertNothingRuns);

/** Workers that wait for the same job look for it one after the other; see SPREAD_MS. */
const LATE_MS_MAX = 20;

suite("a job that waits for its time", () => {
  test("starts right then, also where another was due just before", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const startedAt: number[] = [];
    const task = defineTask({ name: "note", run: () => void startedAt.push(clock.now()) });
    await holdfast.startWorker({ tasks: [task] });
    await clock.advance("5s");
    const delays = [300, 40, 110, 130, 2_000, 41];
    const from = clock.now();
    for (const delay of delays) await holdfast.enqueue(task, null, { delay });
    await clock.advance("10s");
    const inOrder = delays.toSorted((a, b) => a - b);
    const late = startedAt.map((at, index) => at - from - (inOrder[index] ?? 0));
    assert.equal(late.length, delays.length);
    assert.ok(
      late.every((ms) => ms >= 0 && ms <= LATE_MS_MAX),
      `late by ${late.join(", ")} ms`,
    );
  });

  test("starts at once if that is now", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const task = defineTask({ name: "now", run: () => "done" });
    await holdfast.startWorker({ tasks: [task], poll: "1h", heartbeat: "1h" });
    await clock.advance("5s");
    for (const when of [{ delay: 0 }, { runAt: new Date(clock.now() - 60_000) }]) {
      const job = await holdfast.enqueue(task, null, when);
      await clock.advance(1);
      assert.equal((await job.get()).status, "done");
    }
  });

  test("does not keep its worker looking until then", async () => {
    const clock = testClock();
    let looks = 0;
    const store = wrapStore(await openStore("sqlite::memory:", { runtime: clock }), (real) => ({
      jobs: {
        upcoming() {
          looks += 1;
          return real.jobs.upcoming();
        },
      },
    }));
    const holdfast = await openHoldfast(store, { runtime: clock });
    const task = defineTask({ name: "later", run: () => "done" });
    await holdfast.startWorker({ tasks: [task], lease: "1h" });
    await clock.advance("1m");
    looks = 0;
    for (let jobs = 0; jobs < 50; jobs += 1) await holdfast.enqueue(task, null, { delay: "10m" });
    await clock.advance("9m");
    assert.equal(looks, 0);
    await clock.advance("2m");
    assert.ok(looks > 0 && looks < 10, `${looks} looks`);
    const [{ counts } = { counts: { done: 0 } }] = await holdfast.stats();
    assert.equal(counts.done, 50);
    await holdfast.close();
  });
});
