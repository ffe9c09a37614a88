/** What is told to Prometheus: right, bounded, accepted by its own checker, and there when the database is not. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import { defineTask, GiveUpError, type Holdfast, openHoldfast } from "../../src/index.ts";
import { statuses, type Status } from "../../src/core/job.ts";
import { sql } from "../../src/database/sql.ts";
import { Metrics, QUEUES_MAX, TASKS_MAX, WorkerMeter } from "../../src/monitoring/metrics.ts";
import { metrics as list, MetricText } from "../../src/monitoring/metric-list.ts";
import type { Counts } from "../../src/stats/counts.ts";
import type { ClaimedJob } from "../../src/jobs/store.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { complaintsAbout, sampleOf } from "../support/promtool.ts";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { withOutage } from "../worker/wrapped-store.ts";

after(assertNothingRuns);

const noPromtool = missing("promtool");

const echo = defineTask({ name: "echo", run: (value: number) => value });
const broken = defineTask({
  name: "broken",
  queue: 'bad "queue"\\\n'.trim(),
  run: () => {
    throw new GiveUpError("it is broken");
  },
});

const none = Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>;

function countsOf(queues: readonly string[]): Counts {
  return {
    countedAt: 10_000,
    tookMs: 1,
    queues: queues.map((queue) => ({
      queue,
      counts: { ...none, pending: 2 },
      oldestPendingAt: 4_000,
    })),
  };
}

async function workOff(holdfast: Holdfast, metrics: Metrics): Promise<void> {
  const worker = await holdfast.startWorker({ tasks: [echo, broken], concurrency: 7 });
  metrics.watch(worker);
  const jobs = await holdfast.enqueueMany(echo, [1, 2, 3]);
  await Promise.all(jobs.map((job) => job.result({ timeout: "10s" })));
  const bad = await holdfast.enqueue(broken, null);
  await until("the broken job is dead", async () => (await bad.get()).status === "failed");
  await until("both outcomes were heard of", () => {
    const { done, failed } = worker.status();
    return done === 3 && failed === 1;
  });
}

/** A lock that is held, a move that is not allowed, and a transaction that writes and fails. */
async function failOnPurpose(holdfast: Holdfast, done: string): Promise<void> {
  await holdfast.locks.with("parcel:1", {}, async () => {
    const waiting = holdfast.locks.with("parcel:1", { wait: 20 }, () => {});
    await assert.rejects(waiting, { code: "LOCK_NOT_ACQUIRED" });
  });
  await assert.rejects(holdfast.jobs.retry(done), { code: "ILLEGAL_MOVE" });
  const failing = holdfast.store.db.engine.transaction(async (tx) => {
    await tx.run(sql`delete from holdfast.step where job_id = ${done}`);
    throw new Error("changed its mind");
  });
  await assert.rejects(failing, /changed its mind/);
}

