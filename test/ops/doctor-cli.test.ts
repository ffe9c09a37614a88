/** `holdfast doctor`, as a user has it. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { after, before, suite, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { assertRefused, TestCli } from "../cli/command.ts";

const GONE = "018f2c5e-9b3a-700c-91f2-4c7d9be03a58";

async function furnish(cli: TestCli): Promise<void> {
  await using holdfast = await openHoldfast(cli.url);
  const task = defineTask({ name: "mail.send", run: async () => "sent" });
  const job = await holdfast.enqueue(task, null);
  await holdfast.startWorker({ tasks: [task] });
  await job.result();
}

function byHand(cli: TestCli, text: string): void {
  const db = new DatabaseSync(cli.path("holdfast.db"));
  db.exec(text);
  db.close();
}

suite("holdfast doctor", () => {
  let cli: TestCli;
  before(async () => {
    cli = new TestCli();
    await furnish(cli);
  });
  after(() => cli[Symbol.asyncDispose]());

  test("says that all is well, in lines that fit, and ends with 0", async () => {
    const { code, stdout, stderr } = await cli.holdfast(["doctor"]);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.match(stdout, /^ok {2}jobs +job-in-two-tables, job-nowhere, state-without-job\n/);
    assert.match(stdout, /\n\n\d+ checks in \d+ ms: no problems\.\n$/);
    assert.ok(stdout.split("\n").every((line) => line.length <= 80));
  });

  test("lists its checks", async () => {
    const { stdout } = await cli.holdfast(["doctor", "--list"]);
    assert.match(stdout, /^CHECK +ABOUT +SEVERITY +COST +FIX +WHAT IT FINDS\n/);
    assert.match(stdout, /^lease-expired +leases +warning +quick +yes +Leases expired/m);
    const { checks } = await cli.json(["doctor", "--list"]);
    assert.equal(checks.length, stdout.trimEnd().split("\n").length - 1);
  });

  test("runs only the given checks", async () => {
    const { checks } = await cli.json(["doctor", "--check", "job-nowhere,wal-file"]);
    assert.deepEqual(
      checks.map(({ name, outcome }: { name: string; outcome: string }) => [name, outcome]),
      [
        ["job-nowhere", "ok"],
        ["wal-file", "ok"],
      ],
    );
    const quick = await cli.json(["doctor", "--quick"]);
    assert.ok(quick.checks.every(({ cost }: { cost: string }) => cost === "quick") === true);
    const deep = await cli.json(["doctor", "--deep"]);
    assert.ok(deep.checks.some(({ name }: { name: string }) => name === "file-integrity") === true);
    assertRefused(
      await cli.holdfast(["doctor", "--check", "job-happy"]),
      2,
      /unknown check 'job-happy'/,
    );
    assertRefused(await cli.holdfast(["doctor", "--since", "once"]), 2, /--since/);
  });

  test("an info is shown, and the exit code stays 0", async () => {
    byHand(cli, `insert into holdfast_job_trace values ('${GONE}', '00-1-1-01', null)`);
    const { code, stdout } = await cli.holdfast(["doctor"]);
    assert.equal(code, 0);
    assert.match(stdout, /^info trace-orphaned\n/);
    assert.match(stdout, /: 1 info, no problems\.\n$/);
  });

  test("reports problems with their subjects and remedies, and exits with 1", async () => {
    byHand(cli, `insert into holdfast_job_key values ('mail.send', 'k', '${GONE}')`);
    const { code, stdout, stderr } = await cli.holdfast(["doctor"]);
    assert.equal(code, 1);
    assert.match(stdout, /^warning key-orphaned\n {2}Keys are held by jobs/);
    assert.match(stdout, new RegExp(`^ {2}- job ${GONE} holds key 'k' of mail\\.send`, "m"));
    assert.match(stdout, /^ {2}→ Release the keys \(--fix\)\.$/m);
    assert.match(stdout, /: 1 warning, 1 info\.\n$/);
    assert.match(stderr, /^One check found problems/);
    const inJson = await cli.holdfast(["doctor", "--json"]);
    assert.equal(inJson.code, 1);
    const { healthy, findings } = JSON.parse(inJson.stdout);
    assert.deepEqual(
      [healthy, findings[0].check, findings[0].fixable],
      [false, "key-orphaned", true],
    );
  });

  test("--fix applies the safe fixes, leaves a line, and finds nothing afterwards", async () => {
    assertRefused(
      await cli.holdfast(["doctor", "--fix", "--check", "job-nowhere"]),
      2,
      /has no safe fix/,
    );
    const { code, stdout } = await cli.holdfast(["doctor", "--fix", "--reason", "tidy"]);
    assert.equal(code, 0);
    assert.match(stdout, /^Fixed key-orphaned: 1 case\.\nFixed trace-orphaned: 1 case\.\n\nok /);
    const { lines } = await cli.json(["audit"]);
    assert.deepEqual(
      lines.map(({ action, subject, reason }: Record<string, string>) => [action, subject, reason]),
      [
        ["doctor.fix", "check key-orphaned", "tidy"],
        ["doctor.fix", "check trace-orphaned", "tidy"],
      ],
    );
    const { fixed, findings } = await cli.json(["doctor", "--fix"]);
    assert.deepEqual([fixed, findings], [[], []]);
  });

  test("a database that is not there is not well either", async () => {
    assertRefused(await cli.holdfast(["doctor", "--url", "sqlite:nowhere.db"]), 3, /nowhere\.db/);
  });
});
