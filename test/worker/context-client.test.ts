/** `ctx.holdfast`: the client of the worker that runs the task. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineEvent, defineTask } from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";

after(assertNothingRuns);

const packed = defineEvent<number>({ name: "packed" });
const order = defineWorkflow({
  name: "order",
  initial: "open",
  states: { open: {}, paid: { final: true } },
  moves: { pay: { from: "open", to: "paid" } },
});
const ship = defineTask({ name: "ship", run: (id: string) => `T-${id}` });
/** As in a module of tasks: nothing here knows a Holdfast. */
const pay = defineTask({
  name: "pay",
  async run(id: string, { holdfast }) {
    const job = await holdfast.enqueue(ship, id);
    await holdfast.emit(packed, id, 1);
    return job.id;
  },
});
const book = defineTask({
  name: "book",
  retry: { maxAttempts: 2, backoff: { initial: 1 } },
  run: (id: string, ctx) =>
    ctx.commit("book", async (tx) => {
      const inside = ctx.holdfast.within(tx);
      const job = await inside.enqueue(ship, id);
      await inside.workflows.change(order, id, { move: "pay", actor: ctx });
      if (ctx.attempt === 1) throw new Error("not yet");
      return job.id;
    }),
});

suite("the client of a task", () => {
  test("enqueues and emits, in a worker", async () => {
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    await holdfast.startWorker({ tasks: [pay, ship] });
    const shipped = await (await holdfast.enqueue(pay, "7")).result();
    assert.equal(await holdfast.jobs.result(shipped), "T-7");
    assert.equal((await holdfast.store.steps.findEvent("packed", "7"))?.payload, "1");
  });

  test("works inside of a commit, in a drain: what is rolled back never was", async () => {
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    const item = await holdfast.workflows.start(order, { data: {}, actor: "test" });
    const job = await holdfast.enqueue(book, item.id);
    const { jobs } = await bench.drain([book, ship], { skipTime: true });
    assert.deepEqual(
      jobs.map(({ task, attempts, status }) => [task, attempts, status]),
      [
        ["book", 2, "done"],
        ["ship", 1, "done"],
      ],
    );
    assert.equal(await job.result(), jobs[1]?.id);
    assert.equal((await item.refresh()).status, "paid");
  });

  test("finds the workflows that its worker was started with declared", async () => {
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    const start = defineTask({
      name: "start",
      run: (_: null, ctx) =>
        ctx.commit("start", (tx) =>
          ctx.holdfast.within(tx).workflows.start(order, { data: {}, actor: ctx }),
        ),
    });
    await holdfast.startWorker({ tasks: [start], workflows: [order] });
    assert.equal((await (await holdfast.enqueue(start, null)).result()).status, "open");
  });

  test("cannot be closed, starts no worker and cannot be changed", async () => {
    await using bench = await openTestHoldfast();
    const look = defineTask({
      name: "look",
      run: (_: null, ctx) => [
        ...["close", "startWorker", "store"].filter((name) => name in ctx.holdfast),
        Object.isFrozen(ctx.holdfast),
      ],
    });
    const job = await bench.holdfast.enqueue(look, null);
    await bench.drain([look]);
    assert.deepEqual(await job.result(), [true]);
  });
});
