import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { after, before, suite, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { assertRefused, TestCli, until } from "./command.ts";

const MANY = 1_100;
/** Node itself always listens to SIGINT; the command listens to this one together with it. */
const SIGHUP_BIT = 1n;

suite("holdfast retry and cancel by filter", () => {
  const cli = new TestCli();
  before(async () => {
    await using holdfast = await openHoldfast(cli.url);
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
  after(() => cli[Symbol.asyncDispose]());

  test("a dry run counts, and changes nothing", async () => {
    const said = await cli.holdfast([
      "retry",
      "--task",
      "mail.send",
      "--ended-since",
      "1h",
      "--dry-run",
    ]);
    assert.deepEqual([said.code, said.stdout], [0, "3 jobs would be retried.\n"]);
    const { matched, dryRun } = await cli.json(["retry", "--error", "ADA is", "--dry-run"]);
    assert.deepEqual([matched, dryRun], [1, true]);
    const early = await cli.json(["retry", "--ended-until", "1h", "--dry-run"]);
    assert.deepEqual([early.looked, early.matched, early.status], [3, 0, "done"]);
    assert.equal((await cli.json(["jobs", "--status", "failed"])).jobs.length, 3);
  });

  test("retries and cancels the matching jobs, and says how many", async () => {
    const retried = await cli.holdfast(["retry", "--queue", "mail", "--reason", "it is back"]);
    assert.deepEqual([retried.code, retried.stdout], [0, "Retried 3 jobs.\n"]);
    const { jobs } = await cli.json(["jobs", "--status", "pending"]);
    assert.equal(jobs.length, 3);
    const { lines } = await cli.json(["audit"]);
    assert.deepEqual(
      lines.slice(-4).map((line: any) => [line.action, line.reason]),
      ["bulk.start", ...jobs.map(() => "job.retry")].map((action) => [action, "it is back"]),
    );
    const { changed, matched, refusals } = await cli.json(["cancel", "--task", "mail.send"]);
    assert.deepEqual([changed, matched, refusals], [3, 3, []]);
  });

  test("takes ids or a filter, not both; all jobs only with --all", async () => {
    for (const args of [
      ["retry"],
      ["cancel"],
      ["retry", "0199", "--all"],
      ["cancel", "--dry-run"],
    ]) {
      assertRefused(await cli.holdfast(args), 2, /job ids or a filter such as .*--all/);
    }
    assertRefused(await cli.holdfast(["retry", "--ended-since", "soon"]), 2, /2h or 7d ago/);
    assertRefused(
      await cli.holdfast(["retry", "--status", "done"]),
      2,
      /done jobs cannot be retried/,
    );
  });

  test("jobs are moved, reprioritised and deleted, and the actions are listed", async () => {
    await cli.holdfast(["enqueue", "lone", "--queue", "here", "--tag", "t"]);
    const move = ["bulk", "move", "--to", "there", "--tag", "t"];
    assert.equal((await cli.holdfast(move)).stdout, "Moved 1 job.\n");
    const priority = ["bulk", "priority", "--to", "7", "--queue", "there"];
    assert.equal((await cli.holdfast(priority)).stdout, "Reprioritised 1 job.\n");
    const [job] = (await cli.json(["jobs", "--tag", "t"])).jobs;
    assert.deepEqual([job.queue, job.priority, job.tags], ["there", 7, ["t"]]);
    await cli.holdfast(["cancel", "--tag", "t"]);
    const remove = ["bulk", "delete", "--tag", "t", "--status", "cancelled"];
    assert.equal((await cli.holdfast(remove)).stdout, "Deleted 1 job.\n");
    assert.deepEqual((await cli.json(["jobs", "--tag", "t"])).jobs, []);
    const { actions } = await cli.json(["bulk", "--limit", "2"]);
    assert.deepEqual(
      actions.map((one: any) => one.action),
      ["delete", "cancel"],
    );
    const listed = (await cli.holdfast(["bulk"])).stdout;
    assert.match(listed, /^ID +ACTION +STATUS/);
    const shown = (await cli.holdfast(["bulk", "show", actions[0].id])).stdout;
    assert.match(shown, /status +done[^]*filter +tag:t status:cancelled[^]*Deleted 1 job\./);
    const detached = await cli.holdfast(["bulk", "delete", "--status", "failed", "--detach"]);
    assert.match(detached.stdout, /^Started \S+\. Follow it with/);
    assertRefused(await cli.holdfast(["bulk", "delete", "--all"]), 2, /required to delete jobs/);
    assertRefused(await cli.holdfast(["bulk", "move", "--to", "x"]), 2, /Pass a filter/);
    assertRefused(await cli.holdfast(["bulk", "show", "0000"]), 4, /no bulk action/);
  });

  test(
    "Ctrl-C ends it after a chunk, and it says how far it got",
    { skip: notLinux() },
    async () => {
      {
        await using holdfast = await openHoldfast(cli.url);
        const many = defineTask({ name: "many", run() {} });
        await holdfast.enqueueMany(
          many,
          Array.from({ length: MANY }, () => null),
        );
      }
      assert.equal((await cli.json(["cancel", "--task", "many"])).changed, MANY);
      const other = new DatabaseSync(cli.path("holdfast.db"));
      other.exec("begin immediate");
      const command = cli.start(["retry", "--task", "many", "--status", "cancelled"]);
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
        /^Interrupted by SIGINT\. Retried [\d,]+ jobs\. .*Continue with: holdfast bulk resume \S+$/m,
      );
      const [, id = ""] = /bulk resume (\S+)$/m.exec(stderr) ?? [];
      assert.equal((await cli.json(["bulk", "show", id])).status, "stopped");
      const rest = await cli.json(["bulk", "resume", id]);
      assert.deepEqual([rest.status, rest.changed], ["done", MANY]);
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
