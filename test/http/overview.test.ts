/** Figures are asked for often, and looked for seldom: however many ask, the database is asked once at a time. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { TestServer } from "./client.ts";

test("unclaimable jobs are looked up at intervals, and in one queue if one is named", async () => {
  await using api = await TestServer.open();
  for (const queue of ["a", "b"]) {
    await api.post("/api/v1/jobs", { task: "t", options: { queue } }, 201);
  }
  const { store } = api.holdfast;
  const look = store.workers.unclaimable.bind(store.workers);
  const looks: (string | undefined)[] = [];
  store.workers.unclaimable = (filter) => {
    looks.push(filter?.queue);
    return look(filter);
  };
  for (let round = 0; round < 3; round += 1) {
    await api.get("/api/v1/queues/a");
    await api.get("/api/v1/stats");
  }
  assert.deepEqual(looks, ["a", undefined]);
  const { unclaimable } = await api.get("/api/v1/queues/a");
  assert.deepEqual(
    unclaimable.map(({ queue, jobs }: any) => [queue, jobs]),
    [["a", 1]],
  );
  assert.equal((await api.get("/api/v1/stats")).unclaimable.length, 2);
});

test("unknown values are null, and the others are returned", async () => {
  await using api = await TestServer.open();
  await api.post("/api/v1/jobs", { task: "t" }, 201);
  api.holdfast.store.workers.unclaimable = () => Promise.reject(new Error("the disk is slow"));
  const { queues, unclaimable } = await api.get("/api/v1/stats");
  assert.deepEqual([queues.length, unclaimable], [1, null]);
});

test("requests for statistics at the same time share one count, including those that arrive while it runs", async () => {
  await using api = await TestServer.open();
  const { holdfast } = api;
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  const stats = holdfast.stats.bind(holdfast);
  let counts = 0;
  holdfast.stats = async () => {
    counts += 1;
    await gate;
    return stats();
  };
  const asked = Array.from({ length: 5 }, () => api.get("/api/v1/queues"));
  // Another answer comes only after all those have arrived, and the count is under way still.
  await api.get("/live");
  asked.push(api.get("/api/v1/queues"));
  open();
  const told = await Promise.all(asked);
  assert.deepEqual([new Set(told.map(({ countedAt }) => countedAt)).size, counts], [1, 1]);
});

test("a failed count is not cached: the next request counts", async () => {
  await using api = await TestServer.open();
  const { holdfast } = api;
  const stats = holdfast.stats.bind(holdfast);
  holdfast.stats = () => Promise.reject(new Error("the database went away"));
  await api.get("/api/v1/queues", 500);
  holdfast.stats = stats;
  await api.get("/api/v1/queues");
});

after(() => assertNothingRuns());
