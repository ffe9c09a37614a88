/** The lease verbs, for workers in any shape: what a worker of ours does, done by hand. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import type { Release } from "../../src/app/ops.ts";
import { defineTask, LeaseLostError } from "../../src/index.ts";
import { openTestHoldfast, type TestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "./observe.ts";

after(assertNothingRuns);

const echo = defineTask({ name: "echo", run: (value: unknown) => value });

async function heldJob(kit: TestHoldfast, options: { maxAttempts?: number } = {}) {
  const job = await kit.holdfast.enqueue(echo, { n: 1 }, options);
  const [lease] = await kit.holdfast.leases.acquire({ worker: "by-hand", lease: "30s" });
  assert.ok(lease?.id === job.id);
  return { job, lease };
}

suite("acquiring", () => {
  test("takes a pending job under a lease, with its input", async () => {
    await using kit = await openTestHoldfast();
    const { job, lease } = await heldJob(kit);
    assert.deepEqual(lease, {
      id: job.id,
      worker: "by-hand",
      epoch: 1,
      queue: "default",
      task: "echo",
      input: { n: 1 },
      attempt: 1,
      maxAttempts: 3,
      enqueuedAt: kit.clock.now(),
      lockedUntil: kit.clock.now() + 30_000,
    });
    assert.equal((await job.get()).status, "processing");
    assert.deepEqual(await kit.holdfast.leases.acquire({ worker: "another" }), []);
  });

  test("claims the requested number of jobs, of the given queues and tasks", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    await holdfast.enqueueMany(echo, [1, 2, 3]);
    await holdfast.enqueue("other", 4);
    await holdfast.enqueue(echo, 5, { queue: "night" });
    const two = await holdfast.leases.acquire({ worker: "w", limit: 2 });
    assert.deepEqual(
      two.map(({ input }) => input),
      [1, 2],
    );
    const others = await holdfast.leases.acquire({ worker: "w", limit: 9, tasks: ["other"] });
    assert.deepEqual(
      others.map(({ task }) => task),
      ["other"],
    );
    const night = await holdfast.leases.acquire({ worker: "w", limit: 9, queues: ["night"] });
    assert.deepEqual(
      night.map(({ input }) => input),
      [5],
    );
  });

  const refused: readonly (readonly [field: string, options: Record<string, unknown>])[] = [
    ["worker", {}],
    ["worker", { worker: "" }],
    ["limit", { worker: "w", limit: 0 }],
    ["limit", { worker: "w", limit: 1_001 }],
    ["lease", { worker: "w", lease: 1 }],
    ["queues", { worker: "w", queues: [""] }],
    ["tasks", { worker: "w", tasks: [" "] }],
    ["queue", { worker: "w", queue: "misspelt" }],
  ];
  for (const [field, options] of refused) {
    test(`with ${JSON.stringify(options)} is refused by the name '${field}'`, async () => {
      await using kit = await openTestHoldfast();
      const acquiring = kit.holdfast.leases.acquire(options as { worker: string });
      await assert.rejects(acquiring, withCode("INVALID_ARGUMENT", field));
    });
  }
});

suite("extending", () => {
  test("moves the lease's end to that much from now", async () => {
    await using kit = await openTestHoldfast();
    const { lease } = await heldJob(kit);
    await kit.clock.advance("20s");
    const extended = await kit.holdfast.leases.extend(lease, { lease: "1m" });
    assert.deepEqual(extended, { lockedUntil: kit.clock.now() + 60_000, cancelRequested: false });
  });

  test("never moves it backwards", async () => {
    await using kit = await openTestHoldfast();
    const { lease } = await heldJob(kit);
    const { lockedUntil } = await kit.holdfast.leases.extend(lease, { lease: "1s" });
    assert.equal(lockedUntil, lease.lockedUntil);
  });

  test("reports a cancel request", async () => {
    await using kit = await openTestHoldfast();
    const { job, lease } = await heldJob(kit);
    assert.equal(await job.cancel(), "processing");
    const { cancelRequested } = await kit.holdfast.leases.extend(lease);
    assert.equal(cancelRequested, true);
    const released = await kit.holdfast.leases.release(lease, { as: "done", result: 1 });
    assert.equal(released.status, "cancelled");
  });
});

suite("releasing", () => {
  test("as done finishes the job with its result", async () => {
    await using kit = await openTestHoldfast();
    const { job, lease } = await heldJob(kit);
    const released = await kit.holdfast.leases.release(lease, { as: "done", result: [1, 2] });
    assert.deepEqual(released, { status: "done", attempts: 1, retryAt: null });
    assert.deepEqual(await job.result(), [1, 2]);
  });

  test("as failed returns when it will be retried", async () => {
    await using kit = await openTestHoldfast();
    const { job, lease } = await heldJob(kit);
    const released = await kit.holdfast.leases.release(lease, {
      as: "failed",
      error: new Error("not now"),
      retryIn: "5m",
    });
    const retryAt = kit.clock.now() + 300_000;
    assert.deepEqual(released, { status: "retry", attempts: 1, retryAt });
    const { dueAt, lastError } = await job.get();
    assert.deepEqual([dueAt, lastError?.message], [retryAt, "not now"]);
  });

  test("as failed without a time waits as the default policy says", async () => {
    await using kit = await openTestHoldfast();
    const { lease } = await heldJob(kit);
    const { retryAt } = await kit.holdfast.leases.release(lease, { as: "failed", error: "no" });
    const waitMs = retryAt! - kit.clock.now();
    assert.ok(waitMs >= 0 && waitMs <= 1_000, `${waitMs} ms`);
  });

  test("as failed returns failed when no attempt is left, or when it is final", async () => {
    await using kit = await openTestHoldfast();
    const last = await heldJob(kit, { maxAttempts: 1 });
    const dead = { status: "failed", attempts: 1, retryAt: null };
    const failure = { as: "failed", error: new Error("no") } as const;
    assert.deepEqual(await kit.holdfast.leases.release(last.lease, failure), dead);
    const early = await heldJob(kit);
    const final = { ...failure, final: true };
    assert.deepEqual(await kit.holdfast.leases.release(early.lease, final), dead);
    await assert.rejects(early.job.result(), withCode("JOB_FAILED"));
  });

  test("as suspended lets it wait without using up an attempt", async () => {
    await using kit = await openTestHoldfast();
    const { job, lease } = await heldJob(kit);
    const released = await kit.holdfast.leases.release(lease, { as: "suspended", for: "1h" });
    assert.deepEqual(released, { status: "waiting", attempts: 0, retryAt: null });
    assert.equal((await job.get()).dueAt, kit.clock.now() + 3_600_000);
    const { jobs } = await kit.drain([echo], { skipTime: true });
    assert.deepEqual([jobs[0]?.status, jobs[0]?.attempts], ["done", 1]);
  });

  test("as released makes it pending again at once without using up an attempt", async () => {
    await using kit = await openTestHoldfast();
    const { job, lease } = await heldJob(kit, { maxAttempts: 1 });
    const released = await kit.holdfast.leases.release(lease, { as: "released" });
    assert.deepEqual(released, { status: "pending", attempts: 0, retryAt: null });
    const [again] = await kit.holdfast.leases.acquire({ worker: "another" });
    assert.deepEqual([again?.id, again?.attempt, again?.epoch], [job.id, 1, 2]);
  });

  test("as anything else is refused, and so is a result that is no JSON; the lease stays", async () => {
    await using kit = await openTestHoldfast();
    const { job, lease } = await heldJob(kit);
    const { leases } = kit.holdfast;
    const odd = { as: "lost" } as unknown as Release;
    await assert.rejects(leases.release(lease, odd), withCode("INVALID_ARGUMENT", "as"));
    await assert.rejects(
      leases.release(lease, { as: "done", result: new Map() }),
      withCode("NOT_SERIALIZABLE"),
    );
    await assert.rejects(
      leases.release(lease, { as: "suspended", for: "a while" }),
      withCode("INVALID_ARGUMENT", "for"),
    );
    assert.equal((await job.get()).status, "processing");
  });
});

suite("a lease that was lost", () => {
  async function lostJob(kit: TestHoldfast) {
    const { job, lease } = await heldJob(kit);
    await kit.clock.advance("33s");
    const [taken] = await kit.holdfast.leases.resetExpired();
    assert.equal(taken?.id, job.id);
    return { job, lease };
  }

  test("cannot be extended, nor released as anything", async () => {
    await using kit = await openTestHoldfast();
    const { job, lease } = await lostJob(kit);
    const { leases } = kit.holdfast;
    const before = await job.get();
    const isLost = (error: unknown) => {
      assert.ok(error instanceof LeaseLostError);
      const { id, worker, epoch } = error;
      assert.deepEqual({ id, worker, epoch }, { id: job.id, worker: "by-hand", epoch: 1 });
      return true;
    };
    await assert.rejects(leases.extend(lease), isLost);
    const ways: Release[] = [
      { as: "done" },
      { as: "failed", error: 1 },
      { as: "suspended", for: 1 },
      { as: "released" },
    ];
    for (const way of ways) await assert.rejects(leases.release(lease, way), isLost);
    assert.deepEqual(await job.get(), before);
  });

  test("is lost for its former owner though the same worker holds the job again", async () => {
    await using kit = await openTestHoldfast();
    const { job, lease } = await lostJob(kit);
    await kit.clock.advance("1h");
    await kit.holdfast.store.jobs.promoteDue({ limit: 1 });
    const [again] = await kit.holdfast.leases.acquire({ worker: "by-hand" });
    assert.deepEqual([again?.id, again?.epoch], [job.id, 2]);
    const late = kit.holdfast.leases.release(lease, { as: "done", result: "late" });
    await assert.rejects(late, withCode("LEASE_LOST"));
    await kit.holdfast.leases.release(again!, { as: "done", result: "in time" });
    assert.equal(await job.result(), "in time");
  });
});

suite("expired leases", () => {
  test("are listed separately from active ones", async () => {
    await using kit = await openTestHoldfast();
    const { leases } = kit.holdfast;
    const { job } = await heldJob(kit);
    await kit.holdfast.enqueue(echo, 2);
    await leases.acquire({ worker: "long", lease: "1h" });
    assert.equal((await leases.list()).length, 2);
    assert.deepEqual(await leases.list({ state: "expired" }), []);
    await kit.clock.advance("31s");
    assert.deepEqual(
      (await leases.list()).map(({ worker }) => worker),
      ["long"],
    );
    const [expired] = await leases.list({ state: "expired" });
    assert.deepEqual([expired?.id, expired?.worker], [job.id, "by-hand"]);
    assert.deepEqual(await leases.list({ state: "expired", worker: "long" }), []);
    assert.equal((await leases.list({ worker: "long", limit: 1 })).length, 1);
  });

  test("are reclaimed after the grace period and not before: to be retried, with a trace", async () => {
    await using kit = await openTestHoldfast();
    const { leases, jobs } = kit.holdfast;
    const { job } = await heldJob(kit);
    await kit.clock.advance("31s");
    assert.deepEqual(await leases.resetExpired({ grace: "2s" }), []);
    await kit.clock.advance("1500ms");
    const [taken] = await leases.resetExpired({ grace: "2s" });
    assert.deepEqual([taken?.id, taken?.status, taken?.worker], [job.id, "retry", "by-hand"]);
    const [attempt] = await jobs.attempts(job.id);
    assert.deepEqual([attempt?.outcome, attempt?.error?.code], ["crashed", "LEASE_EXPIRED"]);
    assert.equal((await job.get()).crashes, 1);
  });

  test("make a job dead with its last attempt, and poison with the third worker it cost", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const single = await holdfast.enqueue(echo, 1, { maxAttempts: 1 });
    const killer = await holdfast.enqueue(echo, 2, { maxAttempts: 50 });
    for (let crash = 1; crash <= 3; crash += 1) {
      await holdfast.leases.acquire({ worker: `w-${crash}`, limit: 2, lease: "1s" });
      await clock.advance("10s");
      await holdfast.leases.resetExpired();
      await clock.advance("1h");
      await holdfast.store.jobs.promoteDue({ limit: 10 });
    }
    const one = await single.get();
    assert.deepEqual([one.status, one.lastError?.code], ["failed", "LEASE_EXPIRED"]);
    const other = await killer.get();
    assert.deepEqual([other.status, other.lastError?.code], ["failed", "POISON"]);
    assert.equal(other.crashes, 3);
  });

  test("are reclaimed in batches of the given size", async () => {
    await using kit = await openTestHoldfast();
    const { leases } = kit.holdfast;
    await kit.holdfast.enqueueMany(echo, [1, 2, 3]);
    await leases.acquire({ worker: "w", limit: 3, lease: "1s" });
    await kit.clock.advance("1m");
    assert.equal((await leases.resetExpired({ limit: 2 })).length, 2);
    assert.equal((await leases.resetExpired()).length, 1);
    // A call that answers with a promise refuses with it too: a throw would pass by a catch().
    const refusal = leases.resetExpired({ limit: 0 });
    await assert.rejects(refusal, withCode("INVALID_ARGUMENT", "limit"));
  });
});
