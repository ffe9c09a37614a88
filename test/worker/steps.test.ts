import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import {
  type Context,
  defineEvent,
  defineTask,
  GiveUpError,
  NotDoneError,
} from "../../src/index.ts";
import { CallFailedError, EventTimeoutError } from "../../src/steps/errors.ts";
import { openTestHoldfast, type TestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "./observe.ts";

after(assertNothingRuns);

const RETRY = { maxAttempts: 5, backoff: { initial: "1s", max: "1s" } } as const;

/** A task that fails at the end of its first attempts. */
function failing(times: number, body: (ctx: Context) => Promise<unknown>) {
  let runs = 0;
  return defineTask({
    name: "order",
    retry: RETRY,
    async run(_input: null, ctx) {
      const value = await body(ctx);
      runs += 1;
      if (runs <= times) throw new Error("crash");
      return value;
    },
  });
}

async function drained(kit: TestHoldfast, ...tasks: Parameters<TestHoldfast["drain"]>[0]) {
  return kit.drain(tasks, { skipTime: true });
}

suite("a step", () => {
  test("runs once, however often its job is tried, and returns the saved result", async () => {
    await using kit = await openTestHoldfast();
    let bodies = 0;
    const task = failing(2, async (ctx) => {
      const quote = await ctx.step("quote", () => ({ cents: (bodies += 1) }));
      const missing = await ctx.step("nothing", () => new Map<string, number>().get("x"));
      return { quote, nothing: missing === undefined };
    });
    const job = await kit.holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.deepEqual(await job.result(), { quote: { cents: 1 }, nothing: true });
    assert.equal(bodies, 1);
    const kept = await kit.holdfast.jobs.steps(job.id);
    assert.deepEqual(
      kept.map(({ name, status, position, result }) => [name, status, position, result]),
      [
        ["quote", "done", 1, { cents: 1 }],
        ["nothing", "done", 2, undefined],
      ],
    );
  });

  test("that throws is run again", async () => {
    await using kit = await openTestHoldfast();
    let bodies = 0;
    const task = failing(0, (ctx) =>
      ctx.step("quote", () => {
        bodies += 1;
        if (bodies < 3) throw new Error("no answer");
        return bodies;
      }),
    );
    const job = await kit.holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.equal(await job.result(), 3);
  });

  test("of a name that comes again is another one", async () => {
    await using kit = await openTestHoldfast();
    const ran: number[] = [];
    const task = failing(1, async (ctx) => {
      for (const item of [1, 2, 3]) await ctx.step("item", () => ran.push(item));
    });
    await kit.holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.deepEqual(ran, [1, 2, 3]);
  });

  test("beside others keeps its place, and a sleep waits until they are done", async () => {
    await using kit = await openTestHoldfast();
    const ran: string[] = [];
    const task = failing(0, async (ctx) => {
      await Promise.all([
        ctx.sleep("nap", "1h"),
        ctx.step("slow", async () => {
          await new Promise((resolve) => setImmediate(resolve));
          ran.push("slow");
        }),
      ]);
      ran.push("after");
    });
    const job = await kit.holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.equal((await job.get()).status, "done");
    assert.deepEqual(ran, ["slow", "after"]);
  });

  test("whose result cannot be kept fails its job at once", async () => {
    await using kit = await openTestHoldfast();
    const task = failing(0, (ctx) => ctx.step("date", () => new Date()));
    const job = await kit.holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.deepEqual(
      [(await job.get()).attempts, (await job.get()).lastError?.code],
      [1, "NOT_SERIALIZABLE"],
    );
  });

  test("that is not the one of before fails its job with words that help", async () => {
    await using kit = await openTestHoldfast();
    const body = (names: readonly string[]) => async (ctx: Context) => {
      for (const name of names) await ctx.step(name, () => name);
      throw new Error("crash");
    };
    const define = (names: readonly string[], steps?: "by name") =>
      defineTask({
        name: "order",
        retry: RETRY,
        ...(steps === undefined ? {} : { steps }),
        run: (_input: null, ctx) => body(names)(ctx),
      });
    const job = await kit.holdfast.enqueue(define(["a", "b"]), null);
    await kit.drain([define(["a", "b"])]);
    await kit.clock.advance("2s");
    await kit.drain([define(["b", "a"], "by name")]); // their order does not matter, it says
    assert.equal((await job.get()).lastError?.message, "crash");
    await kit.clock.advance("2s");
    await kit.drain([define(["a", "c", "b"])]);
    const { status, lastError } = await job.get();
    assert.deepEqual([status, lastError?.code], ["failed", "STEPS_CHANGED"]);
    assert.match(lastError?.message ?? "", /Step 2 of this job was step 'b' .* is step 'c' now/);
  });

  test("needs a name and a function", async () => {
    await using kit = await openTestHoldfast();
    const task = defineTask({
      name: "order",
      retry: { maxAttempts: 1 },
      run: (_input: null, ctx) => ctx.step("", () => 1),
    });
    const job = await kit.holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.equal((await job.get()).lastError?.code, "INVALID_ARGUMENT");
  });
});

suite("an effect", () => {
  /** A bank that fails after it has acted, the first time. */
  class Bank {
    readonly charges = new Map<string, number>();
    calls = 0;

    charge(key: string): { id: number } {
      this.calls += 1;
      if (!this.charges.has(key)) this.charges.set(key, this.calls);
      if (this.calls === 1) throw new Error("connection lost");
      return { id: this.charges.get(key) ?? 0 };
    }

    find(key: string): { id: number } | undefined {
      const id = this.charges.get(key);
      return id === undefined ? undefined : { id };
    }
  }

  test("that may have happened is verified, and not repeated", async () => {
    await using kit = await openTestHoldfast();
    const bank = new Bank();
    const task = failing(0, (ctx) =>
      ctx.effect("charge", ({ key }) => bank.charge(key), {
        verify: ({ key }) => bank.find(key),
      }),
    );
    const job = await kit.holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.deepEqual(await job.result(), { id: 1 });
    assert.deepEqual([bank.calls, bank.charges.size], [1, 1]);
  });

  test("that did not happen is made, under the same key", async () => {
    await using kit = await openTestHoldfast();
    const keys: string[] = [];
    const task = failing(0, (ctx) =>
      ctx.effect(
        "charge",
        ({ key }) => {
          keys.push(key);
          if (keys.length === 1) throw new Error("connection lost");
          return keys.length;
        },
        { verify: () => null },
      ),
    );
    const job = await kit.holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.equal(await job.result(), 2);
    assert.deepEqual(keys, [`${job.id}/charge/1`, `${job.id}/charge/1`]);
  });

  test("that is done is neither repeated nor verified again", async () => {
    await using kit = await openTestHoldfast();
    const [acts, looks] = [[] as number[], [] as number[]];
    const task = failing(2, (ctx) =>
      ctx.effect("charge", () => acts.push(1), { verify: () => looks.push(1) }),
    );
    const job = await kit.holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.deepEqual([await job.result(), acts.length, looks.length], [1, 1, 0]);
  });

  test("that says it was not done is made again without asking", async () => {
    await using kit = await openTestHoldfast();
    let acts = 0;
    const task = failing(0, (ctx) =>
      ctx.effect("charge", () => {
        acts += 1;
        if (acts === 1) throw new NotDoneError("the bank is closed");
        return acts;
      }),
    );
    const job = await kit.holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.equal(await job.result(), 2);
  });

  for (const [said, happened, result, acts] of [
    ["it happened", { done: true, result: "by hand" }, "by hand", 1],
    ["it did not", { done: false }, 2, 2],
  ] as const) {
    test(`in doubt stops its job until a person says that ${said}`, async () => {
      await using kit = await openTestHoldfast();
      let acted = 0;
      const task = failing(0, (ctx) =>
        ctx.effect("charge", (): unknown => {
          acted += 1;
          if (acted === 1) throw new Error("connection lost");
          return acted;
        }),
      );
      const job = await kit.holdfast.enqueue(task, null);
      await drained(kit, task);
      assert.deepEqual([(await job.get()).status, acted], ["waiting", 1]);
      const [doubt, ...others] = await kit.holdfast.jobs.effectsInDoubt();
      assert.deepEqual([doubt?.job, doubt?.name, others], [job.id, "charge", []]);
      assert.ok(doubt !== undefined);
      await kit.holdfast.jobs.resolve(doubt, happened, { actor: "ada" });
      await drained(kit, task);
      assert.deepEqual([await job.result(), acted], [result, acts]);
      await assert.rejects(
        kit.holdfast.jobs.resolve(doubt, happened),
        withCode("EFFECT_NOT_FOUND"),
      );
    });
  }
});

suite("a commit", () => {
  test("is made once, and its rows are there", async () => {
    await using kit = await openTestHoldfast();
    const task = failing(2, (ctx) =>
      ctx.commit("book", async (tx) => {
        await tx.query("create table if not exists shipment (id text)");
        await tx.query("insert into shipment values (?)", [ctx.id]);
        const [row] = await tx.query<{ n: number }>("select count(*) as n from shipment");
        return row?.n;
      }),
    );
    const job = await kit.holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.equal(await job.result(), 1);
  });

  test("whose function throws leaves nothing, and its error is thrown unchanged", async () => {
    await using kit = await openTestHoldfast();
    const seen: unknown[] = [];
    const task = failing(0, async (ctx) => {
      await ctx.commit("make", (tx) => tx.query("create table shipment (id text)"));
      try {
        await ctx.commit("book", async (tx) => {
          await tx.query("insert into shipment values ('x')");
          await tx.query("insert into nowhere values ('x')");
        });
      } catch (error) {
        seen.push((error as Error).message);
      }
      return ctx.commit("count", (tx) => tx.query("select id from shipment"));
    });
    const job = await kit.holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.deepEqual(await job.result(), []);
    assert.match(String(seen[0]), /no such table: nowhere/);
  });

  test("that calls a function that would wait for it gets an error", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const task = defineTask({
      name: "order",
      retry: { maxAttempts: 1 },
      run: (_input: null, ctx) =>
        ctx.commit("book", () => holdfast.enqueue("other", null).then(() => 1)),
    });
    const job = await holdfast.enqueue(task, null);
    await drained(kit, task);
    assert.match((await job.get()).lastError?.message ?? "", /wait for the transaction/);
  });
});

