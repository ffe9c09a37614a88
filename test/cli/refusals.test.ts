import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { after, suite, test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { launcher } from "../support/package.ts";
import { assertRefused, TestCli } from "./command.ts";

const EXAMPLE = `${import.meta.dirname}/../../examples/cli-tasks.ts`;
const LOOKING = [
  ["jobs"],
  ["job", "01890000-0000-7000-8000-000000000000"],
  ["retry", "01890000-0000-7000-8000-000000000000"],
  ["cancel", "01890000-0000-7000-8000-000000000000"],
  ["stats"],
];

const changing = (flow: string): string[][] => [
  ["enqueue", "mail.send"],
  ["schedules", "create", "nightly", "--task", "report.send", "--every", "1h"],
  ["flows", "enqueue", "nightly", flow],
  ["tokens", "create", "--name", "ci", "--role", "viewer"],
];

suite("an input that cannot be used", () => {
  const cli = new TestCli().withDatabase();
  after(() => cli[Symbol.asyncDispose]());
  const enqueue = (...args: string[]) =>
    cli.holdfast(["enqueue", ...args], { fromSources: args.includes(EXAMPLE) });

  test("a payload that the schema refuses names the field", async () => {
    const wrong = await enqueue("mail.send", '{"to": 7}', "--tasks", EXAMPLE);
    assertRefused(wrong, 2, /'mail\.send'/, /\$\.to/, /string/);
    const machine = await enqueue("mail.send", '{"to": 7}', "--tasks", EXAMPLE, "--json");
    assert.equal(JSON.parse(machine.stderr).error.code, "INPUT_REJECTED");
  });

  test("broken JSON says where it breaks and how to quote it", async () => {
    assertRefused(
      await enqueue("x", "{to: ada}"),
      2,
      /not valid JSON/,
      /position 1/,
      /single quotes/,
    );
    const piped = await cli.holdfast(["enqueue", "x", "-"], { input: "" });
    assertRefused(piped, 2, /stdin is not valid JSON/);
    assert.doesNotMatch(piped.stderr, /shell/, "it was not typed");
  });

  test("an unknown task is refused with the known tasks", async () => {
    const said = await enqueue("mail.sned", "--tasks", EXAMPLE);
    assertRefused(said, 2, /'mail\.sned'/, /mail\.send/);
  });

  test("a payload over the limit is refused with its size and the limit", async () => {
    const input = JSON.stringify("a".repeat(300_000));
    const said = await cli.holdfast(["enqueue", "x", "-"], { input });
    assertRefused(said, 2, /300002 bytes/, /262144/);
  });

  for (const [option, value, pattern] of [
    ["--delay", "soon", /'--delay <duration>'.*'soon'.*10s/],
    ["--delay", "-5s", /--delay/],
    ["--wait", "10", /'--wait <duration>'.*'10'.*10s/],
    ["--run-at", "tomorrow", /'--run-at <time>'.*'tomorrow'.*2027-01-31T09:00:00Z/],
    ["--priority", "high", /'--priority <n>'.*'high'.*whole number/],
    ["--priority", "99999999", /priority.*-32767 to 32767/],
    ["--max-attempts", "0", /maxAttempts.*1 to 1000/],
    ["--queue", " x", /queue.*white space/],
    ["--key", "", /key.*empty/],
    ["--key-for", "long", /'--key-for <duration>'.*'long'/],
    ["--key-for", "7d", /keyFor: requires `key`/],
    ["--on-conflict", "ask", /--on-conflict.*return, replace, reject/],
  ] as const) {
    test(`${option} ${JSON.stringify(value)} is refused in a sentence that names it`, async () => {
      assertRefused(await enqueue("x", option, value), 2, pattern);
    });
  }

  test("--delay and --run-at together are refused", async () => {
    const said = await enqueue("x", "--delay", "1s", "--run-at", "2099-01-01");
    assertRefused(said, 2, /--delay/, /--run-at/);
  });

  test("refused jobs are not in the database", async () => {
    assert.deepEqual(await cli.json(["migrate"]).then(() => cli.json(["jobs"])), {
      jobs: [],
      next: null,
    });
  });
});

suite("a tasks module that cannot be used", () => {
  const cli = new TestCli();
  after(() => cli[Symbol.asyncDispose]());
  const work = (tasks: string) => cli.holdfast(["work", "--tasks", tasks]);

  test("a missing file, a folder", async () => {
    assertRefused(await work("nowhere.ts"), 2, /nowhere\.ts not found/, /--tasks/);
    assertRefused(await work(cli.folder), 2, /is not a file/);
    assertRefused(await cli.holdfast(["work"]), 1, /--tasks <file>/);
  });

  test("a syntax error names the line", async () => {
    const path = cli.file("broken.ts", "export const a = 1;\nexport const = 2;\n");
    assertRefused(await work(path), 2, /broken\.ts cannot be loaded \(line 2\)/, /SyntaxError/);
  });

  test("a module that throws, or lacks a package, says what went wrong", async () => {
    const throwing = cli.file("throwing.ts", `throw new Error("no DATABASE_URL");`);
    assertRefused(await work(throwing), 2, /throwing\.ts cannot be loaded.*no DATABASE_URL/);
    const lacking = cli.file("lacking.ts", `import "no-such-package";`);
    assertRefused(await work(lacking), 2, /Cannot find package 'no-such-package'/);
    const strange = cli.file("strange.ts", `import { defineTask } from "holdfast";`);
    assertRefused(await work(strange), 2, /Cannot find package 'holdfast'.*npm pack.*npm install/);
  });

  test("a module without tasks says what to export", async () => {
    const path = cli.file("empty.ts", `export const name = "x"; export function run() {}`);
    assertRefused(await work(path), 2, /exports no task/, /defineTask\(\)/);
  });

  test("two tasks of one name are refused, one task under two names is not", async () => {
    const task = `defineTask({ name: "t", run() {} })`;
    const two = cli.tasks("two.ts", `export const a = ${task}; export const b = ${task};`);
    assertRefused(await work(two), 2, /two tasks are called 't'/);
    const one = cli.tasks(
      "one.ts",
      `export const a = ${task}; export default [a]; export { a as b };`,
    );
    const named = ["--url", "sqlite:shop.db"];
    assert.equal((await cli.json(["enqueue", "t", "--tasks", one, ...named])).task, "t");
  });
});

suite("a database that cannot be used", () => {
  const cli = new TestCli();
  after(() => cli[Symbol.asyncDispose]());

  test("a command that only reads does not create a missing database", async () => {
    for (const args of LOOKING) {
      assertRefused(await cli.holdfast(args), 3, /No database at .*holdfast\.db/, /migrate/);
    }
    assert.ok(!existsSync(cli.path("holdfast.db")));
  });

  test("a command that enqueues or configures does not create it either, unless it is named", async () => {
    const flow = cli.file("flow.json", "[]");
    for (const args of changing(flow)) {
      assertRefused(
        await cli.holdfast(args),
        3,
        /No database at .*holdfast\.db/,
        /--url .*migrate/,
      );
    }
    assert.ok(!existsSync(cli.path("holdfast.db")));
    const named = await cli.holdfast(["enqueue", "x", "--url", "sqlite:named.db"]);
    assert.deepEqual([named.code, existsSync(cli.path("named.db"))], [0, true]);
    const env = { HOLDFAST_URL: "sqlite:set.db" };
    assert.equal((await cli.holdfast(["enqueue", "x"], { env })).code, 0);
  });

  test("a wrong argument is reported before a database that is missing", async () => {
    assertRefused(await cli.holdfast(["enqueue", "x", "--key", ""]), 2, /key/);
    assertRefused(await cli.holdfast(["enqueue", "q\u202Egnp"]), 2, /task/);
    const create = ["schedules", "create", "nightly", "--task", "a.b", "--cron", "61 * * * *"];
    assertRefused(await cli.holdfast(create), 2, /61/);
  });

  test("with --json the refusal is one object on stderr", async () => {
    const { code, stdout, stderr } = await cli.holdfast(["stats", "--json"]);
    assert.deepEqual([code, stdout], [3, ""]);
    const { error } = JSON.parse(stderr);
    assert.deepEqual(Object.keys(error), ["code", "message"]);
    assert.equal(error.code, "STORE_UNAVAILABLE");
  });

  test("HOLDFAST_DEBUG=1 adds the stack", async () => {
    const { stderr } = await cli.holdfast(["jobs"], { env: { HOLDFAST_DEBUG: "1" } });
    assert.match(stderr, /No database[^]*\n +at .*:\d+:\d+/);
  });

  test("a default database that is missing says that none was named, and how to name it", async () => {
    const unnamed = await cli.holdfast(["jobs"]);
    assertRefused(unnamed, 3, /Neither --url nor HOLDFAST_URL/, /--url sqlite:shop\.db/, /migrate/);
    for (const given of [["jobs", "--url", "sqlite:holdfast.db"], ["jobs"]]) {
      const env = given.length === 1 ? { HOLDFAST_URL: "sqlite:holdfast.db" } : {};
      const named = await cli.holdfast(given, { env });
      assertRefused(named, 3, /no database at .*holdfast\.db/, /Check the name/);
      assert.doesNotMatch(named.stderr, /neither/);
    }
  });

  test("a file that is no database is refused and left as it was", async () => {
    const path = cli.file("notes.txt", "these are my notes, and they are not a database at all");
    for (const args of [["jobs"], ["enqueue", "x"], ["migrate"]]) {
      const said = await cli.holdfast([...args, "--url", `sqlite:${path}`]);
      assertRefused(said, 3, /notes\.txt is not a SQLite database/);
    }
    assert.match(readFileSync(path, "utf8"), /^these are my notes/);
  });

  test("a missing folder, or a folder in place of the file, is named", async () => {
    const missing = await cli.holdfast(["enqueue", "x", "--url", "sqlite:nowhere/shop.db"]);
    assertRefused(missing, 3, /folder .*nowhere does not exist/);
    const folder = await cli.holdfast(["enqueue", "x", "--url", `sqlite:${cli.folder}`]);
    assertRefused(folder, 3, /is a folder/);
  });

  test("a URL of an unknown kind is refused without its password", async () => {
    const said = await cli.holdfast(["jobs", "--url", "oracle://me:hush@host/db"]);
    assertRefused(said, 2, /'oracle:' is not a supported scheme/, /sqlite:/);
    assert.doesNotMatch(said.stderr, /hush/);
  });

  test("a file this user may not read", { skip: asRoot() }, async () => {
    const path = cli.path("locked.db");
    await (await openHoldfast(`sqlite:${path}`)).close();
    chmodSync(path, 0o000);
    const said = await cli.holdfast(["jobs", "--url", `sqlite:${path}`]);
    assertRefused(said, 3, /locked\.db/);
  });

  test("tables that are missing, or newer and breaking, are not touched", async () => {
    const bare = cli.path("bare.db");
    new DatabaseSync(bare).exec("create table mine (id integer)");
    const before = readFileSync(bare);
    const old = await cli.holdfast(["jobs", "--url", `sqlite:${bare}`]);
    assertRefused(old, 3, /no holdfast tables/, /holdfast migrate/);
    assert.deepEqual(readFileSync(bare), before, "a database of others is left byte for byte");

    const url = `sqlite:${cli.path("newer.db")}`;
    await (await openHoldfast(url)).close();
    const db = new DatabaseSync(cli.path("newer.db"));
    db.exec("insert into holdfast_migration values (999, 'from the future', 1, 1)");
    db.close();
    for (const args of [["jobs"], ["enqueue", "x"], ["migrate"], ["work", "--tasks", EXAMPLE]]) {
      const said = await cli.holdfast([...args, "--url", url], {
        env: { HOLDFAST_LOG_LEVEL: "silent" },
        fromSources: args.includes(EXAMPLE),
      });
      assertRefused(said, 3, /schema version 999/, /Upgrade holdfast/);
    }
  });
});

suite("a full disk", () => {
  const payload = JSON.stringify("a".repeat(250_000)); // nearly the limit, so that few fill it

  /** Fills the disk job by job; every job counts as accepted or leaves no trace. */
  async function fill(enqueue: (input: string) => Promise<{ code: number | null }>) {
    let accepted = 0;
    let said = await enqueue(payload);
    while (said.code === 0 && accepted < 20) {
      accepted += 1;
      said = await enqueue(payload);
    }
    return { accepted, said };
  }

  async function jobsIn(url: string): Promise<number> {
    await using holdfast = await openHoldfast(url, { create: false });
    return (await holdfast.jobs.list()).length;
  }

  test(
    "a job that does not fit on the disk is refused entirely",
    { skip: noTmpfs() },
    async (t) => {
      await using cli = new TestCli();
      const disk = cli.path("disk");
      mkdirSync(disk);
      const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=2000k", "tmpfs", disk]);
      if (mounted.status !== 0) return t.skip("this system does not let us mount a small disk");
      try {
        const url = `sqlite:${disk}/shop.db`;
        const { accepted, said } = await fill((input) =>
          cli.holdfast(["enqueue", "x", "-", "--url", url], { input }),
        );
        assert.ok(accepted > 0);
        assertRefused(said as never, 3, /disk of .* is full/, /Free disk space/);
        assert.equal(await jobsIn(url), accepted);
      } finally {
        spawnSync("umount", [disk]);
      }
    },
  );

  test("a file that cannot grow keeps its content", async () => {
    await using cli = new TestCli();
    await (await openHoldfast(cli.url)).close();
    const limited = `ulimit -f 1000; exec '${process.execPath}' '${launcher}' enqueue x -`;
    const { accepted, said } = await fill(async (input) => {
      const started = cli.spawn("bash", ["-c", limited]);
      started.child.stdin.end(input);
      return started.ended;
    });
    assert.ok(accepted > 0);
    assert.equal(said.code, 3);
    assert.equal(await jobsIn(cli.url), accepted);
  });
});

function asRoot(): string | false {
  return process.getuid?.() === 0 ? "root may read everything" : false;
}

function noTmpfs(): string | false {
  return process.getuid?.() === 0 ? false : "only root may mount a small disk";
}
