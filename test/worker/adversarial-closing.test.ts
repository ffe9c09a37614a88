/** Stopping and closing in every order, at every moment. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { within } from "../support/waiting.ts";
import { codeOf, until, withCode } from "./observe.ts";

after(assertNothingRuns);

/** Many more turns than closing or asking for a result takes. */
const TICKS_MAX = 14;
/** Nothing that is answered at all takes this long. */
const ANSWER_MS_MAX = 1_000;

const echo = defineTask({ name: "echo", run: (value: unknown) => value });

/** A task that never ends by itself. Deaf ones do not hear the signal either. */
function endless(options: { deaf?: boolean } = {}) {
  const reasons: string[] = [];
  const task = defineTask({
    name: "endless",
    run: (_input: null, { signal }) =>
      new Promise<null>((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          reasons.push(codeOf(signal.reason));
          if (options.deaf !== true) reject(new Error("stopped as asked"));
        });
      }),
  });
  return { task, reasons };
}

suite("a worker that is stopped twice", () => {
  test("in one tick, first with patience and then with none, aborts at once", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const { task, reasons } = endless();
    const worker = await holdfast.startWorker({ tasks: [task] });
    const job = await holdfast.enqueue(task, null);
    await clock.advance("1s");
    const both = [worker.stop({ timeout: "10m" }), worker.stop({ timeout: 0 })];
    await clock.advance("1s");
    assert.deepEqual(reasons, ["SHUTTING_DOWN"]);
    assert.equal(worker.status().state, "stopped");
    await Promise.all(both);
    const { status, attempts } = await job.get();
    assert.deepEqual({ status, attempts }, { status: "pending", attempts: 0 });
  });

  test("first with none and then with patience, has none", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const { task, reasons } = endless();
    const worker = await holdfast.startWorker({ tasks: [task] });
    await holdfast.enqueue(task, null);
    await clock.advance("1s");
    const both = [worker.stop({ timeout: 0 }), worker.stop({ timeout: "10m" })];
    await clock.advance("1s");
    assert.deepEqual(reasons, ["SHUTTING_DOWN"]);
    assert.equal(worker.status().state, "stopped");
    await Promise.all(both);
  });

  test("first to drain and then with a timeout, waits that long and no longer", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const { task, reasons } = endless();
    const worker = await holdfast.startWorker({ tasks: [task] });
    await holdfast.enqueue(task, null);
    await clock.advance("1s");
    await holdfast.workers.drain({ id: worker.id });
    await clock.advance("1h");
    assert.deepEqual([worker.status().state, reasons], ["stopping", []]);
    const stopped = worker.stop({ timeout: "5s" });
    await clock.advance("4s");
    assert.deepEqual(reasons, []);
    await clock.advance("2s");
    assert.deepEqual([worker.status().state, reasons], ["stopped", ["SHUTTING_DOWN"]]);
    await stopped;
  });

  test("without patience both times still hands back what does not hear the signal", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const { task } = endless({ deaf: true });
    const worker = await holdfast.startWorker({ tasks: [task] });
    const job = await holdfast.enqueue(task, null);
    await clock.advance("1s");
    const first = worker.stop({ timeout: 0 });
    await clock.advance(100);
    const second = worker.stop({ timeout: 0 });
    await clock.advance("10s");
    await Promise.all([first, second]);
    assert.equal(worker.status().running, 0, "it said it had stopped while a job ran");
    const { status, attempts, crashes } = await job.get();
    assert.deepEqual({ status, attempts, crashes }, { status: "pending", attempts: 0, crashes: 0 });
    assert.deepEqual(await holdfast.leases.list(), []);
  });
});

suite("stop", () => {
  test("refuses an unknown option, and the worker continues", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const worker = await holdfast.startWorker({ tasks: [echo] });
    const misspelt = { timeuot: 0 } as { timeout?: number };
    await assert.rejects(worker.stop(misspelt), withCode("INVALID_ARGUMENT", "timeuot"));
    const job = await holdfast.enqueue(echo, "still here");
    await clock.advance("1s");
    assert.equal(await job.result(), "still here");
  });

  test("refuses invalid options, and the worker continues", async () => {
    await using kit = await openTestHoldfast();
    const worker = await kit.holdfast.startWorker({ tasks: [echo] });
    for (const odd of [null, 5, "1s"]) {
      const options = odd as unknown as { timeout?: number };
      await assert.rejects(worker.stop(options), withCode("INVALID_ARGUMENT", "options"));
    }
    assert.equal(worker.status().state, "running");
  });

  test("takes its timeout in words, and waits that long and no longer", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const { task, reasons } = endless();
    const worker = await holdfast.startWorker({ tasks: [task] });
    await holdfast.enqueue(task, null);
    await clock.advance("1s");
    const stopped = worker.stop({ timeout: "1s" });
    await clock.advance(999);
    assert.deepEqual(reasons, []);
    await clock.advance(1);
    assert.deepEqual(reasons, ["SHUTTING_DOWN"]);
    await clock.advance("1s");
    assert.equal(worker.status().state, "stopped");
    await stopped;
  });
});

suite("closing", () => {
  test("stops a worker that was still starting", async () => {
    using folder = tempFolder();
    const holdfast = await openHoldfast(`sqlite:${folder.file(".db")}`);
    const starting = holdfast.startWorker({ tasks: [echo] });
    await holdfast.close();
    const worker = await starting;
    try {
      assert.equal(worker.status().state, "stopped");
    } finally {
      await worker.stop({ timeout: 0 });
    }
  });

  test("lets no worker start while it waits for the jobs of another", async () => {
    const holdfast = await openHoldfast("sqlite::memory:");
    const end = Promise.withResolvers<null>();
    const holding = defineTask({ name: "holding", run: () => end.promise });
    const worker = await holdfast.startWorker({ tasks: [holding] });
    await holdfast.enqueue(holding, null);
    await until("it runs", () => worker.status().running === 1);
    const closing = holdfast.close();
    const second = holdfast.startWorker({ tasks: [echo] });
    try {
      await assert.rejects(second, withCode("CLOSED"));
    } finally {
      end.resolve(null);
      await closing;
      await second.then(
        (late) => late.stop({ timeout: 0 }),
        () => {},
      );
    }
    assert.equal(worker.status().done, 1);
  });

  test("answers every caller that waits for a result, whenever it asked", async () => {
    const answers: string[] = [];
    for (let ticks = 0; ticks < TICKS_MAX; ticks += 1) {
      const holdfast = await openHoldfast("sqlite::memory:");
      const job = await holdfast.enqueue(echo, null);
      const closed = holdfast.close();
      await pollCycle(ticks);
      const code = job.result().then(String, codeOf);
      await closed;
      answers.push((await within(ANSWER_MS_MAX, code)) ?? `hangs after ${ticks} ticks of closing`);
    }
    for (let ticks = 0; ticks < TICKS_MAX; ticks += 1) {
      const holdfast = await openHoldfast("sqlite::memory:");
      const job = await holdfast.enqueue(echo, null);
      const code = job.result().then(String, codeOf);
      await pollCycle(ticks);
      await holdfast.close();
      answers.push((await within(ANSWER_MS_MAX, code)) ?? `hangs when closed after ${ticks} ticks`);
    }
    assert.deepEqual([...new Set(answers)], ["CLOSED"]);
  });
});

async function pollCycle(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await Promise.resolve();
}
