/** What a caller may hand over by mistake or in malice, and what it must not do. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import {
  type AnyTask,
  defineTask,
  type EnqueueOptions,
  type Holdfast,
  type Logger,
  openHoldfast,
  type RetryOptions,
  type WorkerOptions,
} from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { newJob, statusOf } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "./observe.ts";

after(assertNothingRuns);

const echo = defineTask({ name: "echo", run: (value: unknown) => value });

/** What no compiler would let pass: callers without one write it all the same. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- callers lie
function untyped<T>(value: unknown): T {
  return value as T;
}

/** A schema that answers with a thenable that is no Promise, as one of another realm does. */
function thenableSchema(answer: StandardSchemaV1.Result<unknown>): StandardSchemaV1 {
  const thenable = {
    // oxlint-disable-next-line unicorn/no-thenable -- this is what the test is about
    then: (resolve: (outcome: StandardSchemaV1.Result<unknown>) => void) => resolve(answer),
  };
  const validate = () => untyped<StandardSchemaV1.Result<unknown>>(thenable);
  return { "~standard": { version: 1, vendor: "test", validate } };
}

suite("a schema that answers with a thenable", () => {
  test("refuses an input as any other does", async () => {
    await using kit = await openTestHoldfast();
    const input = thenableSchema({ issues: [{ message: "no good" }] });
    const task = defineTask({ name: "checked", input, run: () => null });
    await assert.rejects(kit.holdfast.enqueue(task, { a: 1 }), withCode("INPUT_REJECTED"));
    assert.deepEqual(await kit.holdfast.jobs.list(), []);
  });

  test("gives the task the value it made, not the thenable", async () => {
    await using kit = await openTestHoldfast();
    const seen: unknown[] = [];
    const task = defineTask({
      name: "checked",
      input: thenableSchema({ value: "made by the schema" }),
      run: (value) => void seen.push(value),
    });
    await kit.holdfast.enqueue(task, "as given");
    await kit.drain([task]);
    assert.deepEqual(seen, ["made by the schema"]);
  });
});

suite("enqueueMany", () => {
  test("calls a callback for each job, even one that reuses a single options object", async () => {
    await using kit = await openTestHoldfast();
    const options: { -readonly [Name in keyof EnqueueOptions]: EnqueueOptions[Name] } = {};
    const jobs = await kit.holdfast.enqueueMany(echo, ["a", "b", "c"], (input) => {
      options.key = String(input);
      return options;
    });
    assert.deepEqual(
      jobs.map(({ added }) => added),
      [true, true, true],
    );
    assert.equal(new Set(jobs.map(({ id }) => id)).size, 3);
    assert.equal((await kit.holdfast.jobs.list()).length, 3);
  });
});

suite("leases.acquire", () => {
  test("fails the one job that cannot be read, and hands out the others", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const unreadable = newJob({ task: "echo", payload: "not json", priority: 5 });
    await holdfast.store.jobs.enqueue([unreadable]);
    const readable = await holdfast.enqueueMany(echo, [1, 2, 3]);
    const leases = await holdfast.leases.acquire({ worker: "mine", limit: 10 });
    assert.deepEqual(
      leases.map(({ id, input }) => [id, input]),
      readable.map(({ id }, index) => [id, index + 1]),
    );
    const active = (await holdfast.leases.list()).map(({ id }) => id);
    assert.deepEqual(active.toSorted(), readable.map(({ id }) => id).toSorted());
    assert.equal(await statusOf(holdfast.store, unreadable.id), "failed");
  });
});

suite("a watcher of the store", () => {
  test("that throws does not make a committed enqueue look like a failure", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const heard: string[] = [];
    holdfast.store.db.watch(() => {
      throw new Error("from a watcher");
    });
    holdfast.store.db.watch(({ kind }) => void heard.push(kind));
    const job = await holdfast.enqueue(echo, 1);
    assert.equal((await job.get()).status, "pending");
    assert.deepEqual(heard, ["pending"], "the watcher after it was not told");
  });
});

suite("a logger", () => {
  for (const [shown, logger] of [
    ["no method at all", {}],
    ["one method", { error() {} }],
    ["nothing there", null],
  ] as const) {
    test(`with ${shown} is refused before anything is opened`, async () => {
      const opening = openHoldfast("sqlite::memory:", { logger: untyped<Logger>(logger) });
      const opened = opening.then((holdfast) => holdfast.close());
      await assert.rejects(opened, withCode("INVALID_ARGUMENT", "logger"));
    });
  }
});

suite("an invalid option is refused by its name", () => {
  const raw = { name: "raw", queue: "default", run: () => null, timeoutMs: null, input: null };
  const fence = { id: "x", worker: "w", epoch: 1 };
  type Call = (holdfast: Holdfast) => unknown;
  const calls: readonly (readonly [what: string, field: string, call: Call])[] = [
    ["extendAt 0.9", "extendAt", (it) => start(it, { tasks: [echo], extendAt: 0.9 })],
    [
      "extendAt as text",
      "extendAt",
      (it) => start(it, { tasks: [echo], extendAt: untyped("0.5") }),
    ],
    ["a task not made by defineTask", "tasks", (it) => start(it, { tasks: [untyped(raw)] })],
    [
      "a task that is null",
      "tasks",
      (it) => start(it, { tasks: [untyped<AnyTask>(null)], queues: ["default"] }),
    ],
    ["a worker without options", "options", (it) => start(it, untyped(null))],
    ["enqueue options null", "options", (it) => it.enqueue(echo, 1, untyped(null))],
    ["a run at no Date can name", "runAt", (it) => it.enqueue(echo, 1, { runAt: 8.64e15 + 1 })],
    ["a filter of leases misspelt", "wroker", (it) => it.leases.list(untyped({ wroker: "w" }))],
    ["a negative limit", "limit", (it) => it.leases.list({ limit: -1 })],
    ["a limit as text", "limit", (it) => it.leases.list({ state: "expired", limit: untyped("x") })],
    ["a grace misspelt", "graec", (it) => it.leases.resetExpired(untyped({ graec: 1 }))],
    ["a lease misspelt", "laese", (it) => it.leases.extend(fence, untyped({ laese: "1s" }))],
    ["subscribing a number", "onPending", async (it) => it.subscribe("default", untyped(5))],
    [
      "subscribing misspelt",
      "pol",
      async (it) => it.subscribe("default", () => {}, untyped({ pol: 5 })),
    ],
    ["retry as a number", "retry", async () => retrying(untyped(3))],
    ["retry misspelt", "retry.attemps", async () => retrying(untyped({ attemps: 5 }))],
  ];
  for (const [what, field, call] of calls) {
    test(`${what}: ${field}`, async () => {
      await using kit = await openTestHoldfast();
      await assert.rejects(async () => call(kit.holdfast), withCode("INVALID_ARGUMENT", field));
      assert.deepEqual(await kit.holdfast.jobs.list(), []);
    });
  }

  /** One that is not refused must not outlive the test. */
  async function start(holdfast: Holdfast, options: WorkerOptions): Promise<void> {
    await (await holdfast.startWorker(options)).stop({ timeout: 0 });
  }

  function retrying(retry: RetryOptions): AnyTask {
    return defineTask({ name: "retrying", retry, run: () => null });
  }
});
