/** `holdfast schedules`: one command for everything that an operator does with them. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { TestCli, type Said } from "./command.ts";

suite("schedules on the command line", () => {
  test("are created, changed, run and deleted, and described in words", async () => {
    await using cli = new TestCli();
    const say = (...args: string[]): Promise<Said> =>
      cli.holdfast(["schedules", ...args, "--url", "sqlite:shop.db"]);
    const created = await say(
      "create",
      "weekly",
      "--task",
      "a.b",
      "--cron",
      "0 9 * * MON",
      "--missed",
      "all:3",
    );
    assert.match(
      created.stdout,
      /Created schedule 'weekly': At 09:00 on Monday \(UTC\)\. Next run: /,
    );
    assert.match(
      (await say("edit", "weekly", "--time-zone", "Asia/Tokyo")).stdout,
      /\(Asia\/Tokyo\)/,
    );
    assert.match(
      (await say("list")).stdout,
      /weekly {2}At 09:00 on Monday \(Asia\/Tokyo\) {2}a\.b/,
    );
    const shown = await say("show", "weekly");
    assert.match(shown.stdout, /Missed {7}all, at most 3\n/);
    assert.equal(shown.stdout.match(/^(Next runs)? +\d{4}-/gm)?.length, 5);
    await say("edit", "weekly", "--priority", "7");
    await say("edit", "weekly", "--queue", "slow");
    assert.match(
      (await say("show", "weekly")).stdout,
      /"priority":7,.*"queue":"slow"|"queue":"slow".*"priority":7/,
    );
    assert.match((await say("run", "weekly")).stdout, /Enqueued job /);
    assert.match((await say("runs", "weekly")).stdout, /enqueued by hand/);
    assert.match((await say("pause", "weekly")).stdout, /Paused/);
    assert.match((await say("delete", "weekly")).stdout, /Deleted schedule 'weekly'/);
    const missing = await say("show", "weekly");
    assert.deepEqual([missing.code, missing.stdout], [4, ""]);
    assert.match(missing.stderr, /There is no schedule 'weekly'/);
    const wrong = await say("create", "x", "--task", "a.b", "--cron", "61 * * * *");
    assert.match(wrong.stderr, /'61' is not valid in the minute field\. Allowed: 0 to 59/);
    const nowhere = new TestCli(); // A preview needs no database.
    const daily = await nowhere.json(["schedules", "preview", "@daily"]);
    assert.deepEqual([daily.words, daily.nextRuns.length], ["At 00:00 every day (UTC)", 5]);
    const every = await nowhere.json(["schedules", "preview", "--every", "1h", "--count", "2"]);
    assert.deepEqual(
      [every.words, every.nextRuns[1] - every.nextRuns[0]],
      ["Every hour", 3_600_000],
    );
    await nowhere[Symbol.asyncDispose]();
  });
});
