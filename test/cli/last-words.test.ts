import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { TestCli, type Said } from "./command.ts";

function entriesOf({ stderr }: Said): any[] {
  return stderr
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

suite("why a process of several failed", () => {
  const quiet = { LOG_LEVEL: "error", MONITOR_INTERVAL_MS: "0" };

  test("is logged as an error, whatever the log level is", async () => {
    await using cli = new TestCli();
    const tasks = cli.file("broken.ts", "export const a = 1;\nexport const = 2;\n");
    const args = ["work", "--tasks", tasks, "--processes", "2"];
    const said = await cli.holdfast(args, { env: quiet });
    assert.equal(said.code, 2, said.stderr);
    const [why] = entriesOf(said);
    assert.deepEqual([why.level, why.code], ["error", "TASKS_NOT_LOADED"]);
    assert.ok([1, 2].includes(why.process), said.stderr);
    assert.match(why.msg, /broken\.ts cannot be loaded \(line 2\)/);
  });

  test("an uncaught error is logged with its stack", async () => {
    await using cli = new TestCli();
    const tasks = cli.tasks(
      "tasks.ts",
      `export const task = defineTask({ name: "task", run() {} });
       setTimeout(function soon() { throw new Error("ouch"); });`,
    );
    const started = cli.start(["work", "--tasks", tasks, "--processes", "2"], { env: quiet });
    await started.says("ouch");
    started.child.kill("SIGTERM");
    const said = await started.ended;
    const why = entriesOf(said).find(({ err }) => err?.message === "ouch");
    assert.equal(why?.level, "error", said.stderr);
    assert.match(why.err.stack, /soon/);
  });

  test("the output of a task keeps its level", async () => {
    await using cli = new TestCli();
    const tasks = cli.tasks(
      "tasks.ts",
      `export const task = defineTask({ name: "task", run() {} });
       console.log("all is well"); console.warn("beware");
       process.stdout.write("raw out\\n"); process.stderr.write("raw err\\n");`,
    );
    const started = cli.start(["work", "--tasks", tasks, "--processes", "2"]);
    await started.says(/raw err[^]*worker started/);
    started.child.kill("SIGTERM");
    const entries = entriesOf(await started.ended);
    const levels = ["all is well", "beware", "raw out", "raw err"].map(
      (words) => entries.find(({ msg }) => msg === words)?.level,
    );
    assert.deepEqual(levels, ["info", "warn", "info", "warn"]);
  });
});

suite("off a terminal", () => {
  test("a service that cannot start logs the reason as a line of the log", async () => {
    await using cli = new TestCli();
    for (const [expected, ...args] of [
      [1, "work"],
      [1, "work", "--json"],
      [2, "serve", "--port", "x"],
      [2, "work", "--wrong"],
    ] as const) {
      const said = await cli.holdfast(args);
      assert.equal(said.code, expected, said.stderr);
      const [entry, ...more] = entriesOf(said);
      assert.deepEqual([entry.level, more], ["error", []]);
      assert.match(entry.code, /BAD_USAGE|CONFIG_INVALID/);
      assert.equal(entry.err, undefined, "a mistake needs no stack");
      const debug = await cli.holdfast(args, { env: { HOLDFAST_DEBUG: "1" } });
      assert.match(entriesOf(debug)[0].err.stack, /\n +at /);
    }
  });

  test("errors in the settings are logged unchanged, in our own words", async () => {
    await using cli = new TestCli();
    const env = { MYSQL_DB_HOST: "x", HOLDFAST_REDIS_URL: "postgres://u:hunter2@r" };
    const said = await cli.holdfast(["start"], { env });
    const [{ problems, msg }] = entriesOf(said);
    assert.match(problems.join("\n"), /^MYSQL_DB_PASSWORD: not set\./m);
    assert.match(msg, /redis:\/\/host:6379 or rediss:\/\/user:password@host:6379/);
    assert.doesNotMatch(said.stderr, /hunter2|\*\*\*/);
  });

  test("all missing settings are named together, including the tasks", async () => {
    await using cli = new TestCli();
    const env = { NODE_ENV: "production", HOLDFAST_LEASE: "x" };
    for (const command of ["start", "work"]) {
      const said = await cli.holdfast([command], { env });
      const [{ code, problems }, ...more] = entriesOf(said);
      assert.deepEqual([said.code, code, more], [1, "CONFIG_INVALID", []]);
      const names = problems.map((each: string) => /^\w+/.exec(each)?.[0]);
      assert.deepEqual(names, ["HOLDFAST_LEASE", "HOLDFAST_URL", "HOLDFAST_TASKS"]);
    }
    const [{ msg }] = entriesOf(await cli.holdfast(["work"]));
    assert.match(msg, /^HOLDFAST_TASKS: not set\. .*--tasks <file>/);
  });

  test("any other command prints the error as text", async () => {
    await using cli = new TestCli();
    const { stderr } = await cli.holdfast(["jobs"]);
    assert.match(stderr, /^No database at /);
  });
});
