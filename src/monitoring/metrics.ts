/**
 * Metrics of this process, its workers and its database, for Prometheus.
 *
 * A scrape reads memory. Database queries run rarely and are cached, however many clients scrape. Without the database,
 * `holdfast_up` is 0 and all other metrics are still served.
 */
import { Cached } from "../core/wait.ts";
import { refusals } from "../core/errors.ts";
import { Buckets, type Histogram } from "../core/histogram.ts";
import { statuses } from "../core/job.ts";
import { fineGauge, type FineGauge, type Runtime } from "../core/runtime.ts";
import { libraryVersion } from "../core/version.ts";
import type { Database } from "../database/database.ts";
import type { Condition } from "../database/engine.ts";
import type { ClaimedJob } from "../jobs/store.ts";
import type { Locks } from "../locks/locks.ts";
import type { Drifts, WorkerMetrics, Workers } from "../registry/workers.ts";
import type { ScheduleStanding, SchedulesStore } from "../schedules/store.ts";
import type { Counts } from "../stats/counts.ts";
import { type AttemptOutcome, attemptOutcomes, type Meter } from "../worker/events.ts";
import type { Counters } from "../worker/reporter.ts";
import type { Worker } from "../worker/worker.ts";
import {
  cappedLabel,
  cappedSum,
  type Counted,
  type MetricName,
  MetricText,
  OTHER,
} from "./metric-list.ts";

/** Worker rows and the last job counts are read at most this often … */
const FLEET_KEPT_MS = 10_000;

const COUNTS_KEPT_MS = 5_000;

/** … and the condition of the database at most this often. */
const CONDITION_KEPT_MS = 30_000;

/** A scrape does not wait longer for the database. Prometheus gives up after ten seconds. */
const ANSWER_MS_MAX = 2_000;

const MS_PER_S = 1_000;

interface MetricsParts {
  readonly holdfast: {
    readonly runtime: Runtime;
    /** The build of the application. */
    readonly version: string;
    readonly store: { readonly db: Database; readonly schedules: SchedulesStore };
    readonly workers: Workers;
    readonly locks: Locks;
  };
  /** The last job counts. Default: queue depths are not exported. */
  readonly counts?: () => Promise<Counts | null>;
}

export class Metrics {
  readonly #parts: MetricsParts;
  readonly #gauge: FineGauge = fineGauge();
  readonly #meter = new WorkerMeter();
  readonly #workers = new Set<Worker>();
  /** Counts of stopped workers: a counter must never go down. */
  readonly #past = { claimed: 0, recovered: 0, leasesLost: 0, staleWritesRefused: 0 };
  readonly #fleet: Cached<{ readonly metrics: readonly WorkerMetrics[]; readonly drifts: Drifts }>;
  readonly #counts: Cached<Counts | null>;
  readonly #condition: Cached<Condition | null>;
  readonly #schedules: Cached<ScheduleStanding>;

