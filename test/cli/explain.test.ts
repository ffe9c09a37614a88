import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { assertRefused, TestCli } from "./command.ts";

suite("holdfast explain", () => {
  let cli: TestCli;
  before(() => void (cli = new TestCli().withDatabase()));
  after(() => cli[Symbol.asyncDispose]());

  test("says in a sentence why a job or a queue does not run", async () => {
    const { id } = await cli.json(["enqueue", "mail.send", "null", "--queue", "mail"]);
    const job = await cli.holdfast(["explain", id.slice(0, 13)]);
    assert.equal(job.stdout, "No worker is running.\n");
    const facts = { missing: "worker", queue: "mail", silent: null, known: [] };
    assert.deepEqual(await cli.json(["explain", id]), {
      job: id,
      reason: "no-worker",
      sentence: "No worker is running.",
      facts: { ...facts, task: "mail.send" },
    });
    const queue = await cli.holdfast(["explain", "--queue", "elsewhere"]);
    assert.equal(queue.stdout, "The queue 'elsewhere' has no pending jobs.\n");
    const { reason } = await cli.json(["explain", "--queue", "mail"]);
    assert.equal(reason, "no-worker");
  });

  test("takes a job or a queue, and a job that exists", async () => {
    assertRefused(await cli.holdfast(["explain"]), 2, /Pass either the id of a job, or --queue/);
    assertRefused(await cli.holdfast(["explain", "0", "--queue", "mail"]), 2, /Pass either the id/);
    const id = "01990000-0000-7000-8000-000000000000";
    assertRefused(await cli.holdfast(["explain", id]), 4, /There is no job/);
  });
});
