import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { NoWorkerError } from "../../src/core/errors.ts";
import {
  defineTask,
  GiveUpError,
  type Holdfast,
  InvalidArgumentError,
  openHoldfast,
} from "../../src/index.ts";
import {
  drain,
  DrainLimitError,
  openTestHoldfast,
  testClock,
  type TestHoldfast,
} from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";

after(assertNothingRuns);

const HOUR_MS = 3_600_000;

suite("an example: a shop tests its reminders", () => {
  test("a reminder is sent a day after the order, and again if the mail server was down", async () => {
    await using shop = await openTestHoldfast({ start: new Date("2027-03-01T09:00:00Z") });
    const { holdfast, clock } = shop;

    const sent: string[] = [];
    let mailServerIsUp = false;
    const remind = defineTask({
      name: "order.remind",
      retry: { maxAttempts: 5, backoff: { initial: "1m" } },
      run({ email }: { email: string }) {
        if (!mailServerIsUp) throw new Error("connection refused");
        sent.push(email);
        return { sentAt: new Date(clock.now()).toISOString() };
      },
    });

    const job = await holdfast.enqueue(remind, { email: "ada@example.org" }, { delay: "1d" });

    // Nothing is due today.
    assert.deepEqual((await shop.drain([remind])).jobs, []);

    // Tomorrow the mail server is down, and the reminder waits for its second attempt.
    await clock.advance("1d");
    const [tried] = (await shop.drain([remind])).jobs;
    assert.equal(tried?.status, "retry");
    assert.equal(tried.error?.message, "connection refused");

    // When it is up again, the reminder goes out without anybody waiting for it.
    mailServerIsUp = true;
    const { totals } = await shop.drain([remind], { skipTime: true });
    assert.equal(totals.done, 1);
    assert.deepEqual(sent, ["ada@example.org"]);
    assert.match((await job.result()).sentAt, /^2027-03-02T09:0/);
  });
});

suite("a test clock", () => {
  test("does not advance until a test advances it, and then shows exactly that much later", async () => {
    const clock = testClock(1_000);
    await clock.settle();
    assert.equal(clock.now(), 1_000);
    await clock.advance("1h");
    assert.equal(clock.now(), 1_000 + HOUR_MS);
    assert.equal(clock.monotonic(), HOUR_MS);
  });

  test("begins at the given time", () => {
    assert.equal(testClock(new Date("2030-01-01T00:00:00Z")).now(), Date.UTC(2030, 0));
    assert.ok(testClock().now() > Date.UTC(2026, 0));
  });

  test("fires timers in the order they are due, each at its moment", async () => {
    const clock = testClock(0);
    const fired: (readonly [string, number])[] = [];
    const at = (name: string) => () => void fired.push([name, clock.now()]);
    clock.timer(300, at("third"));
    clock.timer(100, at("first"));
    clock.timer(200, at("second, set before"));
    clock.timer(200, at("second, set after"));
    await clock.advance(250);
    assert.deepEqual(fired, [
      ["first", 100],
      ["second, set before", 200],
      ["second, set after", 200],
    ]);
    await clock.advance(50);
    assert.deepEqual(fired.at(-1), ["third", 300]);
  });

  test("fires no timer that was cancelled", async () => {
    const clock = testClock();
    let fired = false;
    const timer = clock.timer(10, () => void (fired = true));
    timer.cancel();
    await clock.advance("1d");
    assert.equal(fired, false);
  });

  test("fires timers that were set by timers, and lets promises settle in between", async () => {
    const clock = testClock(0);
    const wait = (ms: number) => new Promise<void>((resolve) => void clock.timer(ms, resolve));
    const seen: number[] = [];
    const story = (async () => {
      for (let chapter = 0; chapter < 5; chapter += 1) {
        await wait(1_000);
        await new Promise<void>((resolve) => clock.afterIo(resolve));
        seen.push(clock.now());
      }
    })();
    await clock.advance("5s");
    assert.deepEqual(seen, [1_000, 2_000, 3_000, 4_000, 5_000]);
    await story;
  });

  test("gives the same random numbers for the same seed, and others for another", () => {
    const draws = (seed: number) => {
      const clock = testClock(0, { seed });
      const bytes = new Uint8Array(16);
      clock.fillRandom(bytes);
      return [clock.random(), clock.random(), ...bytes];
    };
    assert.deepEqual(draws(7), draws(7));
    assert.notDeepEqual(draws(7), draws(8));
    const many = testClock();
    const mean = Array.from({ length: 10_000 }, () => many.random()).reduce((a, b) => a + b) / 1e4;
    assert.ok(mean > 0.48 && mean < 0.52, `the mean of many draws was ${mean}`);
  });
});

