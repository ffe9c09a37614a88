/** Retrying and cancelling many jobs by what they have in common. What the database does about it is in the conformance suite. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { ALERT_QUEUE } from "../../src/core/name.ts";
import type { BulkFilter, BulkRecord, BulkRequest } from "../../src/app/ops.ts";
import { defineTask, GiveUpError, openHoldfast } from "../../src/index.ts";
import { openTestHoldfast, type TestHoldfast } from "../../src/testing/index.ts";
import { sighting } from "../support/alerts.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until, withCode } from "./observe.ts";

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

async function run(kit: TestHoldfast, request: BulkRequest, by = {}): Promise<BulkRecord> {
  return kit.holdfast.bulk.run(await kit.holdfast.bulk.start(request, by));
}

async function fitting(
  kit: TestHoldfast,
  action: "retry" | "cancel",
  filter: BulkFilter,
): Promise<readonly string[]> {
  return (await run(kit, { action, filter, dryRun: true })).sample;
}

suite("retrying many jobs", () => {
  test("leaves the deliveries of alerts alone, unless their queue or task is named", async () => {
    await using kit = await openTestHoldfast();
    const { jobs, store } = kit.holdfast;
    await store.alerts.note(sighting({ holdMs: 0, targets: ["hook"] }));
    const mine = await kit.holdfast.enqueue(mail, null);
    const [delivery] = await jobs.list({ queue: ALERT_QUEUE });
    const ofPending = (filter: BulkFilter) =>
      fitting(kit, "cancel", { ...filter, status: "pending" });
    assert.deepEqual(await ofPending({ all: true }), [mine.id]);
    assert.deepEqual(await ofPending({ queue: ALERT_QUEUE }), [delivery!.id]);
    assert.deepEqual(await ofPending({ task: delivery!.task }), [delivery!.id]);
  });

  test("retries the jobs that match all fields, newest first", async () => {
    await using kit = await openTestHoldfast();
    const { jobs } = kit.holdfast;
    const ids = await failedJobs(kit);
    const { finishedAt } = (await jobs.get(ids.late))!;
    const found = (filter: BulkFilter) => fitting(kit, "retry", filter);
    const money = [ids.poor, ids.bank2, ids.bank1];
    assert.deepEqual(await found({ queue: "money" }), money);
    assert.deepEqual(await found({ task: "pay" }), money);
    assert.deepEqual(await found({ error: "until nine" }), [ids.bank2, ids.bank1]);
    assert.deepEqual(await found({ code: "E_BANK" }), [ids.bank2, ids.bank1]);
    assert.deepEqual(await found({ code: "GiveUpError" }), [ids.poor]);
    assert.deepEqual(await found({ endedSince: finishedAt! }), [ids.late]);
    assert.deepEqual(await found({ endedUntil: new Date(finishedAt!) }), money);
    assert.deepEqual(await found({ queue: "money", task: "mail" }), []);
    assert.deepEqual(await found({ all: true }), [ids.late, ...money]);
    assert.deepEqual(await found({ status: "cancelled" }), []);

    const by = { actor: "ada", reason: "the bank is open" };
    const request = { action: "retry", filter: { code: "E_BANK" }, attempts: 5 } as const;
    const ended = await run(kit, request, by);
    assert.deepEqual([ended.looked, ended.matched, ended.changed, ended.refused], [4, 2, 2, 0]);
    const job = await jobs.get(ids.bank1);
    assert.deepEqual([job?.status, job?.maxAttempts], ["pending", 6]);
    const lines = await kit.holdfast.audit.list({ actor: "ada" });
    assert.deepEqual(
      lines.map(({ action, subject, reason }) => [action, subject, reason]),
      [
        ["bulk.start", `bulk ${ended.id}`, by.reason],
        ...[ids.bank2, ids.bank1].map((id) => ["job.retry", `job ${id}`, by.reason]),
      ],
    );
    await kit.drain([pay]);
    assert.equal((await jobs.get(ids.bank1))?.status, "done");
  });

  test("a caller and the job that failed it are retried in the right order", async () => {
    await using kit = await openTestHoldfast();
    fails = true;
    const caller = defineTask({
      name: "caller",
      retry: { maxAttempts: 1 },
      run: (_input: null, ctx) => ctx.call(pay, "bank"),
    });
    const [job, other] = await kit.holdfast.enqueueMany(caller, [null, null]);
    await kit.drain([caller, pay], { skipTime: true });
    fails = false;
    const alone = await run(kit, { action: "retry", filter: { task: "caller" } });
    assert.deepEqual(
      [alone.changed, alone.refused, alone.refusals[0]?.code],
      [0, 2, "CALLED_FAILED"],
    );
    const request = { action: "retry", filter: { id: job!.id }, withCalled: true } as const;
    const both = await run(kit, request);
    assert.deepEqual([both.matched, both.changed, both.refused], [1, 1, 0]);
    const all = await run(kit, { action: "retry", filter: { all: true } });
    assert.deepEqual([all.changed, all.refused], [2, 0]);
    await kit.drain([caller, pay], { skipTime: true });
    assert.equal(await job!.result(), "paid");
    assert.equal(await other!.result(), "paid");
  });

  test("contradictory requests are refused, and the error names the field", async () => {
    await using kit = await openTestHoldfast();
    const { bulk } = kit.holdfast;
    const refusals: [field: string, request: object][] = [
      ["action", {}],
      ["action", { action: "explode", filter: { all: true } }],
      ["filter", { action: "retry", filter: {} }],
      ["filter", { action: "retry", filter: { all: false } }],
      ["filter.tsk", { action: "retry", filter: { tsk: "x" } }],
      ["status", { action: "retry", filter: { status: "done" } }],
      ["status", { action: "cancel", filter: { status: "failed" } }],
      ["status", { action: "delete", filter: { all: true } }],
      ["status", { action: "delete", filter: { status: "pending" } }],
      ["status", { action: "move", filter: { status: "processing" }, queue: "x" }],
      ["status", { action: "retry", filter: { status: "dead" } }],
      ["queue", { action: "move", filter: { all: true } }],
      ["queue", { action: "move", filter: { all: true }, queue: "holdfast.x" }],
      ["queue", { action: "cancel", filter: { all: true }, queue: "x" }],
      ["priority", { action: "priority", filter: { all: true }, priority: 1.5 }],
      ["attempts", { action: "retry", filter: { all: true }, attempts: 0 }],
      ["enqueuedSince", { action: "cancel", filter: { enqueuedSince: Number.NaN } }],
      ["tag[0]", { action: "cancel", filter: { tag: [""] } }],
      ["id[0]", { action: "cancel", filter: { id: ["0199", "x"] } }],
      ["dryRun", { action: "cancel", filter: { all: true }, dryRun: "yes" }],
    ];
    for (const [field, request] of refusals) {
      await assert.rejects(
        bulk.start(request as BulkRequest),
        withCode("INVALID_ARGUMENT", field),
        JSON.stringify(request),
      );
    }
    assert.deepEqual(await bulk.list(), []);
    await assert.rejects(bulk.get("x"), { code: "BULK_NOT_FOUND" });
    await assert.rejects(bulk.list({ limit: 0 }), withCode("INVALID_ARGUMENT", "limit"));
  });
});

suite("carrying out an action", () => {
  test("a worker carries it out by itself", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    await holdfast.enqueueMany(
      mail,
      Array.from({ length: 620 }, () => null),
      { delay: "1d" },
    );
    await using worker = await holdfast.startWorker({ tasks: [mail] });
    const { id } = await holdfast.bulk.start({ action: "cancel", filter: { task: "mail" } });
    await until("it is done", async () => (await holdfast.bulk.get(id)).status === "done");
    const { changed, carrier } = await holdfast.bulk.get(id);
    assert.deepEqual([changed, carrier], [620, worker.id]);
  });

  test("it can be left in the middle, and reports how far it is", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    await holdfast.enqueueMany(
      mail,
      Array.from({ length: 620 }, () => null),
    );
    const leaving = new AbortController();
    const seen: number[] = [];
    const { bulk } = holdfast;
    const { id } = await bulk.start({
      action: "priority",
      filter: { status: "pending" },
      priority: 3,
    });
    const left = await bulk.run(id, {
      signal: leaving.signal,
      onProgress: ({ changed }) => {
        seen.push(changed);
        leaving.abort();
      },
    });
    assert.deepEqual([left.status, left.changed, seen], ["running", 500, [500]]);
    assert.equal((await bulk.run(id)).changed, 620);
    assert.deepEqual(
      (await bulk.list({ status: "done" })).map((action) => action.id),
      [id],
    );
  });
});
