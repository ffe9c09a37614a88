/**
 * F1: a task that blocks the event loop keeps its job, because a thread of its own renews the lease;
 * a process that is blocked for good loses it, and that thread ends the process.
 */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { type Holdfast, type Job, openHoldfast, type WorkerOptions } from "../../src/index.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import { WorkerProcess } from "./worker-process.ts";

after(assertNothingRuns);

const PROGRAM = "worker-tasks-child.ts";
/** Long enough for a keeper that waits for a processor behind everything else that runs here. */
const LEASE_MS = 2_000;
const worker = { lease: LEASE_MS, grace: 200, maintenanceInterval: 50, poll: "1s" };

interface Pair {
  readonly holdfast: Holdfast;
  /** Which of the two workers has the job. */
  readonly busy: WorkerProcess;
  readonly idle: WorkerProcess;
  readonly job: Job<unknown>;
}

/** Two workers side by side, and a job that blocks the one that gets it. */
async function blockOne(
  { ms, ...more }: { ms: number | "for good" } & Partial<WorkerOptions>,
  tell: (pair: Pair) => Promise<void>,
): Promise<void> {
  using folder = tempFolder();
  const url = `sqlite:${folder.file(".db")}`;
  await using holdfast = await openHoldfast(url);
  const options = { ...worker, ...more };
  await using one = new WorkerProcess(PROGRAM, { url, role: "one", worker: options });
  await using other = new WorkerProcess(PROGRAM, { url, role: "other", worker: options });
  await Promise.all([one.until("ready"), other.until("ready")]);
  // The thread starts with the first job: on a busy machine that takes longer than these leases last.
  await until("both keepers have a thread", async () => {
    if (one.hasThread && other.hasThread) return true;
    await (await holdfast.enqueue("echo", null)).result();
    await pause(Math.random() * 100); // the one that looks first gets it
    return false;
  });
  const job = await holdfast.enqueue("block", { ms });
  const owner = await until("it runs", async () => (await job.get()).lockedBy);
  const isOne = (await one.until("ready"))["worker"] === owner;
  const [busy, idle] = isOne ? [one, other] : [other, one];
  await tell({ holdfast, busy, idle, job });
}

async function idOf(child: WorkerProcess): Promise<unknown> {
  return (await child.until("ready"))["worker"];
}

suite("a task that blocks the event loop", { concurrency: true }, () => {
  test("for three leases runs once, while another worker is standing by", async () => {
    await blockOne({ ms: 3 * LEASE_MS }, async ({ holdfast, busy, idle, job }) => {
      const heartbeats = new Set<number>();
      await until("it is done", async () => {
        const [lease] = await holdfast.leases.list();
        if (lease !== undefined) heartbeats.add(lease.heartbeatAt);
        return (await job.get()).status === "done";
      });
      assert.ok(heartbeats.size >= 4, `its heartbeat was seen at ${heartbeats.size} instants only`);
      const { epoch, attempts, crashes } = await job.get();
      assert.deepEqual({ epoch, attempts, crashes }, { epoch: 1, attempts: 1, crashes: 0 });
      const [attempt, ...more] = await holdfast.jobs.attempts(job.id);
      assert.equal(more.length, 0);
      assert.deepEqual([attempt?.outcome, attempt?.worker], ["done", await idOf(busy)]);
      assert.ok(Number(attempt?.endedAt) - Number(attempt?.startedAt) >= 3 * LEASE_MS);
      await busy.until("started");
      assert.ok(idle.of("started").every(({ id }) => id !== job.id));
      assert.deepEqual(busy.of("lost"), []);
    });
  });

  test("for good loses its job after maxBlock and not before, and another worker does it", async () => {
    const maxBlock = 2 * LEASE_MS;
    await blockOne({ ms: "for good", maxBlock }, async ({ holdfast, busy, idle, job }) => {
      await job.result({ timeout: "30s" });
      const [lost, done] = await holdfast.jobs.attempts(job.id);
      assert.deepEqual([lost?.outcome, lost?.worker], ["crashed", await idOf(busy)]);
      assert.deepEqual([done?.outcome, done?.worker], ["done", await idOf(idle)]);
      const heldMs = Number(lost?.endedAt) - Number(lost?.startedAt);
      assert.ok(heldMs >= maxBlock, `it was given up after ${heldMs} ms`);
      assert.deepEqual(await busy.ended, { code: null, signal: "SIGKILL" });
      const said = new RegExp(`blocked the event loop for longer than maxBlock .*: ${job.id}\\.`);
      assert.match(busy.errors, said);
      assert.equal(idle.errors, "");
    });
  });

  test("past maxBlock again and again is poison, and its process lives on if it may", async () => {
    const maxBlock = LEASE_MS;
    const options = { ms: 4 * LEASE_MS, maxBlock, endBlocked: false, maxCrashes: 1 };
    await blockOne(options, async ({ busy, idle, job }) => {
      const poisoned = await until("it is given up", async () => {
        const view = await job.get();
        return view.status === "failed" ? view : null;
      });
      assert.deepEqual([poisoned.crashes, poisoned.lastError?.code], [1, "POISON"]);
      await busy.until("lost");
      for (const child of [busy, idle]) child.tell("close");
      for (const child of [busy, idle]) {
        assert.deepEqual(await child.ended, { code: 0, signal: null }, child.errors);
      }
    });
  });
});
