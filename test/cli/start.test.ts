import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { TestCli, until, type Said } from "./command.ts";

/** Beyond the limit that was given, on a machine that is busy. */
const MARGIN_MS = 8_000;

const SLOW = `
import { setTimeout as pause } from "node:timers/promises";
export const slow = defineTask({ name: "slow", async run(n) { await pause(200); return n; } });
export const endless = defineTask({ name: "endless", run: (_, { signal }) => new Promise((_, reject) => {
  signal.addEventListener("abort", () => reject(signal.reason));
}) });
`;

/** Every line on both streams is an entry of the log. */
function entriesOf({ stdout, stderr }: Said): any[] {
  return (stdout + stderr)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const entry = JSON.parse(line);
      assert.equal(typeof entry.level, "string", line);
      assert.equal(typeof entry.msg, "string", line);
      assert.ok(!Number.isNaN(Date.parse(entry.time)), line);
      return entry;
    });
}

async function counts(holdfast: Holdfast): Promise<Record<string, number>> {
  const total: Record<string, number> = {};
  for (const { counts: each } of await holdfast.stats()) {
    for (const [status, count] of Object.entries(each))
      total[status] = (total[status] ?? 0) + count;
  }
  return total;
}

suite("holdfast start", () => {
  test("the examples refuse what they cannot use, with the field", async () => {
    await using cli = new TestCli();
    const started = cli.start(["start", "--port", "0"], { env: { SHUTDOWN_TIMEOUT_MS: "100" } });
    await started.says("running example tasks");
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(started.said)?.[0] ?? "";
    for (const [task, input] of [
      ["greet", { nme: "Ada" }],
      ["sum", ["1"]],
      ["report", { pages: -1 }],
      ["moody", null],
    ] as const) {
      const answer = await fetch(`${url}/api/v1/jobs`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ task, input }),
      });
      const told = await answer.text();
      assert.equal(answer.status, 422, told);
      assert.match(told, /\$/, "it says where");
    }
    started.child.kill("SIGTERM");
    assert.equal((await started.ended).code, 0);
  });

  test("in an empty folder there are examples with a few jobs, once", async () => {
    await using cli = new TestCli();
    const jobs = [];
    for (let round = 0; round < 2; round += 1) {
      const started = cli.start(["start", "--port", "0", "--watch"], {
        env: { SHUTDOWN_TIMEOUT_MS: "100" },
      });
      await started.says("running example tasks");
      await started.says("--watch is ignored");
      started.child.kill("SIGTERM");
      const said = await started.ended;
      assert.equal(said.code, 0, said.stderr);
      assert.match(said.stderr, /running example tasks\. Name your own.*--tasks/);
      await using holdfast = await openHoldfast(cli.url);
      const all = await counts(holdfast);
      jobs.push(Object.values(all).reduce((sum, count) => sum + count, 0));
    }
    assert.ok(jobs[0]! >= 10 && jobs[0]! <= 50, String(jobs[0]));
    assert.equal(jobs[1], jobs[0]);
  });

  test("stopped under load, it exits in time, and every job is done or pending", async () => {
    await using cli = new TestCli();
    const tasks = cli.tasks("tasks.ts", SLOW);
    await using holdfast = await openHoldfast(cli.url);
    for (let n = 0; n < 60; n += 1) await holdfast.enqueue("slow", n);
    const started = cli.start(["start", "--port", "0", "--tasks", tasks, "--concurrency", "5"], {
      env: { SHUTDOWN_TIMEOUT_MS: "10s" },
    });
    await until("some are done and some are running", async () => {
      const now = await counts(holdfast);
      return (now["done"] ?? 0) >= 5 && (now["processing"] ?? 0) > 0;
    });
    const toldAt = performance.now();
    started.child.kill("SIGTERM");
    assert.equal((await started.ended).code, 0);
    assert.ok(performance.now() - toldAt < 10_000 + MARGIN_MS);
    const { done = 0, pending = 0, ...others } = await counts(holdfast);
    assert.equal(done + pending, 60, JSON.stringify(others));
    assert.ok(pending > 0, "it did not wait for all of them");
  });

  test("jobs that do not finish within the limit are handed back", async () => {
    await using cli = new TestCli();
    const tasks = cli.tasks("tasks.ts", SLOW);
    await using holdfast = await openHoldfast(cli.url);
    for (let n = 0; n < 3; n += 1) await holdfast.enqueue("endless", null);
    const started = cli.start(["start", "--port", "0", "--tasks", tasks, "--shutdown", "300ms"]);
    await until("all run", async () => (await counts(holdfast))["processing"] === 3);
    started.child.kill("SIGINT");
    assert.equal((await started.ended).code, 0);
    const { pending } = await counts(holdfast);
    assert.equal(pending, 3);
  });
});

