/** How jobs look on a screen: what fits, what is left out, and that an id that is shown can be typed. */
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { suite, test } from "node:test";
import { createColors } from "picocolors";
import { jobTable } from "../../src/jobs/command.ts";
import { applicationStack } from "../../src/terminal/table.ts";
import type { JobSummary } from "../../src/jobs/jobs.ts";
import { shortIds } from "../../src/core/id.ts";

const colors = createColors(false);

function job(facts: Partial<JobSummary>): JobSummary {
  return {
    id: "01a1e35b-c449-7000-a6fd-eb1234567890",
    queue: "default",
    task: "mail.send",
    status: "failed",
    priority: 0,
    key: null,
    lane: null,
    epoch: 1,
    attempts: 1,
    maxAttempts: 3,
    crashes: 0,
    enqueuedAt: 1,
    dueAt: null,
    lockedBy: null,
    lockedUntil: null,
    claimedAt: null,
    heartbeatAt: null,
    traceId: null,
    finishedAt: Date.now() - 60_000,
    lastError: null,
    inDoubt: null,
    tags: [],
    ...facts,
  };
}

suite("a list of jobs", () => {
  // Made when the test begins: an age is told from then on.
  const failedJobs = (): JobSummary[] => [
    job({
      key: "order-42",
      attempts: 3,
      lastError: { name: "Error", message: `the bank is closed ${"x".repeat(200)}\nsecond line` },
    }),
    job({
      id: "01a1e35b-c44a-7000-a6fd-eb1234567890",
      task: "order.fulfil.with.a.long.name",
      lastError: { name: "TypeError", message: "no" },
    }),
  ];

  for (const columns of [80, 120]) {
    test(`says in ${columns} columns which failed, its key and why`, () => {
      const failed = failedJobs();
      const short = shortIds(
        failed.map(({ id }) => id),
        [],
      );
      const lines = jobTable(failed, short, { columns, colors });
      assert.match(lines[0] ?? "", /^ID +STATUS +WHEN +TASK +KEY +ERROR$/);
      assert.match(
        lines[1] ?? "",
        /^01a1e35b-c449 +failed ×3 +1m ago +mail\.send +order-42 +the bank/,
      );
      assert.match(lines[2] ?? "", /TypeError: no$/);
      assert.equal(lines[1]?.length, columns);
      assert.ok(lines.every((line) => line.length <= columns));
    });
  }

  test("omits columns that are equal or empty for all jobs, and the error of a job that recovered", () => {
    const done = job({ status: "done", lastError: { name: "Error", message: "over" } });
    assert.deepEqual(jobTable([done], null, { columns: 80, colors })[0]?.split(/ +/), [
      "ID",
      "STATUS",
      "WHEN",
      "TASK",
    ]);
  });

  test("says of a waiting job that an effect of it is in doubt", () => {
    const waiting = job({ status: "waiting", inDoubt: "charge", finishedAt: null });
    const line = (columns: number) => jobTable([waiting], null, { columns, colors })[1] ?? "";
    assert.match(line(120), / waiting \(in doubt\) /);
    assert.match(line(80), / {2}in doubt {2}/);
  });
});

suite("a stack", () => {
  const ours = join(dirname(dirname(import.meta.dirname)), "src/steps/context.ts");

  test("has the frames of the application, and counts the others", () => {
    const stack = [
      "Error: no",
      "of two lines",
      "    at charge (/app/src/charge.ts:3:9)",
      `    at Steps.effect (${ours}:100:1)`,
      "    at Attempt.#run (file:///srv/node_modules/holdfast/dist/worker/attempt.js:1:1)",
      "    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)",
      "    at run (file:///app/src/tasks.ts:12:3)",
    ].join("\n");
    assert.deepEqual(applicationStack(stack).split("\n"), [
      "Error: no",
      "of two lines",
      "    at charge (/app/src/charge.ts:3:9)",
      "    at run (file:///app/src/tasks.ts:12:3)",
      "    … 3 more with --json",
    ]);
  });

  test("without frames stays as it is", () =>
    assert.equal(applicationStack("GiveUpError: x"), "GiveUpError: x"));
});
