import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import * as z from "zod";
import { InputRejectedError } from "../../src/core/errors.ts";
import { defineTask, GiveUpError, type Holdfast } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX } from "../../src/core/json.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { hear, storyOf, withCode } from "./observe.ts";

after(assertNothingRuns);

async function outcomesOf(holdfast: Holdfast, id: string): Promise<string[]> {
  return (await holdfast.jobs.attempts(id)).map(({ outcome }) => outcome);
}

suite("a job whose attempts fail", () => {
  test("is tried again after each wait and not before, and fails after the last", async () => {
    await using kit = await openTestHoldfast({ seed: 5 });
    const { holdfast, clock } = kit;
    const triedAt: number[] = [];
    const flaky = defineTask({
      name: "flaky",
      retry: { maxAttempts: 4, backoff: { initial: "1m", max: "10m", factor: 3 } },
      run() {
        triedAt.push(clock.now());
        throw new Error(`attempt ${triedAt.length}`);
      },
    });
    const worker = await holdfast.startWorker({ tasks: [flaky] });
    const heard = hear(worker);
    const job = await holdfast.enqueue(flaky, null);
    await clock.advance("1s");

    for (const longestMs of [60_000, 180_000, 540_000]) {
      const { status, dueAt } = await job.get();
      assert.equal(status, "retry");
      const waitMs = dueAt! - triedAt.at(-1)!;
      assert.ok(waitMs >= 0 && waitMs <= longestMs, `a wait of ${waitMs} ms`);
      const before = triedAt.length;
      const restMs = dueAt! - clock.now();
      if (restMs > 1) await clock.advance(restMs - 1);
      if (restMs > 1) assert.equal(triedAt.length, before, "it was tried before its time");
      await clock.advance("2s"); // The chores come round every second.
      assert.equal(triedAt.length, before + 1);
    }

    const { status, attempts, lastError } = await job.get();
    assert.deepEqual({ status, attempts }, { status: "failed", attempts: 4 });
    assert.equal(lastError?.message, "attempt 4");
    assert.deepEqual(await outcomesOf(holdfast, job.id), ["retry", "retry", "retry", "failed"]);
    const again = ["job:started", "job:retrying"];
    const story = [...again, ...again, ...again, "job:started", "job:failed"];
    assert.deepEqual(storyOf(heard, job.id), story);
    const { retried, failed, done } = worker.status();
    assert.deepEqual({ retried, failed, done }, { retried: 3, failed: 1, done: 0 });
    await clock.advance("15m");
    assert.equal(triedAt.length, 4, "a dead job was tried again");
  });

  test("is done when an attempt succeeds, and keeps the history of the failures", async () => {
    await using kit = await openTestHoldfast();
    const third = defineTask({
      name: "third",
      run(_input: null, { attempt }) {
        if (attempt < 3) throw new Error(`not yet: ${attempt}`);
        return { attempt };
      },
    });
    const job = await kit.holdfast.enqueue(third, null);
    await kit.drain([third], { skipTime: true });
    assert.deepEqual(await job.result(), { attempt: 3 });
    const history = await kit.holdfast.jobs.attempts(job.id);
    assert.deepEqual(
      history.map(({ attempt, outcome, error }) => [attempt, outcome, error?.message ?? null]),
      [
        [1, "retry", "not yet: 1"],
        [2, "retry", "not yet: 2"],
        [3, "done", null],
      ],
    );
  });

  test("has as many attempts as the caller says, whatever the task says", async () => {
    await using kit = await openTestHoldfast();
    let runs = 0;
    const flaky = defineTask({
      name: "flaky",
      retry: { maxAttempts: 7 },
      run() {
        runs += 1;
        throw new Error("no");
      },
    });
    await kit.holdfast.enqueue(flaky, null, { maxAttempts: 2 });
    const { totals } = await kit.drain([flaky], { skipTime: true });
    assert.deepEqual([runs, totals.failed], [2, 1]);
  });

  test("records whatever was thrown, even if it is not an error", async () => {
    await using kit = await openTestHoldfast();
    const odd = defineTask({
      name: "odd",
      retry: { maxAttempts: 1 },
      run(which: string) {
        // oxlint-disable-next-line typescript/only-throw-error -- people do
        if (which !== "error") throw which === "text" ? "just a text" : undefined;
        throw Object.assign(new Error("outer", { cause: new Error("inner") }), { code: "E_ODD" });
      },
    });
    await kit.holdfast.enqueueMany(odd, ["text", "nothing", "error"]);
    const { jobs } = await kit.drain([odd]);
    const errors = jobs.map(({ status, error }) => [status, error?.message, error?.code]);
    assert.deepEqual(errors, [
      ["failed", "just a text", undefined],
      ["failed", "undefined", undefined],
      ["failed", "outer", "E_ODD"],
    ]);
    assert.equal(jobs[2]?.error?.cause?.message, "inner");
  });
});

