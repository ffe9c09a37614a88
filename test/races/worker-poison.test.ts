/** F8: a job that kills its process is kept from the fourth. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { type Holdfast, type JobView, openHoldfast } from "../../src/index.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import { WorkerProcess } from "./worker-process.ts";

after(assertNothingRuns);

const PROGRAM = "worker-tasks-child.ts";
const CRASHES = 3;
const worker = { lease: 1_000, grace: 100, maintenanceInterval: 50, poll: "1s", concurrency: 4 };

/** Starts one worker after the other, each as soon as the one before was killed. */
async function surviveKills(url: string, kills: number): Promise<WorkerProcess> {
  for (let kill = 1; ; kill += 1) {
    const process = new WorkerProcess(PROGRAM, { url, role: `worker ${kill}`, worker });
    if (kill > kills) return process;
    const { signal } = await process.ended;
    assert.equal(signal, "SIGKILL");
  }
}

async function endOf(holdfast: Holdfast, id: string): Promise<JobView> {
  return until("the job has ended", async () => {
    const job = await holdfast.jobs.get(id);
    return job?.finishedAt === null ? null : job;
  });
}

suite("a job that kills its process", () => {
  test(`is poison after ${CRASHES} crashes, and those beside it are done`, async () => {
    using folder = tempFolder();
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    const killer = await holdfast.enqueue("kill", null, { maxAttempts: 50 });
    const neighbours = [];
    for (let n = 0; n < 20; n += 1) neighbours.push(await holdfast.enqueue("echo", n));
    await using survivor = await surviveKills(url, CRASHES);
    await survivor.until("ready");

    const { status, crashes, attempts, lastError } = await endOf(holdfast, killer.id);
    assert.deepEqual({ status, crashes, attempts }, { status: "failed", crashes: 3, attempts: 3 });
    assert.equal(lastError?.code, "POISON");
    const history = await holdfast.jobs.attempts(killer.id);
    assert.deepEqual(
      history.map(({ outcome }) => outcome),
      ["crashed", "crashed", "failed"],
    );
    assert.equal(new Set(history.map(({ worker: by }) => by)).size, CRASHES);

    for (const [n, neighbour] of neighbours.entries()) {
      assert.equal(await neighbour.result({ timeout: "30s" }), n);
    }
    const next = await holdfast.enqueue("echo", "still alive");
    assert.equal(await next.result({ timeout: "30s" }), "still alive");
    const failed = survivor.of("log").filter(({ message }) => message === "job failed");
    assert.equal(failed.length, 1, "as every job that failed for good");
  });

  test("harms its neighbours once: it runs alone next, and then they are not charged", async () => {
    using folder = tempFolder();
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    // All of them are claimed before the first begins.
    const neighbours = [];
    for (let n = 0; n < 6; n += 1)
      neighbours.push(await holdfast.enqueue("linger", { ms: 700 }, { maxAttempts: 2 }));
    const killer = await holdfast.enqueue("kill", null, { maxAttempts: 50, priority: 10 });
    const settings = { ...worker, concurrency: 7 };
    for (let kill = 1; kill <= CRASHES; kill += 1) {
      const role = `worker ${kill}`;
      const { signal } = await new WorkerProcess(PROGRAM, { url, role, worker: settings }).ended;
      assert.equal(signal, "SIGKILL");
    }
    await using survivor = new WorkerProcess(PROGRAM, { url, role: "last", worker: settings });
    const { status, crashes, lastError } = await endOf(holdfast, killer.id);
    assert.deepEqual([status, crashes, lastError?.code], ["failed", CRASHES, "POISON"]);
    let uncharged = 0;
    for (const { id } of neighbours) {
      const end = await endOf(holdfast, id);
      assert.equal(end.status, "done", end.lastError?.message);
      assert.ok(end.crashes <= 1, `a neighbour counts ${end.crashes} crashes`);
      if (end.attempts === 1 && end.crashes === 0) uncharged += 1;
    }
    // Those that ran before the culprit was known are done, and keep their count.
    assert.ok(uncharged >= 3, `${uncharged} of 6 are uncharged`);
    await until("it is logged", () =>
      survivor.of("log").some(({ message }) => message === "job failed"),
    );
  });

  test("is reclaimed long before its lease expires, and is not reported as expired", async () => {
    using folder = tempFolder();
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    const { id } = await holdfast.enqueue("kill", null, { maxAttempts: 1 });
    const settings = { ...worker, lease: "10m" };
    const first = new WorkerProcess(PROGRAM, { url, role: "worker 1", worker: settings });
    assert.equal((await first.ended).signal, "SIGKILL");
    await using survivor = new WorkerProcess(PROGRAM, { url, role: "worker 2", worker: settings });
    const { status, lastError } = await endOf(holdfast, id);
    assert.deepEqual([status, lastError?.code], ["failed", "WORKER_GONE"]);
    assert.match(
      String(lastError?.message),
      /^The process of worker \S+ ended without reporting an outcome/,
    );
    await until("it is logged", () =>
      survivor.of("log").some(({ message }) => message === "job failed"),
    );
  });
});
