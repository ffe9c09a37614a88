/** Retrying and cancelling many jobs by what they have in common. What the database does about it is in the conformance suite. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { ALERT_QUEUE } from "../../src/core/name.ts";
import type { BulkFilter } from "../../src/app/ops.ts";
import { defineTask, GiveUpError } from "../../src/index.ts";
import { openTestHoldfast, type TestHoldfast } from "../../src/testing/index.ts";
import { sighting } from "../support/alerts.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "./observe.ts";

after(assertNothingRuns);

class BankClosed extends Error {
  override readonly name = "BankClosed";
  readonly code = "E_BANK";
}

let fails = true;
const pay = defineTask({
  name: "pay",
  queue: "money",
  retry: { maxAttempts: 1 },
  run(input: string) {
    if (!fails) return "paid";
    throw input === "bank" ? new BankClosed("Closed until NINE") : new GiveUpError("no money");
  },
});
const mail = defineTask({
  name: "mail",
  retry: { maxAttempts: 1 },
  run() {
    if (fails) throw new Error("mailbox full");
  },
});

/** Failed jobs: two of the bank, one without money, then an hour later one mail. */
async function failedJobs(kit: TestHoldfast) {
  fails = true;
  const [bank1, bank2, poor] = await kit.holdfast.enqueueMany(pay, ["bank", "bank", "poor"]);
  await kit.drain([pay]);
  await kit.clock.advance("1h");
  const late = await kit.holdfast.enqueue(mail, null);
  await kit.drain([mail]);
  fails = false;
  return { bank1: bank1!.id, bank2: bank2!.id, poor: poor!.id, late: late.id };
}

