/** `holdfast queues`: what an operator does with a queue. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { assertRefused, TestCli } from "./command.ts";

suite("holdfast queues", () => {
  test("lists, pauses, resumes and limits queues", async () => {
    await using cli = new TestCli();
    const queues = (...args: string[]) =>
      cli.holdfast(["queues", ...args, "--url", "sqlite:shop.db"]);
    await cli.holdfast([
      "enqueue",
      "mail.send",
      "{}",
      "--queue",
      "mail",
      "--url",
      "sqlite:shop.db",
    ]);
    const paused = await queues("pause", "mail", "--reason", "the provider is down");
    assert.equal(paused.stdout, "Queue mail is paused\n");
    assert.equal((await queues("pause", "mail")).stdout, "Queue mail was already paused\n");
    const set = await queues("set", "mail", "--each-lane", "--rate", "5/1s", "--concurrency", "2");
    assert.match(set.stdout, /each lane: at most 2 running, 5 per 1s/);
    const { stdout } = await queues();
    assert.match(stdout, /^QUEUE +PENDING +RUNNING +FAILED +OLDEST +PAUSE AND LIMITS\n/);
    assert.match(stdout, /^mail +1 +0 +0 .*paused by cli .*; each lane: at most 2 running/m);
    const { queues: listed } = JSON.parse((await queues("--json")).stdout);
    const [mail] = listed;
    const { paused: pause, eachLane } = mail.settings;
    assert.deepEqual(
      [mail.queue, pause.reason, eachLane.rate.count, mail.counts.pending],
      ["mail", "the provider is down", 5, 1],
    );
    const shown = (await queues("show", "mail")).stdout;
    assert.match(shown, /^Jobs +1 pending\nOldest +pending since .*\nSettings +paused by cli/m);
    assert.match(shown, /^Why +the provider is down$/m);
    assert.match(shown, /^No live worker runs mail\.send: 1 job, waiting for /m);
    assert.match((await queues("limits")).stdout, /^mail +each lane +0 of 2 +5 per 1s$/m);
    assertRefused(await queues("show", "none"), 4, /neither jobs nor settings/);
    assert.equal((await queues("resume", "mail")).stdout, "Queue mail is resumed\n");
    assert.equal((await queues("resume", "mail")).stdout, "Queue mail was not paused\n");
    const acme = ["mail", "--lane", "acme"] as const;
    assert.equal((await queues("pause", ...acme)).stdout, "Lane acme of queue mail is paused\n");
    assert.match((await queues()).stdout, /; lane acme: paused by cli/);
    assert.equal((await queues("resume", ...acme)).stdout, "Lane acme of queue mail is resumed\n");
    assertRefused(await queues("resume", "mial"), 4, /Known: mail\. Did you mean mail\?/);
    const none = await queues(
      "set",
      "mail",
      "--each-lane",
      "--rate",
      "none",
      "--concurrency",
      "none",
    );
    assert.equal(none.stdout, "Queue mail: no limits\n");
  });

  test("pauses all queues, and resumes all but those that were paused before", async () => {
    await using cli = new TestCli();
    const at = ["--url", "sqlite:shop.db"];
    await cli.holdfast(["enqueue", "mail.send", "{}", "--queue", "mail", "--delay", "1h", ...at]);
    await cli.holdfast(["queues", "pause", "api", ...at]);
    const all = (...args: string[]) => cli.holdfast(["queues", ...args, "--all", ...at]);
    assert.equal((await all("pause")).stdout, "1 queue paused. Paused: api, mail.\n");
    assert.equal((await all("pause")).stdout, "0 queues paused. Paused: api, mail.\n");
    assert.deepEqual(JSON.parse((await all("resume", "--json")).stdout), {
      queues: ["mail"],
      paused: ["api"],
    });
    assertRefused(await all("pause", "mail"), 2, /the queue's name, or --all/);
    assertRefused(await all("pause", "--lane", "acme"), 2, /--all, or --lane/);
    assertRefused(await cli.holdfast(["queues", "pause", ...at]), 2, /the queue's name, or/);
  });

  test("says what is wrong with a limit", async () => {
    await using cli = new TestCli();
    await cli.holdfast(["migrate", "--url", "sqlite:shop.db"]);
    const set = (...args: string[]) =>
      cli.holdfast(["queues", "set", "mail", ...args, "--url", "sqlite:shop.db"]);
    assertRefused(await set("--rate", "5 a second"), 2, /'--rate .* a rate such as 5\/1s/);
    assertRefused(await set("--concurrency", "many"), 2, /'--concurrency .* a whole number/);
    assertRefused(await set("--weight", "2"), 2, /--weight: it requires --lane/);
    assertRefused(await set("--lane", "a", "--task", "b"), 2, /one of --each-lane, --lane/);
    assertRefused(await set("--task", "mail@2", "--concurrency", "1"), 2, /omit the version/);
  });
});
