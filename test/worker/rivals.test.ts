/** Workers that are told of the same jobs: how often those ask who come too late. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask, openHoldfast, openStore } from "../../src/index.ts";
import type { Hint } from "../../src/store/store.ts";
import { testClock, type TestClock } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { wrapStore } from "./wrapped-store.ts";

after(assertNothingRuns);

const echo = defineTask({ name: "echo", run: (value: unknown) => value });
const PENDING: Hint = { kind: "pending", queue: "default" };

/** A worker that can be told of jobs that somebody else has taken meanwhile, and how often it asked. */
async function contender(clock: TestClock) {
  let asked = 0;
  let hear: (hint: Hint) => void = () => {};
  const store = wrapStore(await openStore("sqlite::memory:", { runtime: clock }), (real) => ({
    watch(listener) {
      hear = listener;
      return real.watch(listener);
    },
    settleAndClaim(...args) {
      asked += 1;
      return real.settleAndClaim(...args);
    },
  }));
  const holdfast = await openHoldfast(store, { runtime: clock });
  await holdfast.startWorker({ tasks: [echo], poll: "1m", heartbeat: "30s" });
  await clock.advance("1s");
  const tell = async (times: number, everyMs: number): Promise<number> => {
    const before = asked;
    for (let told = 0; told < times; told += 1) {
      hear(PENDING);
      await clock.advance(everyMs);
    }
    return asked - before;
  };
  return { holdfast, tell };
}

suite("a worker that others are faster than", () => {
  test("asks less and less often for jobs that come in a stream", async () => {
    const clock = testClock();
    const { holdfast, tell } = await contender(clock);
    const asked = await tell(500, 2);
    assert.ok(asked >= 8 && asked <= 30, `asked ${asked} times in a second for 500 jobs`);
    await holdfast.close();
  });

  test("takes what is there within moments all the same, and is then as quick as before", async () => {
    const clock = testClock();
    const { holdfast, tell } = await contender(clock);
    await tell(500, 2);
    const job = await holdfast.enqueue(echo, 1);
    await clock.advance(100);
    assert.equal((await job.get()).status, "done");
    const next = await holdfast.enqueue(echo, 2);
    await clock.advance(1);
    assert.equal((await next.get()).status, "done");
    await holdfast.close();
  });

  test("asks at once when jobs are seldom", async () => {
    const clock = testClock();
    const { holdfast, tell } = await contender(clock);
    assert.equal(await tell(20, 100), 20);
    await holdfast.close();
  });
});
