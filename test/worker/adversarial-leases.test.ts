/** Leases under a keeper that is late, dead or locked out, and jobs that might never end. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Worker as Thread } from "node:worker_threads";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { openStore, type Store } from "../../src/app/store.ts";
import {
  defineTask,
  type Duration,
  type Holdfast,
  openHoldfast,
  StoreUnavailableError,
  type Worker,
} from "../../src/index.ts";
import { openTestHoldfast, testClock } from "../../src/testing/index.ts";
import { OUTAGES_MAX } from "../../src/jobs/outages.ts";
import { ABORT_GRACE_MS } from "../../src/worker/attempt.ts";
import { tempFolder } from "../support/folder.ts";
import { newJob } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { codeOf, keepLog, until, type KeptLog } from "./observe.ts";
import { wrapStore } from "./wrapped-store.ts";

after(assertNothingRuns);

/** Enough for a worker to get up speed and to claim ahead of its places. */
const QUICK_JOBS = 2_000;
/** Long for a machine, short for a person. */
const SOON_MS = 15_000;

suite("a lease", () => {
  for (const extendAt of [0.1, 0.5, 0.7, 0.8]) {
    test(`that is renewed at ${extendAt} of its length is never lost`, async () => {
      await using kit = await openTestHoldfast();
      const { holdfast, clock } = kit;
      const end = Promise.withResolvers<string>();
      const task = defineTask({ name: "long", run: () => end.promise });
      const worker = await holdfast.startWorker({ tasks: [task], lease: "1s", extendAt });
      const jobs = await holdfast.enqueueMany(task, [1, 2, 3]);
      await clock.advance("1m");
      end.resolve("undisturbed");
      await clock.advance("1s");
      const { done, leasesLost, released } = worker.status();
      const expected = { done: 3, leasesLost: 0, released: 0 };
      assert.deepEqual({ done, leasesLost, released }, expected);
      for (const job of jobs) assert.equal((await job.get()).epoch, 1);
    });
  }

  test("that a task loses in every outage counts in the end, so its job ends", async () => {
    const clock = testClock();
    const store = wrapStore(await openStore("sqlite::memory:", { runtime: clock }), () => ({
      jobs: {
        async extend() {
          throw new StoreUnavailableError({ problem: "No renewal gets through.", remedy: "None." });
        },
      },
    }));
    const holdfast = await openHoldfast(store, { runtime: clock });
    let runs = 0;
    const task = defineTask({
      name: "losing",
      retry: { maxAttempts: 2 },
      run(_input: null, { signal }) {
        runs += 1;
        return new Promise<null>((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error));
        });
      },
    });
    const worker = await holdfast.startWorker({ tasks: [task], lease: "1s" });
    const job = await holdfast.enqueue(task, null);
    await clock.advance("5m");
    const { status, attempts, lastError } = await job.get();
    const expected = { runs: OUTAGES_MAX + 2, status: "failed", attempts: 2 };
    assert.deepEqual({ runs, status, attempts }, expected);
    assert.equal(lastError?.code, "LEASE_LOST");
    assert.equal(worker.status().leasesLost, OUTAGES_MAX + 2);
    const closed = holdfast.close();
    await clock.advance("1m");
    await closed;
  });
});

suite("a schema that takes longer than the job's timeout", () => {
  test("fails the attempt, and the task is never called", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const checked = Promise.withResolvers<void>();
    let slow = false;
    let runs = 0;
    const input: StandardSchemaV1 = {
      "~standard": {
        version: 1,
        vendor: "test",
        async validate(value) {
          if (slow) await checked.promise;
          return { value };
        },
      },
    };
    const task = defineTask({
      name: "slowly checked",
      timeout: 200,
      retry: { maxAttempts: 1 },
      input,
      run: () => void (runs += 1),
    });
    const job = await holdfast.enqueue(task, null);
    slow = true;
    await holdfast.startWorker({ tasks: [task] });
    await clock.advance(200 + ABORT_GRACE_MS + 1_000);
    const { status, lastError } = await job.get();
    assert.deepEqual([status, lastError?.code], ["failed", "JOB_TIMEOUT"]);
    checked.resolve();
    await clock.advance("1s");
    assert.equal(runs, 0, "the task ran after its job had failed");
  });
});

suite("a job whose id Holdfast did not generate", () => {
  test("is reclaimed when its lease expired, and delays no other job", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const echo = defineTask({ name: "echo", run: (value: unknown) => value });
    const odd = newJob({ id: "z".repeat(36), task: "echo" });
    await holdfast.store.jobs.enqueue([odd]);
    const [lease] = await holdfast.leases.acquire({ worker: "mine", lease: "1s" });
    assert.equal(lease?.id, odd.id);
    const delayed = await holdfast.enqueue(echo, "in time", { delay: "10s" });
    await holdfast.startWorker({ tasks: [echo], grace: 0 });
    await clock.advance("2m");
    assert.equal((await delayed.get()).status, "done");
    const { status, crashes } = (await holdfast.jobs.get(odd.id)) ?? {};
    assert.deepEqual({ status, crashes }, { status: "done", crashes: 1 });
  });
});

interface Backlog {
  readonly worker: Worker;
  /** Jobs that the worker has claimed and not started. */
  readonly buffered: ReadonlyMap<string, { readonly heartbeatAt: number }>;
  /** With what the slow job was aborted. */
  readonly reasons: readonly string[];
  /** Lets the slow job end. */
  readonly goOn: () => void;
}

