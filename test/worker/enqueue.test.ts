import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import { defineTask, type EnqueueOptions, openHoldfast } from "../../src/index.ts";
import { KeyTakenError } from "../../src/core/errors.ts";
import { isId } from "../../src/core/id.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX } from "../../src/core/json.ts";
import { PRIORITY_MAX } from "../../src/jobs/after.ts";
import { ENQUEUE_BATCH_MAX } from "../../src/jobs/sql-jobs.ts";
import { openTestHoldfast, testClock } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until, withCode } from "./observe.ts";
import { withOutage, wrapStore } from "./wrapped-store.ts";

after(assertNothingRuns);

const echo = defineTask({ name: "echo", run: (value: unknown) => value });

suite("a job that was enqueued", () => {
  test("has the requested fields", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const mail = defineTask({
      name: "mail.send",
      queue: "mail",
      retry: { maxAttempts: 5 },
      run: (_to: { to: string }) => null,
    });
    const job = await holdfast.enqueue(mail, { to: "ada" }, { priority: 7, key: "ada-1" });
    assert.ok(isId(job.id));
    assert.deepEqual([job.task, job.added], ["mail.send", true]);
    const { id: _id, ...view } = await job.get();
    const asked = { queue: "mail", task: "mail.send", priority: 7, key: "ada-1", maxAttempts: 5 };
    const fresh = { status: "pending", epoch: 0, attempts: 0, crashes: 0 };
    const nothing = {
      dueAt: null,
      lockedBy: null,
      lockedUntil: null,
      claimedAt: null,
      heartbeatAt: null,
      traceId: null,
      inDoubt: null,
      lane: null,
      tags: [],
      finishedAt: null,
      cancelRequestedAt: null,
      lastError: null,
      result: undefined,
    };
    const told = { input: { to: "ada" }, enqueuedAt: clock.now() };
    assert.deepEqual(view, { ...asked, ...fresh, ...nothing, ...told });
  });

  test("by name alone goes to the default queue, and waits for a worker that knows it", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const worker = await holdfast.startWorker({ tasks: [echo] });
    const job = await holdfast.enqueue("nobody.knows", { any: "thing" });
    const known = await holdfast.enqueue(echo, 1);
    await clock.advance("10m");
    assert.equal(await known.result(), 1);
    const { status, attempts, queue } = await job.get();
    assert.deepEqual(
      { status, attempts, queue },
      { status: "pending", attempts: 0, queue: "default" },
    );
    assert.equal(worker.status().claimed, 1);

    const late = defineTask({ name: "nobody.knows", run: (input: unknown) => ({ got: input }) });
    await holdfast.startWorker({ tasks: [late] });
    await clock.advance("1s");
    assert.deepEqual(await job.result(), { got: { any: "thing" } });
  });

  test("goes to the queue the caller names, and waits there for a worker", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const job = await holdfast.enqueue(echo, 1, { queue: "night" });
    await holdfast.startWorker({ tasks: [echo] });
    await clock.advance("1m");
    assert.equal((await job.get()).status, "pending");
    await holdfast.startWorker({ tasks: [echo], queues: ["night"] });
    await clock.advance("1s");
    assert.equal((await job.get()).status, "done");
  });

  test("runs by priority first, then by age", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const order: string[] = [];
    const note = defineTask({ name: "note", run: (name: string) => void order.push(name) });
    for (const [name, priority] of Object.entries({ a: 0, b: 5, c: -5, d: 0, e: 5 })) {
      await holdfast.enqueue(note, name, { priority });
      await clock.advance(1);
    }
    await holdfast.startWorker({ tasks: [note], concurrency: 1 });
    await clock.advance("1s");
    assert.deepEqual(order, ["b", "e", "a", "d", "c"]);
  });

  test("runs soon after, without waiting for a poll", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    await holdfast.startWorker({ tasks: [echo], poll: "1h", maintenanceInterval: "1h" });
    await (await holdfast.enqueue(echo, "warm")).result();
    const startedAt = performance.now();
    assert.equal(await (await holdfast.enqueue(echo, "soon")).result({ timeout: "5s" }), "soon");
    assert.ok(performance.now() - startedAt < 1_000);
  });
});

