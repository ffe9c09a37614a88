/** What the pages of the dashboard ask: a job's story, tasks with schemas, errors by kind, limits. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";
import { defineTask } from "../../src/core/task.ts";
import { errorFold } from "../../src/error-kinds/fold.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { TestServer } from "./client.ts";

const ID = "018f2c5e-9b3a-700c-91f2-4c7d9be03a58";

async function eventually(holds: () => Promise<boolean>): Promise<void> {
  for (let looks = 0; looks < 200 && !(await holds()); looks += 1) await pause(50);
  assert.ok(await holds());
}

test("a job's story: attempts with builds, what it waits for, what was done by hand", async () => {
  await using api = await TestServer.open();
  const { holdfast } = api;
  const task = defineTask({
    name: "flaky",
    retry: { maxAttempts: 2, backoff: { initial: "1h" } },
    run: async () => {
      throw new Error("no answer");
    },
  });
  await using worker = await holdfast.startWorker({ tasks: [task], signals: false });
  const { id } = await api.post(
    "/api/v1/jobs",
    { task: "flaky", input: { n: 1 }, options: { maxAttempts: 2 } },
    201,
  );
  const after1 = await api.post("/api/v1/jobs", { task: "other", options: { after: [id] } }, 201);
  const story = (): Promise<any> => api.get(`/api/v1/jobs/${id}/story`);
  await eventually(async () => (await story()).job.status === "retry");
  const first = await story();
  assert.equal(first.attempts[0].build, holdfast.version);
  assert.equal(first.attempts[0].worker, worker.id);
  assert.deepEqual(first.dependents, [{ id: after1.id, task: "other", status: "waiting" }]);
  const { reason, sentence, facts } = first.explanation;
  assert.deepEqual([reason, facts.attempt, facts.until], ["backing-off", 1, first.job.dueAt]);
  assert.match(sentence, /^Attempt 1 of 2 failed/);
  assert.deepEqual([first.audit, first.item, first.schedule, first.usual], [[], null, null, null]);
  await api.post(`/api/v1/jobs/${id}/run-now`, { reason: "the bank is back" });
  await eventually(async () => (await story()).job.status === "failed");
  const { audit, attempts } = await story();
  assert.equal(attempts.length, 2);
  assert.deepEqual([audit[0].action, audit[0].reason], ["job.run-now", "the bank is back"]);
  await api.post(`/api/v1/jobs/${id}/run-now`, {}, 409); // it has ended
  await api.get(`/api/v1/jobs/${ID}/story`, 404);
  await api.post(`/api/v1/jobs/${ID}/run-now`, {}, 404);
});

test("tasks have the JSON schemas that workers recorded, and those of the server", async () => {
  const input = z.object({ to: z.string(), cents: z.int().min(0) });
  const mail = defineTask({ name: "mail.send", queue: "mail", input, run: async () => 1 });
  const bare = defineTask({ name: "bare", run: async () => 1 });
  await using api = await TestServer.open(undefined, { tasks: [mail] });
  await using worker = await api.holdfast.startWorker({
    tasks: [bare, defineTask({ name: "other", input, run: async () => 1 })],
    signals: false,
  });
  assert.ok(worker.id !== "");
  await eventually(async () =>
    (await api.get("/api/v1/tasks")).tasks.some(
      (one: any) => one.name === "other" && one.hasSchema,
    ),
  );
  const { tasks } = await api.get("/api/v1/tasks");
  const named = (name: string): any => tasks.find((one: any) => one.name === name);
  assert.deepEqual(named("mail.send").schema.properties.cents.type, "integer");
  assert.deepEqual([named("mail.send").queue, named("mail.send").workers], ["mail", 0]);
  assert.deepEqual(named("other").schema.required, ["to", "cents"]);
  assert.deepEqual(
    [named("bare").hasSchema, named("bare").schema, named("bare").workers],
    [false, null, 1],
  );
});

test("errors by kind are listed with their stack, resolved with a reason, and found again", async () => {
  await using api = await TestServer.open();
  const { store } = api.holdfast;
  const task = defineTask({
    name: "bad",
    retry: { maxAttempts: 1 },
    run: async () => {
      throw new TypeError("card 4419 was declined");
    },
  });
  await using worker = await api.holdfast.startWorker({ tasks: [task], signals: false });
  assert.ok(worker.id !== "");
  const { id: job } = await api.post("/api/v1/jobs", { task: "bad" }, 201);
  await eventually(async () => (await api.get(`/api/v1/jobs/${job}`)).job.status === "failed");
  // As if the minute were over.
  const minute = Math.floor(Date.now() / 60_000) * 60_000;
  const { engine } = store.db;
  const write = await errorFold.read(engine, minute - 60_000, minute + 60_000);
  await engine.transaction(write);
  const { groups, counts } = await api.get("/api/v1/errors");
  assert.deepEqual(
    [groups[0].name, groups[0].message, groups[0].sample.job],
    ["TypeError", "card … was declined", job],
  );
  assert.equal(counts.open, 1);
  const { stack } = await api.get(`/api/v1/errors/${groups[0].id}`);
  assert.match(stack, /TypeError: card 4419/);
  const { group } = await api.post(`/api/v1/errors/${groups[0].id}/resolve`, { reason: "fixed" });
  assert.equal(group.state, "resolved");
  assert.equal((await api.get("/api/v1/errors?state=resolved")).groups.length, 1);
  await api.get(`/api/v1/errors/${"0".repeat(32)}`, 404);
  await api.post(`/api/v1/errors/${"0".repeat(32)}/mute`, {}, 404);
});

test("limits say how much of them is in use", async () => {
  await using api = await TestServer.open();
  await api.post("/api/v1/queues/mail/settings", { concurrency: 5 });
  await api.post("/api/v1/jobs", { task: "t", options: { queue: "mail" } }, 201);
  await api.post("/api/v1/leases/acquire", { worker: "w-1", queues: ["mail"] });
  const { limits } = await api.get("/api/v1/limits");
  assert.deepEqual(limits, [
    { queue: "mail", kind: "queue", name: null, concurrency: 5, rate: null, inUse: 1 },
  ]);
});

test("the audit log is verified, what checks found is listed, and a stream ticks if it is asked to", async () => {
  await using api = await TestServer.open();
  await api.post("/api/v1/queues/mail/pause", { reason: "r" });
  const verified = await api.get("/api/v1/audit/verify");
  assert.deepEqual([verified.isWhole, verified.lines, verified.broken], [true, 1, null]);
  assert.deepEqual(await api.get("/api/v1/invariants"), { at: null, findings: [] });
  assert.deepEqual((await api.get("/api/v1/locks/heat?range=7d")).types, []);
  const leaving = new AbortController();
  const stream = await fetch(`${api.server.url}/api/v1/stream?tick=true`, {
    signal: leaving.signal,
  });
  const reader = stream.body?.getReader();
  let text = "";
  while ((text.match(/event: tick/g) ?? []).length < 2) {
    const { value } = (await reader?.read()) ?? {};
    text += Buffer.from(value ?? []).toString();
  }
  leaving.abort();
});

after(assertNothingRuns);
