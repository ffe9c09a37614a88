import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { type Context, defineTask, openHoldfast } from "../../src/index.ts";
import { assertRefused, TestCli, until } from "./command.ts";

const ESCAPE = "\u001B";

suite("holdfast job and reports", () => {
  let cli: TestCli;
  let done: string;
  let failed: string;
  let running: string;
  let holdfast: Awaited<ReturnType<typeof openHoldfast>>;
  const contexts = new Map<string, Context>();
  const gate = Promise.withResolvers<null>();
  before(async () => {
    cli = new TestCli();
    holdfast = await openHoldfast(cli.url);
    const read = defineTask({
      name: "file.read",
      retry: { maxAttempts: 1 },
      run(input: { fails: boolean }, ctx) {
        for (let line = 1; line <= 12; line += 1) ctx.log(`line ${line}`, { line });
        ctx.log(`clear ${ESCAPE}[2J`);
        ctx.report("checksum", "abc");
        ctx.progress({ done: 420, total: 1_000 }, "reading");
        if (input.fails) throw new Error("the disk is full");
        return { bytes: 7 };
      },
    });
    const wait = defineTask({
      name: "wait",
      run(_input: null, ctx) {
        contexts.set(ctx.id, ctx);
        return gate.promise;
      },
    });
    await holdfast.startWorker({ tasks: [read, wait], maintenanceInterval: 10 });
    const jobs = await holdfast.enqueueMany(read, [{ fails: false }, { fails: true }]);
    [done = "", failed = ""] = jobs.map(({ id }) => id);
    running = (await holdfast.enqueue(wait, null)).id;
    for (const job of jobs) await job.result().catch(() => {});
    await until("it runs", () => contexts.has(running));
  });
  after(async () => {
    gate.resolve(null);
    await holdfast.close();
    await cli[Symbol.asyncDispose]();
  });

  test("shows how far it is, and the last lines of its log", async () => {
    const { stdout } = await cli.holdfast(["job", done]);
    assert.match(stdout, /^ {2}progress +42 %, 420 of 1,000, reading, (?:now|\d+s ago)$/m);
    const lines = stdout.split("\n").filter((line) => line.includes("line "));
    assert.equal(lines.length, 9);
    assert.match(lines[0] ?? "", /^ {2}\d\d:\d\d:\d\d {2}log +line 4 {2}\{"line":4\}$/);
    assert.ok(!stdout.includes(ESCAPE));
    const { progress, log } = await cli.json(["job", done]);
    assert.deepEqual([progress.share, progress.text, log.length], [0.42, "reading", 10]);
    const nothing = await cli.json(["job", running]);
    assert.deepEqual([nothing.progress, nothing.log], [null, []]);
  });

  test("--follow prints all of it until the end of the job", async () => {
    const { code, stdout } = await cli.holdfast(["job", done, "--follow"]);
    assert.equal(code, 0);
    const [told = "", result = ""] = stdout.split("\n{");
    assert.deepEqual(JSON.parse(`{${result}`), { bytes: 7 });
    const lines = told.split("\n");
    assert.match(lines[0] ?? "", /^\d\d:\d\d:\d\d {2}log {9}line 1 {2}\{"line":1\}$/);
    assert.match(lines.at(-3) ?? "", / {2}checksum {4}"abc"$/);
    assert.match(lines.at(-2) ?? "", / {2}progress {4}42 %, 420 of 1,000, reading$/);
    assert.match(lines.at(-1) ?? "", /^\d\d:\d\d:\d\d {2}done$/);
    assert.ok(!stdout.includes(ESCAPE));
  });

  test("--follow --json prints one object a line", async () => {
    const { code, stdout } = await cli.holdfast(["job", done, "--follow", "--json"]);
    assert.equal(code, 0);
    const entries = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { kind: string; seq: number; status?: string });
    assert.deepEqual(
      entries.map(({ seq }) => seq),
      [...Array.from({ length: 15 }, (_, index) => index + 1), 15],
    );
    assert.deepEqual([entries.at(-1)?.kind, entries.at(-1)?.status], ["status", "done"]);
  });

  test("--follow of a failed job prints its reports and exits with an error", async () => {
    const { code, stdout, stderr } = await cli.holdfast(["job", failed, "--follow"]);
    assert.equal(code, 1);
    assert.match(stdout, / {2}failed$/m);
    assert.match(stderr, /the disk is full/);
  });

  test("--follow of a job that is not there is refused", async () => {
    const nobody = ["job", done.replace(/^../, "ff"), "--follow"];
    assertRefused(await cli.holdfast(nobody), 4, /no job/);
  });

  test("--follow prints reports as they arrive, and Ctrl-C ends the command but not the job", async () => {
    const following = cli.start(["job", running, "--follow"]);
    await following.says("processing");
    contexts.get(running)?.log("said meanwhile");
    await following.says("said meanwhile");
    following.child.kill("SIGINT");
    const { code, signal, stdout, stderr } = await following.ended;
    assert.deepEqual([code, signal], [130, null]);
    assert.match(stdout, /said meanwhile\n$/);
    assert.match(stderr, /^Interrupted by SIGINT\.\n$/);
    assert.equal((await holdfast.jobs.get(running))?.status, "processing");
  });

  test("--follow ends when its output is closed", async () => {
    const following = cli.start(["job", running, "--follow"]);
    await following.says("processing");
    following.child.stdout.destroy();
    await until("it is gone", () => {
      contexts.get(running)?.log("without a reader");
      return following.child.exitCode !== null;
    });
    assert.equal((await following.ended).code, 0);
  });
});
