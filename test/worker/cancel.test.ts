import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { ABORT_GRACE_MS } from "../../src/worker/attempt.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { codeOf, hear, storyOf, until, withCode } from "./observe.ts";

after(assertNothingRuns);

/** "At once": long before the next renewal of the lease. On a busy machine a timer may be a second late. */
const AT_ONCE_MS = 5_000;

type Manner = "returns a value" | "throws" | "gives up by the signal's reason";

function listening(reasons: string[]) {
  return defineTask({
    name: "listening",
    run: (manner: Manner, { signal }) =>
      new Promise<string>((resolve, reject) => {
        signal.addEventListener("abort", () => {
          reasons.push(codeOf(signal.reason));
          if (manner === "returns a value") resolve("done all the same");
          else if (manner === "throws") reject(new Error("interrupted"));
          else reject(signal.reason as Error);
        });
      }),
  });
}

suite("cancelling a job that runs in the same process", () => {
  for (const manner of ["returns a value", "throws", "gives up by the signal's reason"] as const) {
    test(`aborts it at once with JOB_CANCELLED, and it is cancelled though it ${manner}`, async () => {
      await using holdfast = await openHoldfast("sqlite::memory:");
      const reasons: string[] = [];
      const task = listening(reasons);
      const worker = await holdfast.startWorker({ tasks: [task] });
      const heard = hear(worker);
      const job = await holdfast.enqueue(task, manner, { maxAttempts: 5 });
      await until("it runs", () => worker.status().running === 1);

      assert.equal(await job.cancel(), "processing");
      await until("its signal aborted", () => reasons.length === 1, AT_ONCE_MS);
      assert.deepEqual(reasons, ["JOB_CANCELLED"]);
      await assert.rejects(job.result({ timeout: "5s" }), withCode("JOB_CANCELLED"));
      const { status, result } = await job.get();
      assert.deepEqual({ status, result }, { status: "cancelled", result: undefined });
      await until("it was told", () => storyOf(heard, job.id).length === 2);
      assert.deepEqual(storyOf(heard, job.id), ["job:started", "job:cancelled"]);
      assert.equal(worker.status().cancelled, 1);
    });
  }

  test("ends it after a grace though the task does not hear the signal", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const deaf = defineTask({ name: "deaf", run: () => new Promise(() => {}) });
    const worker = await holdfast.startWorker({ tasks: [deaf] });
    const job = await holdfast.enqueue(deaf, null);
    await clock.advance("1s");
    await job.cancel();
    await clock.advance(ABORT_GRACE_MS - 1);
    assert.equal((await job.get()).status, "processing");
    await clock.advance("2s");
    assert.equal((await job.get()).status, "cancelled");
    assert.equal(worker.status().running, 0);
  });

  test("touches no other job", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const end = Promise.withResolvers<string>();
    const aborted: string[] = [];
    const task = defineTask({
      name: "many",
      run: (_input: null, { id, signal }) =>
        new Promise<string>((resolve, reject) => {
          void end.promise.then(resolve);
          signal.addEventListener("abort", () => {
            aborted.push(id);
            reject(signal.reason as Error);
          });
        }),
    });
    const worker = await holdfast.startWorker({ tasks: [task] });
    const jobs = await holdfast.enqueueMany(task, [null, null, null]);
    await until("all run", () => worker.status().running === 3);
    await jobs[1]?.cancel();
    await until("one was aborted", () => aborted.length > 0);
    end.resolve("undisturbed");
    assert.equal(await jobs[0]?.result(), "undisturbed");
    assert.equal(await jobs[2]?.result(), "undisturbed");
    assert.deepEqual(aborted, [jobs[1]?.id]);
  });
});

suite("cancelling a job that does not run", () => {
  test("keeps it from ever running, pending or waiting for its time", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    let runs = 0;
    const task = defineTask({ name: "counted", run: () => void (runs += 1) });
    const pending = await holdfast.enqueue(task, null);
    const scheduled = await holdfast.enqueue(task, null, { delay: "1m" });
    assert.equal(await pending.cancel(), "cancelled");
    assert.equal(await holdfast.jobs.cancel(scheduled.id), "cancelled");
    await holdfast.startWorker({ tasks: [task] });
    await clock.advance("5m");
    assert.equal(runs, 0);
    await assert.rejects(pending.result(), withCode("JOB_CANCELLED"));
  });

  test("cancels a job that waits for its next attempt", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    let runs = 0;
    const task = defineTask({
      name: "flaky",
      retry: { maxAttempts: 5, backoff: { initial: "10m", factor: 1 } },
      run() {
        runs += 1;
        throw new Error("no");
      },
    });
    const job = await holdfast.enqueue(task, null);
    await kit.drain([task]);
    assert.equal(await job.cancel(), "cancelled");
    await clock.advance("1h");
    assert.deepEqual((await kit.drain([task], { skipTime: true })).jobs, []);
    assert.equal(runs, 1);
  });

  test("says what a finished job came to, and changes nothing", async () => {
    await using kit = await openTestHoldfast();
    const task = defineTask({ name: "done", run: () => "kept" });
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task]);
    assert.equal(await job.cancel(), "done");
    assert.equal(await job.result(), "kept");
    const other = await kit.holdfast.enqueue(task, null);
    assert.equal(await other.cancel(), "cancelled");
    assert.equal(await other.cancel(), "cancelled");
  });

  test("of a job that does not exist is refused", async () => {
    await using kit = await openTestHoldfast();
    await assert.rejects(kit.holdfast.jobs.cancel("nobody"), withCode("JOB_NOT_FOUND"));
  });
});