suite("holdfast serve", () => {
  test("serves without running jobs until it is stopped", async () => {
    await using cli = new TestCli();
    await using holdfast = await openHoldfast(cli.url);
    await holdfast.enqueue("slow", 1);
    const started = cli.start(["serve", "--port", "0"], { env: { LOG_LEVEL: "debug" } });
    await started.says(/nothing listens|serving/);
    started.child.kill("SIGTERM");
    assert.equal((await started.ended).code, 0);
    assert.match(started.said, /SIGTERM: waiting/, "it was still there");
    assert.equal((await counts(holdfast))["pending"], 1);
  });
});

suite("in production", () => {
  const production = { NODE_ENV: "production", HOLDFAST_URL: "sqlite:holdfast.db" };
  const SECRET = "hunter2-hunter2-hunter2";

  test("every line is JSON, including warnings, uncaught errors and the output of tasks", async () => {
    await using cli = new TestCli();
    const tasks = cli.tasks(
      "tasks.ts",
      `
      console.log("hello from\\nthe module", { password: "${SECRET}" });
      console.error("\\u009b2J");
      process.emitWarning("this is old", "DeprecationWarning");
      export const boom = defineTask({ name: "boom", run(input) {
        setTimeout(() => { throw new Error("not caught: postgres://u:${SECRET}@db"); });
        throw new Error("caught");
      } });
      import { existsSync } from "node:fs";
      setInterval(() => { if (existsSync("end")) Promise.reject(new Error("no handler")); }, 20);
      `,
    );
    const started = cli.start(["start", "--port", "0", "--tasks", tasks], {
      env: { ...production, LOG_LEVEL: "debug", HOLDFAST_TOKEN: SECRET },
    });
    await started.says('"msg":"ready"');
    await using holdfast = await openHoldfast(cli.url);
    await holdfast.enqueue("boom", { payload: SECRET });
    await started.says(/"job:(failed|retrying)".*"task":"boom"/);
    await started.says("not caught");
    cli.file("end", "");
    const said = await started.ended;
    assert.equal(said.code, 1);
    const entries = entriesOf(said);
    assert.ok(!(said.stdout + said.stderr).includes(SECRET), said.stderr);
    const told = (words: RegExp) =>
      entries.find(({ msg, err }) => words.test(`${msg} ${err?.message}`));
    assert.equal(told(/hello from/).source, "console");
    assert.equal(told(/this is old/).level, "warn");
    assert.match(told(/uncaught error/).err.message, /no handler/);
    const failed = entries.find(({ task, event }) => task === "boom" && event !== "job:started");
    // The ids that the trace is made of, and not the trace besides.
    assert.deepEqual(
      [failed.attempt, typeof failed.worker, failed.traceId],
      [1, "string", undefined],
    );
  });

  test("a start that fails says so in JSON, with every problem at once", async () => {
    await using cli = new TestCli();
    cli.file(
      ".env",
      `NODE_ENV=production\nPOLL_INTERVAL_MS=fast\nHOLDFAST_TOKEN=${SECRET.slice(0, 7)}\n`,
    );
    const wrong = await cli.holdfast(["start"], { env: { HOLDFAST_LEESE: "1s" } });
    assert.equal(wrong.code, 1);
    const [entry, ...more] = entriesOf(wrong);
    assert.equal(more.length, 0);
    assert.equal(entry.code, "CONFIG_INVALID");
    assert.deepEqual(
      entry.problems.map((text: string) => text.split(" ")[0]?.replace(":", "")),
      ["POLL_INTERVAL_MS", "HOLDFAST_TOKEN", "HOLDFAST_URL", "HOLDFAST_LEESE", "HOLDFAST_TASKS"],
    );
    assert.ok(!wrong.stderr.includes("hunter2"));
    for (const [args, code, words] of [
      [["start"], 1, /HOLDFAST_TASKS/],
      [["work", "--tasks", "nowhere.ts"], 2, /nowhere\.ts/],
      [["work", "--no-such-flag"], 2, /no-such-flag/],
      [["serve", "--port", "x"], 2, /--port/],
      [["serve", "--url", "sqlite:/no/such/folder/x.db"], 3, /folder/],
    ] as const) {
      cli.file(".env", "");
      const said = await cli.holdfast(args, { env: production });
      assert.equal(said.code, code, said.stderr);
      assert.match(entriesOf(said)[0].msg, words);
    }
  });
});