suite("a sleep", () => {
  test("gives the job's place back, and takes as long as it says", async () => {
    await using kit = await openTestHoldfast();
    let bodies = 0;
    const task = failing(1, async (ctx) => {
      await ctx.step("before", () => (bodies += 1));
      await ctx.sleep("cooling off", "10m");
      return ctx.attempt;
    });
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task]);
    assert.deepEqual([(await job.get()).status, (await job.get()).attempts], ["waiting", 0]);
    await kit.clock.advance("9m");
    await kit.drain([task]);
    assert.equal((await job.get()).status, "waiting");
    await kit.clock.advance("1m");
    await kit.drain([task]);
    assert.equal((await job.get()).status, "retry"); // it went on, and crashed
    await kit.clock.advance("1m");
    await kit.drain([task]);
    assert.deepEqual([await job.result(), bodies], [2, 1]); // and does not sleep again
  });

  test("holds no place in a worker", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const nap = defineTask({
      name: "nap",
      async run(_input: null, ctx) {
        await ctx.sleep("nap", "1h");
        return ctx.signal.aborted;
      },
    });
    const worker = await holdfast.startWorker({ tasks: [nap], concurrency: 1 });
    const jobs = await holdfast.enqueueMany(nap, [null, null, null]);
    await clock.advance("1m");
    assert.deepEqual(await Promise.all(jobs.map(async (job) => (await job.get()).status)), [
      "waiting",
      "waiting",
      "waiting",
    ]);
    const { running, suspended, released } = worker.status();
    assert.deepEqual([running, suspended, released], [0, 3, 0]);
    await clock.advance("2h");
    assert.deepEqual(await Promise.all(jobs.map((job) => job.result())), [false, false, false]);
  });
});

