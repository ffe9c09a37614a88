/** Functions around every task of a worker. */
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { after, suite, test } from "node:test";
import { defineTask, GiveUpError, type RunHook } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { keepLog, withCode } from "./observe.ts";

after(assertNothingRuns);

const echo = defineTask({
  name: "echo",
  retry: { maxAttempts: 2, backoff: { initial: 0 } },
  run(value: unknown) {
    if (value === "throw") throw new Error("thrown");
    return value;
  },
});

async function end(hooks: readonly RunHook[], input: unknown, tasks = [echo]) {
  const log = keepLog();
  await using kit = await openTestHoldfast({ logger: log.logger });
  const worker = await kit.holdfast.startWorker({ tasks, hooks });
  const job = await kit.holdfast.enqueue(tasks[0] as typeof echo, input);
  await kit.clock.advance("10s");
  const { status, attempts, result, lastError } = await job.get();
  await worker.stop();
  return { status, attempts, result, error: lastError?.message, code: lastError?.code, log };
}

suite("hooks around a task", () => {
  test("run in their order, the first outermost, and see the result", async () => {
    const seen: string[] = [];
    const named =
      (name: string): RunHook =>
      async (ctx, next) => {
        seen.push(`${name} before ${ctx.task} ${ctx.attempt}`);
        const result = await next();
        seen.push(`${name} after ${String(result)}`);
      };
    const { status, result } = await end([named("a"), named("b")], "x");
    assert.deepEqual([status, result], ["done", "x"]);
    const [a, b] = ["a", "b"].map((name) => [`${name} before echo 1`, `${name} after x`]);
    assert.deepEqual(seen, [a![0], b![0], b![1], a![1]]);
  });

  test("give the task an async context", async () => {
    const context = new AsyncLocalStorage<string>();
    const task = defineTask({
      name: "where",
      async run(_: unknown, ctx) {
        await ctx.step("a step", () => null);
        return context.getStore() ?? "none";
      },
    });
    const hook: RunHook = (ctx, next) => context.run(`job ${ctx.task}`, next);
    const { result } = await end([hook], null, [task]);
    assert.equal(result, "job where");
  });

  test("cannot hide a failure, but may replace its error", async () => {
    const swallow: RunHook = (_ctx, next) => next().catch(() => "fine");
    const swallowed = await end([swallow], "throw");
    assert.deepEqual([swallowed.status, swallowed.error], ["failed", "thrown"]);
    const translate: RunHook = (_ctx, next) =>
      next().catch((error: unknown) => {
        throw new GiveUpError("hopeless", error);
      });
    const translated = await end([translate], "throw");
    assert.deepEqual([translated.status, translated.attempts], ["failed", 1]);
    assert.equal(translated.error, "hopeless");
  });

  test("that throw before the task fail the attempt; after its success they are logged", async () => {
    const before: RunHook = () => {
      throw new Error("not today");
    };
    const refused = await end([before], "x");
    assert.deepEqual([refused.status, refused.attempts, refused.error], ["failed", 2, "not today"]);
    const late: RunHook = async (_ctx, next) => {
      await next();
      throw new Error("too late");
    };
    const { status, attempts, log } = await end([late], "x");
    assert.deepEqual([status, attempts], ["done", 1]);
    assert.equal(log.of("a task threw after its attempt ended").length, 1);
  });

  test("that do not call next, or twice, or do not await it", async () => {
    const skip: RunHook = () => "skipped";
    const skipped = await end([skip], "x");
    assert.deepEqual([skipped.status, skipped.code], ["failed", "HOOK_MISUSED"]);
    assert.match(skipped.error ?? "", /^The hook 'skip' did not call next\(\)/);
    const twice: RunHook = async (_ctx, next) => {
      await next();
      await next();
    };
    assert.equal((await end([twice], "x")).status, "done");
    const hasty: RunHook = (_ctx, next) => void next();
    assert.deepEqual((await end([hasty], "x")).result, "x");
    assert.equal((await end([hasty], "throw")).status, "failed");
  });

  test("are functions, and not too many", async () => {
    await using kit = await openTestHoldfast();
    const start = (hooks: unknown) =>
      kit.holdfast.startWorker({ tasks: [echo], hooks: hooks as RunHook[] });
    await assert.rejects(start([null]), withCode("INVALID_ARGUMENT", "hooks"));
    await assert.rejects(
      start(() => null),
      withCode("INVALID_ARGUMENT", "hooks"),
    );
    const many = Array.from({ length: 33 }, () => () => null);
    await assert.rejects(start(many), withCode("INVALID_ARGUMENT", "hooks"));
  });
});
