import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { ABORT_GRACE_MS } from "../../src/worker/attempt.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { codeOf, hear, storyOf, withCode } from "./observe.ts";

after(assertNothingRuns);

/** Resolves when the signal aborts, with the code of the reason. */
function aborted(signal: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(codeOf(signal.reason)), { once: true });
  });
}

suite("an attempt that takes longer than its task allows", () => {
  test("is aborted with JOB_TIMEOUT, and the job is tried again", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const reasons: string[] = [];
    const slow = defineTask({
      name: "slow",
      timeout: "10s",
      retry: { maxAttempts: 2, backoff: { initial: "1m" } },
      async run(_input: null, { signal }) {
        reasons.push(await aborted(signal));
        throw new Error("what the task throws because of it");
      },
    });
    const worker = await holdfast.startWorker({ tasks: [slow] });
    const heard = hear(worker);
    const job = await holdfast.enqueue(slow, null);
    await clock.advance("9s");
    assert.deepEqual(reasons, []);
    await clock.advance("1s");
    assert.deepEqual(reasons, ["JOB_TIMEOUT"]);

    const { status, attempts, lastError } = await job.get();
    assert.deepEqual({ status, attempts }, { status: "retry", attempts: 1 });
    assert.equal(lastError?.code, "JOB_TIMEOUT");
    assert.deepEqual(storyOf(heard, job.id), ["job:started", "job:retrying"]);
    const [attempt] = await holdfast.jobs.attempts(job.id);
    assert.equal(attempt?.outcome, "retry");
    assert.equal(attempt.endedAt! - attempt.startedAt, 10_000);
  });

  test("fails the job when it was the last", async () => {
    await using kit = await openTestHoldfast();
    const slow = defineTask({
      name: "slow",
      timeout: "1s",
      retry: { maxAttempts: 1 },
      async run(_input: null, { signal }) {
        throw new Error(await aborted(signal));
      },
    });
    await kit.holdfast.startWorker({ tasks: [slow] });
    const job = await kit.holdfast.enqueue(slow, null);
    await kit.clock.advance("2s");
    const { status, lastError } = await job.get();
    assert.deepEqual([status, lastError?.code], ["failed", "JOB_TIMEOUT"]);
    await assert.rejects(job.result(), withCode("JOB_FAILED"));
  });

  test("has failed even if the task returns a value when its signal aborts", async () => {
    await using kit = await openTestHoldfast();
    const stubborn = defineTask({
      name: "stubborn",
      timeout: "1s",
      retry: { maxAttempts: 1 },
      run: async (_input: null, { signal }) => `late, after ${await aborted(signal)}`,
    });
    await kit.holdfast.startWorker({ tasks: [stubborn] });
    const job = await kit.holdfast.enqueue(stubborn, null);
    await kit.clock.advance("2s");
    const { status, result, lastError } = await job.get();
    assert.deepEqual(
      { status, result, error: lastError?.code },
      { status: "failed", result: undefined, error: "JOB_TIMEOUT" },
    );
  });

  test("gives its place to the next job though the task never ends", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const late = Promise.withResolvers<string>();
    const hung = defineTask({
      name: "hung",
      timeout: "1s",
      retry: { maxAttempts: 2, backoff: { initial: "1h" } },
      run: () => late.promise,
    });
    const next = defineTask({ name: "next", run: () => "had its turn" });
    const worker = await holdfast.startWorker({ tasks: [hung, next], concurrency: 1 });
    const first = await holdfast.enqueue(hung, null);
    await clock.advance(500);
    const second = await holdfast.enqueue(next, null);
    await clock.advance(500 + ABORT_GRACE_MS - 1);
    assert.equal((await second.get()).status, "pending");
    await clock.advance("1s");
    assert.equal((await second.get()).status, "done");
    assert.equal((await first.get()).status, "retry");
    assert.equal(worker.status().running, 0);

    late.resolve("far too late");
    await clock.advance("1s");
    const { status, result } = await first.get();
    assert.deepEqual({ status, result }, { status: "retry", result: undefined });
    assert.equal(worker.status().staleWritesRefused, 0);
  });

  test("does not touch attempts that end in time", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    let signal: AbortSignal | null = null;
    const brisk = defineTask({
      name: "brisk",
      timeout: "50ms",
      run(_input: null, ctx) {
        ({ signal } = ctx);
        return "in time";
      },
    });
    const marked = defineTask({
      name: "marked",
      timeout: "100ms",
      async run(_input: null, ctx) {
        throw new Error(await aborted(ctx.signal));
      },
    });
    await holdfast.startWorker({ tasks: [brisk, marked] });
    const job = await holdfast.enqueue(brisk, null);
    assert.equal(await job.result(), "in time");
    // By the time of this one's timeout, that of the first is long past.
    const marker = await holdfast.enqueue(marked, null, { maxAttempts: 1 });
    await assert.rejects(marker.result(), withCode("JOB_FAILED"));
    assert.equal((signal as AbortSignal | null)?.aborted, false);
    assert.equal((await job.get()).status, "done");
  });
});