/** Brings a worker to where one slow job has its only place and others wait behind it. */
async function backlog(holdfast: Holdfast, lease: Duration): Promise<Backlog> {
  const hold = Promise.withResolvers<void>();
  const reasons: string[] = [];
  let slowRuns = false;
  const task = defineTask({
    name: "mixed",
    async run(speed: string, { signal }) {
      if (speed === "quick") return;
      slowRuns = true;
      signal.addEventListener("abort", () => reasons.push(codeOf(signal.reason)));
      await hold.promise;
    },
  });
  const quick = Array.from({ length: QUICK_JOBS }, () => "quick");
  await holdfast.enqueueMany(task, [...quick, "slow"]);
  const behind = await holdfast.enqueueMany(task, quick.slice(0, 50));
  const worker = await holdfast.startWorker({ tasks: [task], concurrency: 1, lease, grace: "1h" });
  const isFull = (): boolean => slowRuns && worker.status().buffered > 0;
  await until("the slow job runs and others wait", isFull);
  const waiting = new Set(behind.map(({ id }) => id));
  const leases = (await holdfast.leases.list()).filter(({ id }) => waiting.has(id));
  const buffered = new Map(leases.map((one) => [one.id, one]));
  assert.ok(buffered.size > 0);
  return { worker, buffered, reasons, goOn: () => hold.resolve() };
}

interface Lockable {
  readonly store: Store;
  readonly lock: () => void;
  readonly unlock: () => void;
}

/** A store that stops answering, as a database does while another process has locked it. */
function lockable(real: Store): Lockable {
  const unlocked = Promise.withResolvers<void>();
  let locked = false;
  const free = async (): Promise<void> => (locked ? unlocked.promise : undefined);
  const store = wrapStore(real, () => ({
    jobs: {
      extend: (...args) => free().then(() => real.jobs.extend(...args)),
      release: (...args) => free().then(() => real.jobs.release(...args)),
      settle: (...args) => free().then(() => real.jobs.settle(...args)),
      settleAndClaim: (...args) => free().then(() => real.jobs.settleAndClaim(...args)),
    },
  }));
  return {
    store,
    lock: () => void (locked = true),
    unlock() {
      locked = false;
      unlocked.resolve();
    },
  };
}

suite("while the database is locked", () => {
  test("a task's signal still aborts when its lease can no longer be trusted", async () => {
    const { store, lock, unlock } = lockable(await openStore("sqlite::memory:"));
    await using holdfast = await openHoldfast(store);
    // Longer than a job waits for its turn: those behind are handed back first, and get stuck.
    const { reasons, goOn } = await backlog(holdfast, 1_500);
    lock();
    try {
      await until("it was aborted", () => reasons.length > 0, SOON_MS);
      assert.deepEqual(reasons, ["LEASE_LOST"]);
    } finally {
      unlock();
      goOn();
    }
  });
});

suite("a lease renewer whose thread dies", () => {
  test("is replaced: also the jobs that wait for their turn are renewed", async () => {
    using folder = tempFolder();
    const log: KeptLog = keepLog();
    const threads: Thread[] = [];
    const note = (thread: Thread): void => void threads.push(thread);
    process.on("worker", note);
    await using holdfast = await openHoldfast(`sqlite:${folder.file(".db")}`, {
      logger: log.logger,
    });
    // The renewer that takes over renews at once; otherwise the next renewal comes after half of the lease.
    const { worker, buffered, goOn } = await backlog(holdfast, "1m");
    process.off("worker", note);
    assert.equal(threads.length, 1);
    await until(
      "it is ready",
      () => log.of("the lease renewer's thread is ready").length > 0,
      SOON_MS,
    );
    await threads[0]?.terminate();
    const renewed = new Set<string>();
    await until(
      "all are renewed",
      async () => {
        for (const { id, heartbeatAt } of await holdfast.leases.list()) {
          if (heartbeatAt > (buffered.get(id)?.heartbeatAt ?? Infinity)) renewed.add(id);
        }
        return renewed.size === buffered.size;
      },
      SOON_MS,
    ).finally(goOn);
    const ended =
      "the lease renewer's thread ended; leases are renewed on the main thread from now on";
    assert.equal(log.of(ended).length, 1);
    assert.equal(worker.status().leasesLost, 0);
  });

  test("before it was ready is done without, from the first lease on", async () => {
    using folder = tempFolder();
    const kill = (thread: Thread): void => void thread.terminate();
    process.once("worker", kill);
    await using holdfast = await openHoldfast(`sqlite:${folder.file(".db")}`);
    const slow = defineTask({ name: "slow", run: () => sleep(3_000, null) });
    const worker = await holdfast.startWorker({ tasks: [slow], lease: 1_000 });
    const job = await holdfast.enqueue(slow, null);
    await job.result({ timeout: SOON_MS });
    assert.equal(worker.status().leasesLost, 0);
    assert.equal((await holdfast.jobs.get(job.id))?.attempts, 1);
  });

  test("is not missed by a worker at rest: it has none before its first job", async () => {
    using folder = tempFolder();
    const threads: Thread[] = [];
    const note = (thread: Thread): void => void threads.push(thread);
    process.on("worker", note);
    await using holdfast = await openHoldfast(`sqlite:${folder.file(".db")}`);
    const quick = defineTask({ name: "quick", run: () => null });
    const worker = await holdfast.startWorker({
      tasks: [quick],
      heartbeat: 50,
      heartbeatTimeout: "1s",
    });
    const beats = async (): Promise<number> =>
      (await holdfast.workers.list()).find(({ id }) => id === worker.id)?.heartbeats ?? 0;
    await until("it gives signs of life", async () => (await beats()) > 3, SOON_MS);
    assert.equal(threads.length, 0);
    await (await holdfast.enqueue(quick, null)).result({ timeout: SOON_MS });
    process.off("worker", note);
    assert.equal(threads.length, 1);
  });
});
