/** How long a step took, and which one failed: on every engine, here and in a thread or process of its own. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { reasonOf } from "../support/scale.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { timedHere, timedProcess, timedThread } from "./isolated-tasks.ts";
import { until } from "./observe.ts";

const caught = defineTask({
  name: "caught",
  retry: { maxAttempts: 1 },
  async run(_: unknown, ctx) {
    await ctx.step("first try", () => fail("refused")).catch(() => {});
    const cause = await ctx
      .step("second try", () => fail("refused again"))
      .catch((error: unknown) => error);
    throw new Error("both carriers refused", { cause });
  },
});

const outside = defineTask({
  name: "outside",
  retry: { maxAttempts: 1 },
  async run(_: unknown, ctx) {
    await ctx.step("first try", () => fail("refused")).catch(() => {});
    await ctx.commit("order", async () => wait(30).then(() => ({ done: true })));
    fail("not in a step");
  },
});

const late = defineTask({
  name: "late",
  retry: { maxAttempts: 1 },
  timeout: 200,
  async run(_: unknown, ctx) {
    await ctx.step("label", () => new Promise(() => {}));
  },
});

function fail(message: string): never {
  throw new Error(message);
}

for (const engine of ["sqlite", "postgres", "mysql"] as const) {
  const skip = reasonOf(engine === "sqlite" ? false : missing(engine));
  describe(`steps and their times, with ${engine}`, { skip }, () => {
    let database: ScratchDatabase | null = null;
    let holdfast: Holdfast;
    before(async () => {
      database = engine === "sqlite" ? null : await scratchDatabase(engine);
      holdfast = await openHoldfast(database?.url ?? "sqlite::memory:");
      const tasks = [timedHere, timedThread, timedProcess, caught, outside, late];
      await holdfast.startWorker({ tasks });
    });
    after(async () => {
      await holdfast.close();
      await database?.drop();
    });

    /** The job has failed: its steps, and its last error. */
    const failed = async (task: Parameters<Holdfast["enqueue"]>[0]) => {
      const { id } = await holdfast.enqueue(task, {});
      const job = await until("it has failed", async () => {
        const now = await holdfast.jobs.get(id);
        return now?.status === "failed" ? now : null;
      });
      const [attempt] = await holdfast.jobs.attempts(id);
      assert.deepEqual(attempt?.error?.step, job.lastError?.step, "the attempt says the same");
      return { steps: await holdfast.jobs.steps(id), error: job.lastError };
    };

    for (const task of [timedHere, timedThread, timedProcess]) {
      test(`${task.name}: a step took its time, and the one that failed is named`, async () => {
        const { steps, error } = await failed(task);
        assert.deepEqual(
          steps.map(({ name }) => name),
          ["quote"],
        );
        const [quote] = steps;
        const tookMs = (quote?.endedAt ?? 0) - (quote?.begunAt ?? 0);
        assert.ok(tookMs >= 55 && tookMs < 30_000, `quote took ${tookMs} ms`);
        assert.deepEqual([error?.step?.name, error?.step?.occurrence], ["label", 1]);
        const failedMs = error?.step?.tookMs ?? 0;
        assert.ok(failedMs >= 35 && failedMs < 30_000, `label took ${failedMs} ms`);
        assert.equal(error?.message, "no answer from the carrier");
      });
    }

    test("the step is named whose error is the cause, not one that the task caught", async () => {
      const { error } = await failed(caught);
      assert.equal(error?.step?.name, "second try");
    });

    test("an error outside of steps names none, and a commit took its time", async () => {
      const { steps, error } = await failed(outside);
      assert.equal(error?.step, undefined);
      const order = steps.find(({ name }) => name === "order");
      const tookMs = (order?.endedAt ?? 0) - (order?.begunAt ?? 0);
      assert.ok(tookMs >= 25 && tookMs < 30_000, `order took ${tookMs} ms`);
    });

    test("a timeout names the step that was in progress", async () => {
      const { error } = await failed(late);
      assert.equal(error?.name, "JobTimeoutError");
      assert.equal(error?.step?.name, "label");
      assert.ok((error?.step?.tookMs ?? 0) >= 150);
    });
  });
}
