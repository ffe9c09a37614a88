/** Tasks that need no input: every way to enqueue them works without one, and what is stored is null. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as z from "zod";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { defineSchedule } from "../../src/schedules/index.ts";
import { drain } from "../../src/testing/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { sampledEngines, type Place } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "../worker/observe.ts";
import { connections, type Connection } from "./connections.ts";

const ping = defineTask({ name: "ping", run: () => "pong" });
const given = defineTask({ name: "given", run: (input?: { n: number } | null) => input });
const standard = defineTask({
  name: "standard",
  run: (days: number = 7) => days,
});
const checked = defineTask({
  name: "checked",
  input: z.object({ days: z.int().default(3) }).optional(),
  run: (input) => input?.days ?? "missing",
});
const slow = defineTask({
  name: "slow",
  input: z
    .string()
    .refine(async (text) => text !== "none")
    .default("usual"),
  run: (input) => input,
});
const strict = defineTask({ name: "strict", input: z.object({ n: z.int() }), run: () => 1 });
const caller = defineTask({
  name: "caller",
  run: async (_: unknown, ctx) => [
    await ctx.call(ping),
    await ctx.call(given, undefined, { name: "again" }),
    await ctx.call(standard),
  ],
});
const tasks = [ping, given, standard, checked, slow, strict, caller];

after(assertNothingRuns);

for (const { name, skip, place: open } of sampledEngines) {
  describe(`a task without input on ${name}`, { skip, timeout: 60_000 }, () => {
    let place: Place;
    let holdfast: Holdfast;
    let shop: Connection;
    before(async () => {
      place = await open();
      holdfast = await openHoldfast(place.url);
      shop = (await connections[name]?.(place.url)) as Connection;
    });
    after(async () => {
      await shop[Symbol.asyncDispose]();
      await holdfast.close();
      await place[Symbol.asyncDispose]();
    });

    const inputOf = async (id: string): Promise<unknown> => (await holdfast.jobs.get(id))?.input;

    test("is enqueued without one, and gets null or its default", async () => {
      const jobs = [
        await holdfast.enqueue(ping),
        await holdfast.enqueue(ping, undefined, { priority: 1 }),
        await holdfast.enqueue(given),
        await holdfast.enqueue(standard),
        await holdfast.enqueue(checked),
        await holdfast.enqueue(slow),
        await holdfast.enqueue("ping"),
        ...(await holdfast.enqueueMany(given, [undefined, null, { n: 1 }])),
        ...(await holdfast.enqueueMany([[ping], [standard, 1], [checked]])),
      ];
      const inputs = await Promise.all(jobs.map(({ id }) => inputOf(id)));
      const none = Array.from({ length: 9 }, () => null);
      assert.deepEqual(inputs, [...none, { n: 1 }, null, 1, null]);
      await drain(holdfast, tasks);
      const results = await Promise.all(jobs.map((job) => job.result({ timeout: "5s" })));
      const first = ["pong", "pong", null, 7, "missing", "usual", "pong"];
      assert.deepEqual(results, [...first, null, null, { n: 1 }, "pong", 1, "missing"]);
    });

    test("is called, and is part of flows and batches, without one", async () => {
      const job = await holdfast.enqueue(caller);
      const flow = await holdfast.flows.enqueue("f", (jobs) => {
        const first = jobs.job(ping);
        jobs.job(standard, undefined, { after: [first] });
      });
      const batch = await holdfast.batches.enqueue("b", [[ping], ["given"]], {
        callback: [checked],
      });
      const [added] = await holdfast.batches.add(batch.id, [[slow]]);
      await drain(holdfast, tasks);
      assert.deepEqual(await job.result({ timeout: "5s" }), ["pong", null, 7]);
      assert.equal((await holdfast.flows.get(flow.id))?.status, "done");
      assert.equal((await holdfast.flows.get(batch.id))?.status, "done");
      assert.equal(await batch.callback?.result({ timeout: "5s" }), "missing");
      assert.equal(await added?.result({ timeout: "5s" }), "usual");
    });

    test("is scheduled without one, and enqueued by an item and in a transaction", async () => {
      const schedule = defineSchedule({ name: "nightly", task: checked, cron: "@daily" });
      await schedule.check();
      await holdfast.schedules.create({ name: "hourly", task: standard, every: "1h" });
      const scheduled = await holdfast.schedules.run("hourly");
      const order = defineWorkflow({
        name: "order",
        data: z.object({}),
        initial: "new",
        states: { new: { enter: ({ enqueue }) => enqueue(ping) }, over: { final: true } },
        moves: { end: { from: "new", to: "over" } },
      });
      await holdfast.workflows.start(order, { actor: "test", data: {} });
      await shop.run("begin");
      const within = holdfast.within(shop.tx);
      const inside = await within.enqueue(standard);
      const both = await within.batches.enqueue("in", [[ping]]);
      await shop.run("commit");
      const { totals } = await drain(holdfast, tasks);
      assert.equal(totals.done, 4);
      assert.equal(await holdfast.jobs.result(scheduled, { timeout: "5s" }), 7);
      assert.equal(await inside.result({ timeout: "5s" }), 7);
      assert.equal((await holdfast.flows.get(both.id))?.status, "done");
    });

    test("still has to get the input that its schema requires", async () => {
      const enqueue = holdfast.enqueue.bind(holdfast) as (
        task: unknown,
        input?: unknown,
      ) => unknown;
      for (const [input, received] of [
        [undefined, "undefined"],
        [null, "null"],
      ] as const) {
        await assert.rejects(async () => enqueue(strict, input), {
          code: "INPUT_REJECTED",
          message: new RegExp(`received ${received}`),
        });
      }
      const callsIt = defineTask({
        name: "calls",
        run: (_: unknown, ctx) => (ctx.call as (task: unknown) => Promise<unknown>)(strict),
      });
      const job = await holdfast.enqueue(callsIt);
      await drain(holdfast, [...tasks, callsIt]);
      await assert.rejects(job.result({ timeout: "5s" }), withCode("JOB_FAILED"));
      const lastError = (await job.get()).lastError;
      assert.equal(lastError?.code, "INPUT_REJECTED");
    });
  });
}
