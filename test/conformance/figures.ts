/** Figures: what stands where at one instant, and what came and ended in every minute, each counted once for all. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as letOthersRun } from "node:timers/promises";
import { firstIdAt } from "../../src/core/id.ts";
import { statuses, type Status } from "../../src/core/job.ts";
import { OTHER_QUEUES } from "../../src/core/name.ts";
import type { Counts } from "../../src/stats/counts.ts";
import { FOLD_LAG_MS, QUEUES_MAX } from "../../src/stats/minute-totals.ts";
import type { MinuteStats } from "../../src/stats/spans.ts";
import { sql } from "../../src/database/sql.ts";
import type { ClaimedJob, NewJob } from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import type { Bundle, Group, Open } from "../support/bundle.ts";
import {
  claimOne,
  done,
  enqueueOne,
  failed,
  HOUR_MS,
  jobIn,
  newJob,
  nextId,
  released,
  retry,
  settleOne,
  upTo,
} from "../support/jobs.ts";

const MINUTE_MS = 60_000;
const EVERY_MS = 30_000;
const WEEK_MS = 7 * 24 * HOUR_MS;
const count = { everyMs: EVERY_MS };
const all = { forMs: WEEK_MS, limit: 10_000 };
const NONE = Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>;

/** An id that was made at this instant. */
function idAt(at: number): string {
  return firstIdAt(at).slice(0, 24) + nextId().slice(24);
}

async function arrive({ store, clock }: Bundle, facts: Partial<NewJob> = {}): Promise<NewJob> {
  return enqueueOne(store, { id: idAt(clock.now()), ...facts });
}

/** Enqueues a job and runs it for this long. */
async function run(
  bundle: Bundle,
  end: (job: ClaimedJob) => ReturnType<typeof done>,
  { queue = "default", forMs = 0 } = {},
): Promise<void> {
  await arrive(bundle, { queue });
  const job = await claimOne(bundle.store, { queues: [queue] });
  bundle.clock.advance(forMs);
  await settleOne(bundle.store, end(job));
}

/** Lets time pass until a minute begins, and gives it. */
function nextMinute({ clock }: Bundle): number {
  const minute = (Math.floor(clock.now() / MINUTE_MS) + 1) * MINUTE_MS;
  clock.set(minute);
  return minute;
}

/** Opens a database in which all minutes are folded that are over. */
async function openFolded(open: Open): Promise<Bundle> {
  const bundle = await open();
  const minute = nextMinute(bundle);
  await bundle.byHand(sql`update holdfast.counts set folded_until = ${minute} where id = 1`);
  return bundle;
}

/** Lets time pass until all minutes up to now are over, and folds them. */
async function foldAll(bundle: Bundle): Promise<void> {
  bundle.clock.set(nextMinute(bundle) + FOLD_LAG_MS);
  while ((await bundle.store.stats.foldMinutes({ limit: 100 })) > 0);
}

const figuresOf = (minute: number, facts: Partial<MinuteStats>): MinuteStats => ({
  minute,
  queue: "default",
  arrived: 0,
  done: 0,
  failed: 0,
  cancelled: 0,
  expired: 0,
  runMsSum: 0,
  runMsMax: 0,
  ...facts,
});

function liveOf({ queues }: Counts): number {
  const live = ["scheduled", "pending", "processing", "waiting", "retry"] as const;
  return queues.reduce((sum, { counts }) => {
    return sum + live.reduce((jobs, status) => jobs + counts[status], 0);
  }, 0);
}

export const figures: Group = (open) => {
  counting(open);
  turns(open);
  folding(open);
  disorder(open);
};