suite("a job for later", () => {
  test("waits as long as the delay says", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    await holdfast.startWorker({ tasks: [echo] });
    const job = await holdfast.enqueue(echo, 1, { delay: "10m" });
    const { status, dueAt } = await job.get();
    assert.deepEqual({ status, dueAt }, { status: "scheduled", dueAt: clock.now() + 600_000 });
    await clock.advance(599_999);
    assert.equal((await job.get()).status, "scheduled");
    await clock.advance("2s");
    assert.equal((await job.get()).status, "done");
  });

  test("waits until the moment that was named, as a Date or in milliseconds", async () => {
    await using kit = await openTestHoldfast({ start: new Date("2027-06-01T00:00:00Z") });
    const at = new Date("2027-06-02T12:00:00Z");
    const [one, two] = [
      await kit.holdfast.enqueue(echo, 1, { runAt: at }),
      await kit.holdfast.enqueue(echo, 2, { runAt: at.getTime() }),
    ];
    assert.equal((await one.get()).dueAt, at.getTime());
    assert.equal((await two.get()).dueAt, at.getTime());
    await kit.drain([echo], { skipTime: true });
    assert.equal(kit.clock.now(), at.getTime());
    assert.deepEqual([await one.result(), await two.result()], [1, 2]);
  });

  test("is pending at once when its moment is past or its delay is nothing, and runs soon", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    await holdfast.startWorker({ tasks: [echo], poll: "1h", maintenanceInterval: "1h" });
    await (await holdfast.enqueue(echo, "warm")).result();
    const now = await holdfast.enqueue(echo, "now", { delay: 0 });
    assert.equal(await now.result({ timeout: "3s" }), "now");
    const past = await holdfast.enqueue(echo, "past", { runAt: new Date(1_000) });
    assert.equal(await past.result({ timeout: "3s" }), "past");
  });

  test("runs at its time though the chores are done rarely", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    await holdfast.startWorker({ tasks: [echo], poll: "1h", maintenanceInterval: "1h" });
    await (await holdfast.enqueue(echo, "warm")).result();
    const soon = await holdfast.enqueue(echo, "soon", { delay: 50 });
    assert.equal(await soon.result({ timeout: "3s" }), "soon");
  });
});

