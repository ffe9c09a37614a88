import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { keepLog, until, withCode } from "./observe.ts";

after(assertNothingRuns);

const echo = defineTask({ name: "echo", run: (value: unknown) => value });

suite("a subscriber of a queue", () => {
  test("is called soon for pending jobs, and runs them with leases", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const done: unknown[] = [];
    const unsubscribe = holdfast.subscribe("default", async (queue) => {
      const leases = await holdfast.leases.acquire({ worker: "mine", queues: [queue], limit: 10 });
      for (const lease of leases) {
        done.push(lease.input);
        await holdfast.leases.release(lease, { as: "done", result: "by hand" });
      }
    });
    const jobs = await holdfast.enqueueMany(echo, [1, 2, 3]);
    await until("all are done", () => done.length === 3);
    assert.equal(await jobs[2]?.result(), "by hand");
    const more = await holdfast.enqueue(echo, 4);
    assert.equal(await more.result({ timeout: "5s" }), "by hand");
    await unsubscribe();
  });

  test("is called for its own queue only", async () => {
    await using kit = await openTestHoldfast();
    const heard: string[] = [];
    kit.holdfast.subscribe("mail", (queue) => void heard.push(queue));
    await kit.holdfast.enqueue(echo, 1);
    await kit.clock.advance("1m");
    assert.deepEqual(heard, []);
    await kit.holdfast.enqueue(echo, 2, { queue: "mail" });
    await kit.clock.settle();
    assert.deepEqual(heard, ["mail"]);
  });

  test("is called repeatedly while jobs are left", async () => {
    await using kit = await openTestHoldfast();
    let heard = 0;
    await kit.holdfast.enqueue(echo, 1);
    kit.holdfast.subscribe("default", () => void (heard += 1), { poll: "10s" });
    await kit.clock.advance("1m");
    assert.ok(heard >= 6 && heard <= 9, `${heard} times in a minute`);
  });

  test("is not called once it has unsubscribed, and all others still are", async () => {
    await using kit = await openTestHoldfast();
    const heard: string[] = [];
    const off = kit.holdfast.subscribe("default", () => void heard.push("first"));
    kit.holdfast.subscribe("default", () => void heard.push("second"));
    await off();
    await off();
    await kit.holdfast.enqueue(echo, 1);
    await kit.clock.settle();
    assert.deepEqual(heard, ["second"]);
  });

  test("may throw: the error is logged, and the subscriber is called again later", async () => {
    const log = keepLog();
    await using kit = await openTestHoldfast({ logger: log.logger });
    let calls = 0;
    kit.holdfast.subscribe("default", async () => {
      calls += 1;
      if (calls <= 2) throw new Error("not ready");
    });
    await kit.holdfast.enqueue(echo, 1);
    await kit.clock.advance("1m");
    assert.ok(calls > 2);
    assert.equal(log.lines.filter(({ level }) => level === "error").length, 1);
    assert.equal(log.of("subscription to default: works again").length, 1);
  });

  test("names a queue and a poll that can be used", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    assert.throws(() => holdfast.subscribe("", () => {}), withCode("INVALID_ARGUMENT", "queue"));
    assert.throws(
      () => holdfast.subscribe("default", () => {}, { poll: 1 }),
      withCode("INVALID_ARGUMENT", "poll"),
    );
  });
});
