/** Figures over time: every step once, the sum of all queues, waits and backlog; builds and crashes as marks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { firstIdAt } from "../../src/core/id.ts";
import { sql } from "../../src/database/sql.ts";
import { FOLD_LAG_MS } from "../../src/stats/minute-totals.ts";
import type { Bundle, Group, Open } from "../support/bundle.ts";
import type { ClaimedJob } from "../../src/jobs/store.ts";
import {
  addWorker,
  claimOne,
  done,
  enqueueOne,
  failed,
  nextId,
  retry,
  settleOne,
} from "../support/jobs.ts";

const MINUTE_MS = 60_000;
const QUARTER_MS = 15 * MINUTE_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Opens a database at the start of a quarter of an hour, with everything before it folded. */
async function openAtQuarter(open: Open): Promise<Bundle & { readonly start: number }> {
  const bundle = await open();
  const start = (Math.floor(bundle.clock.now() / QUARTER_MS) + 1) * QUARTER_MS;
  bundle.clock.set(start);
  await bundle.byHand(sql`update holdfast.counts set folded_until = ${start} where id = 1`);
  return Object.assign(bundle, { start });
}

async function openAtHour(open: Open): Promise<Bundle & { readonly start: number }> {
  const bundle = await open();
  const start = (Math.floor(bundle.clock.now() / HOUR_MS) + 1) * HOUR_MS;
  bundle.clock.set(start);
  await bundle.byHand(sql`update holdfast.counts set folded_until = ${start} where id = 1`);
  return Object.assign(bundle, { start });
}

async function run(
  { store, clock }: Bundle,
  queue: string,
  end: (job: Awaited<ReturnType<typeof claimOne>>) => ReturnType<typeof done>,
): Promise<void> {
  await enqueueOne(store, { id: firstIdAt(clock.now()).slice(0, 24) + nextId().slice(24), queue });
  await settleOne(store, end(await claimOne(store, { queues: [queue] })));
}

async function foldUntil({ store, clock }: Bundle, at: number): Promise<void> {
  clock.set(at + FOLD_LAG_MS);
  while ((await store.stats.foldMinutes({ limit: 100 })) > 0);
}

