/**
 * Many clients claim and settle under limits at once, some die with their leases. A witness reads the leases all the time: at
 * no moment are there more than a limit allows.
 */
import assert from "node:assert/strict";
import { suite, test, type TestContext } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";

import { sql } from "../../src/database/sql.ts";
import type { ClaimedJob } from "../../src/jobs/store.ts";
import type { RuleChange } from "../../src/queues/store.ts";
import { newJob, nextId, done, upTo } from "../support/jobs.ts";
import { isLong, notItsTurn, reasonOf, runSeed, sized } from "../support/scale.ts";
import { seededRandom } from "../support/runtime.ts";
import { missing, scratchDatabase } from "../support/servers.ts";

const CLIENTS = 6;
const LANES = ["acme", "beta", "gamma", "delta"];
const JOBS = sized(150, 1_500);
const OF_LANE = 2;
const OF_QUEUE = 5;
const OF_TASK = 2;
/** A client that dies leaves its leases; they end after this long. */
const LEASE_MS = 300;
const RUN_MS_MAX = sized(60_000, 600_000);

const rule = (facts: Partial<RuleChange>): RuleChange => ({
  kind: "queue",
  name: "",
  concurrency: null,
  rate: null,
  weight: null,
  ...facts,
});

interface Count {
  readonly lane: string;
  readonly task: string;
  readonly running: number;
}

/** Reads until it is stopped. Returns the most that were seen at once. */
function witness(store: Store): { stop(): Promise<Record<"queue" | "lane" | "task", number>> } {
  const most = { queue: 0, lane: 0, task: 0 };
  const over = new AbortController();
  const look = async (): Promise<void> => {
    const rows = await store.db.engine.all<Count>(sql`
      select lane, task, count(*) as running from holdfast.lease group by lane, task`);
    const sum = (some: readonly Count[]): number =>
      some.reduce((all, { running }) => all + running, 0);
    most.queue = Math.max(most.queue, sum(rows));
    for (const lane of LANES) {
      most.lane = Math.max(most.lane, sum(rows.filter((row) => row.lane === lane)));
    }
    most.task = Math.max(most.task, sum(rows.filter(({ task }) => task === "mail.read")));
  };
  const looking = (async () => {
    while (!over.signal.aborted) await look();
  })();
  return {
    async stop() {
      over.abort();
      await looking;
      return most;
    },
  };
}

const ofEachLane = rule({ kind: "lanes", concurrency: OF_LANE });
const ofQueueAndTask = [
  rule({ concurrency: OF_QUEUE }),
  rule({ kind: "task", name: "mail.read", concurrency: OF_TASK }),
];

for (const kind of ["postgres", "mysql"] as const) {
  const skip = reasonOf(missing(kind), notItsTurn(kind));
  suite(`limits under load on ${kind}`, { skip }, () => {
    // With a limit of the queue all claims are serial, which would hide a gate of a lane that is not locked.
    test("of lanes alone are never exceeded", { timeout: RUN_MS_MAX }, async (t) => {
      const most = await race(kind, [ofEachLane], t);
      assertReached(most, { lane: OF_LANE });
    });

    test(
      "of the queue, of a task and of lanes hold together",
      { timeout: RUN_MS_MAX },
      async (t) => {
        const most = await race(kind, [...ofQueueAndTask, ofEachLane], t);
        assertReached(most, { queue: OF_QUEUE, lane: OF_LANE, task: OF_TASK });
      },
    );

    test(
      "of two queues: claims from both never wait for each other",
      { timeout: RUN_MS_MAX },
      (t) => claimFromTwoQueues(kind, t),
    );
  });
}