suite("an event", () => {
  const packed = defineEvent<{ tracking: string }>({ name: "packed" });
  const ship = (timeout?: string) =>
    failing(1, (ctx) => ctx.event(packed, "42", timeout === undefined ? {} : { timeout }));

  test("is received, whether it is emitted before or after a job waits for it", async () => {
    for (const when of ["before", "after"]) {
      await using kit = await openTestHoldfast();
      const task = ship();
      const say = () => kit.holdfast.emit(packed, "42", { tracking: "x" });
      if (when === "before") await say();
      const job = await kit.holdfast.enqueue(task, null);
      await drained(kit, task);
      if (when === "after") {
        assert.equal((await job.get()).status, "waiting");
        assert.deepEqual(await say(), { first: true, woken: 1 });
        await drained(kit, task);
      }
      assert.deepEqual(await job.result(), { tracking: "x" });
      assert.deepEqual(await kit.holdfast.emit(packed, "42", { tracking: "y" }), {
        first: false,
        woken: 0,
      });
    }
  });

  test("that is not emitted in time is an error, even for later attempts", async () => {
    await using kit = await openTestHoldfast();
    const task = failing(1, async (ctx) => {
      try {
        return await ctx.event(packed, "42", { timeout: "3d" });
      } catch (error) {
        return error instanceof EventTimeoutError;
      }
    });
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task]);
    await kit.clock.advance("3d");
    await kit.drain([task]);
    await kit.holdfast.emit(packed, "42", { tracking: "late" });
    await drained(kit, task);
    assert.equal(await job.result(), true);
  });

  test("has a name of its own, and a payload that its schema accepts", async () => {
    assert.throws(() => defineEvent({ name: "@job" }), withCode("INVALID_ARGUMENT", "name"));
    await using kit = await openTestHoldfast();
    await assert.rejects(
      kit.holdfast.emit(packed, "", { tracking: "x" }),
      withCode("INVALID_ARGUMENT", "key"),
    );
  });
});

