/** How many jobs of each queue a worker runs at once. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { settingOf } from "../../src/app/settings.ts";
import { defineTask, type WorkerOptions } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { checkWorkerOptions, workerOptionsFrom } from "../../src/worker/options.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "./observe.ts";

after(assertNothingRuns);

/** Runs jobs of 1 s each, and returns the most that ran at once, by queue and in all. */
async function mostAtOnce(
  options: Pick<WorkerOptions, "queues" | "concurrency">,
  jobs: Readonly<Record<string, number>>,
  seconds: number,
) {
  await using kit = await openTestHoldfast();
  const { holdfast, clock } = kit;
  const running = new Map<string, number>();
  const most: Record<string, number> = { all: 0 };
  const done: Record<string, number> = {};
  const add = (queue: string, n: 1 | -1): void => {
    running.set(queue, (running.get(queue) ?? 0) + n);
    const all = [...running.values()].reduce((sum, one) => sum + one, 0);
    most[queue] = Math.max(most[queue] ?? 0, running.get(queue) ?? 0);
    most["all"] = Math.max(most["all"] ?? 0, all);
  };
  const task = defineTask({
    name: "work",
    async run(_input: null, { queue }) {
      add(queue, 1);
      await new Promise<void>((resolve) => clock.timer(1_000, resolve));
      add(queue, -1);
      done[queue] = (done[queue] ?? 0) + 1;
    },
  });
  for (const [queue, count] of Object.entries(jobs)) {
    const inputs = Array.from({ length: count }, () => null);
    await holdfast.enqueueMany(task, inputs, { queue });
  }
  const worker = await holdfast.startWorker({ tasks: [task], ...options });
  await clock.advance(seconds * 1_000 + 500);
  const counted = { most: { ...most }, done: { ...done } };
  const stopping = worker.stop({ timeout: 0 });
  await clock.advance("5s");
  await stopping;
  return counted;
}

suite("the queues of a worker", () => {
  test("each run as many jobs at once as they may, and no more", async () => {
    const queues = { mail: 2, default: 5, slow: 1 };
    const jobs = { mail: 20, default: 20, slow: 3 };
    const { most, done } = await mostAtOnce({ queues }, jobs, 4);
    assert.deepEqual(most, { all: 8, mail: 2, default: 5, slow: 1 });
    assert.deepEqual(done, { mail: 8, default: 20, slow: 3 });
  });

  test("share a concurrency that is less than their sum, and none starves", async () => {
    const queues = { mail: 3, default: 4 };
    const { most, done } = await mostAtOnce(
      { queues, concurrency: 4 },
      { mail: 50, default: 50 },
      9,
    );
    assert.equal(most["all"], 4);
    assert.ok((most["mail"] ?? 9) <= 3, `${most["mail"]} of 3`);
    assert.ok((done["mail"] ?? 0) >= 9 && (done["default"] ?? 0) >= 9, JSON.stringify(done));
    assert.equal((done["mail"] ?? 0) + (done["default"] ?? 0), 36);
  });

  test("are taken in order of priority and age, if only concurrency limits them", async () => {
    const { most } = await mostAtOnce({ queues: ["a", "b"], concurrency: 3 }, { a: 9, b: 1 }, 2);
    assert.deepEqual(most, { all: 3, a: 3 });
  });

  test("are checked", async () => {
    const task = defineTask({ name: "x", run: () => null });
    const check = (options: object) => () => checkWorkerOptions({ tasks: [task], ...options }, "v");
    assert.throws(check({ queues: { mail: 0 } }), withCode("INVALID_ARGUMENT", "queues.mail"));
    assert.throws(check({ queues: { mail: "2" } }), withCode("INVALID_ARGUMENT", "queues.mail"));
    assert.throws(check({ queues: {} }), withCode("INVALID_ARGUMENT", "queues"));
    assert.equal(check({ queues: { a: 900, b: 900 } })().concurrency, 1_000);
    assert.equal(check({ queues: { a: 2, b: 3 } })().concurrency, 5);
    assert.equal(check({ queues: ["a"] })().concurrency, 10);
  });

  test("have numbers on the command line and in the configuration file too", () => {
    const { kind } = settingOf("queues");
    const optionsOf = (given: unknown) => {
      const read = kind.read(given) as readonly string[] | null;
      return workerOptionsFrom({ queues: read } as never).queues;
    };
    assert.deepEqual(optionsOf("mail=2,default=20"), { mail: 2, default: 20 });
    assert.deepEqual(optionsOf({ mail: 2 }), { mail: 2 });
    assert.deepEqual(optionsOf("mail, default"), ["mail", "default"]);
    assert.throws(() => optionsOf("mail=2,default"), withCode("INVALID_ARGUMENT", "queues"));
  });
});
