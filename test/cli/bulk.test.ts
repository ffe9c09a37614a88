import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { after, before, suite, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { assertRefused, Desk, until } from "./command.ts";

const MANY = 1_100;
/** Node itself always listens to SIGINT; the command listens to this one together with it. */
const SIGHUP_BIT = 1n;

suite("holdfast retry and cancel by filter", () => {
  const desk = new Desk();
  before(async () => {
    await using holdfast = await openHoldfast(desk.url);
    const mail = defineTask({
      name: "mail.send",
      queue: "mail",
      retry: { maxAttempts: 1 },
      run(input: string) {
        throw new Error(`${input} is not reachable`);
      },
    });
    const failed = await holdfast.enqueueMany(mail, ["ada", "bob", "cy"]);
    await holdfast.startWorker({ tasks: [mail] });
    for (const job of failed) await assert.rejects(job.result(), { code: "JOB_FAILED" });
  });
  after(() => desk[Symbol.asyncDispose]());

  test("a dry run counts, and changes nothing", async () => {
    const said = await desk.holdfast([
      "retry",
      "--task",
      "mail.send",
      "--since",
      "1h",
      "--dry-run",
    ]);
    assert.deepEqual([said.code, said.stdout], [0, "3 jobs would be retried.\n"]);
    const { matched, dryRun } = await desk.json(["retry", "--error", "ADA is", "--dry-run"]);
    assert.deepEqual([matched, dryRun], [1, true]);
    const early = await desk.json(["retry", "--until", "1h", "--dry-run"]);
    assert.deepEqual([early.looked, early.matched], [3, 0]);
    assert.equal((await desk.json(["jobs", "--status", "failed"])).jobs.length, 3);
  });

  test("retries and cancels what fits, and says how many", async () => {
    const retried = await desk.holdfast(["retry", "--queue", "mail", "--reason", "it is back"]);
    assert.deepEqual([retried.code, retried.stdout], [0, "Retried 3 jobs.\n"]);
    const { jobs } = await desk.json(["jobs", "--status", "pending"]);
    assert.equal(jobs.length, 3);
    const { lines } = await desk.json(["audit"]);
    assert.deepEqual(
      lines.map((line: any) => [line.action, line.reason]),
      jobs.map(() => ["job.retry", "it is back"]),
    );
    const { changed, matched, next, refused } = await desk.json(["cancel", "--task", "mail.send"]);
    assert.deepEqual([changed, matched, next, refused], [3, 3, null, []]);
  });

  test("ids or a filter are named, and not both; everything only with --all", async () => {
    for (const args of [
      ["retry"],
      ["cancel"],
      ["retry", "0199", "--all"],
      ["cancel", "--dry-run"],
    ]) {
      assertRefused(await desk.holdfast(args), 2, /job ids or a filter such as .*--all/);
    }
    assertRefused(await desk.holdfast(["retry", "--since", "soon"]), 2, /2h or 7d ago/);
    assertRefused(
      await desk.holdfast(["retry", "--status", "done"]),
      2,
      /done jobs cannot be retried/,
    );
  });

  test(
    "Ctrl-C ends it after a chunk, and it says how far it got",
    { skip: notLinux() },
    async () => {
      {
        await using holdfast = await openHoldfast(desk.url);
        const many = defineTask({ name: "many", run() {} });
        await holdfast.enqueueMany(
          many,
          Array.from({ length: MANY }, () => null),
        );
      }
      assert.equal((await desk.json(["cancel", "--task", "many"])).changed, MANY);
      const other = new DatabaseSync(desk.path("holdfast.db"));
      other.exec("begin immediate");
      const command = desk.start(["retry", "--task", "many", "--status", "cancelled"]);
      await until("it listens to Ctrl-C", () => listensToCtrlC(command.child.pid ?? 0));
      command.child.kill("SIGINT");
      other.exec("rollback");
      other.close();
      const { code, stdout, stderr } = await command.ended;
      assert.equal(code, 130, stderr);
      const retried = Number(/^Retried ([\d,]+) jobs\.$/m.exec(stdout)?.[1]?.replace(",", ""));
      assert.ok(retried > 0 && retried < MANY, stdout);
      assert.match(
        stderr,
        /^Interrupted by SIGINT\. Retried [\d,]+ jobs\. .*Run the command again to continue\.$/m,
      );
      const rest = await desk.json(["retry", "--task", "many", "--status", "cancelled"]);
      assert.equal(rest.changed, MANY - retried);
    },
  );
});

function notLinux(): string | false {
  return process.platform === "linux" ? false : "what a process listens to is read from /proc";
}

function listensToCtrlC(pid: number): boolean {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const caught = /^SigCgt:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? "0";
  return (BigInt(`0x${caught}`) & SIGHUP_BIT) !== 0n;
}
