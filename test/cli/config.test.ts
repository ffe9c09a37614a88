import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { assertRefused, TestCli } from "./command.ts";

suite("holdfast config", () => {
  test("shows the settings with their sources, without secrets, and the errors", async () => {
    await using cli = new TestCli();
    cli.file(".env", "DATABASE_URL=postgres://app:hunter2@db/shop\nMAX_CONCURRENT_JOBS=3\n");
    cli.file("holdfast.config.mjs", "export default { concurrency: 5, poll: '1m' };");
    const env = { HOLDFAST_TOKEN: "hunter2-hunter2-hunter2", PORT: "9000" };
    const { settings, problems } = await cli.json(["config"], { env });
    assert.deepEqual(problems, []);
    const { url, concurrency, poll, token, port, lease } = settings;
    assert.deepEqual([url.value, url.name], ["postgres://app:***@db/shop", "DATABASE_URL"]);
    assert.deepEqual([concurrency.value, concurrency.source], ["3", ".env"]);
    assert.deepEqual(concurrency.unused, [{ name: "concurrency", source: "holdfast.config.mjs" }]);
    assert.deepEqual([poll.value, poll.source], ["1m", "holdfast.config.mjs"]);
    assert.deepEqual([token.value, port.value, lease.source], ["***", "9000", null]);
    assert.deepEqual(port.env, ["HEALTH_CHECK_PORT", "HOLDFAST_PORT", "PORT"]);
    const table = await cli.holdfast(["config"], { env });
    assert.match(table.stdout, /^MAX_CONCURRENT_JOBS +3 +\.env, overrides concurrency \(holdfast/m);
    assert.match(table.stdout, /^HEALTH_CHECK_PORT +9000 +PORT \(environment\)$/m);
    assert.doesNotMatch(table.stdout, /HOLDFAST_LEASE|default$/m, "only what was given");
    assert.match(
      table.stdout,
      /\d+ others have their defaults\. To show them: holdfast config --all\n$/,
    );
    const all = await cli.holdfast(["config", "--all"], { env });
    assert.match(all.stdout, /^HOLDFAST_LEASE +30s +default$/m);
    assert.ok(!(table.stdout + JSON.stringify(settings)).includes("hunter2"));
    const wrong = await cli.holdfast(["config", "--port", "x"], { env: { HOLDFAST_URLL: "1" } });
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /2 problems:\n {2}--port.*\n.*HOLDFAST_URLL.*HOLDFAST_URL\?/);
  });

  test("says so if no setting was made", async () => {
    await using cli = new TestCli();
    const { stdout } = await cli.holdfast(["config"]);
    assert.equal(stdout, "All settings have their defaults. To show them: holdfast config --all\n");
  });

  test("shows no password, whatever characters it has", async () => {
    await using cli = new TestCli();
    for (const character of [`"`, "'", "\\", " "]) {
      const url = `postgres://u:S3c${character}r3tPw@h/db`;
      const env = { HOLDFAST_URL: url, HOLDFAST_REDIS_URL: url.replace("postgres", "redis") };
      const { stdout } = await cli.holdfast(["config"], { env });
      assert.match(stdout, /^HOLDFAST_URL +postgres:\/\/u:\*\*\*@h\/db /m);
      assert.match(stdout, /^HOLDFAST_REDIS_URL +redis:\/\/u:\*\*\*@h\/db /m);
    }
  });

  test("every command finds the database of the service", async () => {
    await using cli = new TestCli();
    cli.file(".env", "HOLDFAST_URL=sqlite:other.db\n");
    await using holdfast = await openHoldfast(`sqlite:${cli.path("other.db")}`);
    const { id } = await holdfast.enqueue("x", null);
    assert.equal((await cli.json(["jobs"])).jobs[0].id, id);
    const other = await cli.holdfast(["jobs"], { env: { HOLDFAST_URL: "sqlite:none.db" } });
    assert.equal(other.code, 3);
    const production = await cli.holdfast(["stats"], { env: { NODE_ENV: "production" } });
    assert.equal(production.code, 0, "it is named in .env");
  });

  test("in a checkout, a configuration and tasks that import holdfast need no build", async () => {
    await using cli = new TestCli().withDatabase();
    const config = `${import.meta.dirname}/holdfast.config.example.ts`;
    const tasks = `${import.meta.dirname}/../../examples/cli-tasks.ts`;
    const { settings } = await cli.json(["config", "--config", config], { fromSources: true });
    assert.equal(settings.concurrency.value, "7");
    const { task } = await cli.json(["enqueue", "numbers.add", "[1]", "--tasks", tasks], {
      fromSources: true,
    });
    assert.equal(task, "numbers.add");
  });

  test("a command without --config names the variable, which it reads", async () => {
    await using cli = new TestCli();
    cli.file("other.mjs", "export default { url: 'sqlite:other.db' };");
    await using holdfast = await openHoldfast(`sqlite:${cli.path("other.db")}`);
    const { id } = await holdfast.enqueue("x", null);
    for (const flag of [["--config", "other.mjs"], ["--config=other.mjs"]]) {
      const refused = await cli.holdfast(["jobs", ...flag]);
      assertRefused(refused, 2, /Unknown option '--config.*Set HOLDFAST_CONFIG to the file/);
    }
    const { jobs } = await cli.json(["jobs"], { env: { HOLDFAST_CONFIG: "other.mjs" } });
    assert.equal(jobs[0].id, id);
  });

  test("a malformed line of .env is refused by its number, without its content", async () => {
    await using cli = new TestCli();
    cli.file(".env", "PORT=0\nHOLDFAST_URL sqlite:hunter2.db\n");
    for (const args of [["serve"], ["config"], ["jobs"], ["enqueue", "x"]]) {
      const { code, stderr } = await cli.holdfast(args);
      assert.equal(code, 1, stderr);
      assert.match(stderr, /\.env: line 2 has no '='/);
      assert.doesNotMatch(stderr, /hunter2/);
    }
    const named = await cli.holdfast(["enqueue", "x"], { env: { HOLDFAST_URL: cli.url } });
    assert.equal(named.code, 0, "the database is named elsewhere");
  });

  test("a byte order mark at the beginning of .env is not part of the first name", async () => {
    await using cli = new TestCli();
    cli.file(".env", "\uFEFFMAX_CONCURRENT_JOBS=3\n");
    const { settings } = await cli.json(["config"]);
    assert.equal(settings.concurrency.value, "3");
  });
});
