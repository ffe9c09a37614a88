import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { defineTask, GiveUpError, openHoldfast } from "../../src/index.ts";
import { assertRefused, Desk } from "./command.ts";

suite("holdfast dead-letters and rerun", () => {
  const desk = new Desk();
  const ids = { failed: "", done: "" };
  before(async () => {
    await using holdfast = await openHoldfast(desk.url);
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
  after(() => desk[Symbol.asyncDispose]());

  test("lists and groups them", async () => {
    const { jobs, next } = await desk.json(["dead-letters", "--task", "mail.send"]);
    assert.deepEqual([jobs.length, jobs[0].id, next], [1, ids.failed, null]);
    const listed = (await desk.holdfast(["dead-letters"])).stdout;
    assert.match(listed, /mail\.send .*no such address[^]*1 dead letter\./);
    const groups = (await desk.holdfast(["dead-letters", "groups"])).stdout;
    assert.match(groups, /^JOBS +TASK[^]*1 +mail\.send +GIVE_UP[^]*1 dead letter, all there are\./);
  });

  test("revives one with another input", async () => {
    const revived = await desk.holdfast(["dead-letters", "revive", ids.failed, "--input", '"bob"']);
    assert.equal(revived.stdout, `Pending again ${ids.failed} with another input\n`);
    assert.equal((await desk.json(["job", ids.failed])).job.input, "bob");
    assert.deepEqual((await desk.json(["dead-letters"])).jobs, []);
    assert.equal((await desk.holdfast(["dead-letters"])).stdout, "No dead letters.\n");
    const { lines } = await desk.json(["audit"]);
    assert.equal(lines.at(-1).action, "job.edit");
  });

  test("a job runs again from a step, once its effects are confirmed", async () => {
    const rerun = ["rerun", ids.done, "--from", "charge"];
    const planned = (await desk.holdfast([...rerun, "--dry-run"])).stdout;
    assert.match(
      planned,
      /keeps its result: no step\n +runs again: effect charge, step note\n +to confirm: charge\n/,
    );
    assertRefused(await desk.holdfast(rerun), 1, /would repeat: charge/);
    assertRefused(await desk.holdfast(["rerun", ids.done]), 2, /--from <step> or --from-start/);
    assertRefused(await desk.holdfast(["rerun", ids.done, "--from", "x"]), 4, /no step 'x'/);
    const note = await desk.json(["rerun", ids.done, "--from", "note"]);
    assert.deepEqual([note.status, note.plan.confirm], ["pending", []]);
  });
});
