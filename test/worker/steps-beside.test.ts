/** Steps beside one another, and what becomes of jobs that others wait for: everything that a reader broke. */
import assert from "node:assert/strict";
import { setTimeout as later } from "node:timers/promises";
import { after, suite, test } from "node:test";
import {
  type Context,
  defineEvent,
  defineTask,
  GiveUpError,
  openHoldfast,
  type UserTransaction,
} from "../../src/index.ts";
import { CalledFailedError } from "../../src/core/errors.ts";
import { CallFailedError } from "../../src/steps/errors.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "./observe.ts";

after(assertNothingRuns);

const said = defineEvent<number>({ name: "said" });

function taskOf(body: (ctx: Context) => Promise<unknown>, attempts = 5) {
  return defineTask({
    name: "order",
    retry: { maxAttempts: attempts, backoff: { initial: "1s", max: "1s" } },
    run: (_input: null, ctx) => body(ctx),
  });
}

const all = { skipTime: true } as const;

suite("steps side by side", () => {
  test("of one name that begin independently are refused, because they cannot be distinguished", async () => {
    await using kit = await openTestHoldfast();
    const charged: string[] = [];
    const branch = async (ctx: Context, item: string, isTime: () => boolean): Promise<unknown> => {
      await ctx.step(`quote ${item}`, () => until("it is time", isTime).then(() => null));
      return ctx.effect("charge", () => charged.push(item));
    };
    const beside = (ctx: Context) =>
      Promise.all([branch(ctx, "a", () => charged.length > 0), branch(ctx, "b", () => true)]);
    const task = taskOf(beside, 1);
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task], all);
    assert.match(
      (await job.get()).lastError?.message ?? "",
      /a different name, such as 'charge 42'/,
    );
    assert.deepEqual(charged, ["b"]);
  });

  test("of one name, that begin in one go, keep their order", async () => {
    await using kit = await openTestHoldfast();
    let runs = 0;
    const task = taskOf(async (ctx) => {
      const got = await Promise.all([30, 1, 10].map((ms) => ctx.step("item", () => later(ms, ms))));
      runs += 1;
      if (runs === 1) throw new Error("crash");
      return got;
    });
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task], all);
    assert.deepEqual(await job.result(), [30, 1, 10]);
  });

  test("of several branches proceed at any pace, and later steps are matched again", async () => {
    await using kit = await openTestHoldfast();
    const made: string[] = [];
    let runs = 0;
    const task = taskOf(async (ctx) => {
      runs += 1;
      const [a, b] = runs === 1 ? [20, 1] : [1, 20];
      const branch = async (name: string, ms: number): Promise<void> => {
        await ctx.step(`quote ${name}`, () => later(ms));
        await ctx.step(`pay ${name}`, () => made.push(name));
      };
      await Promise.all([branch("a", a), branch("b", b)]);
      await ctx.step("after", () => made.push("after"));
      if (runs < 3) throw new Error("crash");
      return made;
    });
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task], all);
    assert.deepEqual(await job.result(), ["b", "a", "after"]);
  });

  test("an error beside a wait ends the attempt", async () => {
    await using kit = await openTestHoldfast();
    const task = taskOf((ctx) =>
      Promise.all([
        ctx.event(said, "never"),
        ctx.step("boom", async () => {
          await later(5);
          throw new GiveUpError("no");
        }),
      ]),
    );
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task], all);
    assert.deepEqual(
      [(await job.get()).status, (await job.get()).lastError?.code],
      ["failed", "GIVE_UP"],
    );
  });

  test("whichever of two waits ends first wins", async () => {
    await using kit = await openTestHoldfast();
    const task = taskOf((ctx) =>
      Promise.race([ctx.event(said, "1"), ctx.sleep("deadline", "1h").then(() => "too late")]),
    );
    const [slow, fast] = [
      await kit.holdfast.enqueue(task, null),
      await kit.holdfast.enqueue(task, null),
    ];
    await kit.drain([task]);
    await kit.clock.advance("1h");
    await kit.drain([task]);
    assert.deepEqual([await slow.result(), await fast.result()], ["too late", "too late"]);
    const third = await kit.holdfast.enqueue(task, null);
    await kit.drain([task]);
    await kit.holdfast.emit(said, "1", 7);
    await kit.drain([task]);
    assert.equal(await third.result(), 7);
  });

  test("a branch proceeds as far as it can while another waits, even after its own sleep", async () => {
    await using kit = await openTestHoldfast();
    const made: string[] = [];
    const task = taskOf((ctx) =>
      Promise.all([
        ctx.event(said, "2"),
        (async () => {
          await ctx.step("prepare", () => made.push("prepare"));
          await ctx.step("mail", () => made.push("mail"));
          await ctx.sleep("patience", "1h");
          await ctx.step("remind", () => made.push("remind"));
        })(),
      ]).then(() => null),
    );
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task]);
    assert.deepEqual(made, ["prepare", "mail"]);
    await kit.clock.advance("1h");
    await kit.drain([task]);
    assert.deepEqual(made, ["prepare", "mail", "remind"]);
    await kit.holdfast.emit(said, "2", 1);
    await kit.drain([task]);
    assert.equal((await job.get()).status, "done");
  });

  test("that are still being made are finished before the next attempt", async () => {
    await using kit = await openTestHoldfast();
    let acts = 0;
    let charged = false;
    const task = taskOf((ctx) =>
      Promise.all([
        ctx.effect(
          "charge",
          async () => {
            acts += 1;
            await later(20);
            charged = true;
            return "paid";
          },
          { verify: () => (charged ? "paid" : null) },
        ),
        ctx.step("boom", () => {
          if (acts === 1 && !charged) throw new Error("crash");
        }),
      ]).then(() => null),
    );
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task], all);
    assert.deepEqual([(await job.get()).status, acts], ["done", 1]);
  });

  test("a place that was given back is no error in the function", async () => {
    await using kit = await openTestHoldfast();
    let refunds = 0;
    const task = taskOf((ctx) =>
      Promise.all([
        ctx.sleep("nap", "1h"),
        (async () => {
          try {
            await later(30);
            await ctx.step("b", () => 1);
          } catch {
            refunds += 1;
          }
        })(),
      ]),
    );
    await kit.holdfast.enqueue(task, null);
    await kit.drain([task]);
    await later(60);
    assert.equal(refunds, 0);
  });

  test("a wait that is not awaited does not keep a job from ending", async () => {
    await using kit = await openTestHoldfast();
    const task = taskOf(async (ctx) => {
      void ctx.event(said, "never");
      void ctx.sleep("nap", "1h");
      return ctx.step("a", () => "done");
    });
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task]);
    assert.equal(await job.result(), "done");
  });

  test("an event without a payload is received", async () => {
    await using kit = await openTestHoldfast();
    const task = taskOf(async (ctx) => (await ctx.event(said, "quiet")) ?? "nothing");
    const job = await kit.holdfast.enqueue(task, null);
    await kit.holdfast.store.steps.emit({ name: "said", key: "quiet", payload: null });
    await kit.drain([task]);
    assert.equal(await job.result(), "nothing");
  });

  test("a step inside of a step is refused", async () => {
    await using kit = await openTestHoldfast();
    const task = taskOf((ctx) => ctx.step("outer", () => ctx.sleep("nap", "1h")), 1);
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task], all);
    assert.match((await job.get()).lastError?.message ?? "", /inside another step/);
  });
});

