/**
 * A worker that stands still for longer than its lease between two lines of ours, and goes on.
 *
 * The clock is moved exactly where an answer of the database has arrived and the function of a step is next: what a frozen
 * process, a stopped virtual machine or a long garbage collection does. The same with SIGSTOP: test/races/worker-frozen.test.ts.
 */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import { type Context, defineTask, openHoldfast } from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { testRuntime, type TestRuntime } from "../support/runtime.ts";
import { codeOf, until } from "./observe.ts";
import { type Replacements, wrapStore } from "./wrapped-store.ts";

after(assertNothingRuns);

const LEASE_MS = 30_000;

interface Told {
  /** The functions that ran, by attempt. */
  readonly ran: string[];
  /** What the step threw in the attempt that stood still. */
  readonly thrown: string[];
  readonly status: string | undefined;
  /** Those that were charged: a freeze cannot be told from a task that caused it. */
  readonly attempts: number;
}

/** Runs the job until it ends. Each replacement is given a function that lets time pass, once. */
async function runFrozen(
  step: (ctx: Context, ran: (name: string) => string) => Promise<unknown>,
  replace: (real: Store, standStill: () => void) => Replacements,
): Promise<Told> {
  const runtime: TestRuntime = testRuntime();
  let isOver = false;
  const standStill = (): void => {
    if (!isOver) runtime.clock.advance(LEASE_MS + 1);
    isOver = true;
  };
  const real = await openStore("sqlite::memory:", { runtime });
  const store = wrapStore(real, (inner) => replace(inner, standStill));
  await using holdfast = await openHoldfast(store, { runtime });
  const ran: string[] = [];
  const thrown: string[] = [];
  const task = defineTask({
    name: "order",
    retry: { maxAttempts: 5, backoff: { initial: 1, max: 1 } },
    async run(_input: null, ctx) {
      try {
        await step(ctx, (name) => {
          ran.push(`${name} ${ctx.attempt}`);
          return name;
        });
      } catch (error) {
        thrown.push(codeOf(error));
        throw error;
      }
    },
  });
  const job = await holdfast.enqueue(task, null);
  await holdfast.startWorker({ tasks: [task], lease: LEASE_MS, maintenanceInterval: 10, poll: 10 });
  await until("the job has ended", async () => {
    runtime.clock.advance(10);
    return (await job.get()).finishedAt !== null;
  });
  const { status, attempts } = await job.get();
  return { ran, thrown, status, attempts };
}

const DONE_LATER = { thrown: ["LEASE_LOST"], status: "done", attempts: 2 };

suite("a worker that was frozen past its lease", () => {
  test("does not perform an effect that it was about to perform", async () => {
    const told = await runFrozen(
      (ctx, ran) => ctx.effect("charge", () => ran("act"), { verify: () => null }),
      (real, standStill) => ({
        steps: {
          async put(fence, step) {
            const written = await real.steps.put(fence, step);
            if (step.status === "begun") standStill();
            return written;
          },
        },
      }),
    );
    assert.deepEqual(told, { ran: ["act 2"], ...DONE_LATER });
  });

  test("neither verifies nor performs an effect", async () => {
    let attempts = 0;
    const told = await runFrozen(
      (ctx, ran) => {
        const act = (): string => {
          ran("act");
          attempts += 1;
          if (attempts === 1) throw new Error("no answer");
          return "charged";
        };
        const verify = (): null => {
          ran("verify");
          return null;
        };
        return ctx.effect("charge", act, { verify });
      },
      (real, standStill) => ({
        steps: {
          async list(job) {
            const steps = await real.steps.list(job);
            standStill();
            return steps;
          },
        },
      }),
    );
    assert.deepEqual(told.ran, ["act 1", "verify 3", "act 3"]);
    assert.deepEqual([told.thrown[1], told.status], ["LEASE_LOST", "done"]);
  });

  test("does not run the function of a step", async () => {
    let attempts = 0;
    const told = await runFrozen(
      (ctx, ran) =>
        ctx.step("quote", () => {
          ran("body");
          attempts += 1;
          if (attempts === 1) throw new Error("no answer");
        }),
      (real, standStill) => ({
        steps: {
          async list(job) {
            const steps = await real.steps.list(job);
            standStill();
            return steps;
          },
        },
      }),
    );
    assert.deepEqual(told.ran, ["body 1", "body 3"]);
    assert.deepEqual([told.thrown[1], told.status], ["LEASE_LOST", "done"]);
  });

  test("does not run the function of a commit, whose transaction it has waited for", async () => {
    const told = await runFrozen(
      (ctx, ran) => ctx.commit("book", () => ran("body")),
      (real, standStill) => ({
        steps: {
          commit: (fence, step, body) =>
            real.steps.commit(fence, step, (tx) => {
              standStill();
              return body(tx);
            }),
        },
      }),
    );
    assert.deepEqual(told, { ran: ["body 2"], ...DONE_LATER });
  });

  test("does not begin a task whose input took that long to be checked", async () => {
    const runtime = testRuntime();
    const store = await openStore("sqlite::memory:", { runtime });
    await using holdfast = await openHoldfast(store, { runtime });
    const began: number[] = [];
    let checks = 0;
    const task = defineTask({
      name: "order",
      retry: { maxAttempts: 5, backoff: { initial: 1, max: 1 } },
      input: {
        "~standard": {
          version: 1,
          vendor: "test",
          async validate(value: unknown) {
            checks += 1;
            if (checks === 2) runtime.clock.advance(LEASE_MS + 1); // the first is that of enqueue
            return { value: value as null };
          },
        },
      },
      async run(_input: null, ctx) {
        began.push(ctx.attempt);
      },
    });
    const job = await holdfast.enqueue(task, null);
    await holdfast.startWorker({
      tasks: [task],
      lease: LEASE_MS,
      maintenanceInterval: 10,
      poll: 10,
    });
    await until("the job has ended", async () => {
      runtime.clock.advance(10);
      return (await job.get()).finishedAt !== null;
    });
    assert.deepEqual(began, [2]);
  });
});
