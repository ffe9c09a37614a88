import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { defineTask, GiveUpError, openHoldfast } from "../../src/index.ts";
import { testClock } from "../../src/testing/clock.ts";
import { assertRefused, TestCli } from "./command.ts";

suite("holdfast retry --input, errors and rerun", () => {
  const cli = new TestCli();
  const ids = { failed: "", done: "" };
  before(async () => {
    await using holdfast = await openHoldfast(cli.url);
    const mail = defineTask({
      name: "mail.send",
      retry: { maxAttempts: 1 },
      async run(to: string, ctx) {
        await ctx.effect("charge", () => 1);
        if (to === "nobody") throw new GiveUpError("no such address");
        await ctx.step("note", () => 1);
      },
    });
    const [failed, done] = await holdfast.enqueueMany(mail, ["nobody", "ada"]);
    await holdfast.startWorker({ tasks: [mail] });
    await assert.rejects(failed!.result(), { code: "JOB_FAILED" });
    await done!.result();
    Object.assign(ids, { failed: failed!.id, done: done!.id });
  });
  after(() => cli[Symbol.asyncDispose]());

  test("lists errors by kind, once their minute is over", async () => {
    assert.equal((await cli.holdfast(["errors"])).stdout, "No open kind of error.\n");
    await using holdfast = await openHoldfast(cli.url, {
      runtime: testClock(Date.now() + 120_000),
    });
    while ((await holdfast.store.stats.foldMinutes({ limit: 100 })) > 0);
    const { groups, counts, isAll } = await cli.json(["errors"]);
    assert.deepEqual([groups.length, groups[0].failed, counts.open, isAll], [1, 1, 1, true]);
    const listed = (await cli.holdfast(["errors"])).stdout;
    assert.match(
      listed,
      /^ID +FAILED NOW +EVER +RETRIED +TASK[^]*1 +1 +0 +mail\.send +GiveUpError \(GIVE_UP\) \(new\)[^]*no such address\n\n1 kind\./,
    );
    assert.deepEqual((await cli.json(["errors", "--state", "muted"])).groups, []);
  });

  test("retries one with another input", async () => {
    const several = await cli.holdfast(["retry", ids.failed, ids.done, "--input", "1"]);
    assertRefused(several, 2, /--input is for one job/);
    const filtered = await cli.holdfast(["retry", "--task", "mail.send", "--input", "1"]);
    assertRefused(filtered, 2, /--input is for one job/);
    assertRefused(await cli.holdfast(["retry", ids.failed, "--input", "{"]), 2, /not valid JSON/);
    const retried = await cli.holdfast(["retry", ids.failed, "--input", "-"], { input: '"bob"' });
    assert.equal(retried.stdout, `Pending again ${ids.failed}\n`);
    assert.equal((await cli.json(["job", ids.failed])).job.input, "bob");
    assert.deepEqual((await cli.json(["jobs", "--status", "failed"])).jobs, []);
    const { lines } = await cli.json(["audit"]);
    assert.equal(lines.at(-1).action, "job.edit");
  });

  test("a job runs again from a step, once its effects are confirmed", async () => {
    const rerun = ["rerun", ids.done, "--from", "charge"];
    const planned = (await cli.holdfast([...rerun, "--dry-run"])).stdout;
    assert.match(
      planned,
      /keeps its result: no step\n +runs again: effect charge, step note\n +to confirm: charge\n/,
    );
    assertRefused(await cli.holdfast(rerun), 1, /would repeat: charge/);
    assertRefused(await cli.holdfast(["rerun", ids.done]), 2, /--from <step> or --from-start/);
    assertRefused(await cli.holdfast(["rerun", ids.done, "--from", "x"]), 4, /no step 'x'/);
    const note = await cli.json(["rerun", ids.done, "--from", "note"]);
    assert.deepEqual([note.status, note.plan.confirm], ["pending", []]);
  });
});
