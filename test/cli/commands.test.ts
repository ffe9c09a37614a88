import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, suite, test } from "node:test";
import { GiveUpError } from "../../src/core/errors.ts";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { sql } from "../../src/database/sql.ts";
import { assertRefused, TestCli } from "./command.ts";

const ID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/;
const ESCAPE = "\u001B";
const SECRET = "the password is swordfish";

/** A database with a job of almost every kind, made without the command line. */
async function furnish(
  cli: TestCli,
): Promise<Record<"done" | "failed" | "later" | "soon", string>> {
  await using holdfast = await openHoldfast(cli.url);
  const build = defineTask({ name: "report.build", queue: "reports", run: () => ({ pages: 12 }) });
  const charge = defineTask({
    name: "card.charge",
    retry: { maxAttempts: 2, backoff: { initial: 0 } },
    run: (_input: unknown, { attempt }) => {
      throw attempt === 1 ? new Error("no answer") : new GiveUpError("card declined");
    },
  });
  const done = await holdfast.enqueue(build, { year: 2027, note: SECRET });
  const failed = await holdfast.enqueue(charge, { cents: 500, note: SECRET });
  const worker = await holdfast.startWorker({ tasks: [build, charge], maintenanceInterval: 10 });
  await done.result();
  await assert.rejects(failed.result(), { code: "JOB_FAILED" });
  await worker.stop();
  const later = await holdfast.enqueue("mail.send", null, { delay: "2h", key: "k1", priority: 7 });
  const soon = await holdfast.enqueue("mail.send", { note: SECRET });
  return { done: done.id, failed: failed.id, later: later.id, soon: soon.id };
}

suite("holdfast", () => {
  const cli = new TestCli().withDatabase();
  after(() => cli[Symbol.asyncDispose]());

  test("--help names every command and every exit code, and fits 80 columns", async () => {
    const { code, stdout } = await cli.holdfast(["--help"]);
    assert.match(stdout, /well\? +holdfast status\n.*doctor --quick/);
    assert.equal(code, 0);
    const commands = ["work", "enqueue", "jobs", "job", "retry", "cancel", "stats", "migrate"];
    for (const name of [...commands, "demo"]) assert.match(stdout, new RegExp(`^  ${name} `, "m"));
    assert.match(
      stdout,
      /Exit codes:\n {2}0 .*\n {2}1 .*\n(?: {5}.*\n)? {2}2 .*\n {2}3 .*\n {2}4 /,
    );
    assert.ok(stdout.split("\n").every((line) => line.length <= 80));
    const levels = /trace,\s+debug,\s+info,\s+warn,\s+error,\s+fatal/;
    assert.match(stdout, levels);
    assert.match((await cli.holdfast(["work", "--help"])).stdout, levels);
  });

  test("control characters and bidirectional characters are escaped in JSON", async () => {
    const { id } = await cli.json(["enqueue", "x", JSON.stringify("\u009B31m\u202E\u200B")]);
    for (const args of [["job", id], ["jobs"], ["enqueue", "x", JSON.stringify("\u202E")]]) {
      const { stdout } = await cli.holdfast([...args, "--json"]);
      assert.doesNotMatch(stdout, /[\u007F-\u009F\u200B\u2028-\u202E\u2066-\u2069]/);
    }
    const shown = await cli.json(["job", id]);
    assert.equal(shown.job.input, "\u009B31m\u202E\u200B");
    const refused = await cli.holdfast(["enqueue", "q\u202Egnp", "--json"]);
    assert.deepEqual([refused.code, refused.stderr.includes("\u202E")], [2, false]);
  });

  test("--version is the package's", async () => {
    const { code, stdout } = await cli.holdfast(["--version"]);
    assert.equal(code, 0);
    assert.match(stdout, /^\d+\.\d+\.\d+\n$/);
  });

  test("without a command it lists the commands and exits with an error", async () => {
    const { code, stderr } = await cli.holdfast([]);
    assert.equal(code, 2);
    assert.match(stderr, /Usage: holdfast[^]*No command given\./);
  });

  test("an unknown command, option or argument is refused with a hint", async () => {
    assertRefused(await cli.holdfast(["jbos"]), 2, /'jbos'/, /jobs/, /holdfast --help/);
    const option = await cli.holdfast(["jobs", "--que", "x"]);
    assertRefused(option, 2, /'--que'/, /--queue/, /holdfast jobs --help/);
    assertRefused(await cli.holdfast(["stats", "extra"]), 2, /arguments/);
    assertRefused(await cli.holdfast(["job"]), 2, /argument 'id'/);
  });

  test("with --json even a mistake in the command line is JSON", async () => {
    const { code, stdout, stderr } = await cli.holdfast(["--json", "jobs", "--wrong"]);
    assert.deepEqual([code, stdout], [2, ""]);
    assert.equal(JSON.parse(stderr).error.code, "BAD_USAGE");
  });
});

