/** The processes of isolated tasks end with their worker, however that ends. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, suite, test } from "node:test";
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import { FROZEN_LOOKS_MAX, LOOK_MS } from "../../src/isolation/children.ts";
import { drawnEngines } from "../registry/places.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { looping, waiting } from "../worker/isolated-tasks.ts";
import { until } from "../worker/observe.ts";
import { isStopped, WorkerProcess } from "./worker-process.ts";

after(assertNothingRuns);

/** The processes that this one started and that have not ended. */
function childrenOf(pid: number): number[] {
  const table = execFileSync("ps", ["-e", "-o", "pid=,ppid=,stat="], { encoding: "utf8" });
  return table
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([, parent, state]) => Number(parent) === pid && state?.startsWith("Z") === false)
    .map(([child]) => Number(child));
}

function isRunning(pid: number): boolean {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, "utf8");
    return !line.slice(line.lastIndexOf(")") + 2).startsWith("Z");
  } catch {
    return false;
  }
}

suite("a frozen process of an isolated task", { concurrency: true }, () => {
  for (const { name, skip, place: open } of drawnEngines("frozen child")) {
    const title = `ends as a crash of its task, beside one that blocks: ${name}`;
    test(title, { skip }, async () => {
      await using place = await open();
      const { url } = place;
      await using holdfast = await openHoldfast(url);
      await using worker = new WorkerProcess("worker-isolated-child.ts", {
        url,
        role: "worker",
        worker: { lease: "5s", poll: "1s", concurrency: 2 },
      });
      await worker.until("ready");
      const blocked = await holdfast.enqueue(looping, { deed: "loop" });
      const blocking = await until("its process runs", () => childrenOf(worker.pid)[0] ?? null);
      const retried = { ...waiting, retry: looping.retry };
      const job = await holdfast.enqueue(retried, { ignores: true });
      const frozen = await until("the task runs", () => processOf(holdfast, job.id, 0));
      process.kill(frozen, "SIGSTOP");
      await until("it is frozen", () => isStopped(frozen));
      const next = await until("it runs again", () => processOf(holdfast, job.id, 1));
      assert.ok(!isRunning(frozen) && isRunning(next) && isRunning(blocking));
      const [attempt] = await holdfast.jobs.attempts(job.id);
      assert.deepEqual([attempt?.outcome, attempt?.error?.code], ["retry", "TASK_CRASHED"]);
      assert.match(attempt?.error?.message ?? "", /was frozen: .* for 10 s/);
      const { attempts, status } = await blocked.get();
      assert.deepEqual([attempts, status], [1, "processing"]);
    });
  }

  test("is what its worker sees in time, not what it sees when it was frozen itself", async () => {
    using folder = tempFolder();
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    await using worker = new WorkerProcess("worker-isolated-child.ts", {
      url,
      role: "worker",
      worker: { lease: "1m", poll: "1s", concurrency: 2 },
    });
    await worker.until("ready");
    const job = await holdfast.enqueue(waiting, { ignores: true });
    const child = await until("the task runs", () => processOf(holdfast, job.id, 0));
    await worker.freeze(folder.file(".db"));
    const frozenAt = performance.now();
    const pause = (FROZEN_LOOKS_MAX + 1) * LOOK_MS;
    await until("it was frozen for long", () => performance.now() - frozenAt > pause);
    worker.signal("SIGCONT");
    const later = await holdfast.enqueue(looping, { deed: "echo" });
    await later.result({ timeout: "30s" });
    assert.ok(isRunning(child));
  });
});

/** The one that this attempt of the job `waiting` said it runs in. */
async function processOf(holdfast: Holdfast, id: string, attempt: number): Promise<number | null> {
  const said = await holdfast.jobs.reports(id);
  const pids = said.map((report) => /process (\d+)/.exec(JSON.stringify(report))?.[1]);
  return Number(pids[attempt] ?? 0) || null;
}

suite("a worker with isolated tasks", () => {
  test("that is killed leaves a frozen process, which ends when it is resumed", async () => {
    using folder = tempFolder();
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    await using worker = new WorkerProcess("worker-isolated-child.ts", {
      url,
      role: "worker",
      worker: { lease: 1_000, poll: "1s" },
    });
    await worker.until("ready");
    await holdfast.enqueue(looping, { deed: "loop" });
    await worker.until("started");
    const child = await until("its process runs", () => childrenOf(worker.pid)[0] ?? null);
    process.kill(child, "SIGSTOP");
    await until("it is frozen", () => isStopped(child));
    worker.signal("SIGKILL");
    await worker.ended;
    assert.ok(isRunning(child) && isStopped(child));
    process.kill(child, "SIGCONT");
    await until("it has ended", () => !isRunning(child), 10_000);
  });

  for (const end of ["SIGKILL", "close"] as const) {
    test(`takes their processes with it: ${end}`, async () => {
      using folder = tempFolder();
      const url = `sqlite:${folder.file(".db")}`;
      await using holdfast = await openHoldfast(url);
      const options = { lease: 1_000, poll: "1s", shutdown: 0 };
      const process = new WorkerProcess("worker-isolated-child.ts", {
        url,
        role: "worker",
        worker: options,
      });
      await process.until("ready");
      await holdfast.enqueue(looping, { deed: "loop" });
      const job = await holdfast.enqueue(waiting, { ignores: true });
      await process.until("started", 2);
      await until("the tasks run", async () => (await holdfast.jobs.reports(job.id)).length > 0);
      const children = await until("both processes run", () => {
        const found = childrenOf(process.pid);
        return found.length === 2 ? found : null;
      });
      if (end === "SIGKILL") process.signal("SIGKILL");
      else process.tell("close");
      if (end === "close") await process.until("closed");
      await until("they have ended", () => !children.some(isRunning), 5_000);
      await process[Symbol.asyncDispose]();
      const { status } = await job.get();
      assert.equal(status, end === "close" ? "pending" : "processing");
    });
  }
});
