import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import { TestCli, until, type Started } from "./command.ts";

const TASKS = `
import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

export const add = defineTask({ name: "add", run: ([a, b]: number[]) => ({ sum: a + b }) });
export const refuse = defineTask({
  name: "refuse",
  run() { throw new GiveUpError("not today"); },
});
/** Runs until the file is there. */
export const wait = defineTask({
  name: "wait",
  async run(file: string) {
    while (!existsSync(file)) await pause(5);
    return "waited";
  },
});
export const obedient = defineTask({
  name: "obedient",
  run: (_: null, { signal }) => new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  }),
});
`;

suite("holdfast work", () => {
  let cli: TestCli;
  let holdfast: Holdfast;
  let tasks: string;
  before(async () => {
    cli = new TestCli();
    tasks = cli.tasks("tasks.ts", TASKS);
    holdfast = await openHoldfast(cli.url);
  });
  after(async () => {
    await holdfast.close();
    await cli[Symbol.asyncDispose]();
  });

  async function work(...args: string[]): Promise<Started> {
    const started = cli.start(["work", "--tasks", tasks, ...args], {
      env: { HOLDFAST_LOG_LEVEL: "debug" },
    });
    await started.says("worker started");
    return started;
  }

  async function statusOf(id: string): Promise<string | undefined> {
    return (await holdfast.jobs.get(id))?.status;
  }

  test("a process whose supervisor crashed before it was up stops by itself", async () => {
    const started = cli.start(["work", "--tasks", tasks], { env: { HOLDFAST_CHILD: "1" } });
    const { code, stderr } = await started.ended;
    assert.equal(code, 0, stderr);
    assert.match(stderr, /SIGTERM: waiting up to/);
  });

  test("runs jobs, and enqueue --wait gets their results", async () => {
    const worker = await work();
    const said = await cli.holdfast(["enqueue", "add", "[19,23]", "--wait", "20s"]);
    assert.equal(said.code, 0);
    assert.match(said.stdout, /^Enqueued add .*\n\{\n {2}"sum": 42\n\}\n$/);
    const machine = await cli.json(["enqueue", "add", "[1,2]", "--wait", "20s"]);
    assert.deepEqual([machine.status, machine.result], ["done", { sum: 3 }]);
    worker.child.kill("SIGTERM");
    assert.equal((await worker.ended).code, 0);
  });

  test("a failed job gives exit code 1 to the command that waits for it, with its error", async () => {
    const worker = await work();
    const said = await cli.holdfast(["enqueue", "refuse", "--wait", "20s"]);
    assert.equal(said.code, 1);
    assert.match(said.stderr, /failed on attempt 1.*not today/);
    const machine = await cli.holdfast(["enqueue", "refuse", "--wait", "20s", "--json"]);
    assert.equal(JSON.parse(machine.stdout).status, "failed");
    assert.equal(JSON.parse(machine.stderr).error.code, "JOB_FAILED");
    worker.child.kill("SIGTERM");
    await worker.ended;
  });

  test("a result that does not come in time is exit code 1, and the job stays", async () => {
    const said = await cli.holdfast(["enqueue", "nobody", "--wait", "50ms", "--json"]);
    assert.equal(said.code, 1);
    const { error } = JSON.parse(said.stderr);
    assert.equal(error.code, "RESULT_TIMEOUT");
    // No worker runs it.
    assert.match(error.message, /it is pending/);
    assert.doesNotMatch(error.message, /goes on|continues/);
    assert.equal(JSON.parse(said.stdout).status, "pending");
  });

  test("Ctrl-C while waiting names the job that continues, and exits with 130", async () => {
    const newest = async () => (await holdfast.jobs.list({ task: "nobody" })).at(0)?.id ?? "";
    for (const more of [[], ["--json"]]) {
      const other = await newest();
      const waiting = cli.start(["enqueue", "nobody", "--wait", "1h", ...more]);
      await until("it is accepted", async () => (await newest()) !== other);
      const id = await newest();
      waiting.child.kill("SIGINT");
      const said = await waiting.ended;
      assert.equal(said.code, 130, said.stderr);
      assert.match(said.stderr, new RegExp(`Interrupted by SIGINT\\. Job ${id} continues`));
      if (more.length > 0) assert.equal(JSON.parse(said.stdout).id, id);
    }
  });

  test("the log is JSON lines on stderr, without what the jobs carry", async () => {
    const worker = await work();
    const job = await holdfast.enqueue("wait", cli.file("swordfish", ""));
    await job.result({ timeout: "20s" });
    worker.child.kill("SIGTERM");
    const { stdout, stderr } = await worker.ended;
    assert.equal(stdout, "");
    const lines = stderr
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    assert.ok(lines.some((line) => line.event === "job:done" && line.job === job.id));
    assert.ok(lines.every((line) => ["debug", "info", "warn"].includes(line.level)));
    assert.doesNotMatch(stderr, /swordfish/);
  });

  test("SIGTERM lets the running job finish, and the exit code is 0", async () => {
    const worker = await work();
    const file = cli.path("go");
    const { id } = await holdfast.enqueue("wait", file);
    await worker.says(/"event":"job:started".*"task":"wait"/);
    worker.child.kill("SIGTERM");
    await worker.says("SIGTERM: waiting");
    assert.equal(await statusOf(id), "processing");
    cli.file("go", "");
    const { code, signal } = await worker.ended;
    assert.deepEqual([code, signal], [0, null]);
    assert.equal(await statusOf(id), "done");
  });

  test("a job that does not end within --shutdown is handed back", async () => {
    const worker = await work("--shutdown", "10ms");
    const { id } = await holdfast.enqueue("obedient", null);
    await worker.says(/"event":"job:started".*"task":"obedient"/);
    worker.child.kill("SIGINT");
    assert.equal((await worker.ended).code, 0);
    const job = await holdfast.jobs.get(id);
    assert.deepEqual([job?.status, job?.attempts], ["pending", 0]);
    await holdfast.jobs.cancel(id);
  });

  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    test(`a second ${signal} ends at once, and the job is left to its lease`, async () => {
      const worker = await work();
      const { id } = await holdfast.enqueue("wait", cli.path("never"));
      await worker.says(/"event":"job:started".*"task":"wait"/);
      worker.child.kill(signal);
      await worker.says(`${signal}: waiting`);
      worker.child.kill(signal);
      const ended = await worker.ended;
      // A shell reports a process that a signal ended as 128 and the signal's number: 143, 130.
      assert.deepEqual([ended.code, ended.signal], [null, signal]);
      assert.match(
        ended.stderr,
        new RegExp(`${signal} again: stopping immediately without .* lease of 30s`),
      );
      assert.equal(await statusOf(id), "processing");
      await holdfast.jobs.cancel(id);
    });
  }

  test("cancel reaches a running job", async () => {
    const worker = await work();
    const { id } = await holdfast.enqueue("obedient", null);
    await worker.says(/"event":"job:started".*"task":"obedient"/);
    const { jobs } = await cli.json(["cancel", id]);
    assert.deepEqual(jobs, [{ id, status: "processing" }]);
    await until("the job is cancelled", async () => (await statusOf(id)) === "cancelled");
    worker.child.kill("SIGTERM");
    await worker.ended;
  });

  test("--queue, --name and the rest reach the worker; a wrong one is refused", async () => {
    const worker = await work("--queue", "a,b", "--queue", "c", "--name", "packer", "--json");
    worker.child.kill("SIGTERM");
    const lines = (await worker.ended).stderr.trimEnd().split("\n");
    const started = lines
      .map((line) => JSON.parse(line))
      .find(({ msg }) => msg === "worker started");
    assert.deepEqual(started.queues, ["a", "b", "c"]);
    assert.match(started.worker, /^packer-/);
    const wrong = await cli.holdfast(["work", "--tasks", tasks, "--concurrency", "0"]);
    assert.deepEqual([wrong.code, wrong.stdout], [2, ""]);
    assert.match(wrong.stderr, /concurrency.*1 to 1000/);
  });
});
