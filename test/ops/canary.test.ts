/** Canaries: one at a time in every queue that is served, measured by all, and missed when they do not come back. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { defineTask, type Holdfast } from "../../src/index.ts";
import { Canaries, canaryTask, withCanary } from "../../src/monitoring/canary.ts";
import { startMonitor } from "../../src/monitoring/monitor.ts";
import { openTestHoldfast, type TestClock } from "../../src/testing/index.ts";

const echo = defineTask({ name: "echo", run: (value: unknown) => value });

async function sentTo(holdfast: Holdfast): Promise<string[]> {
  const jobs = await holdfast.jobs.list({ task: canaryTask.name, limit: 1_000 });
  return jobs.map(({ queue }) => queue).toSorted();
}

/** A worker with one place, which a job has until it is let go. */
async function busyWorker({ holdfast, clock }: { holdfast: Holdfast; clock: TestClock }) {
  const gate = Promise.withResolvers<null>();
  const hog = defineTask({ name: "hog", run: () => gate.promise });
  const tasks = withCanary([hog]);
  const worker = await holdfast.startWorker({ tasks, concurrency: 1 });
  await holdfast.enqueue(hog, null);
  await clock.advance("1s");
  assert.equal(worker.status().running, 1);
  return { worker, letGo: () => gate.resolve(null) };
}

suite("a canary", () => {
  test("that is done shows how long a job of its queue takes", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    await holdfast.startWorker({ tasks: withCanary([echo]), queues: ["default", "mail"] });
    await clock.advance("1s");
    const monitor = startMonitor(holdfast, { canary: {} });
    await clock.advance("45s");
    const reports = monitor.latest()?.canaries ?? [];
    assert.deepEqual(
      reports.map(({ queue }) => queue),
      ["default", "mail"],
    );
    for (const { sentAt, pickupMs, doneMs } of reports) {
      assert.ok(clock.now() - sentAt < 60_000);
      assert.ok(pickupMs !== null && doneMs !== null && pickupMs <= doneMs && doneMs < 1_000);
    }
    await monitor.stop();
  });

  test("that waits is missed from the first look, and measured when it was picked up after all", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const { letGo } = await busyWorker(kit);
    const sentAt = clock.now();
    const canaries = new Canaries(holdfast);
    await clock.advance("10m");
    const late = [{ queue: "default", sentAt, pickupMs: null, doneMs: null }];
    assert.deepEqual(await canaries.reports(), late);
    assert.deepEqual(await sentTo(holdfast), ["default"], "one is out, and no more are sent");
    letGo();
    await clock.advance("100ms");
    const [report] = await canaries.reports();
    assert.equal(report?.sentAt, sentAt);
    assert.ok((report.pickupMs ?? 0) >= 600_000 && (report.doneMs ?? 0) >= (report.pickupMs ?? 0));
    await clock.advance("2m");
    const [next] = await canaries.reports();
    assert.ok((next?.sentAt ?? 0) > sentAt && (next?.pickupMs ?? 600_000) < 1_000);
    await canaries.stop();
  });

  test("that is out is still missed when its workers are gone", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const { worker } = await busyWorker(kit);
    const canaries = new Canaries(holdfast);
    await clock.advance("1s");
    const stopped = worker.stop({ timeout: 0 });
    await clock.advance("10m");
    await stopped;
    assert.deepEqual(
      (await canaries.reports()).map(({ queue, pickupMs }) => [queue, pickupMs]),
      [["default", null]],
    );
    const [outstanding] = await holdfast.jobs.list({ task: canaryTask.name });
    await holdfast.jobs.cancel(outstanding?.id ?? "");
    assert.equal((await canaries.reports())[0]?.pickupMs, null);
    await clock.advance("2m");
    assert.deepEqual(await canaries.reports(), [], "it has ended, and no worker serves the queue");
    await canaries.stop();
  });

  test("is sent once an interval, however many send", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    await holdfast.startWorker({ tasks: withCanary([echo]) });
    await clock.advance("1s");
    const senders = [1, 2, 3].map(() => new Canaries(holdfast, { interval: "60s" }));
    await clock.advance("30m");
    const { length } = await sentTo(holdfast);
    // The loops wait for 54 to 60 seconds, and the first that comes after 51 sends.
    assert.ok(length >= 30 && length <= 36, `${length} canaries in half an hour`);
    const told = await Promise.all(senders.map((sender) => sender.reports()));
    assert.ok(told.every(([report]) => clock.now() - (report?.sentAt ?? 0) < 120_000));
    assert.deepEqual(await holdfast.workers.drift(), { workers: [], enqueuers: [] });
    await Promise.all(senders.map((sender) => sender.stop()));
  });

  test("is sent only where a worker would take it", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const tasks = withCanary([echo]);
    await holdfast.startWorker({ tasks: [echo], queues: ["stranger"] });
    await holdfast.startWorker({ tasks, queues: ["paused", "shared"], name: "resting" });
    await holdfast.startWorker({ tasks, queues: ["shared", "stranger2"] });
    await holdfast.workers.pause({ type: "resting" });
    await clock.advance("20s");
    const canaries = new Canaries(holdfast);
    await clock.advance("1s");
    assert.deepEqual(await sentTo(holdfast), ["shared", "stranger2"]);
    await canaries.stop();
  });

  test("is sent to a bounded number of queues", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const queues = Array.from({ length: 40 }, (_, n) => `queue-${n}`);
    await holdfast.startWorker({ tasks: withCanary([echo]), queues });
    await clock.advance("1s");
    const canaries = new Canaries(holdfast);
    await clock.advance("1s");
    assert.equal((await sentTo(holdfast)).length, 32);
    assert.equal((await canaries.reports()).length, 32);
    await canaries.stop();
  });
});

test("the canary's task adds no queue to a worker, and is added once", () => {
  const mail = defineTask({ name: "mail", queue: "mail", run: () => null });
  const tasks = withCanary([mail]);
  assert.deepEqual(
    tasks.map(({ name, queue }) => [name, queue]),
    [
      ["mail", "mail"],
      ["holdfast.canary", "mail"],
    ],
  );
  assert.equal(withCanary(tasks), tasks);
  assert.deepEqual(withCanary([]), []);
});
