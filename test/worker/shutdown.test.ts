import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { openTestHoldfast, testClock } from "../../src/testing/index.ts";
import { ABORT_GRACE_MS } from "../../src/worker/attempt.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { codeOf, hear, keepLog, storyOf, until } from "./observe.ts";
import { withOutage, wrapStore } from "./wrapped-store.ts";

after(assertNothingRuns);

async function leasesOf(holdfast: Holdfast): Promise<string[]> {
  const leases = [
    ...(await holdfast.leases.list()),
    ...(await holdfast.leases.list({ state: "expired" })),
  ];
  return leases.map(({ id }) => id);
}

/** A task whose jobs run until the test lets them end. Deaf ones do not hear the signal. */
function holdingTask(options: { deaf?: boolean } = {}) {
  const end = Promise.withResolvers<string>();
  const reasons: string[] = [];
  const started: string[] = [];
  const task = defineTask({
    name: "holding",
    run: (_input: null, { id, signal }) =>
      new Promise<string>((resolve, reject) => {
        started.push(id);
        void end.promise.then(resolve);
        signal.addEventListener("abort", () => {
          reasons.push(codeOf(signal.reason));
          if (options.deaf !== true) reject(new Error("stopped as asked"));
        });
      }),
  });
  return { task, end, reasons, started };
}