const counting: Group = (open) => {
  test("there are no figures before the first count", async () => {
    const { store } = await open();
    assert.equal(await store.stats.counts(), null);
    assert.deepEqual(await store.stats.minutes(all), []);
  });

  test("a count has the jobs of every status of every queue, and the oldest pending job", async () => {
    const bundle = await openFolded(open);
    const { store, clock } = bundle;
    const startedAt = clock.now();
    for (const status of statuses.toReversed()) {
      const queue = status === "pending" ? "default" : `queue of ${status}`;
      await jobIn(store, status, { queue, id: idAt(clock.now()) });
      clock.advance(10);
    }
    await arrive(bundle);
    await foldAll(bundle);
    const taken = await store.stats.takeCounts(count);
    assert.equal(taken?.countedAt, clock.now());
    const depth = (queue: string) => taken?.queues.find((each) => each.queue === queue);
    for (const status of statuses) {
      if (status === "pending") continue;
      assert.deepEqual(depth(`queue of ${status}`), {
        queue: `queue of ${status}`,
        counts: { ...NONE, [status]: 1 },
        oldestPendingAt: null,
      });
    }
    const oldestPendingAt = startedAt + 10 * statuses.toReversed().indexOf("pending");
    assert.deepEqual(depth("default"), {
      queue: "default",
      counts: { ...NONE, pending: 2 },
      oldestPendingAt,
    });
    clock.advance(700);
    assert.deepEqual(await store.stats.counts(), { ...taken, ageMs: 700 });
  });

  test("a count takes the place of the one before, also when there is nothing to tell", async () => {
    const { store, clock } = await open();
    const { id } = await enqueueOne(store);
    assert.equal((await store.stats.takeCounts(count))?.queues.length, 1);
    await store.jobs.cancel(id);
    clock.advance(EVERY_MS);
    const [queue] = (await store.stats.takeCounts(count))?.queues ?? [];
    assert.deepEqual(queue?.counts, { ...NONE, cancelled: 1 });
    assert.deepEqual((await store.stats.counts())?.queues, [queue]);
    assert.equal((await store.stats.counts())?.ageMs, 0);
  });

  test("jobs that ended in this minute are counted, and stay counted when they are pruned", async () => {
    const bundle = await openFolded(open);
    const { store, clock } = bundle;
    await run(bundle, done);
    const first = await store.stats.takeCounts(count);
    assert.deepEqual(first?.queues[0]?.counts, { ...NONE, done: 1 });
    const [minute] = await store.stats.minutes(all);
    assert.deepEqual([minute?.arrived, minute?.done], [1, 1]);
    await foldAll(bundle);
    assert.deepEqual(
      await store.stats.minutes(all),
      [minute],
      "the fold replaces what was counted before",
    );
    const retention = { done: 0, failed: 0, cancelled: 0, expired: 0 };
    clock.advance(EVERY_MS);
    assert.equal(await store.jobs.prune({ retention, limit: 10 }), 1);
    const taken = await store.stats.takeCounts(count);
    assert.deepEqual(taken?.queues[0]?.counts, { ...NONE, done: 1 });
  });

  test("a count is of one instant: no job is missed or counted twice while all are being moved", async () => {
    const { store, clock, alone, another } = await open();
    await store.jobs.enqueue(Array.from({ length: 60 }, () => newJob({ maxAttempts: 1_000_000 })));
    const course = { over: false, moves: 0 };
    const move = async (mover: Store, worker: string): Promise<void> => {
      while (!course.over) {
        const claimed = await mover.jobs.claim(upTo(7, { worker }));
        const ends = claimed.map((job, n) =>
          n % 2 === 0 ? released(job) : retry(job, { delayMs: 0 }),
        );
        course.moves += (await mover.jobs.settle(ends)).length;
        await mover.jobs.promoteDue({ limit: 100 });
        await letOthersRun();
      }
    };
    const movers = alone === null ? [await another(), await another(), await another()] : [store];
    const moving = movers.map((mover, n) => move(mover, `worker-${n}`));
    const seen: number[] = [];
    while (course.moves < 60 || seen.length < 20) {
      const taken = await store.stats.takeCounts({ everyMs: 1 });
      if (taken !== null) seen.push(liveOf(taken));
      clock.advance(10);
      await letOthersRun();
    }
    course.over = true;
    await Promise.all(moving);
    assert.deepEqual(new Set(seen), new Set([60]));
  });

  test("with too many queues, the largest are listed, and the others are combined", async () => {
    const bundle = await openFolded(open);
    const { store, clock } = bundle;
    const queues = Array.from({ length: QUEUES_MAX + 4 }, (_, n) => `customer-${n}`);
    const id = (): string => idAt(clock.now());
    await store.jobs.enqueue(
      [...queues, ...queues.slice(2)].map((queue) => newJob({ queue, id: id() })),
    );
    const taken = await store.stats.takeCounts(count);
    assert.equal(taken?.queues.length, QUEUES_MAX + 1);
    assert.equal(liveOf(taken), 2 * QUEUES_MAX + 6);
    // Four of two jobs and the two of one.
    const others = taken.queues.find(({ queue }) => queue === OTHER_QUEUES);
    assert.deepEqual([others?.counts.pending, others?.oldestPendingAt], [6, clock.now()]);
    assert.deepEqual((await store.stats.counts())?.queues, taken.queues);
    await foldAll(bundle);
    const rows = await store.stats.minutes(all);
    assert.equal(rows.length, QUEUES_MAX + 1);
    assert.equal(rows.find(({ queue }) => queue === OTHER_QUEUES)?.arrived, 6);
  });
};

