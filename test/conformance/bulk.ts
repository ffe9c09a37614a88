/** Many jobs at once: walking over them in chunks, and changing a chunk in one transaction. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Status } from "../../src/core/job.ts";
import type { Walk } from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  enqueueOne,
  failed,
  idsOf,
  jobIn,
  mustFind,
  nextId,
  settleOne,
  startOne,
  statusOf,
} from "../support/jobs.ts";

const walks: Record<Walk, readonly Status[]> = {
  failed: ["failed"],
  cancelled: ["cancelled"],
  waiting: ["scheduled", "retry", "waiting"],
  pending: ["pending"],
  processing: ["processing"],
};

function signed(ids: readonly string[]) {
  return { ids, operators: ids.map(() => ({ id: nextId(), actor: "ada", reason: "all" })) };
}

async function lines(store: Store): Promise<unknown[]> {
  const actions = await store.audit.list({ limit: 99 });
  return actions.map(({ action, subject, oldStatus, newStatus }) => [
    action,
    subject,
    oldStatus,
    newStatus,
  ]);
}

export const bulk: Group = (open) => {
  test("every job is met by one walk, newest first and a chunk at a time, with its time and its error", async () => {
    const { store } = await open();
    for (const [name, ofWalk] of Object.entries(walks)) {
      const walk = name as Walk;
      const ids: string[] = [];
      for (const status of ofWalk) {
        const first = await jobIn(store, status, { queue: `${status}-1`, task: "a" });
        ids.unshift(await jobIn(store, status, { queue: `${status}-2`, task: "b" }), first);
      }
      const all = await store.jobs.lookAt({ walk, before: null }, 99);
      assert.deepEqual(idsOf(all), ids);
      for (const { id, queue, task, status, at, error } of all) {
        const job = await mustFind(store, id);
        assert.deepEqual([queue, task, status], [job.queue, job.task, job.status]);
        assert.equal(at, job.finishedAt ?? job.enqueuedAt);
        assert.equal(error?.message ?? null, messageOf(job.lastError));
      }
      assert.deepEqual(idsOf(await store.jobs.lookAt({ walk, before: null }, 1)), ids.slice(0, 1));
      assert.deepEqual(idsOf(await store.jobs.lookAt({ walk, before: ids[0]! }, 99)), ids.slice(1));
    }
  });

  test("jobs are revived together, each with a line, and those that cannot be are left out", async () => {
    const { store } = await open();
    const a = await jobIn(store, "failed", { queue: "a" });
    const b = await jobIn(store, "cancelled", { queue: "b" });
    const c = await jobIn(store, "done", { queue: "c" });
    assert.deepEqual(await store.jobs.reviveAll(signed([a, b, c, nextId()]), 2), [a, b]);
    assert.deepEqual([await statusOf(store, a), await statusOf(store, b)], ["pending", "pending"]);
    assert.equal((await mustFind(store, a)).maxAttempts, 3);
    assert.equal(await statusOf(store, c), "done");
    assert.equal((await store.jobs.attempts(a)).at(-1)?.outcome, "failed");
    assert.deepEqual(await lines(store), [
      ["job.retry", `job ${a}`, "failed", "pending"],
      ["job.retry", `job ${b}`, "cancelled", "pending"],
    ]);
    assert.deepEqual(await store.jobs.reviveAll({ ids: [a], operators: null }, 1), []);
    const claimed = await claimOne(store, { queues: ["a"] });
    await settleOne(store, failed(claimed));
    assert.deepEqual(await store.jobs.reviveAll({ ids: [a], operators: null }, 1), [a]);
    assert.equal((await lines(store)).length, 2);
  });

  test("none is revived when one of them cannot have its key back", async () => {
    const { store } = await open();
    const a = await jobIn(store, "failed", { queue: "a" });
    const b = await jobIn(store, "failed", { queue: "b", key: "k" });
    await enqueueOne(store, { key: "k" });
    await assert.rejects(store.jobs.reviveAll(signed([a, b]), 1), { code: "KEY_TAKEN" });
    assert.deepEqual([await statusOf(store, a), await statusOf(store, b)], ["failed", "failed"]);
    assert.deepEqual(await lines(store), []);
  });

  test("jobs are cancelled together wherever they stand, and those that have ended are left out", async () => {
    const { store } = await open();
    const ended = await jobIn(store, "done", { queue: "e" });
    const waiting = await jobIn(store, "scheduled", { queue: "w" });
    const running = await startOne(store, { queue: "r" });
    const pending = await enqueueOne(store, { queue: "p", key: "k" });
    const chunk = signed([ended, waiting, running.id, pending.id, nextId()]);
    assert.deepEqual(await store.jobs.cancelAll(chunk), [waiting, running.id, pending.id]);
    assert.equal(await statusOf(store, waiting), "cancelled");
    assert.equal(await statusOf(store, pending.id), "cancelled");
    assert.equal(await statusOf(store, ended), "done");
    assert.notEqual((await mustFind(store, running.id)).cancelRequestedAt, null);
    assert.deepEqual(await lines(store), [
      ["job.cancel", `job ${waiting}`, "scheduled", "cancelled"],
      ["job.cancel", `job ${running.id}`, "processing", "processing"],
      ["job.cancel", `job ${pending.id}`, "pending", "cancelled"],
    ]);
    assert.equal((await enqueueOne(store, { key: "k" })).key, "k"); // its key is free again
  });
};

function messageOf(error: string | null): string | null {
  return error === null ? null : (JSON.parse(error) as { message: string }).message;
}