const double = defineTask({ name: "double", run: (n: number) => n * 2 });

const failing = defineTask({
  name: "failing",
  retry: { maxAttempts: 4, backoff: { initial: "10s", max: "1h" } },
  run() {
    throw new TypeError("never works");
  },
});

suite("a drain", () => {
  test("runs all due jobs and reports the outcome of each", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const hopeless = defineTask({
      name: "hopeless",
      run() {
        throw new GiveUpError("no such customer");
      },
    });
    const first = await holdfast.enqueue(double, 21);
    const second = await holdfast.enqueue(failing, null);
    const third = await holdfast.enqueue(hopeless, null);

    const drained = await drain(holdfast, [double, failing, hopeless]);
    const withoutError = drained.jobs.map(({ id, task, status, attempts }) => {
      return { id, task, status, attempts };
    });
    assert.deepEqual(withoutError, [
      { id: first.id, task: "double", status: "done", attempts: 1 },
      { id: second.id, task: "failing", status: "retry", attempts: 1 },
      { id: third.id, task: "hopeless", status: "failed", attempts: 1 },
    ]);
    assert.ok(!("error" in drained.jobs[0]!));
    assert.equal(drained.jobs[1]?.error?.name, "TypeError");
    assert.equal(drained.jobs[2]?.error?.code, "GIVE_UP");
    const { done, retry, failed, pending } = drained.totals;
    assert.deepEqual(
      { done, retry, failed, pending },
      { done: 1, retry: 1, failed: 1, pending: 0 },
    );
    assert.equal(drained.attempts, 3);
    assert.equal(await first.result(), 42);
  });

  test("runs jobs in claim order: higher priority first, then older, in every queue", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const order: string[] = [];
    const note = defineTask({ name: "note", run: (name: string) => void order.push(name) });
    await holdfast.enqueue(note, "old");
    await clock.advance(1);
    await holdfast.enqueue(note, "elsewhere", { queue: "reports" });
    await clock.advance(1);
    await holdfast.enqueue(note, "urgent", { priority: 10 });
    await kit.drain([note]);
    assert.deepEqual(order, ["urgent", "old", "elsewhere"]);
  });

  test("runs the jobs that jobs enqueue", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const child = defineTask({ name: "child", run: () => "grown" });
    const parent = defineTask({
      name: "parent",
      run: async () => (await holdfast.enqueue(child, null)).id,
    });
    await holdfast.enqueue(parent, null);
    const { jobs } = await kit.drain([parent, child]);
    assert.deepEqual(
      jobs.map(({ task, status }) => [task, status]),
      [
        ["parent", "done"],
        ["child", "done"],
      ],
    );
  });

  test("that may skip time continues until the last attempt has failed", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const startedAt = clock.now();
    const job = await holdfast.enqueue(failing, null, { delay: "2h" });
    const { jobs, totals, attempts } = await kit.drain([failing], { skipTime: true });
    assert.equal(jobs[0]?.status, "failed");
    assert.equal(jobs[0].attempts, 4);
    assert.equal(attempts, 4);
    assert.equal(totals.failed, 1);
    // Three waits with full jitter: at most 10 s, 20 s and 40 s after the delay.
    const passedMs = clock.now() - startedAt;
    assert.ok(passedMs >= 2 * HOUR_MS && passedMs <= 2 * HOUR_MS + 70_000, `${passedMs} ms`);
    const history = await holdfast.jobs.attempts(job.id);
    assert.deepEqual(
      history.map(({ outcome }) => outcome),
      ["retry", "retry", "retry", "failed"],
    );
  });

  test("leaves jobs of other tasks alone, and reports them", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const stranger = await holdfast.enqueue("stranger", { any: "thing" });
    const later = await holdfast.enqueue("stranger", null, { delay: "10d" });
    await holdfast.enqueue(double, 1);
    const drained = await kit.drain([double], { skipTime: true });
    assert.equal(drained.totals.done, 1);
    assert.deepEqual(drained.left, [
      { id: stranger.id, task: "stranger", status: "pending", attempts: 0 },
      { id: later.id, task: "stranger", status: "scheduled", attempts: 0 },
    ]);
    assert.equal(clock.now(), testClock().now(), "time was skipped for a job that cannot run");
  });

  test("skips jobs that are not due or that a worker holds, and reports them", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const held = await holdfast.enqueue(double, 1);
    await holdfast.leases.acquire({ worker: "another" });
    const delayed = await holdfast.enqueue(double, 2, { delay: "1s" });
    const { jobs, left } = await kit.drain([double]);
    assert.deepEqual(jobs, []);
    assert.deepEqual(left, [
      { id: held.id, task: "double", status: "processing", attempts: 1 },
      { id: delayed.id, task: "double", status: "scheduled", attempts: 0 },
    ]);
  });

  test("reports a job as left that ran and waits for its next attempt", async () => {
    await using kit = await openTestHoldfast();
    const job = await kit.holdfast.enqueue(failing, null);
    const { jobs, left } = await kit.drain([failing]);
    assert.deepEqual(
      [jobs, left].map((list) => list.map(({ id, status }) => [id, status])),
      [[[job.id, "retry"]], [[job.id, "retry"]]],
    );
    const ended = await kit.drain([failing], { skipTime: true });
    assert.deepEqual(ended.left, []);
  });

  test("gives a task the context it has in production", async () => {
    await using kit = await openTestHoldfast();
    const seen: unknown[] = [];
    const look = defineTask({
      name: "look",
      queue: "sights",
      retry: { maxAttempts: 2, backoff: { initial: 0 } },
      run(_input: null, ctx) {
        const { id, task, queue, attempt, maxAttempts, traceId, idempotencyKey, fence } = ctx;
        assert.equal(ctx.signal.aborted, false);
        assert.equal(traceId, `${fence.worker}-${id}-${attempt}`);
        seen.push({ task, queue, attempt, maxAttempts, sameKey: idempotencyKey === id });
        if (attempt === 1) throw new Error("once more");
      },
    });
    await kit.holdfast.enqueue(look, null);
    await kit.drain([look]);
    const facts = { task: "look", queue: "sights", maxAttempts: 2, sameKey: true };
    assert.deepEqual(seen, [
      { ...facts, attempt: 1 },
      { ...facts, attempt: 2 },
    ]);
  });

  test("lets a task's timeout fire when the test moves the clock", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const reasons: unknown[] = [];
    const endless = defineTask({
      name: "endless",
      timeout: "5m",
      retry: { maxAttempts: 1 },
      run: (_input: null, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            reasons.push((signal.reason as { code: string }).code);
            reject(new Error("stopped"));
          });
        }),
    });
    await holdfast.enqueue(endless, null);
    const draining = kit.drain([endless]);
    await clock.advance("5m");
    const { jobs } = await draining;
    assert.deepEqual(reasons, ["JOB_TIMEOUT"]);
    assert.equal(jobs[0]?.error?.code, "JOB_TIMEOUT");
  });

  test("that never ends is stopped at its limit, with the job handed back", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const again = defineTask({
      name: "again",
      run: async () => void (await holdfast.enqueue("again", null)),
    });
    await holdfast.enqueue(again, null);
    await assert.rejects(
      kit.drain([again], { attempts: 50 }),
      (error) => error instanceof DrainLimitError && error.attempts === 50,
    );
    assert.deepEqual(await holdfast.leases.list(), []);
    assert.equal((await holdfast.jobs.list({ status: "pending" })).length, 1);
  });

  test("can be repeated with the same seed and gives the same run, ids and times included", async () => {
    const run = async (seed: number) => {
      await using kit = await openTestHoldfast({ seed });
      await kit.holdfast.enqueueMany(failing, [null, null, null]);
      const { jobs } = await kit.drain([failing], { skipTime: true });
      const histories = await Promise.all(jobs.map(({ id }) => kit.holdfast.jobs.attempts(id)));
      const times = histories.flat().map(({ worker, endedAt }) => ({ worker, endedAt }));
      return { ids: jobs.map(({ id }) => id), times };
    };
    assert.deepEqual(await run(3), await run(3));
    assert.notDeepEqual(await run(3), await run(4));
  });

  test("works on a real clock too, but cannot skip time there", async () => {
    await using holdfast: Holdfast = await openHoldfast("sqlite::memory:");
    await holdfast.enqueue(double, 4);
    const { totals } = await drain(holdfast, [double]);
    assert.equal(totals.done, 1);
    await assert.rejects(
      drain(holdfast, [double], { skipTime: true }),
      (error) => error instanceof InvalidArgumentError && error.field === "skipTime",
    );
  });

  test("refuses an option it does not know", async () => {
    await using kit = await openTestHoldfast();
    await assert.rejects(
      // @ts-expect-error -- there is no such option
      kit.drain([double], { skiptime: true }),
      (error) => error instanceof InvalidArgumentError && error.field === "skiptime",
    );
  });
});