const turns: Group = (open) => {
  test("when many processes want to count, one does, and no other until the next interval", async () => {
    const { store, clock, alone, another } = await open();
    const stores = alone === null ? [store, await another(), await another()] : [store];
    const asked = (): Promise<(Counts | null)[]> =>
      Promise.all(
        stores.flatMap((each) => [each.stats.takeCounts(count), each.stats.takeCounts(count)]),
      );
    for (let round = 0; round < 5; round += 1) {
      const counts = (await asked()).filter((each) => each !== null);
      assert.equal(counts.length, 1);
      assert.equal(counts[0]?.countedAt, clock.now());
      clock.advance(EVERY_MS - 1);
      assert.deepEqual(new Set(await asked()), new Set([null]));
      clock.advance(1);
    }
  });

  test("after a count, no process counts for a hundred times as long as it took", async () => {
    const { store, clock, byHand } = await open();
    assert.notEqual(await store.stats.takeCounts(count), null);
    await byHand(sql`update holdfast.counts set took_ms = 2000 where id = 1`);
    clock.advance(200_000 - 1);
    assert.equal(await store.stats.takeCounts(count), null);
    clock.advance(1);
    assert.notEqual(await store.stats.takeCounts(count), null);
  });

  test("a process that died while counting is replaced at the next interval", async () => {
    const { store, clock, byHand } = await open();
    await byHand(sql`update holdfast.counts set begun_at = ${clock.now()} where id = 1`);
    clock.advance(EVERY_MS - 1);
    assert.equal(await store.stats.takeCounts(count), null);
    assert.equal(await store.stats.counts(), null);
    clock.advance(1);
    assert.notEqual(await store.stats.takeCounts(count), null);
  });

  test("a count that fails says how long it took, and the next one counts when it is time", async () => {
    const { store, clock, byHand } = await open();
    for (const minute of [MINUTE_MS, 2 * MINUTE_MS]) {
      // Two of them are more than there is room for.
      await byHand(sql`
        insert into holdfast.minute_total (minute, queue, arrived, done, failed, cancelled, run_ms_sum, run_ms_max)
        values (${minute}, 'mail', 0, 9223372036854775807, 0, 0, 0, 0)`);
    }
    await byHand(sql`update holdfast.counts set took_ms = 7 where id = 1`);
    await assert.rejects(store.stats.takeCounts(count));
    assert.equal(await byHand(sql`update holdfast.counts set took_ms = 1 where took_ms = 0`), 1);
    assert.equal(await store.stats.counts(), null);
    await byHand(sql`delete from holdfast.minute_total`);
    clock.advance(EVERY_MS - 1);
    assert.equal(await store.stats.takeCounts(count), null);
    clock.advance(1);
    assert.notEqual(await store.stats.takeCounts(count), null);
  });

  test("a clock that is set back does not stop the counting", async () => {
    const { store, clock } = await open();
    assert.notEqual(await store.stats.takeCounts(count), null);
    clock.set(clock.now() - HOUR_MS);
    assert.equal((await store.stats.takeCounts(count))?.countedAt, clock.now());
    assert.equal(await store.stats.takeCounts(count), null);
  });
};