suite("a call", () => {
  const square = defineTask({ name: "square", run: (n: number) => n * n });
  const hopeless = defineTask({
    name: "hopeless",
    run() {
      throw new GiveUpError("never");
    },
  });

  test("gives the other job's result, and enqueues it once", async () => {
    await using kit = await openTestHoldfast();
    const sum = failing(2, async (ctx) => {
      const [a, b] = await Promise.all([ctx.call(square, 3), ctx.call(square, 4)]);
      return a + b;
    });
    const job = await kit.holdfast.enqueue(sum, null);
    await drained(kit, sum, square);
    assert.equal(await job.result(), 25);
    assert.equal((await kit.holdfast.jobs.list({ task: "square" })).length, 2);
  });

  test("gives the caller's place back while the other job runs", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const caller = defineTask({
      name: "caller",
      run: (n: number, ctx): Promise<number> => ctx.call(square, n),
    });
    const worker = await holdfast.startWorker({ tasks: [caller, square], concurrency: 1 });
    const jobs = await holdfast.enqueueMany(caller, [1, 2, 3]);
    await clock.advance("1m");
    assert.deepEqual(await Promise.all(jobs.map((job) => job.result())), [1, 4, 9]);
    assert.equal(worker.status().running, 0);
  });

  test("of a job that fails fails the caller at once, unless it is caught", async () => {
    await using kit = await openTestHoldfast();
    const strict = failing(0, (ctx) => ctx.call(hopeless, null));
    const job = await kit.holdfast.enqueue(strict, null);
    await drained(kit, strict, hopeless);
    const { status, attempts, lastError } = await job.get();
    assert.deepEqual([status, attempts, lastError?.code], ["failed", 1, "CALL_FAILED"]);
    assert.match(lastError?.message ?? "", /hopeless.*, failed: never/);
    const lenient = failing(0, async (ctx) => {
      try {
        return await ctx.call(hopeless, null);
      } catch (error) {
        return error instanceof CallFailedError && error.status;
      }
    });
    const other = await kit.holdfast.enqueue(lenient, null);
    await drained(kit, lenient, hopeless);
    assert.equal(await other.result(), "failed");
  });

  test("of a job that is cancelled is an error too", async () => {
    await using kit = await openTestHoldfast();
    const caller = failing(0, (ctx) => ctx.call(square, 2));
    const job = await kit.holdfast.enqueue(caller, null);
    await kit.drain([caller]);
    const [called] = await kit.holdfast.jobs.list({ task: "square" });
    await kit.holdfast.jobs.cancel(called?.id ?? "");
    await drained(kit, caller);
    assert.match((await job.get()).lastError?.message ?? "", /was cancelled\.$/);
  });
});
