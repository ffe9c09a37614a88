/** Errors of an awkward kind, and code of the application that throws when we call it. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask, type Logger } from "../../src/index.ts";
import { Events } from "../../src/worker/events.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { keepLog } from "./observe.ts";

after(assertNothingRuns);

const good = defineTask({ name: "good", run: (n: number) => n });

function raise(): never {
  throw new Error("the stream is closed");
}

/** A logger that throws at everything that matters. */
const throwing: Logger = { debug() {}, info() {}, warn: raise, error: raise };

/** Neither its class nor its message can be asked for. */
function untouchable(): Error {
  const trap = (): never => {
    throw new Error("trap");
  };
  return new Proxy(new Error("hidden"), {
    getPrototypeOf: trap,
    get: trap,
    has: trap,
    ownKeys: trap,
  });
}

suite("a logger that throws", () => {
  test("loses no job", async () => {
    await using kit = await openTestHoldfast({ logger: throwing });
    const { holdfast, clock } = kit;
    const bad = defineTask({
      name: "bad",
      retry: { maxAttempts: 1 },
      run() {
        throw new Error("no");
      },
    });
    const failing = await holdfast.enqueue(bad, null, { priority: 5 });
    const jobs = await holdfast.enqueueMany(good, [1, 2, 3, 4]);
    const worker = await holdfast.startWorker({ tasks: [bad, good], concurrency: 2 });
    await clock.advance("20s");
    assert.equal((await failing.get()).status, "failed");
    for (const job of jobs) {
      const { status, attempts, epoch } = await job.get();
      assert.deepEqual({ status, attempts, epoch }, { status: "done", attempts: 1, epoch: 1 });
    }
    const { done, failed } = worker.status();
    assert.deepEqual({ done, failed }, { done: 4, failed: 1 });
  });

  test("at facts that cannot be written still writes the message", async () => {
    const said: string[] = [];
    const picky = (facts: object, message: string): void => {
      if ("err" in facts) raise();
      said.push(message);
    };
    const logger: Logger = { debug() {}, info() {}, warn: picky, error: picky };
    await using kit = await openTestHoldfast({ logger });
    const bad = defineTask({ name: "bad", retry: { maxAttempts: 1 }, run: raise });
    await kit.holdfast.enqueue(bad, null);
    await kit.holdfast.startWorker({ tasks: [bad] });
    await kit.clock.advance("5s");
    assert.deepEqual(said, ["job failed"]);
  });
});

suite("a thrown value that cannot be inspected", () => {
  test("by a task fails its own job and nothing else", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const bad = defineTask({
      name: "bad",
      retry: { maxAttempts: 1 },
      run() {
        throw untouchable();
      },
    });
    const failing = await holdfast.enqueue(bad, null, { priority: 5 });
    const jobs = await holdfast.enqueueMany(good, [1, 2, 3]);
    await holdfast.startWorker({ tasks: [bad, good], concurrency: 2 });
    await clock.advance("5s");
    assert.equal((await failing.get()).status, "failed");
    for (const job of jobs) assert.equal((await job.get()).status, "done");
  });

  test("by a subscriber is logged, and the subscriber is called again later", async () => {
    const log = keepLog();
    await using kit = await openTestHoldfast({ logger: log.logger });
    const { holdfast, clock } = kit;
    await holdfast.enqueue(good, 1);
    let calls = 0;
    holdfast.subscribe("default", () => {
      calls += 1;
      if (calls <= 2) throw Object.create(null);
    });
    await clock.advance("1m");
    assert.ok(calls > 2, `it was told ${calls} times only`);
    assert.equal(log.lines.filter(({ level }) => level === "error").length, 1);
  });
});

suite("a listener", () => {
  test("that is added by another while an event is emitted receives the next one", () => {
    const events = new Events<{ tick: number }>(() => {});
    const heard: string[] = [];
    let adding = 0;
    const add = (): void => {
      adding += 1;
      // A number that ends the test if it never ends by itself.
      if (adding > 100) return;
      events.on("tick", (n) => {
        heard.push(`added hears ${n}`);
        add();
      });
    };
    events.on("tick", add);
    events.emit("tick", () => 1);
    assert.deepEqual([adding, heard], [1, []]);
    events.emit("tick", () => 2);
    assert.deepEqual([adding, heard], [3, ["added hears 2"]]);
  });
});