const folding: Group = (open) => {
  test("every minute has the jobs that arrived and ended in it, by queue", async () => {
    const bundle = await openFolded(open);
    const { store, clock } = bundle;
    const first = nextMinute(bundle);
    await run(bundle, done, { forMs: 400 });
    await run(bundle, done, { forMs: 100 });
    await run(bundle, failed, { forMs: 50 });
    await run(bundle, done, { queue: "mail", forMs: 7 });
    await store.jobs.cancel((await arrive(bundle, { queue: "mail" })).id);
    clock.set(first + MINUTE_MS - 1);
    await arrive(bundle);
    const second = nextMinute(bundle);
    await settleOne(store, done(await claimOne(store)));
    nextMinute(bundle); // in which nothing happens
    await foldAll(bundle);
    const default1 = { arrived: 4, done: 2, failed: 1, runMsSum: 550, runMsMax: 400 };
    const mail = { queue: "mail", arrived: 2, done: 1, cancelled: 1, runMsSum: 7, runMsMax: 7 };
    const told = [
      figuresOf(first, default1),
      figuresOf(first, mail),
      figuresOf(second, { done: 1 }),
    ];
    assert.deepEqual(await store.stats.minutes(all), told);
    assert.deepEqual(await store.stats.minutes({ ...all, queue: "mail" }), [told[1]]);
    assert.deepEqual(await store.stats.minutes({ ...all, limit: 2 }), told.slice(1));
    const sinceMs = clock.now() - second;
    assert.deepEqual(await store.stats.minutes({ ...all, forMs: sinceMs + 1 }), [told[2]]);
    assert.deepEqual(await store.stats.minutes({ ...all, forMs: sinceMs }), []);
  });

  test("a minute is folded when it is over and its transactions have had time to commit", async () => {
    const bundle = await openFolded(open);
    const { store, clock } = bundle;
    const minute = nextMinute(bundle);
    clock.advance(FOLD_LAG_MS);
    await store.stats.foldMinutes({ limit: 10 });
    await run(bundle, done);
    clock.set(minute + MINUTE_MS + FOLD_LAG_MS - 1);
    assert.equal(await store.stats.foldMinutes({ limit: 10 }), 0);
    assert.deepEqual(await store.stats.minutes(all), []);
    clock.advance(1);
    assert.equal(await store.stats.foldMinutes({ limit: 10 }), 1);
    assert.deepEqual(await store.stats.minutes(all), [figuresOf(minute, { arrived: 1, done: 1 })]);
    assert.equal(await store.stats.foldMinutes({ limit: 10 }), 0);
  });

  test("when many processes fold, one does, and every job is counted once", async () => {
    const bundle = await openFolded(open);
    const { store, clock, alone, another } = bundle;
    const stores = alone === null ? [store, await another(), await another()] : [store];
    const minutes: number[] = [];
    for (let round = 0; round < 5; round += 1) {
      minutes.push(nextMinute(bundle));
      await run(bundle, done, { forMs: 3 });
    }
    clock.set(nextMinute(bundle) + FOLD_LAG_MS);
    let folded = 0;
    for (let round = 0; round < 5; round += 1) {
      const asked = stores.flatMap((each) => [
        each.stats.foldMinutes({ limit: 2 }),
        each.stats.foldMinutes({ limit: 2 }),
      ]);
      folded += (await Promise.all(asked)).reduce((sum, n) => sum + n, 0);
    }
    assert.equal(folded, 6); // with the one between the last that was folded and the first of these
    assert.deepEqual(
      await store.stats.minutes(all),
      minutes.map((minute) => figuresOf(minute, { arrived: 1, done: 1, runMsSum: 3, runMsMax: 3 })),
    );
  });

  test("minutes that are folded again are the same", async () => {
    const bundle = await openFolded(open);
    const { store, byHand } = bundle;
    const minute = nextMinute(bundle);
    await run(bundle, done);
    await foldAll(bundle);
    const told = await store.stats.minutes(all);
    assert.equal(told.length, 1);
    await byHand(sql`update holdfast.counts set folded_until = ${minute} where id = 1`);
    assert.equal(await store.stats.foldMinutes({ limit: 10 }), 1);
    assert.deepEqual(await store.stats.minutes(all), told);
  });

  test("old minutes are deleted, as many as requested", async () => {
    const bundle = await openFolded(open);
    const { store, clock } = bundle;
    for (let round = 0; round < 4; round += 1) {
      nextMinute(bundle);
      await arrive(bundle, { queue: "mail" });
      await arrive(bundle);
    }
    await foldAll(bundle);
    const minutes = [...new Set((await store.stats.minutes(all)).map(({ minute }) => minute))];
    clock.set((minutes[3] as number) + 1);
    assert.equal(await store.stats.pruneMinutes({ forMs: MINUTE_MS, limit: 1 }), 2); // the whole minute
    assert.equal(await store.stats.pruneMinutes({ forMs: MINUTE_MS, limit: 10 }), 4);
    assert.equal(await store.stats.pruneMinutes({ forMs: MINUTE_MS, limit: 10 }), 0);
    const left = await store.stats.minutes(all);
    assert.deepEqual(new Set(left.map(({ minute }) => minute)), new Set(minutes.slice(3)));
  });
};