export const charts: Group = (open) => {
  test("a chart has every minute of all queues and of one, and retries", async () => {
    const bundle = await openAtQuarter(open);
    const { store, clock, start } = bundle;
    await run(bundle, "mail", done);
    await run(bundle, "mail", (job) => retry(job, { delayMs: HOUR_MS }));
    await run(bundle, "bulk", failed);
    clock.set(start + 2 * MINUTE_MS);
    await run(bundle, "bulk", done);
    await foldUntil(bundle, start + 3 * MINUTE_MS);
    const { points, from, to, stepMs, openAt } = await store.stats.series({ range: "15m" });
    assert.deepEqual([from, to, stepMs], [openAt - QUARTER_MS, openAt + MINUTE_MS, MINUTE_MS]);
    assert.equal(openAt, start + 3 * MINUTE_MS);
    const brief = points.map(({ at, arrived, done: ok, failed: bad, retried }) => [
      (at - start) / MINUTE_MS,
      arrived,
      ok,
      bad,
      retried,
    ]);
    assert.deepEqual(brief, [
      [0, 3, 1, 1, 1],
      [1, 0, 0, 0, 0],
      [2, 1, 1, 0, 0],
    ]);
    const mail = await store.stats.series({ range: "15m", queue: "mail" });
    assert.deepEqual(
      mail.points.map(({ at, done: ok, retried }) => [at, ok, retried]),
      [[start, 1, 1]],
    );
    // Rows that have only retries are for charts.
    const minutes = await store.stats.minutes({ forMs: HOUR_MS, limit: 100 });
    assert.ok(minutes.every(({ arrived, done: ok, failed: bad }) => arrived + ok + bad > 0));
  });

  test("longer charts add up quarters of an hour, and the minutes since the last", async () => {
    const bundle = await openAtQuarter(open);
    const { store, clock, start } = bundle;
    for (const minute of [0, 7, 14, 15, 31]) {
      clock.set(start + minute * MINUTE_MS);
      await run(bundle, "mail", done);
    }
    await foldUntil(bundle, start + 33 * MINUTE_MS);
    const day = await store.stats.series({ range: "24h" });
    assert.equal(day.stepMs, QUARTER_MS);
    assert.deepEqual(
      day.points.map((point) => [(point.at - start) / QUARTER_MS, point.done]),
      [
        [0, 3],
        [1, 1],
        [2, 1],
      ],
    );
    const mail = await store.stats.series({ range: "24h", queue: "mail" });
    assert.deepEqual(
      mail.points.map((point) => point.done),
      [3, 1, 1],
    );
    const week = await store.stats.series({ range: "7d" });
    assert.equal(
      week.points.reduce((all, point) => all + point.done, 0),
      5,
    );
    assert.deepEqual(
      await store.stats.series({ range: "1h", queue: "none" }).then((one) => one.points),
      [],
    );
  });

  test("the minute that is not over is shown so far, also after the one before it was folded", async () => {
    const bundle = await openAtQuarter(open);
    const { store, clock, start } = bundle;
    await run(bundle, "mail", done);
    clock.set(start + MINUTE_MS);
    await run(bundle, "mail", done);
    await run(bundle, "mail", done);
    await store.stats.takeCounts({ everyMs: 0, rest: 0 });
    const soFar = async (): Promise<number[][]> => {
      const all = await store.stats.series({ range: "15m" });
      const mail = await store.stats.series({ range: "15m", queue: "mail" });
      assert.equal(all.openAt, start + MINUTE_MS);
      return [all, mail].map(({ points }) => points.map((point) => point.done));
    };
    const both = [
      [1, 2],
      [1, 2],
    ];
    assert.deepEqual(await soFar(), both);
    await foldUntil(bundle, start + MINUTE_MS);
    assert.deepEqual(await soFar(), both);
  });

  test("folding again after a clock was set back counts nothing twice", async () => {
    const bundle = await openAtQuarter(open);
    const { store, start, byHand } = bundle;
    await run(bundle, "mail", done);
    await foldUntil(bundle, start + 16 * MINUTE_MS);
    const before = await store.stats.series({ range: "24h" });
    await byHand(sql`update holdfast.counts set folded_until = ${start} where id = 1`);
    await foldUntil(bundle, start + 16 * MINUTE_MS);
    assert.deepEqual(await store.stats.series({ range: "24h" }), before);
  });

  test("how long jobs waited: the rows of all workers, once each however often they are written", async () => {
    const bundle = await openAtQuarter(open);
    const { store, start } = bundle;
    const row = {
      kind: "pickup",
      at: start,
      name: "mail",
      source: "w-1",
      build: "b",
      runs: "{}",
    } as const;
    await store.stats.putTimes([{ ...row, waits: '{"10":1}' }]);
    await store.stats.putTimes([
      { ...row, waits: '{"10":98}' },
      { ...row, source: "w-2", waits: '{"40":2}' },
      { ...row, name: "bulk", waits: '{"20":1}' },
    ]);
    await foldUntil(bundle, start + QUARTER_MS);
    for (const range of ["15m", "24h"] as const) {
      const [point] = (await store.stats.series({ range, queue: "mail" })).points;
      const { pickupP50Ms, pickupP99Ms } = point ?? {};
      assert.ok(Number(pickupP50Ms) > 1 && Number(pickupP50Ms) < 2, range);
      assert.ok(Number(pickupP99Ms) > 25_000 && Number(pickupP99Ms) < 40_000, range);
    }
    const [all] = (await store.stats.series({ range: "15m" })).points;
    assert.ok(Number(all?.pickupP50Ms) < 2);
  });

  test("what is usual for a task", async () => {
    const { store, clock } = await open();
    const hour = Math.floor(clock.now() / HOUR_MS) * HOUR_MS;
    const row = {
      kind: "run",
      at: hour,
      name: "mail.send",
      source: "w-1",
      build: "b",
      waits: "{}",
    } as const;
    assert.equal(await store.stats.usual("mail.send"), null);
    await store.stats.putTimes([{ ...row, runs: '{"20":4}' }]);
    assert.equal(await store.stats.usual("mail.send@2"), null);
    await store.stats.putTimes([{ ...row, source: "w-2", runs: '{"20":4,"30":2}' }]);
    const usual = await store.stats.usual("mail.send");
    assert.equal(usual?.count, 10);
    assert.ok(usual.lowMs < usual.highMs);
  });

  test("totals of a task by hour and build: counted once, with the times of all workers", async () => {
    const bundle = await openAtHour(open);
    const { store, clock, start } = bundle;
    await addWorker(bundle, "w-old", "old");
    clock.advance(1_000);
    await addWorker(bundle, "w-new", "new");
    const end = async (
      worker: string,
      outcome: (job: ClaimedJob) => ReturnType<typeof done>,
      task = "mail.send",
    ): Promise<void> => {
      await enqueueOne(store, { task });
      await settleOne(store, outcome(await claimOne(store, { worker })));
    };
    await end("w-old", done);
    await end("w-old", done, "mail.send@2");
    await end("w-new", failed);
    await end("w-new", (job) => retry(job, { delayMs: 9 * HOUR_MS }));
    await end("w-new", done, "mail.sort");
    const times = { kind: "run", at: start, name: "mail.send", waits: "{}" } as const;
    await store.stats.putTimes([
      { ...times, source: "w-old", build: "old", runs: '{"20":2}' },
      { ...times, source: "w-new", build: "new", runs: '{"10":3}' },
      { ...times, source: "w-3", build: "new", runs: '{"30":3}', waits: '{"5":1}' },
    ]);
    await foldUntil(bundle, start + MINUTE_MS);
    const isOpen = await store.stats.task("mail.send", "24h");
    const facts = (view: typeof isOpen) =>
      view?.builds
        .map((one) => [one.build, one.done, one.failed, one.retried, one.runs?.count ?? null])
        .toSorted(([a], [b]) => String(a).localeCompare(String(b)));
    assert.deepEqual(facts(isOpen), [
      ["new", 0, 1, 1, 6],
      ["old", 2, 0, 0, 2],
    ]);
    // The hour is over, and so are two more: times were moved to it once, and late ones are dropped.
    await foldUntil(bundle, start + 2 * HOUR_MS);
    await store.stats.putTimes([{ ...times, source: "w-old", build: "old", runs: '{"20":9}' }]);
    clock.set(start + 2 * HOUR_MS);
    await end("w-new", done);
    await foldUntil(bundle, start + 3 * HOUR_MS);
    const over = await store.stats.task("mail.send", "24h");
    assert.deepEqual(facts(over), [
      ["new", 1, 1, 1, 6],
      ["old", 2, 0, 0, 2],
    ]);
    assert.deepEqual(
      over?.hours.map((one) => [(one.at - start) / HOUR_MS, one.done, one.attempts]),
      [
        [0, 2, 4],
        [2, 1, 1],
      ],
    );
    assert.equal(over?.pickups?.count, 1);
    assert.equal((await store.stats.usual("mail.send"))?.count, 8);
    assert.equal(await store.stats.task("never.seen", "24h"), null);
    assert.deepEqual(
      (await store.stats.tasks("24h")).map(({ task, done: ok, failedShare }) => [
        task,
        ok,
        failedShare,
      ]),
      [
        ["mail.send", 3, 2 / 5],
        ["mail.sort", 1, 0],
      ],
    );
    const build = await store.stats.build("new");
    assert.deepEqual(
      build?.tasks.map(({ task, done: ok, change }) => [task, ok, change.before, change.is]),
      [
        ["mail.send", 1, "old", "unknown"],
        ["mail.sort", 1, null, "unknown"],
      ],
    );
    assert.deepEqual(
      (await store.stats.builds("24h")).map((one) => [one.build, one.attempts]),
      [
        ["new", 4],
        ["old", 2],
      ],
    );
    assert.equal(await store.stats.build("never"), null);
  });

  test("the backlog is that of the last count, and unknown for minutes without a count", async () => {
    const bundle = await openAtQuarter(open);
    const { store, clock, start } = bundle;
    await enqueueOne(store, { queue: "mail" });
    await enqueueOne(store, { queue: "mail" });
    clock.set(start + MINUTE_MS);
    await store.stats.takeCounts({ everyMs: 0 });
    await foldUntil(bundle, start + 2 * MINUTE_MS);
    const { points } = await store.stats.series({ range: "15m" });
    assert.deepEqual(
      points.map(({ pending }) => pending),
      [null, 2],
    );
    const mail = await store.stats.series({ range: "15m", queue: "mail" });
    assert.equal(mail.points.at(-1)?.pending, 2);
  });

  test("a build is marked when its first worker started, and a worker that was found dead", async () => {
    const bundle = await openAtQuarter(open);
    const { store, clock, start, byHand } = bundle;
    const worker = (id: string, version: string, at: number): Promise<number> =>
      byHand(sql`
        insert into holdfast.worker (id, type, slot, instance, status, hostname, pid, version, node_version, platform, arch,
                                     queues, tasks, concurrency, started_at, heartbeat_at)
        values (${id}, 'mailer', null, 1, 'running', 'node-a', 1, ${version}, 'v24', 'linux', 'arm64', '[]', '[]', 1, ${at}, ${at})`);
    await byHand(sql`insert into holdfast.worker_type (name) values ('mailer')`);
    await worker("a", "9c41d07", start + 1_000);
    await worker("b", "9c41d07", start + 2_000);
    await foldUntil(bundle, start + MINUTE_MS);
    await worker("c", "5a5512e", start + 61_000);
    await byHand(
      sql`update holdfast.worker set status = 'stopped', reason = 'gone', stopped_at = ${start + 62_000} where id = 'a'`,
    );
    await byHand(
      sql`update holdfast.worker set status = 'stopped', reason = 'asked', stopped_at = ${start + 63_000} where id = 'b'`,
    );
    await foldUntil(bundle, start + 2 * MINUTE_MS);
    const marks = await store.dashboard.marks(start);
    assert.deepEqual(
      marks.map(({ at, kind, text, worker: who }) => [at - start, kind, text, who]),
      [
        [1_000, "deploy", "9c41d07", null],
        [61_000, "deploy", "5a5512e", null],
        [62_000, "crash", "crash", "a"],
      ],
    );
    assert.equal((await store.dashboard.marks(clock.now())).length, 0);
  });

  test("what runs, by queue, task and lane", async () => {
    const { store } = await open();
    await enqueueOne(store, { queue: "mail", task: "send" });
    await enqueueOne(store, { queue: "mail", task: "send" });
    await claimOne(store, { queues: ["mail"] });
    await claimOne(store, { queues: ["mail"] });
    assert.deepEqual(await store.dashboard.running(), [
      { queue: "mail", task: "send", lane: null, jobs: 2 },
    ]);
  });

  test("waits for locks over time: minutes, and quarters of an hour of all processes", async () => {
    const bundle = await openAtQuarter(open);
    const { store, start } = bundle;
    const row = {
      type: "stock",
      acquisitions: 10,
      timeouts: 1,
      waitMsSum: 50,
      heldMsMax: 9,
      waits: '{"20":10}',
    };
    await store.locks.putStats([
      { ...row, minute: start, source: "a" },
      { ...row, minute: start, source: "b", waits: '{"40":10}', heldMsMax: 30 },
      { ...row, minute: start + MINUTE_MS, source: "a", type: "order", timeouts: 0 },
    ]);
    await foldUntil(bundle, start + QUARTER_MS);
    const hour = await store.locks.heat("1h");
    assert.deepEqual(
      hour.types.map(({ type, timeouts, heldMsMax, cells }) => [
        type,
        timeouts,
        heldMsMax,
        cells.length,
      ]),
      [
        ["stock", 2, 30, 1],
        ["order", 0, 9, 1],
      ],
    );
    // A minute later the quarter is added up; the rows of its minutes may go.
    await foldUntil(bundle, start + QUARTER_MS + MINUTE_MS);
    const day = await store.locks.heat("24h");
    assert.deepEqual(
      day.types.map(({ type, acquisitions }) => [type, acquisitions]),
      [
        ["stock", 20],
        ["order", 10],
      ],
    );
    const [stock] = day.types;
    assert.equal(stock?.cells[0]?.at, start);
    assert.ok(Number(stock?.p99Ms) > 25_000 && Number(stock?.p50Ms) < 100);
    await store.locks.pruneStats({ forMs: 0, limit: 100 });
    assert.deepEqual(
      (await store.locks.heat("7d")).types.map(({ type }) => type),
      ["stock", "order"],
    );
  });
};
