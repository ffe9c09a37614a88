/**
 * What this process knows of itself, its workers and its database, for Prometheus.
 *
 * A scrape reads memory. What only the database knows is asked for seldom and kept, however many scrape; when the database is
 * gone, everything else is told all the same, and `holdfast_up` is 0.
 */
import type { Histogram } from "../core/histogram.ts";
import { statuses } from "../core/job.ts";
import { refusals } from "../core/refusals.ts";
import { fineGauge, type FineGauge } from "../core/runtime.ts";
import { libraryVersion } from "../core/version.ts";
import type { Drifts, WorkerMetrics } from "../queue/workers.ts";
import type { Census } from "../store/figures.ts";
import type { Condition } from "../store/load.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import type { Counters } from "../worker/reporter.ts";
import type { Worker } from "../worker/worker.ts";
import { boundedSum } from "./bounded.ts";
import { Kept } from "./kept.ts";
import { writeFleet } from "./metric-fleet.ts";
import { MetricText, type Counted } from "./metric-text.ts";
import { QUEUES_MAX, WorkerMeter } from "./worker-meter.ts";

/** The rows of workers, and the last count of jobs, are read at most this often … */
const FLEET_KEPT_MS = 10_000;
const CENSUS_KEPT_MS = 5_000;
/** … and the database is asked how it is. */
const CONDITION_KEPT_MS = 30_000;
/** A scrape does not wait longer for the database. Prometheus gives up after ten seconds. */
const ANSWER_MS_MAX = 2_000;

const MS_PER_S = 1_000;

export interface MetricsParts {
  readonly holdfast: Holdfast;
  /** The last count of jobs. Default: the depth of queues is not told. */
  readonly census?: () => Promise<Census | null>;
}

export class Metrics {
  readonly #parts: MetricsParts;
  readonly #gauge: FineGauge = fineGauge();
  readonly #meter = new WorkerMeter();
  readonly #workers = new Set<Worker>();
  /** What workers counted that have stopped: a counter never goes down. */
  readonly #past = { claimed: 0, recovered: 0, leasesLost: 0, staleWritesRefused: 0 };
  readonly #fleet: Kept<{ readonly metrics: readonly WorkerMetrics[]; readonly drifts: Drifts }>;
  readonly #census: Kept<Census | null>;
  readonly #condition: Kept<Condition | null>;

  constructor(parts: MetricsParts) {
    const { holdfast, census = () => Promise.resolve(null) } = parts;
    const { runtime, store, workers } = holdfast;
    const kept = <T>(forMs: number, ask: () => Promise<T>): Kept<T> =>
      new Kept({ runtime, ask, forMs, waitMs: ANSWER_MS_MAX });
    this.#parts = parts;
    this.#fleet = kept(FLEET_KEPT_MS, async () => ({
      metrics: await workers.metrics(),
      drifts: await workers.drift(),
    }));
    this.#census = kept(CENSUS_KEPT_MS, census);
    this.#condition = kept(CONDITION_KEPT_MS, () => store.condition());
  }

  /** From now on, what this worker does is counted. */
  watch(worker: Worker): void {
    if (this.#workers.has(worker)) return;
    this.#workers.add(worker);
    worker.measure(this.#meter);
    worker.on("worker:stopped", () => this.#remember(worker));
  }

  async text(): Promise<string> {
    const [fleet, census, condition] = await Promise.all([
      this.#fleet.get(),
      this.#census.get(),
      this.#condition.get(),
    ]);
    const text = new MetricText();
    text.add("holdfast_up", fleet === null ? 0 : 1);
    this.#writeBuild(text);
    if (census !== null) this.#writeCensus(text, census);
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

  #remember(worker: Worker): void {
    if (!this.#workers.delete(worker)) return;
    const counters = worker.status();
    for (const name of COUNTED) this.#past[name] += counters[name];
  }

  #writeBuild(text: MetricText): void {
    const { version: build, store } = this.#parts.holdfast;
    const kind = store.name.split(":", 1)[0] ?? "";
    const facts = { library: libraryVersion(), build, node: process.version, store: kind };
    text.add("holdfast_build_info", 1, facts);
    const push = store.pushState();
    if (push === "up" || push === "down") text.add("holdfast_push_up", push === "up" ? 1 : 0);
  }

  /** As of the count: the database's clock says both instants. */
  #writeCensus(text: MetricText, { countedAt, queues }: Census): void {
    const ageMs = this.#parts.holdfast.runtime.now() - countedAt;
    text.add("holdfast_census_age_seconds", Math.max(0, ageMs) / MS_PER_S);
    for (const status of statuses) {
      const jobs = queues.map(({ queue, counts }) => [queue, counts[status]] as const);
      for (const [queue, count] of boundedSum(QUEUES_MAX, jobs)) {
        text.add("holdfast_queue_jobs", count, { queue, status });
      }
    }
    const waits = queues.map(({ queue, oldestPendingAt }) => {
      const waitedMs = oldestPendingAt === null ? 0 : countedAt - oldestPendingAt;
      return [queue, waitedMs / MS_PER_S] as const;
    });
    for (const [queue, seconds] of boundedSum(QUEUES_MAX, waits, Math.max)) {
      text.add("holdfast_queue_oldest_pending_seconds", seconds, { queue });
    }
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
      text.addBuckets("holdfast_lock_wait_seconds", secondsOf(acquisitions, waitMs, waits), {
        type,
      });
    }
  }

  /** Workers of one name are added up: their ids are new with every start. */
  #writeWorkers(text: MetricText): void {
    for (const [worker, some] of Map.groupBy(this.#workers, ({ name }) => name)) {
      const sum = (of: (one: Worker) => number): number =>
        some.reduce((all, one) => all + of(one), 0);
      const ages = some.map((one) => one.pulse()?.beatAgeMs ?? 0);
      text.add(
        "holdfast_worker_running_jobs",
        sum((one) => one.status().running),
        { worker },
      );
      text.add(
        "holdfast_worker_buffered_jobs",
        sum((one) => one.status().buffered),
        { worker },
      );
      text.add(
        "holdfast_worker_concurrency",
        sum((one) => one.concurrency),
        { worker },
      );
      const age = Math.max(...ages) / MS_PER_S;
      text.add("holdfast_worker_heartbeat_age_seconds", age, { worker });
    }
  }

  #writeStore(text: MetricText, condition: Condition | null): void {
    const { pools, transactions } = this.#parts.holdfast.store.load();
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

/** Waits are counted in milliseconds; Prometheus reads seconds. */
function secondsOf(count: number, sumMs: number, waits: Pick<Histogram, "cumulative">): Counted {
  const cumulative = (): { bound: number; count: number }[] =>
    waits.cumulative().map((one) => ({ bound: one.boundMs / MS_PER_S, count: one.count }));
  return { count, sum: sumMs / MS_PER_S, cumulative };
}
