/** Jobs that choose when they run again: RetryIn, Snooze, and a back-off of their own. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask, RetryIn, Snooze } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { keepLog, withCode } from "./observe.ts";

after(assertNothingRuns);

const FOREVER = Number.POSITIVE_INFINITY;

suite("a job that chooses when it runs again", () => {
  for (const how of ["thrown", "returned"]) {
    test(`RetryIn, ${how}: at that time and not before, and the attempt counts`, async () => {
      await using kit = await openTestHoldfast();
      const { holdfast, clock } = kit;
      const triedAt: number[] = [];
      const task = defineTask({
        name: "limited",
        retry: { maxAttempts: 2 },
        run() {
          triedAt.push(clock.now());
          const later = new RetryIn("30s", "429 from the API");
          if (how === "thrown") throw later;
          return later;
        },
      });
      const worker = await holdfast.startWorker({ tasks: [task] });
      const job = await holdfast.enqueue(task, null);
      await clock.advance("29s");
      const { status, attempts, dueAt } = await job.get();
      assert.deepEqual([status, attempts], ["retry", 1]);
      assert.equal(dueAt! - triedAt[0]!, 30_000);
      assert.equal(triedAt.length, 1);
      await clock.advance("3s");
      const last = await job.get();
      assert.deepEqual([last.status, last.attempts, triedAt.length], ["failed", 2, 2]);
      assert.equal(last.lastError?.code, "RETRY_IN");
      assert.equal(last.lastError?.message, "To be retried in 30s: 429 from the API");
      await worker.stop();
    });
  }

  for (const how of ["thrown", "returned", "swallowed"]) {
    test(`Snooze, ${how}: postponed without using up an attempt, up to a limit`, async () => {
      await using kit = await openTestHoldfast();
      const { holdfast, clock } = kit;
      let runs = 0;
      const task = defineTask({
        name: "sleepy",
        retry: { maxAttempts: 2, maxSnoozes: 3, backoff: { initial: 0 } },
        async run(_input: null, ctx) {
          await ctx.step("first", () => (runs += 100));
          runs += 1;
          if (how === "thrown") throw new Snooze("10s", new Error("not ready"));
          if (how === "returned") return new Snooze("10s", new Error("not ready"));
          try {
            ctx.snooze("10s", new Error("not ready"));
          } catch {
            // It is snoozed all the same.
          }
          return "done";
        },
      });
      const worker = await holdfast.startWorker({ tasks: [task] });
      const job = await holdfast.enqueue(task, null);
      await clock.advance("5s");
      const { status, attempts } = await job.get();
      assert.deepEqual([status, attempts, runs], ["waiting", 0, 101]);
      await clock.advance("1m");
      const last = await job.get();
      // Three snoozes, then both attempts fail at the limit. The step ran once.
      assert.deepEqual([last.status, last.attempts, runs], ["failed", 2, 105]);
      assert.equal(last.lastError?.code, "SNOOZE_LIMIT");
      assert.equal(last.lastError?.cause?.message, "Snoozed for 10s: not ready");
      const history = await holdfast.jobs.attempts(job.id);
      const outcomes = history.map(({ outcome, error }) => `${outcome} ${error?.code}`);
      const snoozed = "suspended SNOOZED";
      const limit = ["retry SNOOZE_LIMIT", "failed SNOOZE_LIMIT"];
      assert.deepEqual(outcomes, [snoozed, snoozed, snoozed, ...limit]);
      await worker.stop();
    });
  }

  test("a task's own backoff is used, unless it fails", async () => {
    const log = keepLog();
    await using kit = await openTestHoldfast({ logger: log.logger });
    const { holdfast, clock } = kit;
    const seen: unknown[] = [];
    const answers: unknown[] = ["1m", FOREVER, "soon", -1, Promise.resolve(1), "400d"];
    const task = defineTask({
      name: "own",
      retry: {
        maxAttempts: 7,
        backoff(failure) {
          seen.push(failure);
          return answers[failure.attempt - 1] as string;
        },
      },
      run(_input: null, { attempt }) {
        throw new Error(`failure ${attempt}`);
      },
    });
    const worker = await holdfast.startWorker({ tasks: [task] });
    const job = await holdfast.enqueue(task, null);
    await clock.advance("59s");
    assert.equal((await job.get()).attempts, 1);
    await clock.advance("2s");
    assert.ok((await job.get()).attempts >= 2);
    assert.match(String((seen[0] as { error: unknown }).error), /failure 1/);
    // The standard back-off of six attempts lasts 63 s at most.
    await clock.advance("2m");
    assert.equal((await job.get()).status, "failed");
    const message = "the backoff function of a task failed; the standard backoff is used";
    assert.equal(log.of(message).length, 5);
    await worker.stop();
  });

  test("refuses an invalid delay", () => {
    assert.throws(() => new RetryIn("soon"), withCode("INVALID_ARGUMENT", "delay"));
    assert.throws(() => new Snooze(FOREVER), withCode("INVALID_ARGUMENT", "delay"));
    assert.throws(() => new Snooze("9999d"), withCode("INVALID_ARGUMENT", "delay"));
    const define = (retry: object) => () => defineTask({ name: "x", retry, run: () => null });
    assert.throws(define({ maxSnoozes: -1 }), withCode("INVALID_ARGUMENT", "retry.maxSnoozes"));
    assert.throws(define({ backoff: "1s" }), withCode("INVALID_ARGUMENT", "retry.backoff"));
  });
});
