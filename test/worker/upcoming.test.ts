/** Work that another process adds: the query of maintenance finds it, and wakes the loop that does it. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { tempFolder } from "../support/folder.ts";
import { until } from "./observe.ts";

after(assertNothingRuns);

/** Longer than a test waits: the worker's own timers find nothing in time. */
const NEVER = { poll: "10m", lease: "10m", heartbeat: "1m" } as const;

const tick = defineTask({ name: "tick", run() {} });
const other = defineTask({ name: "other", queue: "other", run() {} });

/** A worker, and another Holdfast on the same file, which notifies it only by writing. */
async function withWorker(body: (elsewhere: Holdfast) => Promise<void>): Promise<void> {
  using folder = tempFolder();
  const url = `sqlite:${folder.file(".db")}`;
  await using holdfast = await openHoldfast(url);
  await using elsewhere = await openHoldfast(url);
  const worker = await holdfast.startWorker({ tasks: [tick], ...NEVER });
  try {
    // Its loops have looked once, and wait.
    const { id } = await elsewhere.enqueue(tick, null);
    await until(
      "the worker is at work",
      async () => (await elsewhere.jobs.get(id))?.status === "done",
    );
    await body(elsewhere);
  } finally {
    await worker.stop();
  }
}

test("a worker runs the schedule that another process has created", async () => {
  await withWorker(async ({ schedules, jobs }) => {
    await schedules.create({ name: "often", task: tick, every: "1s" });
    await until(
      "it has run",
      async () => (await jobs.list({ task: "tick", status: "done" })).length > 1,
    );
  });
});

test("a worker carries out the bulk action that another process has started", async () => {
  await withWorker(async (elsewhere) => {
    const { id } = await elsewhere.enqueue(other, null);
    const filter = { queue: "other", status: "pending" } as const;
    await elsewhere.bulk.start({ action: "cancel", filter }, { actor: "ada" });
    await until("it is over", async () => (await elsewhere.jobs.get(id))?.status === "cancelled");
    assert.equal((await elsewhere.bulk.list())[0]?.status, "done");
  });
});

test("a worker runs the job that waited for a job outside of all flows", async () => {
  await withWorker(async (elsewhere) => {
    const first = await elsewhere.enqueue(tick, null, { delay: "500ms" });
    const { id } = await elsewhere.enqueue(tick, null, { after: [first.id] });
    await until("it has run", async () => (await elsewhere.jobs.get(id))?.status === "done");
  });
});