suite("retrying many jobs", () => {
  test("leaves the deliveries of alerts alone, unless their queue or task is named", async () => {
    await using kit = await openTestHoldfast();
    const { jobs, store } = kit.holdfast;
    await store.alerts.note(sighting({ holdMs: 0, targets: ["hook"] }));
    const mine = await kit.holdfast.enqueue(mail, null);
    const [delivery] = await jobs.list({ queue: ALERT_QUEUE });
    const fitting = async (filter: BulkFilter) =>
      (await jobs.cancelMany({ ...filter, status: "pending" }, { dryRun: true })).ids;
    assert.deepEqual(await fitting({ all: true }), [mine.id]);
    assert.deepEqual(await fitting({ queue: ALERT_QUEUE }), [delivery!.id]);
    assert.deepEqual(await fitting({ task: delivery!.task }), [delivery!.id]);
  });

  test("retries those that fit all that is named, newest first", async () => {
    await using kit = await openTestHoldfast();
    const { jobs } = kit.holdfast;
    const ids = await failedJobs(kit);
    const { finishedAt } = (await jobs.get(ids.late))!;
    const fitting = async (filter: BulkFilter) =>
      (await jobs.retryMany(filter, { dryRun: true })).ids;
    const money = [ids.poor, ids.bank2, ids.bank1];
    assert.deepEqual(await fitting({ queue: "money" }), money);
    assert.deepEqual(await fitting({ task: "pay" }), money);
    assert.deepEqual(await fitting({ error: "until nine" }), [ids.bank2, ids.bank1]);
    assert.deepEqual(await fitting({ code: "E_BANK" }), [ids.bank2, ids.bank1]);
    assert.deepEqual(await fitting({ code: "GiveUpError" }), [ids.poor]);
    assert.deepEqual(await fitting({ since: finishedAt! }), [ids.late]);
    assert.deepEqual(await fitting({ until: new Date(finishedAt!) }), money);
    assert.deepEqual(await fitting({ queue: "money", task: "mail" }), []);
    assert.deepEqual(await fitting({ all: true }), [ids.late, ...money]);
    assert.deepEqual(await fitting({ status: "cancelled" }), []);

    const by = { actor: "ada", reason: "the bank is open" };
    const chunk = await jobs.retryMany({ code: "E_BANK" }, { ...by, attempts: 5 });
    const told = { looked: 4, matched: 2, ids: [ids.bank2, ids.bank1], refused: [], next: null };
    assert.deepEqual(chunk, told);
    const job = await jobs.get(ids.bank1);
    assert.deepEqual([job?.status, job?.maxAttempts], ["pending", 6]);
    const lines = await kit.holdfast.audit.list();
    assert.deepEqual(
      lines.map(({ action, subject, reason }) => [action, subject, reason]),
      chunk.ids.map((id) => ["job.retry", `job ${id}`, by.reason]),
    );
    await kit.drain([pay]);
    assert.equal((await jobs.get(ids.bank1))?.status, "done");
  });

  test("looks at no more than it may at a call, and goes on from the cursor", async () => {
    await using kit = await openTestHoldfast();
    const ids = await failedJobs(kit);
    const { jobs } = kit.holdfast;
    const first = await jobs.retryMany({ task: "pay" }, { limit: 2 });
    assert.deepEqual([first.looked, first.ids], [2, [ids.poor]]);
    const second = await jobs.retryMany({ task: "pay" }, { limit: 2, cursor: first.next! });
    assert.deepEqual([second.ids], [[ids.bank2, ids.bank1]]);
    const last = await jobs.retryMany({ task: "pay" }, { limit: 2, cursor: second.next! });
    assert.deepEqual([last.looked, last.next], [0, null]);
  });

  test("one that cannot be retried is named, and does not hold up the others", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    fails = true;
    const first = await holdfast.enqueue(mail, null, { key: "k" });
    await kit.drain([mail]);
    const other = await holdfast.enqueue(mail, null);
    await kit.drain([mail]);
    await holdfast.enqueue(mail, null, { key: "k" });
    const { ids, matched, refused } = await holdfast.jobs.retryMany({ task: "mail" });
    assert.deepEqual([matched, ids], [2, [other.id]]);
    assert.deepEqual(
      refused.map(({ id, code }) => [id, code]),
      [[first.id, "KEY_TAKEN"]],
    );
  });

  test("a caller and the job that failed it are retried in the right order", async () => {
    await using kit = await openTestHoldfast();
    const { jobs } = kit.holdfast;
    fails = true;
    const caller = defineTask({
      name: "caller",
      retry: { maxAttempts: 1 },
      run: (_input: null, ctx) => ctx.call(pay, "bank"),
    });
    const job = await kit.holdfast.enqueue(caller, null);
    await kit.drain([caller, pay], { skipTime: true });
    fails = false;
    const alone = await jobs.retryMany({ task: "caller" });
    assert.deepEqual([alone.ids, alone.refused[0]?.code], [[], "CALLED_FAILED"]);
    const { ids, refused } = await jobs.retryMany({ all: true });
    assert.deepEqual([ids.length, refused], [2, []]);
    await kit.drain([caller, pay], { skipTime: true });
    assert.equal(await job.result(), "paid");
  });

  test("nothing named, a status that does not go, and a foreign cursor are refused", async () => {
    await using kit = await openTestHoldfast();
    const { jobs } = kit.holdfast;
    await assert.rejects(jobs.retryMany({}), withCode("INVALID_ARGUMENT", "filter"));
    await assert.rejects(jobs.retryMany({ all: false }), withCode("INVALID_ARGUMENT", "filter"));
    await assert.rejects(
      jobs.retryMany({ status: "done" }),
      withCode("INVALID_ARGUMENT", "status"),
    );
    await assert.rejects(
      jobs.cancelMany({ status: "failed" }),
      withCode("INVALID_ARGUMENT", "status"),
    );
    for (const cursor of ["pending", "failed:x", ""]) {
      const wrong = jobs.retryMany({ all: true }, { cursor });
      await assert.rejects(wrong, withCode("INVALID_ARGUMENT", "cursor"));
    }
    await assert.rejects(
      jobs.retryMany({ all: true }, { limit: 0 }),
      withCode("INVALID_ARGUMENT", "limit"),
    );
    const reason = { reason: "without an actor" };
    await assert.rejects(
      jobs.cancelMany({ all: true }, reason),
      withCode("INVALID_ARGUMENT", "actor"),
    );
    const since = Number.NaN;
    await assert.rejects(jobs.cancelMany({ since }), withCode("INVALID_ARGUMENT", "since"));
  });
});

suite("cancelling many jobs", () => {
  test("cancels whatever has not ended, wherever it stands, and tells the running to stop", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const ended = await failedJobs(kit);
    const running = await holdfast.enqueue("x", null, { priority: 9 });
    await holdfast.leases.acquire({ worker: "w" });
    const later = await holdfast.enqueue("x", null, { delay: "1d" });
    const pending = await holdfast.enqueue("x", null);
    const other = await holdfast.enqueue("y", null);

    const changed: string[] = [];
    let cursor: string | null = null;
    for (let chunks = 0; chunks < 9; chunks += 1) {
      const chunk = await holdfast.jobs.cancelMany(
        { task: "x" },
        { actor: "ada", limit: 1, ...(cursor === null ? {} : { cursor }) },
      );
      changed.push(...chunk.ids);
      cursor = chunk.next;
      if (cursor === null) break;
    }
    assert.equal(cursor, null);
    assert.deepEqual(changed, [later.id, pending.id, running.id]);
    const statusOf = async (id: string) => (await holdfast.jobs.get(id))?.status;
    assert.deepEqual(await Promise.all([later.id, pending.id].map(statusOf)), [
      "cancelled",
      "cancelled",
    ]);
    assert.notEqual((await running.get()).cancelRequestedAt, null);
    assert.deepEqual([await statusOf(other.id), await statusOf(ended.poor)], ["pending", "failed"]);
    assert.equal((await holdfast.audit.list()).length, 3);
    assert.deepEqual((await holdfast.jobs.cancelMany({ status: "scheduled" })).ids, []);
  });
});
