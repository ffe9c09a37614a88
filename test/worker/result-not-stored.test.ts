/** A result that cannot be stored: the job is done, and only those who ask for the result are told. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { drain } from "../../src/testing/index.ts";
import { sampledEngines, type Place } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withDateInThread } from "./isolated-tasks.ts";
import { withCode } from "./observe.ts";

const rows = defineTask({ name: "rows", run: (): unknown => [{ at: new Date(0) }] });
const large = defineTask({ name: "large", run: () => "x".repeat(300_000) });
const follows = defineTask({ name: "after", run: () => "ran" });
const reads = defineTask({
  name: "reads",
  async run(_: unknown, ctx) {
    const seen = [];
    for await (const { status, result, error } of ctx.dependencies()) {
      seen.push({ status, result: result ?? "none", code: error?.code ?? null });
    }
    return seen;
  },
});
const collects = defineTask({
  name: "collects",
  retry: { maxAttempts: 5 },
  run: (_: unknown, ctx) => ctx.results(rows),
});
const calls = defineTask({ name: "calls", run: (_: unknown, ctx) => ctx.call(rows) });
const catches = defineTask({
  name: "catches",
  run: (_: unknown, ctx) => ctx.call(rows).catch(String),
});
const tasks = [rows, large, follows, reads, collects, calls, catches];

const PROBLEM =
  "The result of task 'rows' cannot be stored. $[0].at: a Date would be read back as a string. " +
  "Convert it with toISOString(). The work was done, so the job is done, without a result.";

after(assertNothingRuns);

for (const { name, skip, place: open } of sampledEngines) {
  describe(`a result that cannot be stored on ${name}`, { skip, timeout: 60_000 }, () => {
    let place: Place;
    let holdfast: Holdfast;
    const warnings: Record<string, unknown>[] = [];
    before(async () => {
      place = await open();
      const warn = (facts: object): void => void warnings.push({ ...facts });
      const logger = { debug() {}, info() {}, warn, error: warn };
      holdfast = await openHoldfast(place.url, { logger });
    });
    after(async () => {
      await holdfast.close();
      await place[Symbol.asyncDispose]();
    });

    test("leaves the job done, with the reason on it, and a warning in the log", async () => {
      const jobs = await holdfast.enqueueMany([[rows], [large], [withDateInThread]]);
      const worker = await holdfast.startWorker({ tasks: [rows, large, withDateInThread] });
      for (const job of jobs) {
        await assert.rejects(job.result({ timeout: "20s" }), withCode("RESULT_NOT_STORED"));
        const view = await job.get();
        const { code } = view.lastError ?? {};
        assert.deepEqual(
          [view.status, view.attempts, view.result, code],
          ["done", 1, undefined, "RESULT_NOT_STORED"],
        );
      }
      assert.equal((await jobs[0].get()).lastError?.message, PROBLEM);
      await worker.stop();
      const logged = warnings.filter(({ event }) => event === "job:result-not-stored");
      assert.deepEqual(new Set(logged.map(({ job }) => job)), new Set(jobs.map(({ id }) => id)));
      const { done, failed } = worker.status();
      assert.deepEqual([done, failed], [3, 0]);
      const [attempt] = await holdfast.jobs.attempts(jobs[0].id);
      assert.deepEqual([attempt?.outcome, attempt?.error?.code], ["done", "RESULT_NOT_STORED"]);
    });

    test("does not fail the jobs that wait for it, which can see why it is missing", async () => {
      const flow = await holdfast.flows.enqueue("f", (jobs) => {
        const first = jobs.job(rows);
        const second = jobs.job(large);
        jobs.job(follows, undefined, { after: [first, second] });
        jobs.job(reads, undefined, { name: "reads", after: [first, second] });
      });
      const batch = await holdfast.batches.enqueue("b", [[rows], [follows]], {
        callback: [follows],
      });
      await drain(holdfast, tasks);
      const { status, done, failed } = (await holdfast.flows.get(flow.id)) ?? {};
      assert.deepEqual([status, done, failed], ["done", 4, 0]);
      const none = { status: "done", result: "none", code: "RESULT_NOT_STORED" };
      assert.deepEqual(await flow.jobs[3]?.result({ timeout: "5s" }), [none, none]);
      assert.equal((await holdfast.flows.get(batch.id))?.status, "done");
      assert.equal(await batch.callback?.result({ timeout: "5s" }), "ran");
    });

    test("is not passed off as a result: ctx.results() and ctx.call() throw, without a retry", async () => {
      const first = await holdfast.enqueue(rows);
      const collecting = await holdfast.enqueue(collects, undefined, { after: [first.id] });
      const calling = await holdfast.enqueue(calls);
      const catching = await holdfast.enqueue(catches);
      await drain(holdfast, tasks);
      const codes = [];
      for (const job of [collecting, calling]) {
        const { status, attempts, lastError } = await job.get();
        codes.push([status, attempts, lastError?.code]);
      }
      assert.deepEqual(codes, [
        ["failed", 1, "RESULT_NOT_STORED"],
        ["failed", 1, "CALL_FAILED"],
      ]);
      const said = await catching.result({ timeout: "5s" });
      assert.match(String(said), /The job it called, .*, is done, but gives no result: The result/);
    });
  });
}