suite("a key", () => {
  test("belongs to one live job: enqueueing again returns that one", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const first = await holdfast.enqueue(echo, "first", { key: "order-42" });
    const again = await holdfast.enqueue(echo, "again", { key: "order-42", delay: "1h" });
    assert.deepEqual([first.added, again.added], [true, false]);
    assert.equal(again.id, first.id);
    await kit.drain([echo]);
    assert.equal(await again.result(), "first");
  });

  test("belongs to one job even among those of one call", async () => {
    await using kit = await openTestHoldfast();
    const jobs = await kit.holdfast.enqueueMany(echo, [1, 2, 3, 4], (n) => ({
      key: Number(n) % 2 === 0 ? "even" : "odd",
    }));
    assert.deepEqual(
      jobs.map(({ added }) => added),
      [true, true, false, false],
    );
    assert.equal(jobs[3]?.id, jobs[1]?.id);
    assert.equal((await kit.drain([echo])).jobs.length, 2);
  });

  test("of another task is another key, and one of a finished job is free", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const first = await holdfast.enqueue(echo, 1, { key: "k" });
    assert.equal((await holdfast.enqueue("other", 1, { key: "k" })).added, true);
    await kit.drain([echo]);
    const second = await holdfast.enqueue(echo, 2, { key: "k" });
    assert.equal(second.added, true);
    assert.notEqual(second.id, first.id);
  });

  test("is kept for the requested time after the job has ended", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const options = { key: "k", keyFor: "7d" } as const;
    const first = await holdfast.enqueue(echo, 1, options);
    await kit.drain([echo]);
    const again = await holdfast.enqueue(echo, 2, { key: "k" });
    assert.deepEqual([again.id, again.added, await again.result()], [first.id, false, 1]);
    await kit.clock.advance("7d");
    assert.equal((await holdfast.enqueue(echo, 3, options)).added, true);
  });

  test("that is held is a reason to refuse a whole call, if the caller says so", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const { id } = await holdfast.enqueue(echo, 1, { key: "k" });
    const call = holdfast.enqueueMany(echo, [2, 3], (n) => ({
      key: n === 2 ? "free" : "k",
      onConflict: "reject",
    }));
    await assert.rejects(call, (error) => {
      assert.ok(error instanceof KeyTakenError);
      assert.deepEqual([error.code, error.holder, error.status], ["KEY_TAKEN", id, "pending"]);
      assert.match(error.message, /'k' of task 'echo'.*Wait for it to finish, or cancel it/);
      return true;
    });
    assert.equal((await holdfast.jobs.list()).length, 1);
  });

  test("goes to a job that replaces its holder, whose callers learn that it was cancelled", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const first = await holdfast.enqueue(echo, 1, { key: "k" });
    const waiting = assert.rejects(first.result(), withCode("JOB_CANCELLED"));
    const second = await holdfast.enqueue(echo, 2, { key: "k", onConflict: "replace" });
    await waiting;
    assert.equal(second.added, true);
    assert.match((await first.get()).lastError?.message ?? "", new RegExp(second.id));
    await kit.drain([echo]);
    assert.equal(await second.result(), 2);
  });

  test("of a job that a worker holds is not free", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const end = Promise.withResolvers<void>();
    const held = defineTask({ name: "held", run: () => end.promise });
    const worker = await holdfast.startWorker({ tasks: [held] });
    const job = await holdfast.enqueue(held, null, { key: "k" });
    await until("it runs", () => worker.status().running === 1);
    assert.equal((await holdfast.enqueue(held, null, { key: "k" })).added, false);
    const replacing = holdfast.enqueue(held, null, { key: "k", onConflict: "replace" });
    await assert.rejects(replacing, withCode("KEY_TAKEN"));
    end.resolve();
    await job.result();
    assert.equal((await holdfast.enqueue(held, null, { key: "k" })).added, true);
  });
});

suite("many jobs at once", () => {
  const COUNT = 12_000;

  test(`${COUNT} of them are all accepted, in order, and all run`, async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    let sum = 0;
    const add = defineTask({ name: "add", run: (n: number) => void (sum += n) });
    const numbers = Array.from({ length: COUNT }, (_, index) => index);
    const jobs = await holdfast.enqueueMany(add, numbers);
    assert.equal(jobs.length, COUNT);
    assert.equal(new Set(jobs.map(({ id }) => id)).size, COUNT);
    assert.ok(jobs.every(({ added }) => added));
    for (const index of [0, ENQUEUE_BATCH_MAX - 1, ENQUEUE_BATCH_MAX, COUNT - 1]) {
      assert.equal((await jobs[index]?.get())?.input, index);
    }
    const worker = await holdfast.startWorker({ tasks: [add], concurrency: 50 });
    await until("all are done", () => worker.status().done === COUNT);
    assert.equal(sum, (COUNT * (COUNT - 1)) / 2);
  });

  test("none is accepted when one of them cannot be", async () => {
    await using kit = await openTestHoldfast();
    await assert.rejects(
      kit.holdfast.enqueueMany(echo, [1, 2, { when: new Date(0) }, 4]),
      withCode("NOT_SERIALIZABLE"),
    );
    await assert.rejects(
      kit.holdfast.enqueueMany(echo, [1, 2], (n) => ({ priority: n === 2 ? 0.5 : 0 })),
      withCode("INVALID_ARGUMENT", "priority"),
    );
    assert.deepEqual(await kit.holdfast.jobs.list(), []);
  });

  test("the error says how many were accepted when the database went away in between", async () => {
    let batches = 0;
    const runtime = testClock();
    const real = await openStore("sqlite::memory:", { runtime });
    const outage = withOutage(real);
    const store = wrapStore(outage.store, (next) => ({
      jobs: {
        async enqueue(jobs) {
          batches += 1;
          outage.down = batches > 1;
          return next.jobs.enqueue(jobs);
        },
      },
    }));
    await using holdfast = await openHoldfast(store, { runtime });
    const numbers = Array.from({ length: ENQUEUE_BATCH_MAX + 1 }, (_, index) => index);
    await assert.rejects(holdfast.enqueueMany(echo, numbers), /5000 jobs were accepted/);
    outage.down = false;
    const [stats] = await holdfast.stats();
    assert.equal(stats?.counts.pending, ENQUEUE_BATCH_MAX);
  });

  test("no job at all is no mistake", async () => {
    await using kit = await openTestHoldfast();
    assert.deepEqual(await kit.holdfast.enqueueMany(echo, []), []);
  });

  test("an iterable is enough", async () => {
    await using kit = await openTestHoldfast();
    const jobs = await kit.holdfast.enqueueMany(echo, new Set(["a", "b"]));
    assert.equal(jobs.length, 2);
  });
});