suite("holdfast enqueue", () => {
  const cli = new TestCli();
  after(() => cli[Symbol.asyncDispose]());

  test("accepts a job, and says so when it creates the database it goes to", async () => {
    const args = ["enqueue", "mail.send", '{"to":"ada"}'];
    const { code, stdout, stderr } = await cli.holdfast([...args, "--url", "sqlite:holdfast.db"]);
    assert.equal(code, 0);
    assert.match(stderr, /^Created sqlite:.*holdfast\.db\.\nNo worker is running: .*waits.*\n$/);
    const again = await cli.holdfast(["enqueue", "mail.send", '{"to":"bob"}']);
    assert.deepEqual([again.code, again.stderr.includes("Created")], [0, false]);
    assert.match(stdout, /^Enqueued mail\.send /);
    const id = ID.exec(stdout)?.[0] ?? "";
    const { job } = await cli.json(["job", id]);
    assert.deepEqual([job.status, job.input, job.queue], ["pending", { to: "ada" }, "default"]);
  });

  test("every option reaches the job", async () => {
    const terms = ["--queue", "slow", "--priority", "-5", "--max-attempts", "9", "--delay", "2h"];
    const accepted = await cli.json(["enqueue", "mail.send", "-3", ...terms, "--key", "k1"]);
    assert.deepEqual([accepted.added, accepted.status], [true, "scheduled"]);
    const { job } = await cli.json(["job", accepted.id]);
    const { queue, priority, maxAttempts, key, input } = job;
    assert.deepEqual([queue, priority, maxAttempts, key, input], ["slow", -5, 9, "k1", -3]);
    assert.equal(job.dueAt - job.enqueuedAt, 7_200_000);
  });

  test("a key that a live job holds gives that job back", async () => {
    const first = await cli.json(["enqueue", "once", "--key", "only"]);
    const second = await cli.json(["enqueue", "once", "--key", "only"]);
    assert.deepEqual(second, { ...first, added: false });
  });

  test("a key that is held is a reason to refuse, or to replace its holder", async () => {
    const kept = ["enqueue", "mine", "--key", "mine", "--key-for", "7d"];
    const first = await cli.json(kept);
    const refused = await cli.holdfast([...kept, "--on-conflict", "reject"]);
    assertRefused(refused, 1, /'mine'/, new RegExp(first.id), /pending/);
    const second = await cli.json([...kept, "--on-conflict", "replace"]);
    assert.equal(second.added, true);
    const { job } = await cli.json(["job", first.id]);
    assert.deepEqual([job.status, job.lastError.code], ["cancelled", "REPLACED"]);
    await cli.json(["cancel", second.id]);
    assert.deepEqual((await cli.json(kept)).id, second.id); // it is over, and keeps its key
  });

  test("--run-at is a moment", async () => {
    const { id } = await cli.json(["enqueue", "x", "--run-at", "2099-01-31T09:00:00Z"]);
    const { job } = await cli.json(["job", id]);
    assert.deepEqual([job.status, job.dueAt], ["scheduled", Date.UTC(2099, 0, 31, 9)]);
  });

  test("the input may come from stdin, of a new job, an edited one, a replay and a schedule", async () => {
    const { id } = await cli.json(["enqueue", "x", "-"], { input: '[1, {"deep": "ü"}]\n' });
    assert.deepEqual((await cli.json(["job", id])).job.input, [1, { deep: "ü" }]);
    await cli.json(["job", "edit", id, "--input", "-"], { input: '{"to":"bob"}' });
    assert.deepEqual((await cli.json(["job", id])).job.input, { to: "bob" });
    await cli.json(["cancel", id]);
    const replay = await cli.json(["job", "replay", id, "--input", "-"], { input: "[2]" });
    assert.deepEqual((await cli.json(["job", replay.id])).job.input, [2]);
    const create = ["schedules", "create", "s", "--task", "x", "--every", "1h", "--input", "-"];
    assert.deepEqual((await cli.json(create, { input: '"big"' })).input, "big");
    await cli.json(["schedules", "delete", "s"]);
    await cli.json(["cancel", replay.id]);
  });

  test("HOLDFAST_URL names the database", async () => {
    const env = { HOLDFAST_URL: `sqlite:${cli.path("other.db")}` };
    await cli.json(["enqueue", "x"], { env });
    assert.equal((await cli.json(["jobs"], { env })).jobs.length, 1);
  });

  test("a tasks module that keeps a handle open does not keep the command from exiting", async () => {
    const source = `setInterval(() => {}, 1_000); export const t = defineTask({ name: "t", run() {} });`;
    const tasks = cli.tasks("open.ts", source);
    assert.equal((await cli.json(["enqueue", "t", "--tasks", tasks])).task, "t");
  });
});

