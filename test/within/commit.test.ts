/** A job that does things inside of the transaction of its own `ctx.commit`. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import {
  defineEvent,
  defineTask,
  type Holdfast,
  openHoldfast,
  type UserTransaction,
} from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { sampledEngines, type Place } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { codeOf, until } from "../worker/observe.ts";

const packed = defineEvent<number>({ name: "packed" });

for (const { name, skip, place: open } of sampledEngines) {
  describe(`within a ctx.commit on ${name}`, { skip, timeout: 60_000 }, () => {
    let place: Place;
    let holdfast: Holdfast;
    before(async () => {
      place = await open();
      holdfast = await openHoldfast(place.url);
    });
    after(async () => {
      await holdfast?.close();
      await place?.[Symbol.asyncDispose]();
    });

    test("committed jobs are announced at once, and rolled-back jobs never existed", async () => {
      const ship = defineTask({ name: "ship", run: (id: number) => id });
      const undone: string[] = [];
      const order = defineTask({
        name: "order",
        retry: { maxAttempts: 2, backoff: { initial: 1 } },
        run: (id: number, ctx) =>
          ctx.commit("book", async (tx) => {
            const { id: job } = await holdfast.within(tx).enqueue(ship, id, { queue: "ships" });
            await holdfast.within(tx).emit(packed, `order ${id}`, id);
            if (ctx.attempt === 1) {
              undone.push(job);
              throw new Error("not yet");
            }
            return job;
          }),
      });
      const told: string[] = [];
      const stop = holdfast.store.db.watch((hint) => {
        if (hint.kind === "pending") told.push(hint.queue);
      });
      const worker = await holdfast.startWorker({ tasks: [order], poll: "1h", heartbeat: "1h" });
      const job = await holdfast.enqueue(order, 7);
      const shipped = await job.result({ timeout: "10s" });
      await until("it is told", () => told.includes("ships"));
      stop();
      assert.equal((await holdfast.jobs.get(shipped))?.status, "pending");
      assert.equal(undone.length, 1);
      assert.equal(await holdfast.jobs.get(undone[0] as string), null);
      assert.equal((await holdfast.store.steps.findEvent("packed", "order 7"))?.payload, "7");
      await worker.stop();
    });

    test("a job moves an item in it, under its own name, and a step that fails moves none", async () => {
      const orders = defineWorkflow({
        name: "order",
        initial: "open",
        states: { open: {}, booked: { final: true } },
        moves: { book: { from: "open", to: "booked" } },
      });
      const order = await holdfast.workflows.start(orders, { data: {}, actor: "ada" });
      const traces: string[] = [];
      const book = defineTask({
        name: "book",
        retry: { maxAttempts: 2, backoff: { initial: 1 } },
        run: (id: string, ctx) =>
          ctx.commit("book", async (tx) => {
            const { workflows } = holdfast.within(tx);
            const item = await workflows.item(orders, id);
            const moved = await item.move("book", { actor: ctx });
            traces.push(ctx.traceId);
            if (ctx.attempt === 1) throw new Error("not yet");
            return moved.status;
          }),
      });
      const worker = await holdfast.startWorker({ tasks: [book], poll: "1h", heartbeat: "1h" });
      const job = await holdfast.enqueue(book, order.id);
      assert.equal(await job.result({ timeout: "10s" }), "booked");
      const [, line, ...more] = await order.history();
      assert.deepEqual(
        [line?.actor, line?.traceId, line?.revision, more.length],
        [`job ${job.id}`, traces[1], 2, 0],
      );
      assert.equal(traces.length, 2);
      await worker.stop();
    });

    test("the connection takes one statement at a time, as cursors of drivers need it", async () => {
      const task = defineTask({
        name: "look at the connection",
        run: (_: null, ctx) =>
          ctx.commit("look", (tx) => (tx.client as { pipeline?: boolean }).pipeline ?? false),
      });
      const worker = await holdfast.startWorker({ tasks: [task], poll: "1h", heartbeat: "1h" });
      const job = await holdfast.enqueue(task, null);
      assert.equal(await job.result({ timeout: "10s" }), false);
      await worker.stop();
    });

    test("a workflow that is not declared yet is refused, with what to do", async () => {
      const late = defineWorkflow({
        name: "late",
        initial: "new",
        states: { new: { final: true } },
        moves: {},
      });
      const start = defineTask({
        name: "start late",
        run: (_: null, ctx) =>
          ctx.commit("start", async (tx) => {
            const starting = holdfast.within(tx).workflows.start(late, { data: {}, actor: ctx });
            return starting.then(() => "started", String);
          }),
      });
      const worker = await holdfast.startWorker({ tasks: [start], poll: "1h", heartbeat: "1h" });
      const job = await holdfast.enqueue(start, null);
      assert.match(
        await job.result({ timeout: "10s" }),
        /not declared yet: await holdfast\.workflows\.declare/,
      );
      await worker.stop();
    });

    test("a transaction whose function has ended takes nothing more", async () => {
      const ship = defineTask({ name: "ship later", run: (id: number) => id });
      const order = defineTask({
        name: "order late",
        async run(id: number, ctx) {
          let late: UserTransaction | null = null;
          await ctx.commit("book", (tx) => void (late = tx));
          const enqueuing = holdfast.within(late).enqueue(ship, id);
          return enqueuing.then(
            () => "taken",
            (error: unknown) => codeOf(error),
          );
        },
      });
      const worker = await holdfast.startWorker({ tasks: [order], poll: "1h", heartbeat: "1h" });
      const job = await holdfast.enqueue(order, 7);
      assert.equal(await job.result({ timeout: "10s" }), "STORE_REFUSED");
      assert.deepEqual(await holdfast.jobs.list({ task: "ship later" }), []);
      await worker.stop();
    });
  });
}

after(assertNothingRuns);
