/** A worker and those who use it, in different processes. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until, withCode } from "../worker/observe.ts";
import { WorkerProcess } from "./worker-process.ts";

after(assertNothingRuns);

const PROGRAM = "worker-tasks-child.ts";

/** What a person calls "soon", on a busy machine: far below the poll of 10 s. */
const SOON_MS = 6_000;

suite("a worker in another process", () => {
  test("is woken by a new job, and its result wakes the caller that waits here", async () => {
    using folder = tempFolder();
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    await using child = new WorkerProcess(PROGRAM, { url, role: "apart", worker: {} });
    await child.until("ready");
    for (const value of ["warm", "first", "second"]) {
      const startedAt = performance.now();
      const job = await holdfast.enqueue("echo", value);
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => job.result({ timeout: "30s" })),
      );
      assert.deepEqual(new Set(answers), new Set([value]));
      const tookMs = performance.now() - startedAt;
      if (value !== "warm") assert.ok(tookMs < SOON_MS, `it took ${tookMs} ms`);
    }
  });

  test("aborts a job with JOB_CANCELLED soon after it was cancelled here", async () => {
    using folder = tempFolder();
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    await using child = new WorkerProcess(PROGRAM, { url, role: "apart", worker: {} });
    const job = await holdfast.enqueue("hold", null);
    await child.until("started");
    assert.equal(await job.cancel(), "processing");
    await until("it was aborted", () => child.of("aborted").length === 1, SOON_MS);
    assert.deepEqual(child.of("aborted"), [{ id: job.id, code: "JOB_CANCELLED" }]);
    await assert.rejects(job.result({ timeout: "30s" }), withCode("JOB_CANCELLED"));
  });

  test("stops when it is closed: jobs are handed back, nothing is held, the process ends", async () => {
    using folder = tempFolder();
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    const worker = { shutdown: 100 };
    await using child = new WorkerProcess(PROGRAM, { url, role: "apart", worker });
    const job = await holdfast.enqueue("hold", null, { maxAttempts: 1 });
    await child.until("started");
    child.tell("close");
    const { code, signal } = await child.ended;
    assert.deepEqual({ code, signal, errors: child.errors }, { code: 0, signal: null, errors: "" });
    assert.equal(child.of("closed").length, 1);
    assert.deepEqual(child.of("aborted"), [{ id: job.id, code: "SHUTTING_DOWN" }]);
    const { status, attempts } = await job.get();
    assert.deepEqual({ status, attempts }, { status: "pending", attempts: 0 });
    assert.deepEqual(await holdfast.leases.list(), []);
  });

  test("ends by itself and well when it is closed at once, or while it is idle", async () => {
    using folder = tempFolder();
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    await using hasty = new WorkerProcess(PROGRAM, { url, role: "hasty", worker: {} });
    hasty.tell("close");
    await using idle = new WorkerProcess(PROGRAM, { url, role: "idle", worker: {} });
    await idle.until("ready");
    await (await holdfast.enqueue("echo", 1)).result({ timeout: "30s" });
    idle.tell("close");
    for (const child of [hasty, idle]) {
      const { code } = await child.ended;
      assert.deepEqual({ code, errors: child.errors }, { code: 0, errors: "" });
      assert.equal(child.of("closed").length, 1);
    }
  });
});
