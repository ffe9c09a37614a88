/** Jobs that run again from a step, and failed jobs whose input is changed: what the task sees of it. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { z } from "zod";
import { defineTask, GiveUpError } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "./observe.ts";

after(assertNothingRuns);

const charges: string[] = [];
const mails: string[] = [];
const order = defineTask({
  name: "order",
  retry: { maxAttempts: 1 },
  async run({ to }: { to: string }, ctx) {
    const cents = await ctx.step("quote", () => 100);
    await ctx.effect("charge", ({ key }) => void charges.push(key));
    await ctx.step("address", () => {
      if (to === "nobody") throw new GiveUpError("no such address");
    });
    await ctx.effect("mail", ({ key }) => void mails.push(`${to} ${key}`));
    return cents;
  },
});

suite("running a job again from a step", () => {
  test("repeats that effect with another key, and none before it", async () => {
    charges.length = 0;
    mails.length = 0;
    await using kit = await openTestHoldfast();
    const { jobs } = kit.holdfast;
    const job = await kit.holdfast.enqueue(order, { to: "ada" });
    await kit.drain([order]);
    const plan = await jobs.planRerun(job.id, { from: "mail" });
    assert.deepEqual(plan.confirm, ["mail"]);
    await assert.rejects(jobs.rerun(job.id, { from: "mail" }), withCode("RERUN_UNCONFIRMED"));
    await jobs.rerun(job.id, { from: "mail", confirm: plan.confirm, actor: "ada" });
    await kit.drain([order]);
    assert.equal(await job.result(), 100);
    assert.deepEqual(charges, [`${job.id}/charge/1`]);
    assert.deepEqual(mails, [`ada ${job.id}/mail/1`, `ada ${job.id}/mail/1/2`]);
    const attempts = await jobs.attempts(job.id);
    assert.deepEqual(
      attempts.map(({ outcome }) => outcome),
      ["done", "done"],
    );
    const bad: [string, object][] = [
      ["from", { from: "" }],
      ["from.occurrence", { from: { name: "mail", occurrence: 0 } }],
      ["attempts", { from: null, attempts: 0 }],
      ["confirm", { from: null, confirm: [7] }],
      ["step", { step: "mail" }],
    ];
    for (const [field, options] of bad) {
      await assert.rejects(
        jobs.rerun(job.id, options as { from: null }),
        withCode("INVALID_ARGUMENT", field),
      );
    }
  });
});

const byText = (a: unknown[], b: unknown[]): number => String(a).localeCompare(String(b));

suite("failed jobs", () => {
  test("are retried with another input, without repeating what is done", async () => {
    charges.length = 0;
    mails.length = 0;
    await using kit = await openTestHoldfast();
    const { jobs } = kit.holdfast;
    const job = await kit.holdfast.enqueue(order, { to: "nobody" });
    await kit.drain([order]);
    const [dead] = await jobs.list({ status: "failed", task: "order" });
    assert.deepEqual([dead?.id, dead?.lastError?.message], [job.id, "no such address"]);
    const checked = defineTask({ name: "order", input: z.object({ to: z.email() }), run() {} });
    const wrong = { input: { to: "nobody" }, definition: checked };
    await assert.rejects(jobs.retry(job.id, wrong), withCode("INPUT_REJECTED"));
    await jobs.retry(job.id, { input: { to: "bob@x.org" }, definition: checked });
    await kit.drain([order]);
    assert.equal(await job.result(), 100);
    assert.deepEqual(charges, [`${job.id}/charge/1`]);
    assert.deepEqual(mails, [`bob@x.org ${job.id}/mail/1`]);
    assert.deepEqual(
      (await jobs.inputs(job.id)).map(({ revision, input }) => [revision, input]),
      [[1, { to: "nobody" }]],
    );
    assert.equal((await jobs.attempts(job.id)).length, 2);
    const [line] = await kit.holdfast.audit.list({ subject: `job ${job.id}` });
    assert.equal(line?.action, "job.edit");
  });

  test("are counted by kind of error, and retried or deleted by filter", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const flaky = defineTask({
      name: "flaky",
      retry: { maxAttempts: 1 },
      run(code: string) {
        throw Object.assign(new Error(`it is ${code}`), { code });
      },
    });
    await holdfast.enqueueMany(flaky, ["E_A", "E_B", "E_A"]);
    await kit.drain([flaky]);
    await kit.clock.advance("2m");
    while ((await holdfast.store.stats.foldMinutes({ limit: 100 })) > 0);
    const { counts, isAll, groups } = await holdfast.errors.list();
    assert.deepEqual([counts.open, isAll], [2, true]);
    assert.deepEqual(
      groups
        .map(({ task, code, failed, message }) => [task, code, failed, message])
        .toSorted(byText),
      [
        ["flaky", "E_A", 2, "it is E_A"],
        ["flaky", "E_B", 1, "it is E_B"],
      ],
    );
    assert.equal((await holdfast.errors.list({ limit: 1 })).isAll, false);
    const filter = { status: "failed", code: "E_A" } as const;
    const retry = await holdfast.bulk.start({ action: "retry", filter, attempts: 1 });
    assert.equal((await holdfast.bulk.run(retry)).changed, 2);
    const failed = { status: "failed" } as const;
    const remove = await holdfast.bulk.start({ action: "delete", filter: failed });
    assert.equal((await holdfast.bulk.run(remove)).changed, 1);
    assert.deepEqual(await holdfast.jobs.list(failed), []);
    await assert.rejects(holdfast.jobs.retry("x"), withCode("JOB_NOT_FOUND"));
  });
});