  constructor(parts: MetricsParts) {
    const { holdfast, counts = () => Promise.resolve(null) } = parts;
    const { runtime, store, workers } = holdfast;
    const kept = <T>(forMs: number, ask: () => Promise<T>): Cached<T> =>
      new Cached({ runtime, ask, forMs, waitMs: ANSWER_MS_MAX });
    this.#parts = parts;
    this.#fleet = kept(FLEET_KEPT_MS, async () => ({
      metrics: await workers.metrics(),
      drifts: await workers.drift(),
    }));
    this.#counts = kept(COUNTS_KEPT_MS, counts);
    this.#condition = kept(CONDITION_KEPT_MS, () => store.db.condition());
    this.#schedules = kept(FLEET_KEPT_MS, () => store.schedules.standing());
  }

  /** Includes this worker from now on. */
  watch(worker: Worker): void {
    if (this.#workers.has(worker)) return;
    this.#workers.add(worker);
    worker.measure(this.#meter);
    worker.on("worker:stopped", () => {
      if (!this.#workers.delete(worker)) return;
      const counters = worker.status();
      for (const name of COUNTED) this.#past[name] += counters[name];
    });
  }

  async text(): Promise<string> {
    const [fleet, counts, condition, schedules] = await Promise.all([
      this.#fleet.get(),
      this.#counts.get(),
      this.#condition.get(),
      this.#schedules.get(),
    ]);
    const text = new MetricText();
    text.add("holdfast_up", fleet === null ? 0 : 1);
    this.#writeBuild(text);
    if (counts !== null) this.#writeCounts(text, counts);
    if (schedules !== null) writeSchedules(text, schedules);
    this.#meter.write(text);
    this.#writeCounters(text);
    this.#writeWorkers(text);
    if (fleet !== null) writeFleet(text, fleet.metrics, fleet.drifts);
    this.#writeStore(text, condition);
    this.#writeProcess(text);
    return text.toString();
  }

  stop(): void {
    this.#gauge.stop();
  }

  #writeBuild(text: MetricText): void {
    const { version: build, store } = this.#parts.holdfast;
    const kind = store.db.name.split(":", 1)[0] ?? "";
    const facts = { library: libraryVersion(), build, node: process.version, store: kind };
    text.add("holdfast_build_info", 1, facts);
    const push = store.db.pushState();
    if (push === "up" || push === "down") text.add("holdfast_push_up", push === "up" ? 1 : 0);
  }

  /** Ages are relative to the count; both times come from the database's clock. */
  #writeCounts(text: MetricText, { countedAt, queues }: Counts): void {
    const ageMs = this.#parts.holdfast.runtime.now() - countedAt;
    text.add("holdfast_counts_age_seconds", Math.max(0, ageMs) / MS_PER_S);
    for (const status of statuses) {
      const jobs = queues.map(({ queue, counts }) => [queue, counts[status]] as const);
      for (const [queue, count] of cappedSum(QUEUES_MAX, jobs))
        text.add("holdfast_queue_jobs", count, { queue, status });
    }
    const waits = queues.map(({ queue, oldestPendingAt }) => {
      const waitedMs = oldestPendingAt === null ? 0 : countedAt - oldestPendingAt;
      return [queue, waitedMs / MS_PER_S] as const;
    });
    for (const [queue, seconds] of cappedSum(QUEUES_MAX, waits, Math.max))
      text.add("holdfast_queue_oldest_pending_seconds", seconds, { queue });
  }

  #writeCounters(text: MetricText): void {
    const counted = { ...this.#past };
    for (const worker of this.#workers) {
      const counters = worker.status();
      for (const name of COUNTED) counted[name] += counters[name];
    }
    text.add("holdfast_jobs_claimed_total", counted.claimed);
    text.add("holdfast_leases_lost_total", counted.leasesLost);
    text.add("holdfast_leases_recovered_total", counted.recovered);
    text.add("holdfast_stale_writes_refused_total", counted.staleWritesRefused);
    for (const [code, count] of refusals())
      text.add("holdfast_moves_refused_total", count, { code });
    for (const total of this.#parts.holdfast.locks.totals()) {
      const { type, acquisitions, timeouts, waitMs, waits } = total;
      text.add("holdfast_lock_acquisitions_total", acquisitions, { type });
      text.add("holdfast_lock_timeouts_total", timeouts, { type });
      const seconds = secondsOf(acquisitions, waitMs, waits);
      text.addBuckets("holdfast_lock_wait_seconds", seconds, { type });
    }
  }

  /** Summed by name, because worker ids are new with every start. */
  #writeWorkers(text: MetricText): void {
    for (const [worker, some] of Map.groupBy(this.#workers, ({ name }) => name)) {
      const addSum = (name: MetricName, of: (one: Worker) => number): void => {
        const sum = some.reduce((all, one) => all + of(one), 0);
        text.add(name, sum, { worker });
      };
      addSum("holdfast_worker_running_jobs", (one) => one.status().running);
      addSum("holdfast_worker_buffered_jobs", (one) => one.status().buffered);
      addSum("holdfast_worker_concurrency", (one) => one.concurrency);
      const ages = some.map((one) => one.pulse()?.heartbeatAgeMs ?? 0);
      const age = Math.max(...ages) / MS_PER_S;
      text.add("holdfast_worker_heartbeat_age_seconds", age, { worker });
    }
  }

  #writeStore(text: MetricText, condition: Condition | null): void {
    const { pools, transactions } = this.#parts.holdfast.store.db.load();
    text.add("holdfast_transactions_rolled_back_total", transactions.rolledBack);
    text.add("holdfast_transactions_repeated_total", transactions.repeated);
    for (const { name: pool, busy, idle, waiting } of pools) {
      text.add("holdfast_pool_connections", busy, { pool, state: "busy" });
      text.add("holdfast_pool_connections", idle, { pool, state: "idle" });
      text.add("holdfast_pool_waiting", waiting, { pool });
    }
    if (condition === null) return;
    const { tables, oldestTransactionMs } = condition;
    text.add("holdfast_oldest_transaction_seconds", (oldestTransactionMs ?? 0) / MS_PER_S);
    for (const { table, live, dead } of tables) {
      text.add("holdfast_table_live_rows", live, { table });
      text.add("holdfast_table_dead_rows", dead, { table });
    }
  }

  #writeProcess(text: MetricText): void {
    const { meanMs, p99Ms, maxMs } = this.#gauge.loopDelay();
    text.add("holdfast_event_loop_delay_mean_seconds", meanMs / MS_PER_S);
    text.add("holdfast_event_loop_delay_p99_seconds", p99Ms / MS_PER_S);
    text.add("holdfast_event_loop_delay_max_seconds", maxMs / MS_PER_S);
    text.add("nodejs_heap_used_bytes", this.#gauge.heapBytes());
    text.add("process_resident_memory_bytes", this.#gauge.memoryBytes());
    text.add("process_cpu_seconds_total", this.#gauge.cpuMs() / MS_PER_S);
    text.add("process_start_time_seconds", this.#gauge.startedAt() / MS_PER_S);
  }
}

const COUNTED = [
  "claimed",
  "recovered",
  "leasesLost",
  "staleWritesRefused",
] as const satisfies readonly (keyof Counters)[];

function writeSchedules(text: MetricText, standing: ScheduleStanding): void {
  const { schedules, paused, failing, lateMs, missed } = standing;
  text.add("holdfast_schedules", schedules - paused, { state: "active" });
  text.add("holdfast_schedules", paused, { state: "paused" });
  text.add("holdfast_schedules", failing, { state: "failing" });
  text.add("holdfast_schedule_late_seconds", lateMs / MS_PER_S);
  text.add("holdfast_schedule_missed_runs", missed);
}

/** Waits are measured in milliseconds; Prometheus expects seconds. */
function secondsOf(count: number, sumMs: number, waits: Pick<Histogram, "cumulative">): Counted {
  const cumulative = (): { bound: number; count: number }[] =>
    waits.cumulative().map((one) => ({ bound: one.boundMs / MS_PER_S, count: one.count }));
  return { count, sum: sumMs / MS_PER_S, cumulative };
}

// Metrics of all workers registered in the database: uptime, jobs done, builds.

/** Distinct label values: worker names, and builds per name. */
const WORKER_NAMES_MAX = 100;

const BUILDS_MAX = 20;

function writeFleet(
  text: MetricText,
  metrics: readonly WorkerMetrics[],
  { workers, enqueuers }: Drifts,
): void {
  for (const one of metrics.slice(0, WORKER_NAMES_MAX)) {
    const worker = one.type;
    const drift = workers.find(({ type }) => type === worker);
    const seconds = (ms: number): number => ms / MS_PER_S;
    text.add("holdfast_fleet_uptime_least_seconds", seconds(one.uptimeMs.least), { worker });
    text.add("holdfast_fleet_uptime_most_seconds", seconds(one.uptimeMs.most), { worker });
    text.add("holdfast_fleet_jobs_done", one.done.all, { worker });
    text.add("holdfast_fleet_jobs_done_most", one.done.most, { worker });
    text.add("holdfast_fleet_starts", one.startsPerDay, { worker });
    text.add("holdfast_fleet_heartbeat_gap_seconds", seconds(one.gapMsMax), { worker });
    text.add("holdfast_fleet_drift_builds", drift?.versions.length ?? 0, { worker });
    writeBuilds(text, one);
  }
  text.add("holdfast_enqueuing_builds_without_worker", enqueuers.length);
}

function writeBuilds(text: MetricText, { type: worker, versions }: WorkerMetrics): void {
  const running = versions.map(({ version, running: count }) => [version, count] as const);
  for (const [build, count] of cappedSum(BUILDS_MAX, running))
    text.add("holdfast_fleet_workers", count, { worker, build });
  for (const { version: build, rolloutMs } of versions.slice(0, BUILDS_MAX))
    text.add("holdfast_fleet_rollout_seconds", rolloutMs / MS_PER_S, { worker, build });
}

// Activity of the workers in this process, by queue and task up to a limit.

/** Distinct queues … */
export const QUEUES_MAX = 100;

/** … and tasks: each costs two dozen time series. */
export const TASKS_MAX = 200;

interface TaskStats {
  readonly runs: Buckets;
  readonly outcomes: Record<AttemptOutcome, number>;
}

export class WorkerMeter implements Meter {
  readonly #claims = new Buckets();
  readonly #pickups = new Map<string, Buckets>();
  /** By queue, then by task. */
  readonly #tasks = new Map<string, Map<string, TaskStats>>();
  #taskCount = 0;

  claimed(tookMs: number): void {
    this.#claims.add(tookMs / MS_PER_S);
  }

  started({ queue }: ClaimedJob, waitedMs: number | null): void {
    if (waitedMs === null) return;
    const label = cappedLabel(QUEUES_MAX, queue, this.#pickups);
    const pickups = this.#pickups.get(label) ?? new Buckets();
    this.#pickups.set(label, pickups);
    pickups.add(waitedMs / MS_PER_S);
  }

  ended({ queue, task }: ClaimedJob, outcome: AttemptOutcome, tookMs: number): void {
    const stats = this.#of(queue, task);
    stats.outcomes[outcome] += 1;
    stats.runs.add(tookMs / MS_PER_S);
  }

  write(text: MetricText): void {
    text.addBuckets("holdfast_claim_duration_seconds", this.#claims);
    for (const [queue, pickups] of this.#pickups)
      text.addBuckets("holdfast_pickup_latency_seconds", pickups, { queue });
    for (const [queue, tasks] of this.#tasks)
      for (const [task, { runs, outcomes }] of tasks) {
        text.addBuckets("holdfast_attempt_duration_seconds", runs, { queue, task });
        for (const outcome of attemptOutcomes)
          text.add("holdfast_attempts_total", outcomes[outcome], { queue, task, outcome });
      }
  }

  #of(queue: string, task: string): TaskStats {
    const known = this.#tasks.get(queue)?.get(task);
    if (known !== undefined) return known;
    const isOther = queue === OTHER && task === OTHER;
    if (this.#taskCount >= TASKS_MAX && !isOther) return this.#of(OTHER, OTHER);
    const none = attemptOutcomes.map((outcome) => [outcome, 0]);
    const outcomes = Object.fromEntries(none) as TaskStats["outcomes"];
    const stats: TaskStats = { runs: new Buckets(), outcomes };
    const tasks = this.#tasks.get(queue) ?? new Map<string, TaskStats>();
    this.#tasks.set(queue, tasks.set(task, stats));
    this.#taskCount += 1;
    return stats;
  }
}