suite("metrics of a process that works", () => {
  const places: [
    what: string,
    skip: string | false,
    open: () => Promise<[Holdfast, () => Promise<void>]>,
  ][] = [
    ["sqlite", false, async () => [await openHoldfast("sqlite::memory:"), async () => {}]],
    ...(["postgres", "mysql"] as const).map((kind): (typeof places)[number] => [
      kind,
      reasonOf(missing(kind), notItsTurn(kind)),
      async () => {
        const database = await scratchDatabase(kind);
        return [await openHoldfast(database.url), () => database.drop()];
      },
    ]),
  ];
  for (const [what, skip, open] of places) {
    test(
      `on ${what} report what it did, and promtool accepts them`,
      { skip: skip === false ? noPromtool : skip },
      async () => {
        const [holdfast, drop] = await open();
        const metrics = new Metrics({ holdfast, counts: async () => countsOf(["default"]) });
        await workOff(holdfast, metrics);
        await holdfast.locks.with("order:1", {}, () => {});
        const [done] = await holdfast.jobs.list({ status: "done" });
        await assert.rejects(holdfast.jobs.retry(String(done?.id)), { code: "ILLEGAL_MOVE" });
        const before = await metrics.text();
        await failOnPurpose(holdfast, String(done?.id));
        const text = await metrics.text();
        assert.deepEqual(complaintsAbout(text), []);
        const sample = (name: string): number | null => sampleOf(text, name);
        const moved = (name: string): number =>
          Number(sample(name)) - Number(sampleOf(before, name));
        assert.equal(moved('holdfast_lock_timeouts_total{type="parcel"}'), 1);
        assert.equal(moved('holdfast_moves_refused_total{code="ILLEGAL_MOVE"}'), 1);
        assert.ok(moved("holdfast_transactions_rolled_back_total") >= 1);
        const echoed = '{queue="default",task="echo",outcome="done"}';
        assert.equal(sample(`holdfast_attempts_total${echoed}`), 3);
        assert.equal(sample("holdfast_up"), 1);
        assert.equal(sample('holdfast_queue_jobs{queue="default",status="pending"}'), 2);
        assert.equal(sample('holdfast_queue_oldest_pending_seconds{queue="default"}'), 6);
        assert.equal(sample('holdfast_pickup_latency_seconds_count{queue="default"}'), 3);
        assert.equal(sample("holdfast_jobs_claimed_total"), 4);
        assert.equal(sample('holdfast_worker_concurrency{worker="worker"}'), 7);
        assert.equal(sample('holdfast_fleet_starts{worker="worker"}'), 1);
        assert.equal(sample('holdfast_lock_acquisitions_total{type="order"}'), 1);
        assert.equal(sample('holdfast_lock_wait_seconds_bucket{type="order",le="+Inf"}'), 1);
        assert.equal(sample('holdfast_lock_wait_seconds_count{type="order"}'), 1);
        assert.ok(Number(sample('holdfast_moves_refused_total{code="ILLEGAL_MOVE"}')) >= 1);
        assert.ok(Number(sample("holdfast_claim_duration_seconds_count")) >= 2);
        assert.ok(Number(sample("process_resident_memory_bytes")) > 1e6);
        assert.ok(
          text.includes(String.raw`queue="bad \"queue\"\\",task="broken",outcome="failed"} 1`),
        );
        const pooled = sample('holdfast_pool_connections{pool="main",state="busy"}');
        assert.equal(pooled === null, what === "sqlite");
        assert.equal(
          sample('holdfast_table_dead_rows{table="ready"}') === null,
          what !== "postgres",
        );
        metrics.stop();
        await holdfast.close();
        await drop();
      },
    );
  }

  test("are all in the list, with the labels that the list says", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const metrics = new Metrics({ holdfast, counts: async () => countsOf(["default"]) });
    await workOff(holdfast, metrics);
    const text = await metrics.text();
    metrics.stop();
    for (const line of text.trim().split("\n")) {
      if (line.startsWith("#")) continue;
      const [, name = "", labels = ""] = /^([a-z0-9_]+)(?:\{(.*)\})? /.exec(line) ?? [];
      const family = name in list ? name : name.replace(/_(?:bucket|sum|count)$/, "");
      const facts = list[family as keyof typeof list];
      assert.ok(facts !== undefined, line);
      const told = [...labels.matchAll(/([a-z]+)="/g)].map(([, label]) => label);
      assert.deepEqual(
        told.filter((label) => label !== "le"),
        facts.labels,
        line,
      );
    }
  });

  test("count on when its worker has stopped, and another one starts", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const metrics = new Metrics({ holdfast });
    for (const round of [1, 2]) {
      const worker = await holdfast.startWorker({ tasks: [echo] });
      metrics.watch(worker);
      metrics.watch(worker);
      await (await holdfast.enqueue(echo, round)).result({ timeout: "10s" });
      await worker.stop();
      const text = await metrics.text();
      assert.equal(sampleOf(text, "holdfast_jobs_claimed_total"), round);
      const echoed = '{queue="default",task="echo",outcome="done"}';
      assert.equal(sampleOf(text, `holdfast_attempts_total${echoed}`), round);
      assert.equal(sampleOf(text, 'holdfast_worker_running_jobs{worker="worker"}'), null);
    }
    metrics.stop();
  });
});