/** Claims that wait for each other's gates end by a deadlock: on PostgreSQL after a second, and all is done once more. */
async function claimFromTwoQueues(kind: "postgres" | "mysql", t: TestContext): Promise<void> {
  await using database = await scratchDatabase(kind);
  const first = await openStore(database.url);
  await first.migrate();
  const stores = [first];
  for (let n = 1; n < CLIENTS; n += 1) stores.push(await openStore(database.url));
  try {
    const queues = ["mails", "calls"];
    for (const queue of queues) {
      const rules = [rule({ concurrency: OF_QUEUE }), ofEachLane];
      await first.queues.change({ queue, rules }, { id: nextId(), actor: "ada" });
    }
    const jobs = Array.from({ length: JOBS }, (_, n) =>
      newJob({ lane: LANES[n % LANES.length] as string, queue: queues[n % 2] as string }),
    );
    await first.jobs.enqueue(jobs);
    const ended = new Set<string>();
    await Promise.all(
      stores.map(async (store, n) => {
        const wanted = upTo(2 * OF_QUEUE, { worker: `worker-${n}`, queues });
        for (let running: ClaimedJob[] = []; ended.size < JOBS;) {
          const cycle = await store.jobs.settleAndClaim(
            running.map((job) => done(job)),
            wanted,
          );
          for (const { id } of cycle.settled) ended.add(id);
          running = cycle.claimed;
        }
      }),
    );
    const repeated = stores.map((store) => store.db.load().transactions.repeated);
    t.diagnostic(`${JOBS} jobs; transactions repeated: ${repeated.join(", ")}; seed ${runSeed}`);
    assert.deepEqual(new Set(repeated), new Set([0]));
  } finally {
    for (const store of stores) await store.close();
  }
}

/** None is exceeded, and the run came close to each; the witness looks now and then, and in a sample it may miss the peak. */
function assertReached(
  most: Readonly<Record<string, number>>,
  limits: Readonly<Record<string, number>>,
): void {
  for (const [what, limit] of Object.entries(limits)) {
    const seen = most[what] ?? 0;
    assert.ok(
      seen <= limit && seen >= (isLong ? limit : limit - 1),
      `${what}: ${seen} of ${limit}`,
    );
  }
}

/** Every job is done once. Returns the most that ran at once. */
async function race(kind: "postgres" | "mysql", rules: readonly RuleChange[], t: TestContext) {
  await using database = await scratchDatabase(kind);
  const first = await openStore(database.url);
  await first.migrate();
  const stores = [first];
  for (let n = 1; n < CLIENTS; n += 1) stores.push(await openStore(database.url));
  const watcher = await openStore(database.url);
  try {
    await first.queues.change({ queue: "default", rules }, { id: nextId(), actor: "ada" });
    const jobs = Array.from({ length: JOBS }, (_, n) =>
      newJob({
        lane: LANES[n % LANES.length] as string,
        maxAttempts: 100,
        ...(n % 3 === 0 ? { task: "mail.read" } : {}),
      }),
    );
    await first.jobs.enqueue(jobs);
    const watching = witness(watcher);
    const ended = new Set<string>();
    await Promise.all(stores.map((store, n) => client(store, n, ended)));
    const most = await watching.stop();
    t.diagnostic(`${JOBS} jobs; most at once: ${JSON.stringify(most)}; seed ${runSeed}`);
    assert.equal(ended.size, JOBS);
    return most;
  } finally {
    for (const store of [...stores, watcher]) await store.close();
  }
}

/** Claims and settles; now and then it forgets what it has claimed, as a process that was killed does. */
async function client(store: Store, n: number, ended: Set<string>): Promise<void> {
  const random = seededRandom(runSeed + n);
  let running: ClaimedJob[] = [];
  for (let turn = 0; ended.size < JOBS; turn += 1) {
    const wanted = upTo(4, { worker: `worker-${n}-${turn}`, leaseMs: LEASE_MS });
    for (const job of running) {
      for (const { id } of await store.jobs.settle([done(job)])) ended.add(id);
    }
    running = [];
    await store.jobs.promoteDue({ limit: 100 });
    await store.jobs.reclaimExpired({ graceMs: 0, maxCrashes: 100, limit: 100 });
    const claimed = await store.jobs.claim(wanted);
    if (random() < 0.05) continue;
    running = claimed;
  }
}