suite("holdfast jobs, job, stats", () => {
  const cli = new TestCli();
  let ids: Awaited<ReturnType<typeof furnish>>;
  after(() => cli[Symbol.asyncDispose]());

  test("jobs lists newest first, without inputs and results", async () => {
    ids = await furnish(cli);
    const human = await cli.holdfast(["jobs"]);
    assert.equal(human.code, 0);
    const listed = human.stdout.split("\n").map((line) => ID.exec(line)?.[0]);
    assert.deepEqual(
      listed.filter((id) => id !== undefined),
      [ids.soon, ids.later, ids.failed, ids.done],
    );
    assert.match(human.stdout, /failed ×2 .* card\.charge/);
    assert.match(human.stdout, /scheduled .*in 1h|in 2h/);
    const machine = await cli.holdfast(["jobs", "--json"]);
    assert.doesNotMatch(human.stdout + machine.stdout, new RegExp(SECRET));
  });

  test("jobs can be narrowed by status, queue and task", async () => {
    const idsOf = async (...filter: string[]): Promise<string[]> =>
      (await cli.json(["jobs", ...filter])).jobs.map((job: { id: string }) => job.id);
    assert.deepEqual(await idsOf("--status", "failed"), [ids.failed]);
    assert.deepEqual(await idsOf("--queue", "reports"), [ids.done]);
    assert.deepEqual(await idsOf("--task", "mail.send"), [ids.soon, ids.later]);
    assert.deepEqual(await idsOf("--status", "waiting"), []);
  });

  test("jobs are found by their key", async () => {
    const { jobs } = await cli.json(["jobs", "--key", "k1"]);
    assert.deepEqual(
      jobs.map((job: { id: string; key: string }) => [job.id, job.key]),
      [[ids.later, "k1"]],
    );
    assert.deepEqual((await cli.json(["jobs", "--key", "K1"])).jobs, []);
  });

  test("accepts any unambiguous prefix of an id, in upper or lower case", async () => {
    const { failed } = ids;
    for (const typed of [
      failed.slice(0, 20),
      failed.slice(0, 20).toUpperCase(),
      `${failed.slice(0, 26)}…`,
    ]) {
      assert.equal((await cli.json(["job", typed])).job.id, failed, typed);
    }
    await using holdfast = await openHoldfast(cli.url);
    const short = (await holdfast.jobs.shortIds([failed])).get(failed) ?? "";
    assert.ok(short.length < 36);
    assert.equal((await cli.json(["job", short])).job.id, failed);
  });

  test("a prefix that several ids begin with is refused, and names them", async () => {
    const said = await cli.holdfast(["job", ids.done.slice(0, 4)]);
    assert.deepEqual([said.code, said.stdout], [2, ""]);
    const [first, ...lines] = said.stderr.trimEnd().split("\n");
    assert.match(first ?? "", /^More than one job id begins with [0-9a-f]{4}\. Type more/);
    assert.deepEqual(
      lines.map((line) => line.trim()),
      [
        `${ids.soon}  pending mail.send`,
        `${ids.later}  scheduled mail.send k1`,
        `${ids.failed}  failed card.charge`,
        `${ids.done}  done report.build`,
      ],
    );
    assertRefused(await cli.holdfast(["job", "ffff"]), 4, /no job whose id begins with 'ffff'/);
    assertRefused(await cli.holdfast(["job", "mail.send"]), 4, /no job whose id begins with/);
  });

  test("the end of a page says how to get the next one", async () => {
    const first = await cli.holdfast(["jobs", "--limit", "2"]);
    const before = /--before (\S+)/.exec(first.stdout)?.[1] ?? "";
    assert.equal(before, ids.later);
    assert.match(first.stdout, /^Showing 2 jobs in queue default\. Older: --before /m);
    const all = await cli.holdfast(["jobs", "--limit", "4"]);
    assert.match(all.stdout, /^4 jobs$/m); // a page that is full by chance is the whole all the same
    const last = await cli.holdfast(["jobs", "--limit", "2", "--before", before]);
    assert.match(last.stdout, /^Showing 2 jobs, the oldest\.$/m);
    const beyond = await cli.holdfast(["jobs", "--before", ids.done]);
    assert.equal(beyond.stdout, "No older jobs.\n");
    assert.equal((await cli.json(["jobs", "--limit", "2"])).next, ids.later);
    assert.equal((await cli.json(["jobs", "--limit", "4"])).next, null);
    const { jobs } = await cli.json(["jobs", "--limit", "2", "--before", before]);
    assert.deepEqual(
      jobs.map((job: { id: string }) => job.id),
      [ids.failed, ids.done],
    );
  });

  test("job shows all details of one job", async () => {
    const { stdout } = await cli.holdfast(["job", ids.failed]);
    assert.match(stdout, /status +failed\n/);
    assert.match(stdout, /attempts +2 of 2\n/);
    assert.match(stdout, /"cents": 500/);
    assert.match(stdout, /last error\n {2}GiveUpError: card declined/);
    assert.match(stdout, /1 +retry .*Error: no answer\n +2 +failed .*GiveUpError: card declined/);
  });

  test("job --json has the job and its attempts", async () => {
    const { job, attempts } = await cli.json(["job", ids.failed]);
    assert.deepEqual([job.id, job.status, job.attempts], [ids.failed, "failed", 2]);
    assert.equal(job.lastError.message, "card declined");
    assert.deepEqual(
      attempts.map((attempt: any) => [attempt.attempt, attempt.outcome, attempt.error.message]),
      [
        [1, "retry", "no answer"],
        [2, "failed", "card declined"],
      ],
    );
    assert.deepEqual((await cli.json(["job", ids.done])).job.result, { pages: 12 });
  });

  test("the input of a job cannot control the terminal", async () => {
    await using holdfast = await openHoldfast(cli.url);
    const { id } = await holdfast.enqueue("x", "\u001B[2J\u009B31m");
    const { stdout } = await cli.holdfast(["job", id]);
    assert.match(stdout, /\\u001b\[2J\\u009b31m/);
    await holdfast.jobs.cancel(id);
  });

  test("stats counts every status of every queue", async () => {
    const { stdout } = await cli.holdfast(["stats"]);
    assert.match(stdout, /^QUEUE +SCHEDULED +PENDING +PROCESSING +DONE +FAILED/);
    assert.match(stdout, /^default +1 +1 +0 +0 +1/m);
    const { queues } = await cli.json(["stats"]);
    const reports = queues.find((queue: { queue: string }) => queue.queue === "reports");
    assert.deepEqual([reports.counts.done, reports.oldestPendingAt], [1, null]);
  });

  test("stats shows the monitor's recent count, and counts anew with --exact", async () => {
    await using holdfast = await openHoldfast(cli.url);
    const counts = await holdfast.store.stats.takeCounts({ everyMs: 0 });
    const { id } = await holdfast.enqueue("x", null, { queue: "late" });
    const { stdout } = await cli.holdfast(["stats"]);
    assert.match(stdout, /^default +1 +1 /m);
    assert.match(stdout, /^Counted [0-9a-z]+ ago; --exact counts now\.$/m);
    assert.match(stdout, /^Finished jobs: the last 7 days only\.$/m);
    assert.doesNotMatch(stdout, /^late/m);
    const known = await cli.json(["stats"]);
    assert.deepEqual([known.exact, known.countedAt], [false, counts?.countedAt]);
    assert.ok(known.ageMs >= 0 && known.ageMs < 120_000, String(known.ageMs));
    const exact = await cli.json(["stats", "--exact"]);
    assert.deepEqual([exact.exact, exact.countedAt], [true, null]);
    const queues = exact.queues as { queue: string }[];
    assert.ok(queues.some(({ queue }) => queue === "late"));
    await holdfast.jobs.cancel(id);
  });

  test("stats counts when a monitor found nothing a moment ago", async () => {
    await using empty = new TestCli();
    await using holdfast = await openHoldfast(empty.url);
    await holdfast.store.stats.takeCounts({ everyMs: 0 });
    const none = await empty.json(["stats"]);
    assert.deepEqual([none.queues, none.exact], [[], true]);
    await holdfast.enqueue("x", null, { queue: "late" });
    assert.match((await empty.holdfast(["stats"])).stdout, /^late +1 /m);
  });

  test("stats counts when the last count is older than two minutes", async () => {
    await using holdfast = await openHoldfast(cli.url);
    const { engine } = holdfast.store.db;
    await engine.run(sql`update holdfast.counts set counted_at = counted_at - 121000 where id = 1`);
    assert.equal((await cli.json(["stats"])).exact, true);
  });
});

suite("holdfast retry, cancel", () => {
  const cli = new TestCli();
  let ids: Awaited<ReturnType<typeof furnish>>;
  after(() => cli[Symbol.asyncDispose]());

  test("retry makes a failed job pending again, with the given number of additional attempts", async () => {
    ids = await furnish(cli);
    const short = ids.failed.slice(0, 30).toUpperCase();
    const { jobs } = await cli.json(["retry", short, ids.failed, "--attempts", "5"]);
    assert.deepEqual(jobs, [{ id: ids.failed, status: "pending" }]);
    const { job } = await cli.json(["job", ids.failed]);
    assert.deepEqual([job.status, job.maxAttempts], ["pending", 7]);
  });

  test("a job that is done cannot be retried or cancelled, and says so", async () => {
    assertRefused(
      await cli.holdfast(["retry", ids.done]),
      1,
      /is done/,
      /failed, cancelled or expired/,
    );
    assertRefused(await cli.holdfast(["cancel", ids.done]), 1, /is done/);
  });

  test("cancel keeps jobs from running; asking again changes nothing", async () => {
    const { jobs } = await cli.json(["cancel", ids.soon, ids.later]);
    assert.deepEqual(jobs, [
      { id: ids.soon, status: "cancelled" },
      { id: ids.later, status: "cancelled" },
    ]);
    const again = await cli.holdfast(["cancel", ids.soon]);
    assert.deepEqual([again.code, again.stdout], [0, `Cancelled ${ids.soon}\n`]);
  });

  test("an unknown job is reported, and the other jobs are still retried or cancelled", async () => {
    const none = "01890000-0000-7000-8000-000000000000";
    assertRefused(await cli.holdfast(["job", none]), 4, /no job 01890000-/);
    const said = await cli.holdfast(["retry", none, ids.soon, "--json"]);
    assert.equal(said.code, 4);
    assert.deepEqual(JSON.parse(said.stdout), { jobs: [{ id: ids.soon, status: "pending" }] });
    assert.equal(JSON.parse(said.stderr).error.code, "JOB_NOT_FOUND");
  });
});

suite("holdfast migrate", () => {
  test("creates the tables once, and has nothing to do afterwards", async () => {
    await using cli = new TestCli();
    const first = await cli.json(["migrate"]);
    assert.deepEqual([first.store, first.from], [cli.url, 0]);
    assert.ok(first.applied.length > 0 && existsSync(cli.path("holdfast.db")));
    const second = await cli.holdfast(["migrate"]);
    assert.equal(second.code, 0);
    assert.match(second.stdout, new RegExp(`^Nothing to do: .* schema version ${first.to}\\.\n$`));
    assert.deepEqual(await cli.json(["jobs"]), { jobs: [], next: null });
    const nothing = await cli.holdfast(["migrate", "--dry-run"]);
    assert.equal(nothing.stdout, `-- Nothing to do: schema version ${first.to}.\n`);
  });

  test("prints the SQL instead, in text and in JSON, and creates nothing", async () => {
    await using cli = new TestCli();
    const { code, stdout } = await cli.holdfast(["migrate", "--dry-run"]);
    assert.equal(code, 0);
    assert.match(stdout, /^-- Holdfast, schema version 0 to \d+\./);
    const { from, to, migrations, sql: script } = await cli.json(["migrate", "--dry-run"]);
    assert.ok(stdout.endsWith(script));
    assert.deepEqual(
      [from, migrations[0], migrations.at(-1).version],
      [0, { version: 1, name: "first" }, to],
    );
    assert.equal(existsSync(cli.path("holdfast.db")), false);
  });
});

suite("output", () => {
  test("a reader that closes the pipe early causes no error", async () => {
    await using cli = new TestCli();
    await using holdfast = await openHoldfast(cli.url);
    const many = defineTask({ name: "one.of.many", run() {} });
    await holdfast.enqueueMany(
      many,
      Array.from({ length: 1_000 }, () => null),
      { priority: 1 },
    );
    const started = cli.start(["jobs", "--limit", "1000"]);
    started.child.stdout.destroy();
    const { code, stderr } = await started.ended;
    assert.deepEqual([code, stderr], [0, ""]);
  });

  test("colours are for a terminal that wants them", { skip: noTerminal() }, async () => {
    await using cli = new TestCli();
    await (await openHoldfast(cli.url)).close();
    const inTerminal = async (env: Record<string, string>): Promise<string> => {
      const command = `'${process.execPath}' bin/holdfast.js jobs --url sqlite:missing.db`;
      const args = ["-qec", `cd ${import.meta.dirname}/../.. && ${command}`, "/dev/null"];
      return (await cli.spawn("script", args, { TERM: "xterm", ...env }).ended).stdout;
    };
    const [coloured, plain] = [await inTerminal({}), await inTerminal({ NO_COLOR: "1" })];
    assert.ok(coloured.startsWith(`${ESCAPE}[31mThere is no database`), coloured);
    assert.ok(!plain.includes(ESCAPE), plain);
    const piped = await cli.holdfast(["job", "x"], { env: { CI: "1", FORCE_COLOR: "1" } });
    assert.ok(!piped.stderr.includes(ESCAPE), piped.stderr);
  });
});

function noTerminal(): string | false {
  return existsSync("/usr/bin/script") ? false : "there is no script(1) to make a terminal with";
}
