import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { keepLog } from "../worker/observe.ts";
import { assertRefused, TestCli, until } from "./command.ts";

suite("holdfast effects", () => {
  let cli: TestCli;
  const ids: string[] = [];
  const log = keepLog();
  const told: unknown[] = [];
  before(async () => {
    cli = new TestCli();
    await using holdfast = await openHoldfast(cli.url, { logger: log.logger });
    const charge = defineTask({
      name: "order.charge",
      retry: { maxAttempts: 5, backoff: { initial: 0 } },
      async run(_input: null, ctx) {
        await ctx.step("quote", () => ({ cents: 1999 }));
        return ctx.effect("charge", () => {
          throw new Error("the bank hung up");
        });
      },
    });
    const worker = await holdfast.startWorker({ tasks: [charge], maintenanceInterval: 10 });
    worker.on("job:doubt", (event) => told.push([event.id, event.effect]));
    for (const job of await holdfast.enqueueMany(charge, [null, null])) {
      ids.push(job.id);
      await until("it is in doubt", async () => (await job.get()).status === "waiting");
    }
  });
  after(() => cli[Symbol.asyncDispose]());

  test("a worker logs an effect in doubt, with the command to run", () => {
    assert.deepEqual(
      told,
      ids.map((id) => [id, "charge"]),
    );
    const lines = log.lines.filter(({ facts }) => facts["event"] === "job:doubt");
    assert.deepEqual(
      lines.map(({ level, facts }) => [level, facts["job"], facts["effect"], facts["command"]]),
      ids.map((id) => [
        "warn",
        id,
        "charge",
        `holdfast effects resolve ${id} charge --done|--not-done`,
      ]),
    );
    assert.match(lines[0]?.message ?? "", /^effect in doubt: .*holdfast effects resolve/);
  });

  test("waiting for the result names the effect, and the command to run", async () => {
    await using holdfast = await openHoldfast(cli.url);
    const [id = ""] = ids;
    await assert.rejects(holdfast.jobs.result(id, { timeout: 20 }), (error: Error) => {
      assert.match(error.message, /effect 'charge' is in doubt/);
      assert.match(error.message, new RegExp(`holdfast effects resolve ${id} charge --done`));
      assert.doesNotMatch(error.message, /goes on|continues/);
      return true;
    });
  });

  test("lists them, with what to do about them", async () => {
    const { stdout } = await cli.holdfast(["effects"]);
    assert.match(stdout, /^JOB +BEGUN +EFFECT +TASK/);
    for (const id of ids) assert.match(stdout, new RegExp(`^${id} .* charge +order\\.charge`, "m"));
    assert.match(stdout, /2 effects in doubt/);
    assert.match(stdout, /holdfast effects resolve/);
    const { effects: doubts } = await cli.json(["effects", "--limit", "1"]);
    assert.deepEqual([doubts.length, doubts[0].name], [1, "charge"]);
  });

  test("shows the steps of a job", async () => {
    const { stdout } = await cli.holdfast(["job", ids[0] ?? ""]);
    assert.match(stdout, /^ {2}quote +step +done .*\{"cents":1999\}/m);
    assert.match(stdout, /^ {2}charge +effect +in doubt /m);
    assert.match(stdout, /^ {2}status +waiting \(effect in doubt\)$/m);
    const next = `holdfast effects resolve ${ids[0]} charge --done`;
    assert.ok(stdout.includes(next), stdout);
    const list = await cli.holdfast(["jobs", "--status", "waiting"]);
    assert.match(list.stdout, /waiting \(in doubt\)/);
    assert.match(list.stdout, /^2 effects are in doubt\. List them with 'holdfast effects'\.$/m);
    const { jobs } = await cli.json(["jobs"]);
    assert.deepEqual([jobs[0].status, jobs[0].inDoubt], ["waiting", "charge"]);
    const { steps } = await cli.json(["job", ids[0] ?? ""]);
    assert.deepEqual(
      steps.map(({ name, status }: { name: string; status: string }) => [name, status]),
      [
        ["quote", "done"],
        ["charge", "doubt"],
      ],
    );
  });

  test("refuses to guess", async () => {
    const [id = ""] = ids;
    assertRefused(await cli.holdfast(["effects", "resolve", id, "charge"]), 2, /--not-done/);
    const wrong = ["effects", "resolve", id, "charge", "--not-done", "--result", "1"];
    assertRefused(await cli.holdfast(wrong), 2, /result: requires --done/);
    const typo = await cli.holdfast(["effects", "resolve", id.slice(0, 30), "chrage", "--done"]);
    assertRefused(typo, 4, /has no effect 'chrage' in doubt\. In doubt: charge\./);
    const nobody = ["effects", "resolve", id.replace(/^../, "ff"), "charge", "--done"];
    assert.equal((await cli.holdfast(nobody)).code, 4);
  });

  test("continues a job with an operator's decision, and records the operator", async () => {
    const [first = "", second = ""] = ids;
    const done = ["effects", "resolve", first, "charge", "--done", "--result", '"paid"'];
    assert.match((await cli.holdfast(done)).stdout, /continues: charge happened/);
    await cli.json(["effects", "resolve", second, "charge", "--not-done"]);
    assert.match((await cli.holdfast(["effects"])).stdout, /No effects in doubt/);
    const { job, steps } = await cli.json(["job", first]);
    assert.deepEqual([job.status, steps[1].status, steps[1].result], ["pending", "done", "paid"]);
    assert.equal((await cli.json(["job", second])).steps.length, 1);
  });
});