suite("a doubt", () => {
  test("beside a wait is resolved, and delays no other step", async () => {
    await using kit = await openTestHoldfast();
    let acts = 0;
    const task = taskOf((ctx) =>
      Promise.all([
        ctx.effect("charge", () => {
          acts += 1;
          if (acts === 1) throw new Error("hung up");
          return acts;
        }),
        ctx.event(said, "3"),
      ]),
    );
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task], all);
    const [doubt] = await kit.holdfast.jobs.effectsInDoubt();
    assert.ok(doubt !== undefined);
    await kit.holdfast.jobs.resolve(doubt, { done: false });
    await kit.drain([task], all);
    await kit.holdfast.emit(said, "3", 3);
    await kit.drain([task], all);
    assert.deepEqual(await job.result(), [2, 3]);
  });

  test("of a cancelled job is no longer listed", async () => {
    await using kit = await openTestHoldfast();
    const task = taskOf((ctx) =>
      ctx.effect("charge", () => {
        throw new Error("hung up");
      }),
    );
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task], all);
    assert.equal((await kit.holdfast.jobs.effectsInDoubt()).length, 1);
    await job.cancel();
    assert.deepEqual(await kit.holdfast.jobs.effectsInDoubt(), []);
  });
});

suite("a called job", () => {
  let fails = true;
  const child = defineTask({
    name: "child",
    run() {
      if (fails) throw new GiveUpError("no");
      return "fine";
    },
  });

  test("that failed stays failed for the job that saw it, until that job is retried too", async () => {
    await using kit = await openTestHoldfast();
    fails = true;
    const parent = taskOf((ctx) => ctx.call(child, null));
    const job = await kit.holdfast.enqueue(parent, null);
    await kit.drain([parent, child], all);
    assert.equal((await job.get()).lastError?.code, "CALL_FAILED");
    fails = false;
    const [called] = await kit.holdfast.jobs.list({ task: "child" });
    await kit.holdfast.jobs.retry(called?.id ?? "");
    await kit.holdfast.jobs.retry(job.id);
    const { attempts } = await kit.drain([parent, child], { ...all, attempts: 20 });
    assert.equal(await job.result(), "fine");
    assert.ok(attempts < 6, `${attempts} attempts`);
  });

  test("that failed is named when its caller is retried alone, and retried with it on request", async () => {
    await using kit = await openTestHoldfast();
    fails = true;
    const middle = defineTask({
      name: "middle",
      retry: { maxAttempts: 1 },
      run: (_input: null, ctx) => ctx.call(child, null),
    });
    const parent = taskOf((ctx) => ctx.call(middle, null));
    const tasks = [parent, middle, child];
    const job = await kit.holdfast.enqueue(parent, null);
    await kit.drain(tasks, all);
    const [below] = await kit.holdfast.jobs.list({ task: "middle" });
    const [last] = await kit.holdfast.jobs.list({ task: "child" });
    await assert.rejects(kit.holdfast.jobs.retry(job.id), (error) => {
      assert.ok(error instanceof CalledFailedError);
      assert.deepEqual(error.called, [{ id: below?.id, task: "middle", status: "failed" }]);
      assert.match(
        error.message,
        new RegExp(`called ${below?.id} \\(middle\\), which is failed.*--with-called`),
      );
      return true;
    });
    assert.equal((await job.get()).status, "failed");

    fails = false;
    const by = { actor: "ada", reason: "the bank is back" };
    const called = await kit.holdfast.jobs.retry(job.id, { withCalled: true, ...by });
    assert.deepEqual(called, [last?.id, below?.id]);
    await kit.drain(tasks, { ...all, attempts: 20 });
    assert.equal(await job.result(), "fine");
    const lines = await kit.holdfast.audit.list();
    assert.deepEqual(
      lines.map(({ action, subject, actor }) => [action, subject, actor]),
      [...called, job.id].map((id) => ["job.retry", `job ${id}`, "ada"]),
    );
  });

  test("that failed can stay failed when its caller is retried", async () => {
    await using kit = await openTestHoldfast();
    fails = true;
    const parent = taskOf((ctx) => ctx.call(child, null));
    const job = await kit.holdfast.enqueue(parent, null);
    await kit.drain([parent, child], all);
    assert.deepEqual(await kit.holdfast.jobs.retry(job.id, { withCalled: false }), []);
    await kit.drain([parent, child], all);
    assert.equal((await job.get()).lastError?.code, "CALL_FAILED");
  });

  test("that failed, and was caught, does not change its mind after it was deleted", async () => {
    await using kit = await openTestHoldfast();
    fails = true;
    const parent = taskOf(async (ctx) => {
      try {
        return await ctx.call(child, null);
      } catch (error) {
        assert.ok(error instanceof CallFailedError);
        await ctx.step("refund", () => 1);
        await ctx.sleep("a while", "40d");
        return "refunded";
      }
    });
    const job = await kit.holdfast.enqueue(parent, null);
    await kit.drain([parent, child]);
    fails = false;
    await kit.clock.advance("39d");
    const retention = { done: 1, failed: 1, cancelled: 1, expired: 1 };
    assert.equal(await kit.holdfast.store.jobs.prune({ retention, limit: 9 }), 1);
    await kit.drain([parent, child], all);
    assert.equal(await job.result(), "refunded");
  });

  test("that was deleted before its caller resumed is not run again", async () => {
    await using kit = await openTestHoldfast();
    fails = false;
    const parent = taskOf((ctx) => ctx.call(child, null));
    const job = await kit.holdfast.enqueue(parent, null);
    await kit.drain([parent]);
    await kit.drain([child]);
    await kit.clock.advance("1h");
    await kit.holdfast.store.jobs.prune({
      retention: { done: 1, failed: 1, cancelled: 1, expired: 1 },
      limit: 9,
    });
    await kit.drain([parent, child], all);
    const { status, lastError } = await job.get();
    assert.deepEqual([status, lastError?.code], ["failed", "CALL_FAILED"]);
  });
});

