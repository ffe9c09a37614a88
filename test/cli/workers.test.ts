import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import type { WorkerRecord } from "../../src/app/ops.ts";
import { openHoldfast } from "../../src/index.ts";
import type { Colors } from "../../src/terminal/terminal.ts";
import { workerTable } from "../../src/registry/table.ts";
import { assertRefused, TestCli, until, type Started } from "./command.ts";

const TASKS = `export const add = defineTask({ name: "add", run: ([a, b]: number[]) => a + b });`;

suite("holdfast workers", () => {
  let cli: TestCli;
  let worker: Started;
  before(async () => {
    cli = new TestCli();
    const tasks = cli.tasks("tasks.ts", TASKS);
    worker = cli.start(["work", "--tasks", tasks, "--name", "mailer", "--heartbeat", "200ms"], {
      env: { BUILD_ID: "3f2a91c" },
    });
    await worker.says("worker started");
  });
  after(() => cli[Symbol.asyncDispose]());

  async function only(): Promise<WorkerRecord> {
    const { workers } = await cli.json(["workers"]);
    assert.equal(workers.length, 1);
    return workers[0];
  }

  test("lists the workers, and every field as JSON", async () => {
    const row = await only();
    const { stdout } = await cli.holdfast(["workers"]);
    assert.match(stdout, /^WORKER +STATUS +VERSION +SEEN +JOBS +DONE +HOST$/m);
    assert.match(stdout, new RegExp(`${row.id} +running +3f2a91c `));
    assert.deepEqual(
      [row.type, row.status, row.desiredState, row.pid, row.version, row.slot, row.tasks],
      ["mailer", "running", "run", worker.child.pid, "3f2a91c", null, ["add"]],
    );
  });

  test("shows everything about one", async () => {
    const { id } = await only();
    const { stdout } = await cli.holdfast(["workers", "show", id]);
    assert.match(stdout, new RegExp(`^${id}\n`));
    for (const word of ["status", "version", "process", "queues", "seen", "jobs", "memory"]) {
      assert.match(stdout, new RegExp(`^  ${word} `, "m"));
    }
    assert.ok(Math.max(...stdout.split("\n").map((line) => line.length)) <= 80);
  });

  test("pauses workers and has them go on", async () => {
    const { id } = await only();
    const paused = await cli.holdfast(["workers", "pause", "--type", "mailer"]);
    assert.equal(paused.stdout, `${id} is paused\n`);
    assert.match((await cli.holdfast(["workers"])).stdout, / paused /);
    const { id: job } = await cli.json(["enqueue", "add", "[1,2]"]);
    await worker.says("worker paused");
    await cli.json(["workers", "resume", id]);
    await worker.says("worker resumed");
    await until("the job is done", async () => {
      const { job: view } = await cli.json(["job", job]);
      return view.status === "done";
    });
  });

  test("enqueue warns if no worker runs the task, and accepts the job anyway", async () => {
    for (const [args, words] of [
      [["ad"], /No live worker knows the task 'ad': the job waits .* Did you mean add\?/],
      [
        ["add", "[1,2]", "--queue", "slow"],
        /serves the queue 'slow': the workers that know 'add' serve 'default'/,
      ],
    ] as const) {
      const { code, stdout, stderr } = await cli.holdfast(["enqueue", ...args]);
      assert.equal(code, 0, stderr);
      assert.match(stdout, /^Enqueued/);
      assert.match(stderr, words);
      const accepted = await cli.json(["enqueue", ...args]);
      assert.equal(accepted.runnable, false);
      await cli.json(["cancel", accepted.id, stdout.trim().split(" ").at(-1) ?? ""]);
    }
    // A program that takes leases may run it, even if it has nothing to do at the moment.
    await using holdfast = await openHoldfast(cli.url);
    await holdfast.leases.acquire({ worker: "py-1", queues: ["snakes"] });
    const snake = await cli.json(["enqueue", "py.add", "--queue", "snakes"]);
    assert.equal(snake.runnable, true);
    await cli.json(["cancel", snake.id]);
    const known = await cli.holdfast(["enqueue", "add", "[1,2]", "--wait", "20s"]);
    assert.deepEqual([known.code, known.stderr], [0, ""]);
  });

  test("says what no live worker can run, and which versions differ", async () => {
    const env = { BUILD_ID: "77b0c1d" };
    const { id } = await cli.json(["enqueue", "add@2", "[1,2]"], { env });
    const { stdout } = await cli.holdfast(["workers"]);
    assert.match(stdout, /^Version 77b0c1d enqueued .+ ago, but no worker runs this version\.$/m);
    assert.match(stdout, /^No live worker runs add@2 \(queue default\): 1 job, waiting for /m);
    const { drift, unclaimable } = await cli.json(["workers"]);
    assert.deepEqual([drift.workers, drift.enqueuers[0].version], [[], "77b0c1d"]);
    // The whole hash of the commit that the worker runs.
    const whole = { BUILD_ID: "3f2a91c0d4e5b6a79881726354f0e1d2c3b4a596" };
    await cli.json(["enqueue", "add", "[1,2]"], { env: whole });
    assert.equal((await cli.json(["workers"])).drift.enqueuers.length, 1);
    assert.deepEqual([unclaimable[0].task, unclaimable[0].jobs], ["add@2", 1]);
    assert.match((await cli.holdfast(["job", id])).stdout, /^  waits +for a worker/m);
    assert.equal((await cli.json(["job", id])).job.runnable, false);
    await cli.json(["cancel", id]);
  });

  test("shows the limit of a type, and changes it when no active worker is in the way", async () => {
    const shown = await cli.holdfast(["workers", "limit"]);
    assert.match(shown.stdout, /^mailer +none +1$/m);
    assert.deepEqual((await cli.json(["workers", "limit", "mailer"])).types, [
      { type: "mailer", slots: null, active: 1 },
    ]);
    const { id } = await only();
    const refused = await cli.holdfast(["workers", "limit", "mailer", "1"]);
    assertRefused(refused, 1, /active workers do not fit/, new RegExp(id));
    for (const wrong of ["0", "1001", "two"]) {
      assertRefused(await cli.holdfast(["workers", "limit", "mailer", wrong]), 2, /from 1 to 1000/);
    }
    assertRefused(await cli.holdfast(["workers", "limit", "maler", "1"]), 4, /'maler'/);
    assertRefused(await cli.holdfast(["workers", "limit", "maler"]), 4, /'maler'/);
  });

  test("takes the beginning of an id, and shows ids short where there is little room", async () => {
    const { id } = await only();
    const short = id.slice(0, "mailer-".length + 13);
    const plain = new Proxy({}, { get: () => (text: string) => text }) as Colors;
    const narrow = workerTable([{ ...(await only()), gone: false }], [], {
      columns: 80,
      colors: plain,
    });
    assert.match(narrow[1] ?? "", new RegExp(`^${short} +running +3f2a91c +\\S+ +\\d+ +\\d+$`));
    assert.match((await cli.holdfast(["workers", "show", short])).stdout, new RegExp(`^${id}\n`));
    assert.equal((await cli.json(["workers", "resume", "mailer-"])).workers[0], id);
  });

  test("refuses an ambiguous target, and says when no worker matches", async () => {
    assertRefused(await cli.holdfast(["workers", "stop"]), 2, /--type <name>/, /--all/);
    const { id } = await only();
    assertRefused(await cli.holdfast(["workers", "stop", id, "--all"]), 2, /Pass exactly one of/);
    assertRefused(await cli.holdfast(["workers", "stop", "nobody"]), 4, /Worker nobody not found/);
    assertRefused(await cli.holdfast(["workers", "drain", "--type", "x"]), 4, /'x'/);
    assertRefused(await cli.holdfast(["workers", "show", "nobody"]), 4, /Worker nobody not found/);
  });

  test("shows a worker that was killed as dead, with the jobs that it holds", async () => {
    const tasks = cli.tasks(
      "stay.ts",
      'export const stay = defineTask({ name: "stay", run: () => new Promise(() => {}) });',
    );
    const killed = cli.start(["work", "--tasks", tasks, "--name", "victim"]);
    await killed.says("worker started");
    const { id: job } = await cli.json(["enqueue", "stay"]);
    const runs = async () => (await cli.json(["job", job])).job.status === "processing";
    await until("the job runs", runs);
    // The other worker, which would close its row, is frozen; on another host it would be as blind.
    worker.child.kill("SIGSTOP");
    killed.child.kill("SIGKILL");
    await killed.ended;
    const { stdout } = await cli.holdfast(["workers", "--type", "victim"]);
    assert.match(stdout, /^WORKER +STATUS +VERSION +SEEN +JOBS +DONE +HOST$/m);
    // Nothing says which build it is, and neither does the name that was made up for it.
    assert.match(stdout, /^victim-\S+ +gone +– +\S+ +1 +0 /m);
    const shown = (await cli.holdfast(["job", job])).stdout;
    assert.match(shown, /worker +victim-\S+ \(gone: another worker will reclaim the job\)/);
    assert.match((await cli.holdfast(["leases"])).stdout, / victim-\S+ \(gone\) /);
    worker.child.kill("SIGCONT");
    await until("its row is closed", async () => {
      const { workers } = await cli.json(["workers", "list", "--type", "victim"]);
      return workers.length === 0;
    });
    await cli.json(["cancel", job]);
  });

  test("stops a worker, whose process then ends well", async () => {
    const { id } = await only();
    await cli.json(["workers", "stop", id]);
    assert.equal((await worker.ended).code, 0);
    const { workers } = await cli.json(["workers", "list", "--all", "--type", "mailer"]);
    assert.deepEqual([workers[0].status, workers[0].reason], ["stopped", "asked"]);
    assert.equal((await cli.holdfast(["workers", "--type", "mailer"])).stdout, "No workers.\n");
    const limited = await cli.holdfast([
      "workers",
      "limit",
      "mailer",
      "2",
      "--reason",
      "two hosts",
    ]);
    assert.equal(limited.stdout, "The limit of 'mailer' is now 2 slots; it was no limit.\n");
    assert.deepEqual(await cli.json(["workers", "limit", "mailer", "2"]), {
      type: "mailer",
      from: 2,
      to: 2,
    });
    const { lines } = await cli.json(["audit"]);
    const { action, subject, reason, detail } = lines.at(-1);
    assert.deepEqual(
      [action, subject, reason, detail],
      ["worker.limit", "type mailer", "two hosts", '{"from":null,"to":2}'],
    );
    const { stdout } = await cli.holdfast(["audit"]);
    assert.match(stdout, /worker\.limit +type mailer +none → 2 +two hosts/);
  });
});