const disorder: Group = (open) => {
  test("a database that has jobs already is begun with its last hour", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    await arrive(bundle);
    clock.advance(HOUR_MS - MINUTE_MS);
    const minute = nextMinute(bundle);
    await run(bundle, done);
    clock.set(minute + HOUR_MS);
    assert.equal(await store.stats.foldMinutes({ limit: 1_000 }), 59); // the last is not over long enough
    assert.deepEqual(
      (await store.stats.minutes(all)).map((row) => row.minute),
      [minute],
    );
  });

  test("after a long time without folding, as many minutes are caught up as requested", async () => {
    const bundle = await openFolded(open);
    const { store, clock } = bundle;
    const minute = nextMinute(bundle);
    await arrive(bundle);
    clock.set(minute + 2 * HOUR_MS + FOLD_LAG_MS);
    const folds: number[] = [];
    for (let n = 50; n === 50; folds.push(n)) n = await store.stats.foldMinutes({ limit: 50 });
    assert.deepEqual(folds, [50, 50, 21]);
    assert.deepEqual(await store.stats.minutes(all), [figuresOf(minute, { arrived: 1 })]);
  });

  test("minutes older than the retention of minute totals are not caught up", async () => {
    const bundle = await openFolded(open);
    const { store, clock } = bundle;
    nextMinute(bundle);
    await arrive(bundle);
    clock.advance(WEEK_MS + HOUR_MS);
    assert.equal(await store.stats.foldMinutes({ limit: 3 }), 3);
    assert.deepEqual(await store.stats.minutes({ ...all, forMs: 2 * WEEK_MS }), []);
  });

  test("ids of clocks that are a minute wrong, and of jobs that were long on their way, are counted once", async () => {
    const bundle = await openFolded(open);
    const { store, clock } = bundle;
    const minute = nextMinute(bundle);
    for (const [at, made] of [
      [0, -MINUTE_MS],
      [1, 1 + MINUTE_MS],
      [MINUTE_MS - 1, -1],
      [MINUTE_MS, 0],
    ] as const) {
      clock.set(minute + at);
      await arrive(bundle, { id: idAt(minute + made) });
    }
    await foldAll(bundle);
    assert.deepEqual(await store.stats.minutes(all), [
      figuresOf(minute, { arrived: 3 }),
      figuresOf(minute + MINUTE_MS, { arrived: 1 }),
    ]);
  });

  test("a clock that was far ahead leaves nothing behind", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const now = clock.now();
    clock.set(now + 365 * 24 * HOUR_MS);
    await run(bundle, done);
    await foldAll(bundle);
    assert.equal((await store.stats.minutes(all)).length, 1);
    clock.set(now);
    const minute = nextMinute(bundle);
    await run(bundle, done);
    assert.deepEqual(await store.stats.minutes(all), []);
    await foldAll(bundle);
    const told = [figuresOf(minute, { arrived: 1, done: 1 })];
    assert.deepEqual(await store.stats.minutes(all), told);
    clock.set(now + 365 * 24 * HOUR_MS + 2 * MINUTE_MS);
    assert.deepEqual(await store.stats.minutes({ ...all, forMs: 366 * 24 * HOUR_MS }), told);
  });
};