suite("a commit", () => {
  test("runs its function once, whatever that throws, and refuses queries afterwards", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:", { version: "build-0" });
    let runs = 0;
    let kept: UserTransaction | null = null;
    const task = taskOf(
      (ctx) =>
        ctx.commit("book", (tx) => {
          runs += 1;
          kept = tx;
          throw Object.assign(new Error("database is locked"), {
            code: "ERR_SQLITE_ERROR",
            errcode: 5,
          });
        }),
      1,
    );
    await holdfast.startWorker({ tasks: [task] });
    const job = await holdfast.enqueue(task, null);
    await until("it has failed", async () => (await job.get()).status === "failed");
    assert.deepEqual([runs, (await job.get()).lastError?.message], [1, "database is locked"]);
    await assert.rejects(async () => kept?.query("select 1"), /the transaction has ended/);
  });

  test("that takes longer than its task's timeout is rolled back, and delays no other job", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:", { version: "build-0" });
    const task = defineTask({
      name: "order",
      timeout: "50ms",
      retry: { maxAttempts: 1 },
      run: (_input: null, ctx) => ctx.commit("book", () => new Promise<null>(() => {})),
    });
    await holdfast.startWorker({ tasks: [task] });
    const job = await holdfast.enqueue(task, null);
    await until("it has failed", async () => (await job.get()).status === "failed");
    assert.equal((await job.get()).lastError?.code, "JOB_TIMEOUT");
  });
});
