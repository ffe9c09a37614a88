/**
 * Jobs that a worker has claimed ahead of their turn.
 *
 * A worker at full speed claims more than it has places for. When a slow job comes between, the
 * jobs behind it wait in the worker's buffer, under leases of their own.
 */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import {
  defineTask,
  type Duration,
  type Holdfast,
  type Job,
  openHoldfast,
  type Worker,
} from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { keepLog, until, type KeptLog } from "./observe.ts";

after(assertNothingRuns);

/** Enough for a worker to get up speed. */
const QUICK_BEFORE = 2_000;
const QUICK_BEHIND = 50;

/** Short enough to wait for several, long enough for a busy machine. */
const SHORT_LEASE_MS = 1_500;

/** Long for a machine, short for a person. */
const SOON_MS = 15_000;

interface Backlog extends AsyncDisposable {
  readonly holdfast: Holdfast;
  readonly worker: Worker;
  readonly log: KeptLog;
  readonly slow: Job<unknown>;
  /** Jobs that the worker has claimed and not started, because the slow one has the only place. */
  readonly buffered: readonly string[];
  /** How often each job's task was called. */
  readonly runs: ReadonlyMap<string, number>;
  /** Lets the slow job end. */
  goOn(): void;
}

async function backlog(options: { lease?: Duration } = {}): Promise<Backlog> {
  const log = keepLog();
  const holdfast = await openHoldfast("sqlite::memory:", { logger: log.logger });
  const hold = Promise.withResolvers<void>();
  const runs = new Map<string, number>();
  const task = defineTask({
    name: "mixed",
    async run(speed: "quick" | "slow", { id }) {
      runs.set(id, (runs.get(id) ?? 0) + 1);
      if (speed === "slow") await hold.promise;
      return speed;
    },
  });
  await holdfast.enqueueMany(
    task,
    Array.from({ length: QUICK_BEFORE }, () => "quick" as const),
  );
  const slow = await holdfast.enqueue(task, "slow");
  const behind = await holdfast.enqueueMany(
    task,
    Array.from({ length: QUICK_BEHIND }, () => "quick" as const),
  );
  const { lease = "30s" } = options;
  const worker = await holdfast.startWorker({ tasks: [task], concurrency: 1, lease, grace: "1h" });
  await until("the slow job runs", () => runs.has(slow.id));
  await until("jobs wait behind it", () => worker.status().buffered > 0);
  const leased = new Set((await holdfast.leases.list()).map(({ id }) => id));
  const buffered = behind.map(({ id }) => id).filter((id) => leased.has(id));
  assert.ok(buffered.length > 0);
  return {
    holdfast,
    worker,
    log,
    slow,
    buffered,
    runs,
    goOn: () => hold.resolve(),
    async [Symbol.asyncDispose]() {
      hold.resolve();
      await holdfast.close();
    },
  };
}

async function allDone({ holdfast, buffered }: Backlog, except?: string): Promise<void> {
  await until("the jobs behind are done", async () => {
    const others = buffered.filter((id) => id !== except);
    const jobs = await Promise.all(others.map((id) => holdfast.jobs.get(id)));
    return jobs.every((job) => job?.status === "done");
  });
}

suite("a job that waits in a worker for its turn", () => {
  test("is handed back without using up an attempt when the worker stops", async () => {
    await using line = await backlog();
    const { holdfast, worker, slow, buffered, runs } = line;
    const stopped = worker.stop();
    await until("they are back", async () => (await holdfast.leases.list()).length === 1);
    for (const id of buffered) {
      const job = await holdfast.jobs.get(id);
      assert.deepEqual([job?.status, job?.attempts], ["pending", 0]);
      assert.ok(!runs.has(id));
    }
    line.goOn();
    await stopped;
    assert.equal((await slow.get()).status, "done");
    assert.ok(worker.status().released >= buffered.length);
  });

  test("is still its worker's after several leases, and runs once", async () => {
    await using line = await backlog({ lease: SHORT_LEASE_MS });
    const { worker, log, buffered, runs } = line;
    const claimedAt = Date.now();
    await until("several leases have passed", () => Date.now() - claimedAt > 3 * SHORT_LEASE_MS);
    line.goOn();
    await allDone(line);
    assert.deepEqual(log.of("job ownership lost"), []);
    assert.equal(worker.status().leasesLost, 0);
    assert.deepEqual(new Set(buffered.map((id) => runs.get(id))), new Set([1]));
  });

  test("is cancelled soon after the request, and does not run", async () => {
    await using line = await backlog();
    const { holdfast, buffered, runs } = line;
    const [cancelled = ""] = buffered;
    assert.equal(await holdfast.jobs.cancel(cancelled), "processing");
    const isCancelled = async () => (await holdfast.jobs.get(cancelled))?.status === "cancelled";
    await until("it is cancelled", isCancelled, SOON_MS);
    line.goOn();
    await allDone(line, cancelled);
    assert.equal(runs.get(cancelled), undefined, "a job ran that was cancelled before");
  });

  test("does not run when its lease was lost meanwhile", async () => {
    await using line = await backlog({ lease: SHORT_LEASE_MS });
    const { holdfast, worker, buffered, runs } = line;
    const [lost = ""] = buffered;
    const lease = (await holdfast.leases.list()).find(({ id }) => id === lost);
    const { epoch = 0 } = lease ?? {};
    // As good as lost: the fence is not current any more, and the next claim is at another epoch.
    const outcome = { kind: "suspended", delayMs: 3_600_000 } as const;
    const settled = await holdfast.store.jobs.settle([
      { id: lost, worker: worker.id, epoch, outcome },
    ]);
    assert.equal(settled.length, 1);
    await renewals(holdfast, 2);
    line.goOn();
    await allDone(line, lost);
    assert.equal(runs.get(lost), undefined, "a job ran that was not the worker's any more");
  });

  test("does not wait for a slow one while another worker is idle", async () => {
    await using line = await backlog();
    const { holdfast, buffered, runs } = line;
    const quick = defineTask({ name: "mixed", run: () => "done by the other" });
    await holdfast.startWorker({ tasks: [quick] });
    const isDone = async (id: string) => (await holdfast.jobs.get(id))?.status === "done";
    const allAreDone = async () => (await Promise.all(buffered.map(isDone))).every(Boolean);
    await until("the idle worker has done them", allAreDone, SOON_MS);
    for (const id of buffered) assert.equal(runs.get(id), undefined);
  });
});

/** Waits until the oldest lease was seen to be renewed this often. */
async function renewals(holdfast: Holdfast, count: number): Promise<void> {
  const heartbeats = new Set<number>();
  await until(`leases were renewed ${count} times`, async () => {
    const [lease] = await holdfast.leases.list({ limit: 1 });
    if (lease !== undefined) heartbeats.add(lease.heartbeatAt);
    return heartbeats.size > count;
  });
}
