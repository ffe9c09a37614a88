/** Test runners replace the timers of the process; jobs of the test kit run all the same. */
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { defineTask } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";

const greet = defineTask({
  name: "greet",
  run: async (name: string, ctx) => {
    await ctx.sleep("a while", "1h");
    return `hello ${name}`;
  },
});

test("a test with fake timers runs its jobs to their end", { timeout: 20_000 }, async () => {
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "setImmediate", "Date"], now: 1_000 });
  try {
    await using bench = await openTestHoldfast();
    const job = await bench.holdfast.enqueue(greet, "Ada");
    await bench.drain([greet], { skipTime: true });
    assert.equal(await job.result(), "hello Ada");
  } finally {
    mock.timers.reset();
  }
});