suite("an invalid job", () => {
  const options: readonly (readonly [what: string, field: string, options: unknown])[] = [
    ["a misspelt option", "prioritiy", { prioritiy: 1 }],
    ["an option of another call", "timeout", { timeout: "1s" }],
    ["a priority that is no whole number", "priority", { priority: 1.5 }],
    ["a priority beyond its range", "priority", { priority: PRIORITY_MAX + 1 }],
    ["no attempts", "maxAttempts", { maxAttempts: 0 }],
    ["a negative delay", "delay", { delay: -1 }],
    ["an unreadable delay", "delay", { delay: "soon" }],
    ["a delay and a moment", "delay", { delay: 1, runAt: new Date(0) }],
    ["an invalid Date", "runAt", { runAt: new Date(Number.NaN) }],
    ["a moment as a text", "runAt", { runAt: "2027-01-01" }],
    ["a moment before 1970", "runAt", { runAt: -1 }],
    ["an empty key", "key", { key: "" }],
    ["a time for a key without one", "keyFor", { keyFor: "1d" }],
    ["a time for a key that is none", "keyFor", { key: "k", keyFor: 0 }],
    ["a conflict about a key without one", "onConflict", { onConflict: "reject" }],
    ["an unknown conflict", "onConflict", { key: "k", onConflict: "ignore" }],
    ["a queue with a blank at its end", "queue", { queue: "mail " }],
    ["a queue that is no text", "queue", { queue: 7 }],
  ];
  for (const [what, field, given] of options) {
    test(`${what} is refused by the name '${field}', and nothing is written`, async () => {
      await using kit = await openTestHoldfast();
      await assert.rejects(
        kit.holdfast.enqueue(echo, 1, given as EnqueueOptions),
        withCode("INVALID_ARGUMENT", field),
      );
      assert.deepEqual(await kit.holdfast.jobs.list(), []);
    });
  }

  test("an unknown option is named together with those there are", async () => {
    await using kit = await openTestHoldfast();
    const given = { prioritiy: 1 } as EnqueueOptions;
    await assert.rejects(kit.holdfast.enqueue(echo, 1, given), /prioritiy.*priority/);
  });

  const inputs: readonly (readonly [what: string, code: string, input: unknown])[] = [
    ["a Date", "NOT_SERIALIZABLE", { at: new Date(0) }],
    ["a function", "NOT_SERIALIZABLE", () => 1],
    ["a BigInt", "NOT_SERIALIZABLE", 1n],
    ["more than 256 KiB", "TOO_LARGE", "x".repeat(DEFAULT_PAYLOAD_BYTES_MAX)],
  ];
  for (const [what, code, input] of inputs) {
    test(`${what} as input is refused with ${code}`, async () => {
      await using kit = await openTestHoldfast();
      await assert.rejects(kit.holdfast.enqueue(echo, input), withCode(code));
      assert.deepEqual(await kit.holdfast.jobs.list(), []);
    });
  }

  const tasks: readonly (readonly [what: string, task: unknown])[] = [
    ["an empty name", ""],
    ["nothing", undefined],
    ["null", null],
    ["something that is no task", {}],
  ];
  for (const [what, task] of tasks) {
    test(`${what} as task is refused as an invalid argument`, async () => {
      await using kit = await openTestHoldfast();
      await assert.rejects(
        kit.holdfast.enqueue(task as string, 1),
        withCode("INVALID_ARGUMENT", "task"),
      );
    });
  }
});
