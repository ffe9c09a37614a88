/** Flows and batches as an application uses them. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import type { FlowBuilder } from "../../src/flows/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "./observe.ts";

after(assertNothingRuns);

const worker = { poll: "1s", maintenanceInterval: 20, lease: "2s" };
const timeout = { timeout: "20s" };

const double = defineTask({ name: "double", run: ({ n }: { n: number }) => n * 2 });
const fails = defineTask({
  name: "fails",
  retry: { maxAttempts: 1 },
  run() {
    throw new Error("it always does");
  },
});
const sum = defineTask({
  name: "sum",
  async run(_: null, ctx) {
    const results = await ctx.results(double);
    return results.reduce((all, one) => all + one, 0);
  },
});
const report = defineTask({
  name: "report",
  async run(_: null, ctx) {
    const lines: string[] = [];
    for await (const { name, task, status, result, error } of ctx.dependencies()) {
      lines.push(`${name ?? task} ${status} ${String(result)} ${error?.message ?? ""}`.trim());
    }
    return lines;
  },
});
const tasks = [double, fails, sum, report];

async function open(): Promise<Holdfast> {
  const holdfast = await openHoldfast("sqlite::memory:");
  await holdfast.startWorker({ ...worker, tasks });
  return holdfast;
}

suite("a flow", () => {
  test("passes results on, typed, in the order of `after`", async () => {
    await using holdfast = await open();
    const flow = await holdfast.flows.enqueue("sum", (jobs) => {
      const parts = [1, 2, 3].map((n) => jobs.job(double, { n }, { name: `part ${n}` }));
      const total = jobs.job(sum, null, { after: parts });
      jobs.job(report, null, { after: [total, ...parts.toReversed()] });
    });
    assert.deepEqual(await flow.jobs.at(-1)?.result(timeout), [
      "sum done 12",
      "part 3 done 6",
      "part 2 done 4",
      "part 1 done 2",
    ]);
    const view = await holdfast.flows.get(flow.id);
    assert.deepEqual([view?.status, view?.total, view?.done], ["done", 5, 5]);
  });

  test("continues when the failed job is retried", async () => {
    await using holdfast = await open();
    let isBroken = true;
    const repaired = defineTask({
      name: "repaired",
      queue: "other",
      retry: { maxAttempts: 1 },
      run() {
        if (isBroken) throw new Error("not yet");
        return "mended";
      },
    });
    await holdfast.startWorker({ ...worker, tasks: [repaired], queues: ["other"] });
    const flow = await holdfast.flows.enqueue("mending", (jobs) => {
      const first = jobs.job(repaired, null);
      const second = jobs.job(report, null, { after: [first] });
      jobs.job(report, null, { after: [second] });
    });
    const [first, second, third] = flow.jobs;
    await assert.rejects(third?.result(timeout) ?? Promise.resolve(), withCode("JOB_FAILED"));
    assert.equal((await holdfast.flows.get(flow.id))?.status, "failed");
    isBroken = false;
    await assert.rejects(holdfast.jobs.retry(second?.id ?? ""), withCode("DEPENDENCY_UNMET"));
    await holdfast.jobs.retry(first?.id ?? "");
    assert.deepEqual(await second?.result(timeout), ["repaired done mended"]);
    await third?.result(timeout);
    assert.equal((await holdfast.flows.get(flow.id))?.status, "done");
  });

  test("is cancelled and retried as a whole", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const flow = await holdfast.flows.enqueue("whole", (jobs) => {
      const first = jobs.job(double, { n: 1 });
      jobs.job(sum, null, { after: [jobs.job(double, { n: 2 }, { after: [first] })] });
    });
    const by = { actor: "ada", reason: "a test" };
    assert.equal(await holdfast.flows.cancel(flow.id, by), 3);
    assert.equal((await holdfast.flows.get(flow.id))?.status, "cancelled");
    assert.equal((await holdfast.audit.list()).length, 3);
    await holdfast.flows.retry(flow.id, by);
    assert.equal((await holdfast.flows.get(flow.id))?.live, 3);
    await holdfast.startWorker({ ...worker, tasks });
    assert.equal(await flow.jobs[2]?.result(timeout), 4);
    await assert.rejects(holdfast.flows.cancel(flow.jobs[0]?.id ?? ""), withCode("FLOW_NOT_FOUND"));
  });

  test("grows while it runs, also from inside one of its jobs", async () => {
    await using holdfast = await open();
    const grow = defineTask({
      name: "grow",
      queue: "other",
      async run({ last }: { last: string }, ctx) {
        const flow = (await ctx.holdfast.flows.of(ctx.id)) ?? "";
        await ctx.holdfast.flows.add(flow, (jobs) => {
          for (const n of [10, 20]) {
            const own = jobs.job(double, { n }, { after: [ctx.id], before: [last] });
            jobs.job(report, null, { after: [own] });
          }
        });
      },
    });
    await holdfast.startWorker({ ...worker, tasks: [grow], queues: ["other"] });
    const flow = await holdfast.flows.enqueue("growing", (jobs) => {
      const last = jobs.job(sum, null, { after: [jobs.job(double, { n: 1 }, { delay: "200ms" })] });
      jobs.job(grow, { last: last.id });
    });
    assert.equal(await flow.jobs[1]?.result(timeout), 62);
    assert.equal((await holdfast.flows.get(flow.id))?.total, 7);
  });

  test("is refused with a sentence when it is not as it should be", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const { flows } = holdfast;
    await assert.rejects(
      flows.enqueue("none", () => {}),
      /jobs: a flow needs at least one job/,
    );
    await assert.rejects(flows.enqueue("odd", 7 as never), /jobs: pass a function that adds jobs/);
    await assert.rejects(
      flows.enqueue("", (jobs) => jobs.job(sum, null)),
      withCode("INVALID_ARGUMENT", "name"),
    );
    const twice = [
      { name: "a", task: "t" },
      { name: "a", task: "t" },
    ];
    await assert.rejects(flows.enqueue("twice", twice), /name: two jobs are called 'a'/);
    const stranger = [{ name: "a", task: "t", after: ["b"] }];
    await assert.rejects(flows.enqueue("x", stranger), /after: no job of the flow is called 'b'/);
    const wrong = (jobs: FlowBuilder) => jobs.job(sum, null, { after: ["7"] });
    await assert.rejects(flows.enqueue("x", wrong), /after\[0\]: pass a job or the id of one/);
    await assert.rejects(
      holdfast.enqueue(sum, null, { onFailed: "ignore" }),
      /onFailed: requires `after`/,
    );
    const { id } = await holdfast.enqueue(sum, null);
    const explode = { after: [id], onFailed: "explode" as never };
    await assert.rejects(
      holdfast.enqueue(sum, null, explode),
      /onFailed: must be "fail", "cancel" or "ignore"/,
    );
    assert.deepEqual(await flows.list(), []);
    assert.equal(await flows.get("nothing"), null);
  });
});

suite("a batch", () => {
  test("calls back when all have ended, however they ended", async () => {
    await using holdfast = await open();
    const batch = await holdfast.batches.enqueue(
      "mixed",
      [
        [double, { n: 4 }],
        [fails, null],
        [double, { n: 5 }, { delay: "50ms" }],
      ],
      { callback: [report, null] },
    );
    assert.deepEqual(await batch.callback?.result(timeout), [
      "double done 8",
      "fails failed undefined it always does",
      "double done 10",
    ]);
    const view = await holdfast.flows.get(batch.id);
    assert.deepEqual(
      [view?.kind, view?.total, view?.done, view?.failed, view?.live],
      ["batch", 3, 2, 1, 0],
    );
    await assert.rejects(
      holdfast.batches.add(batch.id, [[double, { n: 1 }]]),
      withCode("ALREADY_STARTED"),
    );
    await assert.rejects(
      holdfast.batches.add(batch.callback?.id ?? "", []),
      withCode("FLOW_NOT_FOUND"),
    );
  });

  test("waits for jobs that its own jobs add, and an empty one calls back at once", async () => {
    await using holdfast = await open();
    const spread = defineTask({
      name: "spread",
      queue: "other",
      async run({ more }: { more: number }, ctx) {
        const batch = (await ctx.holdfast.flows.of(ctx.id)) ?? "";
        if (more > 0)
          await ctx.holdfast.batches.add(batch, [
            [spread2, { more: more - 1 }],
            [double, { n: more }],
          ]);
      },
    });
    const spread2 = defineTask({
      name: "spread",
      queue: "other",
      run: ({ more }: { more: number }) => void more,
    });
    await holdfast.startWorker({ ...worker, tasks: [spread], queues: ["other"] });
    const batch = await holdfast.batches.enqueue("spreading", [[spread, { more: 3 }]], {
      callback: [sum, null],
    });
    assert.equal(await batch.callback?.result(timeout), 12);
    assert.equal((await holdfast.flows.get(batch.id))?.total, 7);
    const empty = await holdfast.batches.enqueue("empty", [], { callback: [sum, null] });
    assert.equal(await empty.callback?.result(timeout), 0);
  });
});

suite("jobs of different tasks", () => {
  test("are written together or not at all", async () => {
    await using holdfast = await open();
    const [two, none] = await holdfast.enqueueMany([
      [double, { n: 1 }],
      [sum, null, { priority: 3 }],
    ]);
    const results: [number, number] = [await two.result(timeout), await none.result(timeout)];
    assert.deepEqual(results, [2, 0]);
    const before = (await holdfast.jobs.list()).length;
    const wrong = [
      [double, { n: 1 }],
      [sum, null, { priority: 1e9 }],
    ] as const;
    await assert.rejects(holdfast.enqueueMany(wrong), withCode("INVALID_ARGUMENT", "priority"));
    await assert.rejects(
      holdfast.enqueueMany([double] as never),
      /jobs\[0\]: pass a task and its input/,
    );
    const many = Array.from({ length: 5_001 }, () => [sum, null] as const);
    await assert.rejects(holdfast.enqueueMany(many), /jobs: has 5001 jobs; at most 5000/);
    assert.equal((await holdfast.jobs.list()).length, before);
  });
});

suite("in a test", () => {
  test("drain runs a flow to its end, and a job after any other job", async () => {
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    const alone = await holdfast.enqueue(double, { n: 21 });
    const next = await holdfast.enqueue(sum, null, { after: [alone] });
    const flow = await holdfast.flows.enqueue("f", (jobs) =>
      jobs.job(sum, null, { after: [jobs.job(double, { n: 2 })] }),
    );
    await bench.drain(tasks);
    assert.equal((await flow.jobs.at(-1)?.get())?.result, 4);
    assert.equal((await next.get()).result, 42);
  });
});
