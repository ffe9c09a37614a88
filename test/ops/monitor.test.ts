/** The monitor: one line for all processes, an observation in each, and nothing that stops it. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import { defineTask, GiveUpError, type Holdfast, openHoldfast } from "../../src/index.ts";
import type { Finding } from "../../src/database/check.ts";
import {
  type Monitor,
  type MonitorOptions,
  type Observation,
  startMonitor,
} from "../../src/monitoring/monitor.ts";
import { testClock, type TestClock } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { keepLog, withCode, type KeptLog, type LogLine } from "../worker/observe.ts";
import { withOutage, type Outage } from "../worker/wrapped-store.ts";

after(assertNothingRuns);

interface Site extends AsyncDisposable {
  readonly holdfast: Holdfast;
  readonly clock: TestClock;
  readonly log: KeptLog;
  readonly outage: Outage;
  watch(options?: MonitorOptions): Monitor;
}

async function site(): Promise<Site> {
  const clock = testClock();
  const log = keepLog();
  const outage = withOutage(await openStore("sqlite::memory:", { runtime: clock }));
  const options = { runtime: clock, logger: log.logger, locks: "sql", version: "1" } as const;
  const holdfast = await openHoldfast(outage.store, options);
  const monitors: Monitor[] = [];
  return {
    holdfast,
    clock,
    log,
    outage,
    watch(some = {}) {
      const monitor = startMonitor(holdfast, some);
      monitors.push(monitor);
      return monitor;
    },
    async [Symbol.asyncDispose]() {
      outage.down = false;
      const closed = Promise.all(monitors.map((monitor) => monitor.stop())).then(() =>
        holdfast.close(),
      );
      await clock.advance("2m");
      await closed;
    },
  };
}

function linesOf({ lines }: KeptLog): LogLine[] {
  return lines.filter(({ message }) => message.startsWith("queues:"));
}

const finding: Finding = {
  check: "lost-job",
  severity: "critical",
  problem: "A job stands nowhere.",
  remedy: "Look for it.",
  fixable: false,
  offenders: [],
  more: false,
};

suite("a monitor", () => {
  test("logs one line an interval, however many there are", async () => {
    await using place = await site();
    const { clock, log } = place;
    const seen: Observation[][] = [[], [], []];
    const monitors = seen.map((observations) =>
      place.watch({ onObservation: async (one) => void observations.push(one) }),
    );
    await clock.advance("20m");
    const lines = linesOf(log).length;
    // The loops wait for 27 to 30 seconds, and the first that comes after 25.5 counts.
    assert.ok(lines >= 40 && lines <= 48, `${lines} lines`);
    // Each looks as often as if it was alone.
    for (const observations of seen) {
      assert.ok(observations.length >= 40 && observations.length <= 45, `${observations.length}`);
      assert.ok(observations.every(({ counts }) => counts !== null));
    }
    for (const monitor of monitors) {
      const { at = 0, counts } = monitor.latest() ?? {};
      assert.ok(at - (counts?.countedAt ?? 0) < 30_000);
    }
  });

  test("counts again soon after its first look, which saw a service that was starting", async () => {
    await using place = await site();
    const { holdfast, clock, log } = place;
    place.watch();
    await clock.settle();
    assert.deepEqual((await holdfast.metrics.counts())?.queues, []);
    await holdfast.enqueue("x", null);
    await clock.advance("5s");
    const counts = await holdfast.metrics.counts();
    assert.equal(counts?.queues[0]?.counts.pending, 1);
    await clock.advance("20s");
    assert.equal(linesOf(log).length, 2); // and then as seldom as it is told to
  });

  test("reports the pending and running jobs, the ended jobs and the success rate", async () => {
    await using place = await site();
    const { holdfast, clock, log } = place;
    const gate = Promise.withResolvers<null>();
    const wait = defineTask({ name: "wait", queue: "slow", run: () => gate.promise });
    const mail = defineTask({
      name: "mail",
      retry: { maxAttempts: 1 },
      run(n: number) {
        if (n === 0) throw new GiveUpError("no such address");
        return null;
      },
    });
    await holdfast.enqueueMany(mail, [0, 1, 2, 3]);
    await holdfast.enqueue(wait, null);
    const worker = await holdfast.startWorker({ tasks: [mail, wait] });
    await clock.advance("2m");
    await holdfast.enqueueMany(mail, [1, 2], { queue: "never" });
    await clock.advance("10s");
    const monitor = place.watch();
    await clock.settle();
    const [line, ...more] = linesOf(log);
    assert.equal(more.length, 0);
    assert.equal(
      line?.message,
      "queues: 2 pending (the oldest for 10s), 1 processing; 3 done, 1 failed in 15 minutes (75.0 %)",
    );
    assert.deepEqual(line.facts, {
      event: "queues:counted",
      pending: 2,
      processing: 1,
      oldestPendingMs: 10_000,
      done: 3,
      failed: 1,
      successRate: 0.75,
    });
    const { counts: counted, minutes } = monitor.latest() ?? {};
    assert.deepEqual(
      counted?.queues.map(({ queue, counts }) => [queue, counts.pending, counts.done]),
      [
        ["default", 0, 3],
        ["never", 2, 0],
        ["slow", 0, 0],
      ],
    );
    assert.equal(minutes?.find(({ queue }) => queue === "default")?.failed, 1);
    gate.resolve(null);
    await clock.advance("1s");
    await worker.stop();
  });

  test("says nothing about shares of nothing", async () => {
    await using place = await site();
    place.watch();
    await place.clock.settle();
    assert.deepEqual(
      linesOf(place.log).map(({ message }) => message),
      ["queues: 0 pending, 0 processing; 0 done, 0 failed in 15 minutes"],
    );
  });

  test("passes on the findings of the checks, and its observation", async () => {
    await using place = await site();
    const observed: Observation[] = [];
    place.watch({
      interval: "10s",
      examine: async () => [finding],
      onObservation: async (observation) => void observed.push(observation),
    });
    const startedAt = place.clock.now();
    await place.clock.advance("1m");
    assert.ok(observed.length >= 6, `${observed.length} in a minute`);
    assert.deepEqual(observed[0]?.findings, [finding]);
    assert.deepEqual([observed[0].at, observed[0].canaries], [startedAt, []]);
  });

  test("continues when a check or a listener fails, and logs each failure once", async () => {
    await using place = await site();
    const { clock, log } = place;
    let broken = true;
    const heard: Observation[] = [];
    const monitor = place.watch({
      examine: async () => {
        if (broken) throw new TypeError("a bug in a check");
        return [finding];
      },
      onObservation: async (observation) => {
        heard.push(observation);
        if (broken) throw new Error("no ears");
      },
    });
    const complaints = (): string[] =>
      log.lines.filter(({ level }) => level === "error").map(({ message }) => message);
    await clock.advance("5m");
    assert.ok(heard.length >= 10);
    assert.deepEqual(complaints(), ["monitor: examine failed", "monitor: onObservation failed"]);
    broken = false;
    await clock.advance("1m");
    assert.deepEqual(monitor.latest()?.findings, [finding]);
    broken = true;
    await clock.advance("1m");
    assert.equal(complaints().length, 4);
  });

  test("logs an outage of the database once, and continues when it is over", async () => {
    await using place = await site();
    const { clock, log, outage } = place;
    place.watch({ canary: {} });
    await clock.advance("1m");
    const before = log.lines.length;
    outage.down = true;
    await clock.advance("10m");
    assert.ok(outage.refused > 20);
    const during = log.lines.slice(before);
    const told = during.map(
      ({ level, facts }) => `${level} ${String(facts["loop"] ?? facts["event"])}`,
    );
    assert.deepEqual(told.toSorted(), ["debug canary", "debug monitor", "error database:away"]);
    outage.down = false;
    const lines = linesOf(log).length;
    await clock.advance("1m");
    assert.ok(linesOf(log).length > lines);
    assert.equal(log.lines.filter(({ facts }) => facts["event"] === "database:back").length, 1);
  });

  test("forgets minutes that are older than a week", async () => {
    await using place = await site();
    const { holdfast, clock } = place;
    const mail = defineTask({ name: "mail", run: () => null });
    place.watch({ interval: "10m" });
    await holdfast.enqueue(mail, null);
    await clock.advance("1h");
    assert.equal((await holdfast.metrics.minutes({ for: "2h" })).length, 1);
    await clock.advance("6d");
    assert.equal((await holdfast.metrics.minutes({ for: "7d" })).length, 1);
    await clock.advance("2d");
    assert.deepEqual(await holdfast.store.stats.minutes({ forMs: 1e12, limit: 10 }), []);
  });

  test("does not observe after it is stopped", async () => {
    await using place = await site();
    const monitor = place.watch();
    await place.clock.advance("1m");
    await monitor.stop();
    const { at } = monitor.latest() ?? {};
    await place.clock.advance("10m");
    assert.equal(monitor.latest()?.at, at);
  });

  test("refuses options that are none", async () => {
    await using place = await site();
    const misspelt = { intervall: "1m" } as MonitorOptions;
    assert.throws(() => place.watch(misspelt), withCode("INVALID_ARGUMENT", "intervall"));
    assert.throws(() => place.watch({ interval: 5 }), withCode("INVALID_ARGUMENT", "interval"));
    const often = { canary: { interval: 5 } };
    assert.throws(() => place.watch(often), withCode("INVALID_ARGUMENT", "canary.interval"));
  });
});
