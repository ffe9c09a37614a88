/** Tasks that run in a thread or process of their own: what they may use, and what they cannot harm. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import {
  type Context,
  defineTask,
  type Holdfast,
  type Job,
  openHoldfast,
} from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import * as tasks from "./isolated-tasks.ts";
import { keepLog, until, withCode } from "./observe.ts";

after(assertNothingRuns);

const {
  looping,
  loopingThread,
  lost,
  paid,
  recursive,
  risky,
  riskyThread,
  throwing,
  waiting,
  where,
} = tasks;
const worker = { poll: "1s", maintenanceInterval: 20, lease: "2s" };

async function open(): Promise<Holdfast & { log: ReturnType<typeof keepLog> }> {
  const log = keepLog();
  const holdfast = await openHoldfast("sqlite::memory:", { logger: log.logger });
  return Object.assign(holdfast, { log });
}

async function ended(job: Job<unknown>) {
  await job.result({ timeout: "30s" }).catch(() => {});
  const { status, attempts, lastError, crashes } = await job.get();
  return { status, attempts, crashes, code: lastError?.code, message: lastError?.message ?? "" };
}

type Facts = Pick<Context, "id" | "attempt" | "fence" | "traceId" | "maxAttempts">;

/** A thread or process costs time, and a full or blocked one a lot. */
function tries(deed: tasks.Deed): number {
  return deed === "exit" ? 2 : 1;
}

