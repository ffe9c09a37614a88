import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { assertRefused, TestCli } from "./command.ts";

suite("holdfast flows", () => {
  let cli: TestCli;
  before(() => void (cli = new TestCli().withDatabase()));
  after(() => cli[Symbol.asyncDispose]());

  test("enqueues, lists, shows, cancels and retries a flow", async () => {
    const file = join(cli.folder, "flow.json");
    const jobs = [
      { name: "a", task: "one" },
      { name: "b", task: "two", after: ["a"], options: { queue: "far" } },
    ];
    writeFileSync(file, JSON.stringify(jobs));
    const { id } = await cli.json(["flows", "enqueue", "nightly", file]);
    const { stdout } = await cli.holdfast(["flows"]);
    assert.match(stdout, /^ID +KIND +NAME +STATUS +DONE +FAILED +CANCELLED +LEFT\n/);
    assert.match(stdout, new RegExp(`^${id} +flow +nightly +running +0 +0 +0 +2$`, "m"));
    const shown = await cli.holdfast(["flows", "show", id]);
    assert.match(
      shown.stdout,
      /^flow nightly: running\n0 done, 0 failed, 0 cancelled, 2 left of 2 jobs\n/,
    );
    assert.match(shown.stdout, / b +two +waiting +1$/m);
    const { jobs: made } = await cli.json(["flows", "show", id]);
    const listed = await cli.json(["flows", "jobs", id, "--limit", "1", "--after", made[0].id]);
    assert.deepEqual(listed.jobs, [made[1]]);
    const waits = await cli.holdfast(["flows", "dependencies", made[1].id]);
    assert.match(waits.stdout, new RegExp(`^${made[0].id} +a +one +pending +fail +cancel$`, "m"));
    const awaited = await cli.holdfast(["flows", "dependencies", made[0].id]);
    assert.match(awaited.stdout, new RegExp(`These wait for it:\n${made[1].id}\n`));
    const after2 = ["--after", made[1].id, "--on-failed", "ignore"];
    await cli.json(["enqueue", "three", "null", ...after2]);
    const cancelled = await cli.holdfast(["flows", "cancel", id, "--reason", "not now"]);
    assert.equal(cancelled.stdout, `Cancelled 2 jobs of flow ${id}.\n`);
    const retried = await cli.holdfast(["flows", "retry", id, "--attempts", "2"]);
    assert.equal(retried.stdout, `Retried 2 jobs of flow ${id}.\n`);
    assert.equal((await cli.json(["flows", "--kind", "flow"])).flows[0].live, 2);
    assertRefused(
      await cli.holdfast(["flows", "show", made[0].id]),
      4,
      /There is no flow or batch/,
    );
    assertRefused(await cli.holdfast(["flows", "dependencies", id]), 4, /There is no job/);
    assertRefused(await cli.holdfast(["flows", "--kind", "wrong"]), 2, /choices are flow, batch/);
    writeFileSync(file, "{}");
    assertRefused(await cli.holdfast(["flows", "enqueue", "x", file]), 2, /must contain a list of/);
  });
});
