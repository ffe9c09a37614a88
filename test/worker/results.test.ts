import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import {
  defineTask,
  GiveUpError,
  JobFailedError,
  openHoldfast,
  ResultTimeoutError,
} from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { tempFolder } from "../support/folder.ts";
import { until, withCode } from "./observe.ts";
import { wrapStore } from "./wrapped-store.ts";

after(assertNothingRuns);

const echo = defineTask({ name: "echo", run: (value: unknown) => value });

suite("the result of a job", () => {
  test("is what its task returned, whether it ended before or after the call", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const before = await holdfast.enqueue(echo, { deep: [1, null, "ü"] });
    const result = before.result();
    await holdfast.startWorker({ tasks: [echo] });
    assert.deepEqual(await result, { deep: [1, null, "ü"] });
    assert.deepEqual(await before.result(), { deep: [1, null, "ü"] });
  });

  test("is undefined when its task returned nothing, and null when it returned null", async () => {
    await using kit = await openTestHoldfast();
    const quiet = defineTask({ name: "quiet", run: (): unknown => undefined });
    const [nothing, empty] = [
      await kit.holdfast.enqueue(quiet, null),
      await kit.holdfast.enqueue(echo, null),
    ];
    await kit.drain([quiet, echo]);
    assert.equal(await nothing.result(), undefined);
    assert.equal(await empty.result(), null);
  });

  test("of a failed job is JobFailedError, with the last error as it was recorded", async () => {
    await using kit = await openTestHoldfast();
    const failing = defineTask({
      name: "failing",
      retry: { maxAttempts: 2, backoff: { initial: 0 } },
      run(_input: null, { attempt }) {
        throw Object.assign(new TypeError(`attempt ${attempt}`), { code: "E_BAD" });
      },
    });
    const job = await kit.holdfast.enqueue(failing, null);
    await kit.drain([failing]);
    await assert.rejects(job.result(), (error) => {
      assert.ok(error instanceof JobFailedError);
      const { id, task, attempts, code } = error;
      const facts = { id: job.id, task: "failing", attempts: 2, code: "JOB_FAILED" };
      assert.deepEqual({ id, task, attempts, code }, facts);
      const recorded = error.error as { name: string; message: string; code: string };
      const { name, message } = recorded;
      assert.deepEqual([name, message, recorded.code], ["TypeError", "attempt 2", "E_BAD"]);
      return true;
    });
  });

  test("of a cancelled job is JobCancelledError, even for callers that already wait", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const job = await holdfast.enqueue(echo, 1);
    const waiting = assert.rejects(job.result({ timeout: "10s" }), withCode("JOB_CANCELLED"));
    await job.cancel();
    await waiting;
    await assert.rejects(job.result(), withCode("JOB_CANCELLED"));
  });

  test("that does not arrive in time is ResultTimeoutError, and the job continues", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const job = await holdfast.enqueue(echo, 1);
    const waiting = assert.rejects(job.result({ timeout: "10s" }), (error) => {
      assert.ok(error instanceof ResultTimeoutError);
      const { id, waitedMs, message } = error;
      assert.deepEqual({ id, waitedMs }, { id: job.id, waitedMs: 10_000 });
      assert.match(message, /it is pending, and was not cancelled/);
      return true;
    });
    await clock.advance("10s");
    await waiting;
    await kit.drain([echo]);
    assert.equal(await job.result({ timeout: 0 }), 1);
  });

  test("of a job that does not exist is JobNotFoundError, and stays so after it was pruned", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const job = await holdfast.enqueue(echo, 1);
    await kit.drain([echo]);
    await holdfast.startWorker({ tasks: [echo], retention: { done: "1m" } });
    await clock.advance("12m"); // Pruning is done every ten minutes.
    await assert.rejects(job.result(), withCode("JOB_NOT_FOUND"));
    await assert.rejects(job.get(), withCode("JOB_NOT_FOUND"));
  });

  test("with a timeout that is no duration is refused", async () => {
    await using kit = await openTestHoldfast();
    const job = await kit.holdfast.enqueue(echo, 1);
    await assert.rejects(job.result({ timeout: "soon" }), withCode("INVALID_ARGUMENT", "timeout"));
  });

  test("of a job that failed and was retried is the new one", async () => {
    await using kit = await openTestHoldfast();
    let fails = true;
    const moody = defineTask({
      name: "moody",
      run() {
        if (fails) throw new GiveUpError("not today");
        return "today";
      },
    });
    const job = await kit.holdfast.enqueue(moody, null);
    await kit.drain([moody]);
    await assert.rejects(job.result(), withCode("JOB_FAILED"));
    fails = false;
    await kit.holdfast.jobs.retry(job.id);
    await kit.drain([moody]);
    assert.equal(await job.result(), "today");
  });
});

suite("many waiting callers", () => {
  test("for one job all get its result, and share one query", async () => {
    let queries = 0;
    const store = wrapStore(await openStore("sqlite::memory:"), (real) => ({
      jobs: {
        findFinished(ids) {
          queries += 1;
          return real.jobs.findFinished(ids);
        },
      },
    }));
    await using holdfast = await openHoldfast(store);
    const job = await holdfast.enqueue(echo, "shared");
    const WAITERS = 100;
    const waiting = Array.from({ length: WAITERS }, () => job.result({ timeout: "10s" }));
    await until("everyone has asked once", () => queries >= WAITERS);
    const before = queries;
    await holdfast.startWorker({ tasks: [echo] });
    assert.deepEqual(new Set(await Promise.all(waiting)), new Set(["shared"]));
    assert.ok(queries - before < 20, `${queries - before} queries for one result`);
  });

  test("for different jobs each get their own", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const numbers = Array.from({ length: 1_200 }, (_, index) => index);
    const jobs = await holdfast.enqueueMany(echo, numbers);
    const waiting = Promise.all(jobs.map((job) => job.result({ timeout: "30s" })));
    await holdfast.startWorker({ tasks: [echo] });
    assert.deepEqual(await waiting, numbers);
  });

  test("are independent: the timeout of one does not affect another", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const job = await holdfast.enqueue(echo, "late", { delay: "1m" });
    const hasty = assert.rejects(job.result({ timeout: "10s" }), withCode("RESULT_TIMEOUT"));
    const patient = job.result({ timeout: "1h" });
    const endless = job.result();
    await clock.advance("10s");
    await hasty;
    await holdfast.startWorker({ tasks: [echo] });
    await clock.advance("2m");
    assert.deepEqual(await Promise.all([patient, endless]), ["late", "late"]);
  });

  test("get an error when Holdfast is closed", async () => {
    const holdfast = await openHoldfast("sqlite::memory:");
    const job = await holdfast.enqueue(echo, 1);
    const waiting = [job.result(), job.result({ timeout: "1h" })].map((result) =>
      assert.rejects(result, withCode("CLOSED")),
    );
    await holdfast.jobs.get(job.id);
    await holdfast.close();
    await Promise.all(waiting);
  });

  test("on another connection to the same file get it too", async () => {
    using folder = tempFolder();
    const url = `sqlite:${folder.file(".db")}`;
    await using asking = await openHoldfast(url);
    await using working = await openHoldfast(url);
    const job = await asking.enqueue(echo, "over there");
    const result = job.result({ timeout: "10s" });
    await working.startWorker({ tasks: [echo] });
    assert.equal(await result, "over there");
  });
});