suite("a result that no worker and no drain produces", () => {
  const stuck =
    (status: string) =>
    (error: unknown): boolean => {
      assert.ok(error instanceof NoWorkerError, String(error));
      assert.match(
        error.message,
        new RegExp(`^Job \\S+ \\((double|failing)\\) is ${status}, and `),
      );
      assert.match(error.message, /drain\(\[task\]\).*skipTime.*advance.*no timeout passes/);
      return true;
    };

  test("fails with advice on what to call: the clock does not advance, and neither does a timeout", async () => {
    await using kit = await openTestHoldfast();
    const job = await kit.holdfast.enqueue(double, 1);
    await assert.rejects(job.result({ timeout: "100ms" }), stuck("pending"));
    await assert.rejects(job.result(), stuck("pending"));
  });

  test("also after a drain that left it for later", async () => {
    await using kit = await openTestHoldfast();
    const job = await kit.holdfast.enqueue(failing, null);
    await kit.drain([failing]);
    await assert.rejects(job.result(), stuck("retry"));
  });

  test("also beside a worker that does not know its task", async () => {
    await using kit = await openTestHoldfast();
    await kit.holdfast.startWorker({ tasks: [failing] });
    const job = await kit.holdfast.enqueue(double, 1);
    await assert.rejects(job.result(), stuck("pending"));
  });

  test("names an effect in doubt, and the function to call", async () => {
    await using kit = await openTestHoldfast();
    const pay = defineTask({
      name: "pay",
      run: (_input: null, ctx) => ctx.effect("charge", () => Promise.reject(new Error("hung up"))),
    });
    const job = await kit.holdfast.enqueue(pay, null);
    await kit.drain([pay], { skipTime: true });
    await assert.rejects(job.result(), (error: Error) => {
      assert.ok(error instanceof NoWorkerError, String(error));
      assert.match(error.message, /is waiting: its effect 'charge' is in doubt.*jobs\.resolve\(\)/);
      return true;
    });
  });

  test("is waited for while a drain or a worker runs it, however long that takes", async () => {
    const slow = defineTask({ name: "slow", run: () => pause(1_200).then(() => "there") });
    const runners: ((kit: TestHoldfast) => Promise<unknown>)[] = [
      (kit) => kit.drain([slow]),
      ({ holdfast }) => holdfast.startWorker({ tasks: [slow] }),
    ];
    const wait = async (start: (kit: TestHoldfast) => Promise<unknown>): Promise<string> => {
      await using kit = await openTestHoldfast();
      const result = (await kit.holdfast.enqueue(slow, null)).result();
      await start(kit);
      return await result;
    };
    assert.deepEqual(await Promise.all(runners.map(wait)), ["there", "there"]);
  });
});

suite("a worker on a test clock", () => {
  test("runs a delayed job when the test lets the time pass, and not before", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const worker = await holdfast.startWorker({ tasks: [double] });
    const job = await holdfast.enqueue(double, 4, { delay: "1h" });
    await clock.advance("59m");
    assert.equal((await job.get()).status, "scheduled");
    await clock.advance("2m");
    assert.equal((await job.get()).status, "done");
    assert.equal(worker.status().done, 1);
  });

  test("is stopped with its Holdfast, even when a job would never end", async () => {
    const reasons: string[] = [];
    const endless = defineTask({
      name: "endless",
      run: (_input: null, { signal }) =>
        new Promise(() => {
          const note = () => reasons.push((signal.reason as { code: string }).code);
          signal.addEventListener("abort", note);
        }),
    });
    {
      await using kit = await openTestHoldfast();
      await kit.holdfast.startWorker({ tasks: [endless], shutdown: "1h" });
      await kit.holdfast.enqueue(endless, null);
      await kit.clock.advance("1s");
    }
    assert.deepEqual(reasons, ["SHUTTING_DOWN"]);
  });
});
