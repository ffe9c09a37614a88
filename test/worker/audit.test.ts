import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "./observe.ts";

after(assertNothingRuns);

const echo = defineTask({ name: "echo", run: (value: unknown) => value });
const DAY_MS = 86_400_000;

suite("the audit", () => {
  test("records actions with an actor, and none without", async () => {
    await using kit = await openTestHoldfast();
    const { jobs, audit } = kit.holdfast;
    const job = await kit.holdfast.enqueue(echo, 1);
    await job.cancel();
    await jobs.retry(job.id);
    assert.deepEqual(await audit.list(), []);
    await job.cancel({ actor: "ada", reason: "ordered twice", trace: "ticket-7" });
    await jobs.retry(job.id, { actor: "bob", attempts: 1 });
    assert.deepEqual(
      (await audit.list()).map(({ seq, actor, action, reason, traceId }) => {
        return [seq, actor, action, reason, traceId];
      }),
      [
        [1, "ada", "job.cancel", "ordered twice", "ticket-7"],
        [2, "bob", "job.retry", null, null],
      ],
    );
    assert.equal((await audit.verify()).held, true);
  });

  test("names the job that acts, and its attempt", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const victim = await holdfast.enqueue(echo, 1, { delay: "1d" });
    const killer = defineTask({
      name: "killer",
      run: async (id: string, ctx) => holdfast.jobs.cancel(id, { actor: ctx }),
    });
    const job = await holdfast.enqueue(killer, victim.id);
    await kit.drain([killer]);
    const [line] = await holdfast.audit.list({ subject: `job ${victim.id}` });
    const [attempt] = await holdfast.jobs.attempts(job.id);
    assert.deepEqual([line?.actor, line?.traceId], [`job ${job.id}`, attempt?.traceId]);
  });

  test("prunes the oldest lines in batches, and no younger ones", async () => {
    await using kit = await openTestHoldfast();
    const { audit, store } = kit.holdfast;
    const note = { action: "lock.release", subject: "lock a" };
    const newId = (index: number): string =>
      `00000000-0000-7000-8000-${String(index).padStart(12, "0")}`;
    for (let index = 0; index < 1_001; index += 1) {
      await store.audit.note({ id: newId(index), actor: "ada" }, note);
    }
    await kit.clock.advance(DAY_MS);
    await store.audit.note({ id: newId(2_000), actor: "bob" }, note);
    assert.equal(await audit.prune({ keep: "12h", actor: "eve" }), 1_001);
    assert.deepEqual(
      (await audit.list()).map(({ actor }) => actor),
      ["bob", "eve", "eve"],
    );
    const { held, head } = await audit.verify();
    assert.deepEqual([held, head.seq], [true, 1_004]);
  });

  test("refuses invalid values, and names the field", async () => {
    await using kit = await openTestHoldfast();
    const { jobs, workers, audit, workflows } = kit.holdfast;
    const { id } = await kit.holdfast.enqueue(echo, 1);
    const wrong: [field: string, call: () => Promise<unknown>][] = [
      ["actor", () => jobs.cancel(id, { reason: "without an actor" })],
      ["actor", () => jobs.cancel(id, { actor: "" })],
      ["reason", () => jobs.retry(id, { actor: "ada", reason: "x".repeat(1_001) })],
      ["reason", () => workers.stop("all", { actor: "ada", reason: "half \uD83D" })],
      ["trace", () => jobs.cancel(id, { actor: "ada", trace: "\0" })],
      ["why", () => jobs.cancel(id, { why: "?" } as object)],
      ["limit", () => audit.list({ limit: 0 })],
      ["after", () => audit.list({ after: -1 })],
      ["witness", () => audit.verify({ witness: { seq: 1, hash: "x" } })],
      ["keep", () => audit.prune({ keep: "soon", actor: "ada" })],
      ["limit", () => workflows.trail(id, { limit: 1e6 })],
    ];
    for (const [field, call] of wrong) {
      await assert.rejects(call(), withCode("INVALID_ARGUMENT", field));
    }
    assert.deepEqual([(await audit.list()).length, (await jobs.get(id))?.status], [0, "pending"]);
    assert.deepEqual(await workflows.trail("nobody"), []);
  });
});