suite("a worker that is stopped", () => {
  test("waits for the jobs that run, and starts no other", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const { task, end, reasons, started } = holdingTask();
    const worker = await holdfast.startWorker({ tasks: [task], concurrency: 2 });
    const [first, second, third] = await holdfast.enqueueMany(task, [null, null, null]);
    await until("two jobs run", () => started.length === 2);

    const stopped = worker.stop();
    assert.equal(worker.status().state, "stopping");
    end.resolve("finished in peace");
    await stopped;
    assert.equal(worker.status().state, "stopped");
    assert.deepEqual(reasons, []);
    assert.equal(await first?.result(), "finished in peace");
    assert.equal(await second?.result(), "finished in peace");
    const left = await third?.get();
    assert.deepEqual([left?.status, left?.attempts, left?.epoch], ["pending", 0, 0]);
    assert.deepEqual(await leasesOf(holdfast), []);
    const row = await holdfast.store.workers.find(worker.id);
    const { status, claimed, done, running } = row ?? {};
    assert.deepEqual([status, claimed, done, running], ["stopped", 2, 2, 0]);
  });

  test("aborts with SHUTTING_DOWN after the shutdown limit, and hands the job back without using up an attempt", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const { task, reasons } = holdingTask();
    const worker = await holdfast.startWorker({ tasks: [task], shutdown: "5s" });
    const heard = hear(worker);
    const job = await holdfast.enqueue(task, null, { maxAttempts: 1 });
    await clock.advance("1s");

    const stopped = worker.stop();
    await clock.advance(4_999);
    assert.deepEqual(reasons, []);
    await clock.advance("5s");
    await stopped;
    assert.deepEqual(reasons, ["SHUTTING_DOWN"]);
    const { status, attempts, epoch } = await job.get();
    assert.deepEqual({ status, attempts, epoch }, { status: "pending", attempts: 0, epoch: 1 });
    const history = await holdfast.jobs.attempts(job.id);
    assert.deepEqual(
      history.map(({ outcome, error }) => [outcome, error]),
      [["released", null]],
    );
    assert.deepEqual(storyOf(heard, job.id), ["job:started", "job:released"]);
    assert.deepEqual(await leasesOf(holdfast), []);
  });

  test("hands back a job whose task ignores the signal, and ignores what it does later", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const { task, reasons, end } = holdingTask({ deaf: true });
    const worker = await holdfast.startWorker({ tasks: [task], shutdown: "5s" });
    const job = await holdfast.enqueue(task, null);
    await clock.advance("1s");
    const stopped = worker.stop();
    await clock.advance(5_000 + ABORT_GRACE_MS + 2_000);
    await stopped;
    assert.deepEqual(reasons, ["SHUTTING_DOWN"]);
    end.resolve("too late");
    await clock.settle();
    const { status, attempts } = await job.get();
    assert.deepEqual({ status, attempts }, { status: "pending", attempts: 0 });
    assert.deepEqual(await leasesOf(holdfast), []);
  });

  test("keeps the result of a job that ends while it is being aborted", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const tidy = defineTask({
      name: "tidy",
      run: (_input: null, { signal }) =>
        new Promise((resolve) => {
          signal.addEventListener("abort", () => resolve("wrapped up"));
        }),
    });
    const worker = await holdfast.startWorker({ tasks: [tidy] });
    const job = await holdfast.enqueue(tidy, null);
    await until("it runs", () => worker.status().running === 1);
    await worker.stop({ timeout: 0 });
    assert.equal(await job.result(), "wrapped up");
  });

  test("leaves its jobs to the next worker, which counts their first attempt as the first", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const seen: number[] = [];
    const task = defineTask({
      name: "moving",
      run(_input: null, { signal, attempt, fence }) {
        seen.push(attempt);
        if (fence.epoch === 2) return "done by the second";
        return new Promise<string>((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error));
        });
      },
    });
    const first = await holdfast.startWorker({ tasks: [task], name: "first" });
    const job = await holdfast.enqueue(task, null);
    await until("it runs", () => first.status().running === 1);
    await first.stop({ timeout: 0 });
    await holdfast.startWorker({ tasks: [task], name: "second" });
    assert.equal(await job.result(), "done by the second");
    assert.deepEqual(seen, [1, 1]);
  });

  test("stops once, however often stop() is called", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const { task } = holdingTask();
    const log: string[] = [];
    const worker = await holdfast.startWorker({ tasks: [task] });
    worker.on("worker:stopping", () => log.push("stopping"));
    worker.on("worker:stopped", () => log.push("stopped"));
    await Promise.all([worker.stop(), worker.stop(), worker.stop({ timeout: 0 })]);
    await worker.stop();
    assert.deepEqual(log, ["stopping", "stopped"]);
  });

  test("is stopped by leaving its scope, and by closing the Holdfast it belongs to", async () => {
    const { task, end, started } = holdingTask();
    const holdfast = await openHoldfast("sqlite::memory:");
    let inScope;
    {
      await using worker = await holdfast.startWorker({ tasks: [task] });
      inScope = worker;
      await holdfast.enqueue(task, null);
      await until("it runs", () => started.length === 1);
      end.resolve("the scope waited for it");
    }
    assert.equal(inScope.status().state, "stopped");
    assert.equal(inScope.status().done, 1);

    const another = await holdfast.startWorker({ tasks: [task] });
    await holdfast.close();
    assert.equal(another.status().state, "stopped");
  });

  test("hands back the jobs of a claim that was under way", async () => {
    const arrived = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    const store = wrapStore(await openStore("sqlite::memory:"), (real) => ({
      jobs: {
        async settleAndClaim(settlements, wanted) {
          const turn = await real.jobs.settleAndClaim(settlements, wanted);
          if (turn.claimed.length > 0) {
            arrived.resolve();
            await answer.promise;
          }
          return turn;
        },
      },
    }));
    await using holdfast = await openHoldfast(store);
    const { task, started } = holdingTask();
    const worker = await holdfast.startWorker({ tasks: [task] });
    const [job] = await holdfast.enqueueMany(task, [null, null, null]);
    await arrived.promise;

    const stopped = worker.stop({ timeout: 0 });
    answer.resolve();
    await stopped;
    assert.deepEqual(await leasesOf(holdfast), [], "a stopped worker still holds jobs");
    const back = await job?.get();
    assert.deepEqual([back?.status, back?.attempts], ["pending", 0]);
    assert.deepEqual(started, [], "a worker that stops started a job");
    assert.equal(worker.status().running, 0);
  });

  test("logs it and still stops when the database is unavailable", async () => {
    const log = keepLog();
    const clock = testClock();
    const outage = withOutage(await openStore("sqlite::memory:", { runtime: clock }));
    const holdfast = await openHoldfast(outage.store, { logger: log.logger, runtime: clock });
    const { task, end, started } = holdingTask();
    const worker = await holdfast.startWorker({ tasks: [task] });
    const job = await holdfast.enqueue(task, null);
    await until("it runs", () => started.length === 1);
    outage.down = true;
    end.resolve("too late");
    await until("the outcome was offered", () => outage.refused > 0);
    const stopped = worker.stop({ timeout: 0 });
    await clock.advance("10s");
    await stopped;
    assert.equal(worker.status().state, "stopped");
    assert.equal(log.of("could not settle; the leases will expire").length, 1);
    outage.down = false;
    assert.equal((await job.get()).status, "processing");
    await holdfast.close();
  });
});
