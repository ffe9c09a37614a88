/** The log of a service: what a log store can be asked, and what a person at a terminal reads. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { createColors } from "picocolors";
import { PersonLog } from "../../src/cli/log.ts";
import { openHoldfast } from "../../src/index.ts";
import { TestCli } from "./command.ts";

const TASKS = `
  export const ok = defineTask({ name: "ok", queue: "mail", run: () => 1 });
  export const flaky = defineTask({ name: "flaky", retry: { maxAttempts: 2, backoff: { initial: 0 } }, run(_, { attempt }) {
    if (attempt === 1) throw new TypeError("not yet");
  } });
  export const bad = defineTask({ name: "bad", retry: { maxAttempts: 1 }, run() { throw new GiveUpError("no"); } });
`;

test("lines about jobs have an event, a task, and numbers that are numbers", async () => {
  await using cli = new TestCli();
  await using holdfast = await openHoldfast(cli.url);
  const jobs = await Promise.all(
    ["ok", "flaky", "bad"].map((name) => holdfast.enqueue(name, null)),
  );
  const [ok, flaky, bad] = jobs.map(({ id }) => id);
  // The name of a queue is the task's, as this program would say.
  const queues = ["--queue", "mail,default"];
  const worker = cli.start(["work", "--tasks", cli.tasks("tasks.ts", TASKS), ...queues]);
  await Promise.allSettled(jobs.map((job) => job.result({ timeout: "30s" })));
  worker.child.kill("SIGTERM");
  const { stderr } = await worker.ended;
  const lines = stderr
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const about = (job: string | undefined): unknown[] =>
    lines
      .filter((line) => line.job === job)
      .map(({ level, event, msg, task, attempt, err }) => [
        level,
        event,
        msg,
        task,
        attempt,
        err?.type,
      ]);
  assert.deepEqual(about(ok), [["info", "job:done", "job done", "ok", 1, undefined]]);
  assert.deepEqual(about(flaky), [
    ["warn", "job:retrying", "job retrying", "flaky", 1, "TypeError"],
    ["info", "job:done", "job done", "flaky", 2, undefined],
  ]);
  assert.deepEqual(about(bad), [["error", "job:failed", "job failed", "bad", 1, "GiveUpError"]]);
  for (const line of lines.filter(({ job }) => job !== undefined)) {
    assert.ok(Number.isInteger(line.durationMs), JSON.stringify(line));
    assert.equal(line.queue, "default");
  }
  const retrying = lines.find(({ event }) => event === "job:retrying");
  assert.equal(typeof retrying.retryAt, "number");
  const names = new Set(lines.map(({ event }) => event));
  for (const name of ["worker:started", "service:stopping", "worker:stopped"]) {
    assert.ok(names.has(name), name);
  }
});

suite("for a person", () => {
  const screen = { errorColors: createColors(false), errorColumns: 80 };
  const time = "2027-01-31T09:00:07.120Z";
  const job = "01a1e5ed-5337-7002-9ee9-ebd6fc55bde0";
  const facts = { job, queue: "mail", attempt: 1, worker: `worker-${job}`, pid: 7, hostname: "a" };

  function linesOf(...entries: object[]): string[] {
    const written: string[] = [];
    const log = new PersonLog(screen, (line) => void written.push(line.slice("09:00:07 ".length)));
    for (const entry of entries) log.write(JSON.stringify({ time, level: "info", ...entry }));
    return written;
  }

  test("a line is short: the task, its outcome, and an id that can be typed", () => {
    const done = {
      event: "job:done",
      msg: "job done",
      task: "mail.send",
      durationMs: 12,
      ...facts,
    };
    const retryAt = Date.parse(time) + 1_200;
    const err = { type: "Error", message: "no answer", stack: "…" };
    assert.deepEqual(
      linesOf(
        done,
        { ...done, attempt: 2 },
        { ...done, event: "job:retrying", level: "warn", msg: "job retrying", retryAt, err },
        {
          ...done,
          event: "job:failed",
          level: "error",
          msg: "job failed",
          err: { ...err, type: "GiveUpError" },
        },
        {
          ...done,
          event: "lease:lost",
          level: "warn",
          msg: "job ownership lost",
          why: "it ran out",
        },
      ),
      [
        "info  mail.send done 12ms  job=01a1e5ed-5337-7002",
        "info  mail.send done 12ms  job=01a1e5ed-5337-7002  attempt=2",
        "warn  mail.send retrying in 1s: no answer  job=01a1e5ed-5337-7002",
        "error mail.send failed: GiveUpError: no answer  job=01a1e5ed-5337-7002",
        "warn  mail.send ownership lost  job=01a1e5ed-5337-7002  why=it ran out",
      ],
    );
  });

  test("many jobs that are done within a second are counted", () => {
    const done = { event: "job:done", msg: "job done", task: "t", durationMs: 1, ...facts };
    const many = Array.from({ length: 30 }, () => done);
    const lines = linesOf(...many, { msg: "worker stopped" });
    assert.deepEqual(lines.slice(-2), ["info  22 more jobs done", "info  worker stopped"]);
    assert.equal(lines.length, 8 + 2);
  });
});
