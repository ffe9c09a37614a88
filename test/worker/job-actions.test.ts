/** Running one job now, changing it, replaying and deleting it, with a worker beside it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { defineTask, openHoldfast } from "../../src/index.ts";

const echo = defineTask({
  name: "echo",
  input: z.object({ n: z.number() }),
  run: async ({ n }) => n,
});

test("a worker runs one job of a paused queue, with the input that it was given meanwhile", async () => {
  await using holdfast = await openHoldfast("sqlite::memory:");
  const { jobs, queues } = holdfast;
  await queues.pause("default", { actor: "ada" });
  const [later, other] = await holdfast.enqueueMany(echo, [{ n: 1 }, { n: 2 }]);
  assert.ok(later !== undefined && other !== undefined);
  await holdfast.startWorker({ tasks: [echo] });

  await assert.rejects(jobs.edit(later.id, { input: { n: "3" }, definition: echo }), {
    code: "INPUT_REJECTED",
  });
  await assert.rejects(jobs.edit(later.id, {}), { code: "INVALID_ARGUMENT" });
  await assert.rejects(jobs.edit(later.id, { delay: "1m", runAt: 1 }), { field: "delay" });
  const when = { delay: "1h", queue: "default", priority: -1 } as const;
  assert.equal(await jobs.edit(later.id, { input: { n: 3 }, ...when }), "scheduled");
  assert.deepEqual(
    (await jobs.inputs(later.id)).map(({ input }) => input),
    [{ n: 1 }],
  );

  await jobs.runNow(later.id, { actor: "ada", reason: "the bank asked" });
  assert.equal(await later.result({ timeout: "10s" }), 3);
  assert.equal((await other.get()).status, "pending");
  const lines = await holdfast.audit.list({ subject: `job ${later.id}` });
  assert.deepEqual(
    lines.map(({ actor, action, reason }) => [actor, action, reason]),
    [
      ["api", "job.edit", null],
      ["ada", "job.run-now", "the bank asked"],
    ],
  );
});

test("a replay is a job of its own, and the old one can be deleted", async () => {
  await using holdfast = await openHoldfast("sqlite::memory:");
  const { jobs } = holdfast;
  await holdfast.startWorker({ tasks: [echo] });
  const first = await holdfast.enqueue(echo, { n: 1 }, { key: "order-1", tags: ["acme"] });
  await first.result({ timeout: "10s" });

  const again = await jobs.replay(first.id);
  assert.equal(await again.result({ timeout: "10s" }), 1);
  const other = await jobs.replay(first.id, { input: { n: 5 }, definition: echo });
  assert.equal(await other.result({ timeout: "10s" }), 5);
  const { key, tags } = await again.get();
  assert.deepEqual([key, tags], [null, ["acme", `replay-of:${first.id}`]]);
  await assert.rejects(jobs.replay(first.id, { input: {}, definition: echo }), {
    code: "INPUT_REJECTED",
  });

  await jobs.delete(first.id, { actor: "ada" });
  assert.equal(await jobs.get(first.id), null);
  await assert.rejects(jobs.delete(first.id), { code: "JOB_NOT_FOUND" });
});