suite("an isolated task", () => {
  test("reads the results of the jobs that it waited for", async () => {
    await using holdfast = await open();
    const { double, joining } = tasks;
    await holdfast.startWorker({ ...worker, tasks: [double, joining] });
    const flow = await holdfast.flows.enqueue("join", (jobs) => {
      const parts = Array.from({ length: 120 }, (_, n) =>
        jobs.job(double, n, { name: `part ${n}` }),
      );
      jobs.job(joining, null, { after: parts });
    });
    const result = (await flow.jobs.at(-1)?.result({ timeout: "30s" })) as {
      results: number[];
      seen: string[];
    };
    assert.deepEqual([result.results.length, result.results[119]], [120, 238]);
    assert.deepEqual([result.seen.length, result.seen[7]], [120, "part 7 done 14"]);
  });

  test("uses its context as any other, in a thread and in a process", async () => {
    await using holdfast = await open();
    const { everythingInProcess, everythingInThread, double } = tasks;
    const both = [everythingInThread, everythingInProcess];
    await holdfast.startWorker({ ...worker, tasks: [...both, double] });
    await holdfast.emit(paid, "x", { amount: 21 });
    const jobs = await Promise.all(both.map((task) => holdfast.enqueue(task, { note: "x" })));
    for (const job of jobs) {
      const { facts, ...rest } = (await job.result({ timeout: "30s" })) as { facts: Facts };
      assert.deepEqual(rest, {
        pair: ["a x", "b x"],
        key: `${job.id}/charge/1`,
        rows: [{ one: 1 }],
        mapped: {},
        amount: 21,
        doubled: 42,
      });
      const { id, attempt, fence, traceId, maxAttempts } = facts;
      assert.deepEqual({ id, attempt, maxAttempts }, { id: job.id, attempt: 1, maxAttempts: 3 });
      assert.equal(fence.id, job.id);
      assert.match(traceId, new RegExp(`-${job.id}-1$`));
      const steps = await holdfast.jobs.steps(job.id);
      assert.deepEqual(
        steps.map(({ name, status }) => `${name} ${status}`).toSorted(),
        ["both", "both", "charge", "double", "local", "paid", "rows", "short"].map(
          (name) => `${name} done`,
        ),
      );
      const reports = await holdfast.jobs.reports(job.id);
      const kinds = new Set(reports.map(({ kind }) => kind));
      const levels = reports.flatMap((one) => (one.kind === "log" ? [one.level] : []));
      assert.deepEqual(levels.slice(0, 2), ["info", "warn"]);
      assert.deepEqual([...kinds].toSorted(), ["log", "progress", "report"]);
    }
  });

  for (const [task, loop] of [
    [risky, looping],
    [riskyThread, loopingThread],
  ] as const) {
    const place = task.isolation?.in ?? "";
    test(`that ends, fills or blocks its ${place} fails alone, and becomes a dead letter`, async () => {
      await using holdfast = await open();
      const slow = defineTask({
        name: "slow",
        run: (ms: number) => new Promise((resolve) => setTimeout(resolve, ms, ms)),
      });
      await holdfast.startWorker({ ...worker, tasks: [task, loop, slow], concurrency: 20 });
      const deeds: [tasks.Deed, string, RegExp][] = [
        ["exit", "TASK_CRASHED", /ended with exit code 3: its code called process.exit/],
        ["out of memory", "TASK_CRASHED", /ran out of memory; isolation.memory allows .* 32 MB/],
        // An endless loop costs the tests too much to have two.
        [
          place === "thread" ? "loop" : "block",
          "JOB_TIMEOUT",
          /ran longer than its timeout of 100 ms/,
        ],
        ["throw later", "undefined", /thrown in a timer/],
        ...(place === "process"
          ? ([["abort", "TASK_CRASHED", /crashed with SIGABRT/]] as [tasks.Deed, string, RegExp][])
          : []),
      ];
      const culprits = await Promise.all(
        deeds.map(([deed]) =>
          holdfast.enqueue(
            deed === "loop" || deed === "block" ? loop : task,
            { deed },
            { maxAttempts: tries(deed) },
          ),
        ),
      );
      const neighbours = [];
      for (let ms = 0; ms < 500; ms += 50) neighbours.push(await holdfast.enqueue(slow, ms));
      const echo = await holdfast.enqueue(task, { deed: "echo" });
      assert.equal(await echo.result({ timeout: "30s" }), `echo in a ${place}`);
      for (const [index, [deed, code, message]] of deeds.entries()) {
        const end = await ended(culprits[index] as Job<unknown>);
        assert.equal(end.status, "failed", deed);
        assert.deepEqual([end.attempts, end.crashes], [tries(deed), 0], deed);
        assert.equal(String(end.code), code, deed);
        assert.match(end.message, message);
      }
      for (const neighbour of neighbours) {
        const { status, attempts, crashes } = await ended(neighbour);
        assert.deepEqual(
          { status, attempts, crashes },
          { status: "done", attempts: 1, crashes: 0 },
        );
      }
      const crashed = holdfast.log.lines.filter(({ facts }) => facts["event"] === "task:crashed");
      assert.ok(crashed.length >= 3, `${crashed.length} crashes in the log`);
    });
  }

  test("ends as it says: for good, later, put off, or with its own error", async () => {
    await using holdfast = await open();
    await holdfast.startWorker({ ...worker, tasks: [throwing] });
    const run = (thrown: tasks.Thrown) => holdfast.enqueue(throwing, { thrown });
    const end = async (thrown: tasks.Thrown) => ended(await run(thrown));
    const gaveUp = await end("give up");
    assert.deepEqual([gaveUp.status, gaveUp.attempts, gaveUp.code], ["failed", 1, "GIVE_UP"]);
    const own = await end("own");
    assert.deepEqual([own.status, own.attempts, own.code], ["failed", 3, "MINE"]);
    const retried = await run("retry in");
    assert.equal(await retried.result({ timeout: "30s" }), "retried");
    const [first] = await holdfast.jobs.attempts(retried.id);
    assert.deepEqual([first?.outcome, first?.error?.code], ["retry", "RETRY_IN"]);
    assert.equal(first?.error?.message, "To be retried in 20ms: busy");
    const step = await run("step");
    assert.equal(await step.result({ timeout: "30s" }), "the same error");
    const snoozed = await end("snooze");
    assert.deepEqual([snoozed.status, snoozed.code], ["failed", "SNOOZE_LIMIT"]);
    const nested = await end("nested");
    assert.match(nested.message, /'inner' was started inside another step/);
    const notDone = await run("not done");
    assert.equal(await notDone.result({ timeout: "30s" }), "done now");
  });

  test("is aborted with the reason, and killed when it ignores that", async () => {
    await using holdfast = await open();
    await holdfast.startWorker({ ...worker, tasks: [waiting] });
    const polite = await holdfast.enqueue(waiting, { ignores: false });
    const deaf = await holdfast.enqueue(waiting, { ignores: true });
    const pidOf = async (job: Job<unknown>): Promise<number> => {
      const said = await until("it runs", async () => {
        const reports = await holdfast.jobs.reports(job.id);
        return reports.find(({ kind }) => kind === "log");
      });
      return Number((said as { text: string }).text.split(" ")[1]);
    };
    const pids = [await pidOf(polite), await pidOf(deaf)];
    await holdfast.jobs.cancel(polite.id);
    await holdfast.jobs.cancel(deaf.id);
    assert.equal((await ended(polite)).status, "cancelled");
    assert.equal((await ended(deaf)).status, "cancelled");
    const texts = (await holdfast.jobs.reports(polite.id)).map((one) => "text" in one && one.text);
    assert.equal(texts.at(-1), "aborted: JOB_CANCELLED");
    assert.throws(() => process.kill(pids[1] as number, 0), { code: "ESRCH" });
  });

  test("shares its thread with later jobs, so many and no more", async () => {
    await using holdfast = await open();
    await holdfast.startWorker({ ...worker, tasks: [where], concurrency: 1 });
    const ids: unknown[] = [];
    for (let n = 0; n < 4; n += 1) {
      const job = await holdfast.enqueue(where, null);
      ids.push(await job.result({ timeout: "30s" }));
    }
    assert.equal(ids[0], ids[1]);
    assert.equal(ids[2], ids[3]);
    assert.notEqual(ids[1], ids[2]);
  });

  test("that cannot be found, or whose module starts a worker, fails with advice", async () => {
    await using holdfast = await open();
    await holdfast.startWorker({ ...worker, tasks: [lost, recursive] });
    const one = await ended(await holdfast.enqueue(lost, null));
    assert.equal(one.code, "ISOLATION");
    assert.match(one.message, /observe\.ts exports no task 'lost'\. It exports no task\. .*export/);
    const other = await ended(await holdfast.enqueue(recursive, null));
    assert.equal(other.code, "ISOLATION");
    assert.match(other.message, /cannot be imported .* A worker cannot be started/);
  });

  test("is refused without a module, and with unknown options", () => {
    const define = (isolation: object) => () =>
      defineTask({ name: "x", isolation: isolation as never, run: () => null });
    assert.throws(define({ in: "process" }), withCode("INVALID_ARGUMENT", "isolation.module"));
    assert.throws(define({ in: "vm" }), withCode("INVALID_ARGUMENT", "isolation.in"));
    const module = import.meta.url;
    const wrong = { in: "thread", module, memory: 1 };
    assert.throws(define(wrong), withCode("INVALID_ARGUMENT", "isolation.memory"));
    const unknown = { in: "thread", module, timeout: 1 };
    assert.throws(define(unknown), withCode("INVALID_ARGUMENT", "isolation.timeout"));
    assert.equal(
      defineTask({ name: "x", isolation: { in: "thread", module: "/a/b.ts" }, run: () => null })
        .isolation?.module,
      "file:///a/b.ts",
    );
  });
});