suite("the time that a job waits for its worker", () => {
  /** How long the jobs of a queue waited in all, and how many did. */
  async function waited(metrics: Metrics): Promise<[seconds: number, jobs: number]> {
    const text = await metrics.text();
    const of = (part: string): number =>
      Number(sampleOf(text, `holdfast_pickup_latency_seconds_${part}{queue="default"}`));
    return [of("sum"), of("count")];
  }

  test("begins when it becomes pending, and not when it is enqueued or first tried", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const metrics = new Metrics({ holdfast });
    const flaky = defineTask({
      name: "flaky",
      retry: { maxAttempts: 2, backoff: { initial: "10m", max: "10m" } },
      run(_input: null, { attempt }) {
        if (attempt === 1) throw new Error("not yet");
      },
    });
    await holdfast.enqueue(flaky, null);
    await clock.advance("5s");
    const worker = await holdfast.startWorker({ tasks: [flaky, echo] });
    metrics.watch(worker);
    await clock.advance("1s");
    assert.deepEqual(await waited(metrics), [5, 1]);

    await clock.advance("30m");
    assert.equal(worker.status().done, 1);
    const [again, attempts] = await waited(metrics);
    assert.equal(attempts, 2);
    assert.ok(again >= 5 && again < 8, `${again} s`);

    await holdfast.enqueue(echo, 1, { delay: "20m" });
    await clock.advance("20m");
    await clock.advance("1m");
    const [later, started] = await waited(metrics);
    assert.equal(started, 3);
    assert.ok(later < 11, `${later} s`);
    metrics.stop();
  });
});

suite("metrics without a database", () => {
  test(
    "still report what the process knows, and that the database is gone",
    { skip: noPromtool },
    async () => {
      const outage = withOutage(await openStore("sqlite::memory:"));
      await using holdfast = await openHoldfast(outage.store);
      const metrics = new Metrics({
        holdfast,
        counts: () => outage.store.jobs.stats().then(() => countsOf(["default"])),
      });
      outage.down = true;
      const text = await metrics.text();
      outage.down = false;
      metrics.stop();
      assert.equal(sampleOf(text, "holdfast_up"), 0);
      assert.equal(sampleOf(text, 'holdfast_queue_jobs{queue="default",status="pending"}'), null);
      assert.ok(Number(sampleOf(text, "process_resident_memory_bytes")) > 1e6);
      assert.deepEqual(complaintsAbout(text), []);
    },
  );

  test("do not wait for an answer that never comes", { timeout: 10_000 }, async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const metrics = new Metrics({ holdfast, counts: () => new Promise(() => {}) });
    const scraping = metrics.text();
    await kit.clock.advance("5s");
    const text = await scraping;
    metrics.stop();
    assert.equal(sampleOf(text, "holdfast_up"), 1);
    assert.equal(sampleOf(text, "holdfast_counts_age_seconds"), null);
  });

  test("ask the database seldom, however often they are scraped", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    let asked = 0;
    const counts = async (): Promise<Counts> => {
      asked += 1;
      return countsOf(["default"]);
    };
    const metrics = new Metrics({ holdfast, counts });
    await Promise.all(Array.from({ length: 20 }, () => metrics.text()));
    for (let scrape = 0; scrape < 20; scrape += 1) await metrics.text();
    metrics.stop();
    assert.equal(asked, 1);
  });
});

suite("unlimited names", () => {
  const jobOf = (queue: string, task: string): ClaimedJob => ({ queue, task }) as ClaimedJob;

  test("do not make more time series than the limit", { skip: noPromtool }, async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const queues = Array.from({ length: 3 * QUEUES_MAX }, (_, index) => `queue-${index}`);
    const metrics = new Metrics({ holdfast, counts: async () => countsOf([...queues, "other"]) });
    const text = await metrics.text();
    metrics.stop();
    const lines = text.split("\n").filter((line) => line.startsWith("holdfast_queue_jobs{"));
    assert.equal(lines.length, (QUEUES_MAX + 1) * statuses.length);
    const rest = 'holdfast_queue_jobs{queue="other",status="pending"}';
    assert.equal(sampleOf(text, rest), 2 * (2 * QUEUES_MAX + 1));
    assert.deepEqual(complaintsAbout(text), []);
  });

  test("are counted under another once there are too many", { skip: noPromtool }, () => {
    const meter = new WorkerMeter();
    for (let index = 0; index < 2 * TASKS_MAX; index += 1) {
      const job = jobOf(`queue-${index}`, `task-${index}`);
      meter.started(job, 1);
      meter.ended(job, "done", 1);
    }
    meter.ended(jobOf("other", "other"), "done", 1);
    meter.started(jobOf("queue-0", "task-0"), null);
    const text = new MetricText();
    meter.write(text);
    const written = text.toString();
    const rest = '{queue="other",task="other",outcome="done"}';
    assert.equal(sampleOf(written, `holdfast_attempts_total${rest}`), TASKS_MAX + 1);
    assert.deepEqual(complaintsAbout(written), []);
  });
});
