import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask, GiveUpError } from "../../src/index.ts";
import { statuses } from "../../src/core/job.ts";
import { PAGE_MAX } from "../../src/jobs/filter.ts";
import { openTestHoldfast, type TestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "./observe.ts";

after(assertNothingRuns);

const echo = defineTask({ name: "echo", run: (value: unknown) => value });

const doomed = defineTask({
  name: "doomed",
  queue: "risky",
  run() {
    throw new GiveUpError("as expected");
  },
});

/** One job in each of several states: ids by name. */
async function variety(kit: TestHoldfast) {
  const { holdfast, clock } = kit;
  const done = await holdfast.enqueue(echo, "done");
  await kit.drain([echo]);
  await clock.advance(1);
  const failed = await holdfast.enqueue(doomed, null);
  await kit.drain([doomed]);
  await clock.advance(1);
  const held = await holdfast.enqueue(echo, "held", { priority: 9 });
  await holdfast.leases.acquire({ worker: "w" });
  await clock.advance(1);
  const scheduled = await holdfast.enqueue(echo, "scheduled", { delay: "1d" });
  await clock.advance(1);
  const cancelled = await holdfast.enqueue(echo, "cancelled");
  await cancelled.cancel();
  await clock.advance(1);
  const pending = await holdfast.enqueue(echo, "pending");
  return {
    done: done.id,
    failed: failed.id,
    processing: held.id,
    scheduled: scheduled.id,
    cancelled: cancelled.id,
    pending: pending.id,
  };
}

suite("looking at jobs", () => {
  test("shows one job with its input, result and last error", async () => {
    await using kit = await openTestHoldfast();
    const ids = await variety(kit);
    const done = await kit.holdfast.jobs.get(ids.done);
    assert.deepEqual([done?.status, done?.input, done?.result], ["done", "done", "done"]);
    assert.equal(done?.finishedAt, done?.enqueuedAt);
    const failed = await kit.holdfast.jobs.get(ids.failed);
    assert.deepEqual([failed?.status, failed?.lastError?.message], ["failed", "as expected"]);
    const held = await kit.holdfast.jobs.get(ids.processing);
    assert.deepEqual([held?.lockedBy, held?.status], ["w", "processing"]);
    assert.ok(Number(held?.lockedUntil) > kit.clock.now());
    assert.equal(await kit.holdfast.jobs.get("nobody"), null);
  });

  test("lists them newest first, without their payloads", async () => {
    await using kit = await openTestHoldfast();
    const ids = await variety(kit);
    const listed = await kit.holdfast.jobs.list();
    assert.deepEqual(
      listed.map(({ id }) => id),
      [ids.pending, ids.cancelled, ids.scheduled, ids.processing, ids.failed, ids.done],
    );
    for (const job of listed) assert.ok(!("payload" in job) && !("input" in job));
  });

  test("lists them with the worker's times and trace, and with the error of those that failed", async () => {
    await using kit = await openTestHoldfast();
    const ids = await variety(kit);
    const { jobs } = kit.holdfast;
    const [failed] = await jobs.list({ status: "failed" });
    const error = { name: "GiveUpError", message: "as expected", code: "GIVE_UP" };
    const [attempt] = await jobs.attempts(ids.failed);
    assert.deepEqual([failed?.lastError, failed?.traceId], [error, attempt?.traceId]);
    assert.deepEqual(failed?.claimedAt, attempt?.startedAt);
    const [held] = await jobs.list({ status: "processing" });
    assert.equal(held?.traceId, `w-${ids.processing}-1`);
    assert.deepEqual([held?.heartbeatAt, held?.lastError], [held?.claimedAt, null]);
    const [pending] = await jobs.list({ status: "pending" });
    assert.deepEqual(
      [pending?.traceId, pending?.claimedAt, pending?.heartbeatAt],
      [null, null, null],
    );
  });

  test("lists those of one status, queue or task", async () => {
    await using kit = await openTestHoldfast();
    const ids = await variety(kit);
    const { jobs } = kit.holdfast;
    for (const status of statuses) {
      const expected = Object.entries(ids).filter(([name]) => name === status);
      const listed = await jobs.list({ status });
      assert.deepEqual(
        listed.map(({ id }) => id),
        expected.map(([, id]) => id),
        status,
      );
    }
    assert.deepEqual(
      (await jobs.list({ queue: "risky" })).map(({ id }) => id),
      [ids.failed],
    );
    assert.deepEqual(
      (await jobs.list({ task: "doomed" })).map(({ id }) => id),
      [ids.failed],
    );
    assert.deepEqual(await jobs.list({ task: "doomed", status: "done" }), []);
  });

  test("lists them page by page, every one once", async () => {
    await using kit = await openTestHoldfast();
    const jobs = await kit.holdfast.enqueueMany(echo, [1, 2, 3, 4, 5, 6, 7]);
    const seen: string[] = [];
    let page = await kit.holdfast.jobs.list({ limit: 3 });
    while (page.length > 0) {
      seen.push(...page.map(({ id }) => id));
      page = await kit.holdfast.jobs.list({ limit: 3, before: seen.at(-1)! });
    }
    assert.deepEqual(seen, jobs.map(({ id }) => id).toReversed());
  });

  const refused: readonly (readonly [field: string, filter: Record<string, unknown>])[] = [
    ["stauts", { stauts: "done" }],
    ["status", { status: "finished" }],
    ["limit", { limit: 0 }],
    ["limit", { limit: PAGE_MAX + 1 }],
    ["queue", { queue: "" }],
  ];
  for (const [field, filter] of refused) {
    test(`a list by ${JSON.stringify(filter)} is refused by the name '${field}'`, async () => {
      await using kit = await openTestHoldfast();
      // A call that answers with a promise refuses with it too: a throw would pass by a catch().
      const refusal = kit.holdfast.jobs.list(filter);
      await assert.rejects(refusal, withCode("INVALID_ARGUMENT", field));
    });
  }

  test("counts them by queue and status", async () => {
    await using kit = await openTestHoldfast();
    await variety(kit);
    const stats = await kit.holdfast.stats();
    assert.deepEqual(
      stats.map(({ queue }) => queue),
      ["default", "risky"],
    );
    const { pending, processing, scheduled, done, failed, cancelled } = stats[0]!.counts;
    assert.deepEqual(
      { pending, processing, scheduled, done, failed, cancelled },
      { pending: 1, processing: 1, scheduled: 1, done: 1, failed: 0, cancelled: 1 },
    );
    assert.equal(stats[0]?.oldestPendingAt, kit.clock.now());
    assert.equal(stats[1]?.counts.failed, 1);
  });
});

suite("retrying a job", () => {
  test("makes a failed one pending again, with attempts of its own and its history kept", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    let fails = true;
    const task = defineTask({
      name: "task",
      retry: { maxAttempts: 2, backoff: { initial: 0 } },
      run() {
        if (fails) throw new Error("down");
        return "up";
      },
    });
    const job = await holdfast.enqueue(task, null);
    await kit.drain([task]);
    assert.equal((await job.get()).status, "failed");

    fails = false;
    await holdfast.jobs.retry(job.id, { attempts: 3 });
    const { status, attempts, maxAttempts } = await job.get();
    assert.deepEqual(
      { status, attempts, maxAttempts },
      { status: "pending", attempts: 2, maxAttempts: 5 },
    );
    await kit.drain([task]);
    assert.equal(await job.result(), "up");
    const history = await holdfast.jobs.attempts(job.id);
    assert.deepEqual(
      history.map(({ epoch, outcome }) => `${epoch} ${outcome}`),
      ["1 retry", "2 failed", "3 done"],
    );
  });

  test("wakes the workers without waiting for a poll", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const job = await holdfast.enqueue(echo, "again");
    await job.cancel();
    await holdfast.startWorker({ tasks: [echo], poll: "1h", maintenanceInterval: "1h" });
    await clock.advance("1m");
    await holdfast.jobs.retry(job.id);
    await clock.advance(1);
    assert.equal((await job.get()).status, "done");
  });

  test("is refused for a job that is not dead, with its status", async () => {
    await using kit = await openTestHoldfast();
    const ids = await variety(kit);
    for (const name of ["done", "processing", "scheduled", "pending"] as const) {
      await assert.rejects(kit.holdfast.jobs.retry(ids[name]), withCode("ILLEGAL_MOVE"), name);
    }
    await assert.rejects(kit.holdfast.jobs.retry("nobody"), withCode("JOB_NOT_FOUND"));
    await assert.rejects(
      kit.holdfast.jobs.retry(ids.failed, { attempts: 0 }),
      withCode("INVALID_ARGUMENT", "attempts"),
    );
  });

  test("is refused while another live job has its key", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const dead = await holdfast.enqueue(doomed, null, { key: "k" });
    await kit.drain([doomed]);
    const live = await holdfast.enqueue(doomed, null, { key: "k" });
    await assert.rejects(holdfast.jobs.retry(dead.id), withCode("KEY_TAKEN"));
    await live.cancel();
    await holdfast.jobs.retry(dead.id);
    assert.equal((await dead.get()).status, "pending");
  });
});
