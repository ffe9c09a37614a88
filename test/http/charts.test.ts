/** The overview, the counts and the charts over HTTP. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { defineTask } from "../../src/core/task.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { TestServer } from "./client.ts";

test("the overview of an empty service, and of one that works", async () => {
  await using api = await TestServer.open();
  const empty = await api.get("/api/v1/overview");
  assert.equal(empty.isEmpty, true);
  assert.deepEqual(
    [empty.queues, empty.workers, empty.failed, empty.pausedAll],
    [[], [], [], false],
  );
  const { holdfast } = api;
  const tasks = [
    defineTask({ name: "good", run: async () => 1 }),
    defineTask({
      name: "bad",
      retry: { maxAttempts: 1 },
      run: async () => {
        throw new Error("no");
      },
    }),
  ];
  await using worker = await holdfast.startWorker({ tasks, concurrency: 3, signals: false });
  await api.post("/api/v1/jobs", { task: "good" }, 201);
  await api.post("/api/v1/jobs", { task: "bad" }, 201);
  await api.post("/api/v1/queues/mail/pause", { reason: "provider is down" });
  await eventually(async () => {
    const { failed } = await api.get("/api/v1/overview");
    return failed.length === 1;
  });
  const { queues, workers, figures, isEmpty } = await api.get("/api/v1/overview");
  assert.equal(isEmpty, false);
  assert.deepEqual([figures.workers, figures.slots], [1, 3]);
  assert.equal(workers[0].id, worker.id);
  const row = (name: string): any => queues.find(({ queue }: any) => queue === name);
  assert.equal(row("default").slots, 3);
  assert.equal(row("mail").paused.reason, "provider is down");
  assert.match(row("mail").paused.by, /local/);
  assert.equal(row("default").spark.length, 30);
});

test("many simultaneous requests cost one query", async () => {
  await using api = await TestServer.open();
  const { store } = api.holdfast;
  const running = store.dashboard.running.bind(store.dashboard);
  let looks = 0;
  Object.assign(store.dashboard, {
    running: () => {
      looks += 1;
      return running();
    },
  });
  await Promise.all(Array.from({ length: 20 }, () => api.get("/api/v1/overview")));
  assert.equal(looks, 1);
});

test("counts by status are sums; a chart of every range has its steps", async () => {
  await using api = await TestServer.open();
  await api.post("/api/v1/jobs", { task: "t", options: { queue: "a" } }, 201);
  await api.post("/api/v1/jobs", { task: "t", options: { queue: "b", delay: "1h" } }, 201);
  const { counts, total } = await api.get("/api/v1/counts");
  assert.deepEqual([counts.pending, counts.scheduled, total], [1, 1, 2]);
  assert.equal((await api.get("/api/v1/counts?queue=a")).total, 1);
  const steps = { "15m": 60_000, "1h": 60_000, "4h": 240_000, "24h": 900_000, "7d": 7_200_000 };
  for (const [range, stepMs] of Object.entries(steps)) {
    const series = await api.get(`/api/v1/series?range=${range}`);
    assert.equal(series.stepMs, stepMs);
    assert.ok((series.to - series.from) / stepMs <= 120);
  }
  await api.get("/api/v1/series?range=1y", 400);
});

test("stored counts are used, also when they are old, and counted again in the background", async () => {
  await using api = await TestServer.open();
  const { holdfast } = api;
  await api.post("/api/v1/jobs", { task: "t" }, 201);
  await holdfast.store.stats.takeCounts({ everyMs: 0 });
  holdfast.stats = () => Promise.reject(new Error("finished jobs must not be counted"));
  assert.equal((await api.get("/api/v1/counts")).counts.pending, 1);
});

test("a worker writes how long jobs waited and ran", async () => {
  await using api = await TestServer.open();
  const { holdfast } = api;
  const tasks = [defineTask({ name: "good", run: async () => 1 })];
  {
    await using worker = await holdfast.startWorker({ tasks, signals: false });
    const jobs = await Promise.all(
      Array.from({ length: 6 }, () => holdfast.enqueue(tasks[0] as (typeof tasks)[number], null)),
    );
    for (const job of jobs) await job.result({ timeout: "10s" });
    assert.ok(worker.id !== "");
  }
  await eventually(async () => (await holdfast.store.stats.usual("good"))?.count === 6);
});

async function eventually(holds: () => Promise<boolean>): Promise<void> {
  for (let looks = 0; looks < 200 && !(await holds()); looks += 1) await pause(50);
  assert.ok(await holds());
}

after(assertNothingRuns);