suite("a job that cannot succeed", () => {
  test("fails at once when its task gives up", async () => {
    await using kit = await openTestHoldfast();
    let runs = 0;
    const hopeless = defineTask({
      name: "hopeless",
      retry: { maxAttempts: 10 },
      run() {
        runs += 1;
        throw new GiveUpError("the customer is gone", new Error("404"));
      },
    });
    await kit.holdfast.enqueue(hopeless, null);
    const { jobs } = await kit.drain([hopeless], { skipTime: true });
    assert.equal(runs, 1);
    assert.deepEqual([jobs[0]?.status, jobs[0]?.attempts], ["failed", 1]);
    assert.equal(jobs[0]?.error?.code, "GIVE_UP");
    assert.equal(jobs[0]?.error?.cause?.message, "404");
  });

  const order = z.object({ id: z.string(), cents: z.number().int() });

  test("is refused when its input does not fit the schema, and nothing is written", async () => {
    await using kit = await openTestHoldfast();
    const ship = defineTask({ name: "ship", input: order, run: () => null });
    await assert.rejects(
      kit.holdfast.enqueueMany(ship, [
        { id: "1", cents: 5 },
        { id: "2", cents: 0.5 },
      ]),
      (error) =>
        error instanceof InputRejectedError &&
        error.task === "ship" &&
        error.issues[0]?.path === "inputs[1].cents",
    );
    assert.deepEqual(await kit.holdfast.jobs.list(), []);
  });

  test("fails at once when the worker's schema refuses an input that was accepted", async () => {
    await using kit = await openTestHoldfast();
    let runs = 0;
    const ship = defineTask({ name: "ship", input: order, run: () => void (runs += 1) });
    await kit.holdfast.enqueue("ship", { id: 7 });
    const { jobs } = await kit.drain([ship], { skipTime: true });
    assert.equal(runs, 0);
    assert.deepEqual([jobs[0]?.status, jobs[0]?.attempts], ["failed", 1]);
    assert.equal(jobs[0]?.error?.code, "INPUT_REJECTED");
    assert.match(jobs[0]?.error?.message ?? "", /\$\.id.*\$\.cents/);
  });

  test("fails at once when an asynchronous schema refuses it", async () => {
    await using kit = await openTestHoldfast();
    const known = z.string().refine(async (name) => name === "ada", "no such name");
    const greet = defineTask({ name: "greet", input: known, run: (name) => `hello ${name}` });
    const job = await kit.holdfast.enqueue(greet, "ada");
    await assert.rejects(kit.holdfast.enqueue(greet, "eve"), withCode("INPUT_REJECTED"));
    await kit.holdfast.enqueue("greet", "eve");
    const { totals } = await kit.drain([greet], { skipTime: true });
    assert.deepEqual([totals.done, totals.failed], [1, 1]);
    assert.equal(await job.result(), "hello ada");
  });

  for (const [what, result] of [
    ["is no JSON", { when: new Date(0) }],
    ["is too large", "x".repeat(DEFAULT_PAYLOAD_BYTES_MAX + 1)],
  ] as const) {
    test(`is done when its result ${what}: the work was done`, async () => {
      await using kit = await openTestHoldfast();
      let runs = 0;
      const work = defineTask({
        name: "work",
        retry: { maxAttempts: 5 },
        run(): unknown {
          runs += 1;
          return result;
        },
      });
      await kit.holdfast.enqueue(work);
      const { jobs } = await kit.drain([work], { skipTime: true });
      assert.equal(runs, 1);
      assert.deepEqual([jobs[0]?.status, jobs[0]?.error?.code], ["done", "RESULT_NOT_STORED"]);
    });
  }
});

suite("the input of a task", () => {
  test("is the schema's output, made anew from the stored input at every attempt", async () => {
    await using kit = await openTestHoldfast();
    const seen: unknown[] = [];
    const at = defineTask({
      name: "at",
      input: z.object({ when: z.iso.datetime().transform((text) => new Date(text)) }),
      retry: { maxAttempts: 2, backoff: { initial: 0 } },
      run(input, { attempt }) {
        seen.push(input.when);
        input.when = new Date(0);
        if (attempt === 1) throw new Error("again");
      },
    });
    const job = await kit.holdfast.enqueue(at, { when: "2027-05-06T07:08:09Z" });
    await kit.drain([at]);
    const expected = new Date("2027-05-06T07:08:09Z");
    assert.deepEqual(seen, [expected, expected]);
    assert.deepEqual((await job.get()).input, { when: "2027-05-06T07:08:09Z" });
  });
});
