/**
 * Worker processes of two queues with limits, killed and frozen one after the other. After each fault both queues go on
 * within about a lease. When the faults end, they run at their full rate.
 */
import assert from "node:assert/strict";
import { after, suite, test, type TestContext } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import { readNow } from "../../src/database/engine.ts";
import { sql } from "../../src/database/sql.ts";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { seededRandom } from "../support/runtime.ts";
import { isLong, notItsTurn, reasonOf, runSeed, sized } from "../support/scale.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { isStopped, WorkerProcess } from "./worker-process.ts";

after(assertNothingRuns);

const WORKERS = sized(3, 5);
const FAULTS = sized(3, 30);
const LEASE_MS = 2_000;
/** The share of faults that freeze a process instead of killing it. */
const FREEZES = 0.6;
/** After a fault: the lease of the worker has to end, its jobs are taken back, and these machines are busy. */
const GOES_ON_MS_MAX = 3 * LEASE_MS;
/** More than may have been running when the fault came. */
const PROGRESS = 10;
/** Jobs a second. */
const RATE = 20;
const COUNTED = sized(30, 100);
/** A busy machine misses starts that a rate would allow. */
const SHARE_OF_RATE = isLong ? 0.5 : 0.2;
const BACKLOG = sized(600, 2_000);
const LANES = 4;
const QUEUES = ["limited", "paced"] as const;

type Counts = Readonly<Record<(typeof QUEUES)[number], number>>;

const worker = {
  lease: LEASE_MS,
  grace: 100,
  maintenanceInterval: 100,
  poll: 200,
  maxCrashes: 1_000,
  concurrency: 10,
  queues: [...QUEUES],
};

suite("queues with limits", { concurrency: true, skip: noFreezing() }, () => {
  for (const kind of ["postgres", "mysql"] as const) {
    const skip = reasonOf(missing(kind), notItsTurn(kind));
    test(
      `on ${kind} outlive workers that freeze and die, and then run at full rate`,
      { skip },
      (t) => outlive(kind, t),
    );
  }
});

async function outlive(kind: "postgres" | "mysql", t: TestContext): Promise<void> {
  await using database = await scratchDatabase(kind);
  const { url } = database;
  await using holdfast = await openHoldfast(url);
  await holdfast.queues.set("limited", {
    concurrency: 6,
    eachLane: { concurrency: 2 },
    tasks: { pick: { concurrency: 3 } },
  });
  await holdfast.queues.set("paced", { rate: { count: RATE, per: "1s" } });
  const store = await openStore(url);
  const crew = Array.from({ length: WORKERS }, (_, n) => start(url, n));
  try {
    const random = seededRandom(runSeed);
    const delays: number[] = [];
    await enqueueMore(url);
    await Promise.all(crew.map((process) => process.until("ready")));
    for (let n = 0; n < FAULTS; n += 1) {
      for (const at of crew.keys()) if (crew[at]?.hasEnded === true) crew[at] = start(url, at);
      await goesOn(store);
      const at = Math.floor(random() * WORKERS);
      const delay = await (random() < FREEZES
        ? freeze(store, crew, at)
        : kill(store, crew, { at, url }));
      delays.push(Math.round(delay));
      await enqueueMore(url);
    }
    const rate = await pace(store);
    t.diagnostic(
      `after each fault it took [${delays.join(", ")}] ms until both went on; then ${rate.toFixed(1)} jobs a second ` +
        `of at most ${RATE}; seed ${runSeed}`,
    );
    assert.ok(rate >= RATE * SHARE_OF_RATE, `${rate} jobs a second`);
  } finally {
    for (const process of crew) await process[Symbol.asyncDispose]();
    await store.close();
  }
}

function start(url: string, n: number): WorkerProcess {
  return new WorkerProcess("limits-faults-child.ts", { url, role: `worker ${n}`, worker });
}

async function kill(
  store: Store,
  crew: WorkerProcess[],
  { at, url }: { at: number; url: string },
): Promise<number> {
  crew[at]?.signal("SIGKILL");
  crew[at] = start(url, at);
  return goesOn(store);
}

/** Past the lease: its jobs are taken back before it wakes up. */
async function freeze(store: Store, crew: readonly WorkerProcess[], at: number): Promise<number> {
  const victim = crew[at] as WorkerProcess;
  victim.signal("SIGSTOP");
  await until("it is frozen", () => victim.hasEnded || isStopped(victim.pid));
  const frozenAt = await readNow(store.db.engine);
  const delay = await goesOn(store);
  await until("its jobs are taken back", async () => (await leasesBefore(store, frozenAt)) === 0);
  victim.signal("SIGCONT");
  return delay;
}

/** Waits until both queues have made progress. Returns how long it took. */
async function goesOn(store: Store): Promise<number> {
  const since = performance.now();
  const before = await countsOf(store);
  await until(
    "both queues go on",
    async () => {
      const now = await countsOf(store);
      return QUEUES.every((queue) => now[queue] >= before[queue] + PROGRESS);
    },
    GOES_ON_MS_MAX,
  );
  return performance.now() - since;
}

/** Jobs a second in the queue with a rate. */
async function pace(store: Store): Promise<number> {
  const before = (await countsOf(store)).paced;
  const since = performance.now();
  const counted = await until("the queue is counted", async () => {
    const count = (await countsOf(store)).paced - before;
    return count >= COUNTED ? count : null;
  });
  return (counted / (performance.now() - since)) * 1_000;
}

async function countsOf(store: Store): Promise<Counts> {
  const rows = await store.db.engine.all<{ queue: string; ended: number }>(
    sql`select queue, count(*) as ended from holdfast.finished group by queue`,
  );
  const of = (queue: string): number => rows.find((row) => row.queue === queue)?.ended ?? 0;
  return { limited: of("limited"), paced: of("paced") };
}

async function leasesBefore(store: Store, claimedAt: number): Promise<number> {
  const [row] = await store.db.engine.all<{ leases: number }>(
    sql`select count(*) as leases from holdfast.lease where claimed_at <= ${claimedAt}`,
  );
  return Number(row?.leases);
}

/** So many that neither queue runs dry before the next fault. */
async function enqueueMore(url: string): Promise<void> {
  await using holdfast = await openHoldfast(url);
  const inputs = Array.from({ length: BACKLOG }, () => null);
  for (const [n, name] of ["pick", "pack"].entries()) {
    const task = defineTask({ name, run: (_input: null) => {} });
    let lane = n;
    await holdfast.enqueueMany(task, inputs.slice(n * (BACKLOG / 2)), () => ({
      queue: "limited",
      lane: `lane ${(lane += 1) % LANES}`,
    }));
    if (n === 0) await holdfast.enqueueMany(task, inputs.slice(0, BACKLOG / 2), { queue: "paced" });
  }
}

function noFreezing(): string | false {
  return process.platform === "linux" ? false : "only Linux shows that a process is frozen";
}