suite("several processes", () => {
  test("share the work; a killed process is restarted; all stop together", async () => {
    await using cli = new TestCli();
    const tasks = cli.tasks("tasks.ts", SLOW);
    await using holdfast = await openHoldfast(cli.url);
    const started = cli.start(
      ["start", "--port", "0", "--tasks", tasks, "--processes", "2", "--concurrency", "1"],
      {
        env: { LOG_LEVEL: "debug" },
      },
    );
    const workers = async () =>
      (await holdfast.workers.list()).filter(({ status }) => status === "running");
    await until("both work", async () => (await workers()).length === 2);
    const versions = async () => new Set((await workers()).map(({ version }) => version));
    const [version, ...more] = await versions();
    assert.deepEqual(more, [], "all of them are one build");
    assert.match(version ?? "", /^build-\d+$/);
    const first = (await workers())[0]!;
    process.kill(first.pid, "SIGKILL");
    await started.says(/was killed by SIGKILL.*restarting it/);
    await until("another works in its place", async () => {
      const now = await workers();
      return now.length === 2 && now.every(({ id }) => id !== first.id);
    });
    assert.deepEqual(await versions(), new Set([version]));
    const pids = (await workers()).map(({ pid }) => pid);
    started.child.kill("SIGTERM");
    const said = await started.ended;
    assert.equal(said.code, 0, said.stderr);
    for (const pid of pids) assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
    const tagged = entriesOf({ ...said, stdout: "" }).filter(({ msg }) => msg === "worker started");
    assert.deepEqual(new Set(tagged.map((entry) => entry.process)), new Set([1, 2]));
    assert.deepEqual(await workers(), []);
  });

  test("get what comes over HTTP: the server knows which queue a task's jobs go to", async () => {
    await using cli = new TestCli();
    const tasks = cli.tasks(
      "tasks.ts",
      `export const send = defineTask({ name: "send", queue: "mail", run: () => "sent" });`,
    );
    const started = cli.start(["start", "--tasks", tasks, "--processes", "2", "--port", "0"]);
    await started.says(/listening on/);
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(started.said)?.[0] ?? "";
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ task: "send" });
    const answer = await fetch(`${url}/api/v1/jobs`, { method: "POST", headers, body });
    const { id } = (await answer.json()) as { id: string };
    await using holdfast = await openHoldfast(cli.url);
    await until("it is done", async () => (await holdfast.jobs.get(id))?.status === "done");
    assert.equal((await holdfast.jobs.get(id))?.queue, "mail");
    started.child.kill("SIGTERM");
    assert.equal((await started.ended).code, 0);
  });

  test("determine the health of their supervisor", async () => {
    await using cli = new TestCli();
    const tasks = cli.tasks("tasks.ts", SLOW);
    await using holdfast = await openHoldfast(cli.url);
    await using stranger = await openHoldfast(cli.url);
    await stranger.startWorker({ tasks: [defineTask({ name: "other", run: () => null })] });
    const args = ["start", "--tasks", tasks, "--processes", "2", "--port", "0"];
    const started = cli.start(args);
    await started.says(/listening on/);
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(started.said)?.[0] ?? "";
    const ask = async (path: string): Promise<any> => (await fetch(url + path)).json();
    const children = async () =>
      (await holdfast.workers.list()).filter(({ pid }) => pid !== process.pid);
    await until("both are known", async () => {
      const { status, checks } = await ask("/health");
      const known = checks.filter((check: any) => /running, 0 jobs/.test(check.detail));
      return status === "ok" && known.length === 2 && checks.length === 4;
    });
    const named = new Set((await ask("/health")).checks.map((check: any) => check.name));
    for (const { id } of await children()) assert.ok(named.has(`worker ${id}`), id);
    assert.equal((await ask("/ready")).status, "ok");
    // Workers that were told to stop are not started again.
    for (const { id } of (await children()).slice(0, 1)) await holdfast.workers.stop({ id });
    await until("one is left", async () => (await ask("/health")).checks.length === 3);
    assert.equal((await ask("/ready")).status, "ok");
    started.child.kill("SIGTERM");
    assert.equal((await started.ended).code, 0);
  });

  test("cannot share a database in memory", async () => {
    await using cli = new TestCli();
    const tasks = cli.tasks("tasks.ts", SLOW);
    const args = ["start", "--tasks", tasks, "--processes", "2", "--url", "sqlite::memory:"];
    const { code, stderr } = await cli.holdfast(args);
    assert.equal(code, 2);
    assert.match(stderr, /belongs to a single process/);
  });

  test("that crash again and again are given up, with exit code 1", async () => {
    await using cli = new TestCli();
    const tasks = cli.tasks("tasks.ts", `process.stderr.write("ouch\\n"); process.exit(3);`);
    const started = cli.start(["work", "--tasks", tasks, "--processes", "2"], {
      env: { MONITOR_INTERVAL_MS: "0" },
    });
    const said = await started.ended;
    assert.equal(said.code, 1, said.stderr);
    assert.match(said.stderr, /crashed 6 times in one minute; all processes were stopped/);
    assert.match(said.stderr, /"process":1,"msg":"ouch"/);
  });

  test("stop by themselves when their supervisor is gone", async () => {
    await using cli = new TestCli();
    const tasks = cli.tasks("tasks.ts", SLOW);
    await using holdfast = await openHoldfast(cli.url);
    const started = cli.start(["start", "--port", "0", "--tasks", tasks, "--processes", "2"]);
    await until("both work", async () => (await holdfast.workers.list()).length === 2);
    started.child.kill("SIGKILL");
    await until("they have stopped as they should", async () => {
      const all = await holdfast.workers.list({ all: true });
      return all.filter(({ status }) => status === "stopped").length === 2;
    });
  });
});

suite("--watch", () => {
  test("a change restarts the worker, and a broken module is waited for", async () => {
    await using cli = new TestCli();
    const version = (n: number) =>
      `export const which = defineTask({ name: "which", run: () => ${n} });`;
    const tasks = cli.tasks("tasks.ts", version(1));
    await using holdfast = await openHoldfast(cli.url);
    const answer = async () => (await holdfast.enqueue("which", null)).result({ timeout: "20s" });
    const started = cli.start(["start", "--port", "0", "--watch", "--tasks", tasks]);
    await started.says("watching");
    assert.equal(await answer(), 1);
    cli.file("tasks.ts", "export const = ;");
    await started.says(/tasks\.ts changed: restarting/);
    await started.says(/cannot be loaded/);
    await started.says(/waiting for a file to change/);
    cli.tasks("tasks.ts", version(2));
    assert.equal(await answer(), 2);
    started.child.kill("SIGTERM");
    assert.equal((await started.ended).code, 0);
  });
});
