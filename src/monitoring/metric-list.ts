/**
 * Every metric: its name, help text and labels. Only listed metrics can be written. Tests compare the guide's table and the
 * dashboard with this list.
 */

export interface MetricFacts {
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
}

type Describe = (help: string, ...labels: readonly string[]) => MetricFacts;

const counter: Describe = (help, ...labels) => ({ type: "counter", help, labels });

const gauge: Describe = (help, ...labels) => ({ type: "gauge", help, labels });

const histogram: Describe = (help, ...labels) => ({ type: "histogram", help, labels });

export const metrics = {
  holdfast_up: gauge("1 if the database answered the last query, otherwise 0."),
  holdfast_build_info: gauge(
    "Always 1; the labels name the library version, application build, Node.js version and database.",
    "library",
    "build",
    "node",
    "store",
  ),

  holdfast_push_up: gauge(
    "1 while notifications from other processes (LISTEN, Redis) arrive; absent without push.",
  ),

  // Jobs, as last counted.
  holdfast_queue_jobs: gauge("Jobs by queue and status, as last counted.", "queue", "status"),
  holdfast_queue_oldest_pending_seconds: gauge(
    "Age of the oldest pending job of a queue, as last counted.",
    "queue",
  ),
  holdfast_counts_age_seconds: gauge("Time since jobs were last counted."),

  // Schedules.
  holdfast_schedules: gauge("Schedules by state: active, paused or failing.", "state"),
  holdfast_schedule_late_seconds: gauge(
    "How long the most overdue tick of a schedule has waited; 0 while schedules run on time.",
  ),
  holdfast_schedule_missed_runs: gauge(
    "Missed runs that were skipped, for all existing schedules.",
  ),

  // The activity of this process.
  holdfast_claim_duration_seconds: histogram(
    "Duration of the database call that settles and claims jobs.",
  ),
  holdfast_pickup_latency_seconds: histogram(
    "Time from a job becoming pending to the start of its attempt.",
    "queue",
  ),
  holdfast_attempt_duration_seconds: histogram(
    "Duration of attempts, whatever their outcome.",
    "queue",
    "task",
  ),
  holdfast_attempts_total: counter("Ended attempts by outcome.", "queue", "task", "outcome"),
  holdfast_jobs_claimed_total: counter("Claimed jobs."),
  holdfast_leases_lost_total: counter(
    "Leases lost to another worker while the job ran in this process.",
  ),
  holdfast_leases_recovered_total: counter("Expired leases of other workers that were reclaimed."),
  holdfast_stale_writes_refused_total: counter(
    "Outcomes refused because another worker held the lease by then.",
  ),
  holdfast_moves_refused_total: counter("Refused moves of jobs and items, by error code.", "code"),
  holdfast_lock_acquisitions_total: counter("Acquired locks.", "type"),
  holdfast_lock_timeouts_total: counter("Lock acquisitions that timed out.", "type"),
  holdfast_lock_wait_seconds: histogram("Time spent waiting for locks that were acquired.", "type"),
  holdfast_transactions_rolled_back_total: counter("Transactions rolled back."),
  holdfast_transactions_repeated_total: counter(
    "Transactions retried after a conflict, a lock timeout or a lost connection.",
  ),

  // The workers of this process.
  holdfast_worker_running_jobs: gauge("Jobs running now.", "worker"),
  holdfast_worker_buffered_jobs: gauge("Claimed jobs waiting for a free slot.", "worker"),
  holdfast_worker_concurrency: gauge("Maximum number of jobs running at the same time.", "worker"),
  holdfast_worker_heartbeat_age_seconds: gauge(
    "Time since the last heartbeat acknowledged by the database.",
    "worker",
  ),

  // All workers registered in the database.
  holdfast_fleet_workers: gauge("Running workers by name and build.", "worker", "build"),
  holdfast_fleet_uptime_least_seconds: gauge("Uptime of the youngest running worker.", "worker"),
  holdfast_fleet_uptime_most_seconds: gauge("Uptime of the oldest running worker.", "worker"),
  holdfast_fleet_jobs_done: gauge("Jobs done by all running workers.", "worker"),
  holdfast_fleet_jobs_done_most: gauge("Jobs done by the busiest running worker.", "worker"),
  holdfast_fleet_starts: gauge("Worker starts within the last day.", "worker"),
  holdfast_fleet_heartbeat_gap_seconds: gauge(
    "Longest gap between two heartbeats of a running worker.",
    "worker",
  ),
  holdfast_fleet_rollout_seconds: gauge(
    "Time from the start of a build's first worker to the start of its last.",
    "worker",
    "build",
  ),
  holdfast_fleet_drift_builds: gauge(
    "Number of builds running at the same time where there should be one.",
    "worker",
  ),
  holdfast_enqueuing_builds_without_worker: gauge(
    "Builds that enqueue jobs but have no running worker.",
  ),

  // The database.
  holdfast_pool_connections: gauge("Connections of a pool by state.", "pool", "state"),
  holdfast_pool_waiting: gauge("Callers waiting for a pool connection.", "pool"),
  holdfast_table_live_rows: gauge("Rows of a hot table, as estimated by PostgreSQL.", "table"),
  holdfast_table_dead_rows: gauge("Dead rows of a hot table waiting for vacuum.", "table"),
  holdfast_oldest_transaction_seconds: gauge("Age of the oldest open transaction."),

  // This process.
  holdfast_event_loop_delay_mean_seconds: gauge("Average event loop delay since the last scrape."),
  holdfast_event_loop_delay_p99_seconds: gauge("99th percentile of the event loop delay."),
  holdfast_event_loop_delay_max_seconds: gauge("Maximum event loop delay."),
  nodejs_heap_used_bytes: gauge("Used heap."),
  process_resident_memory_bytes: gauge("Resident memory of the process."),
  process_cpu_seconds_total: counter("CPU time of all threads."),
  process_start_time_seconds: gauge("Start time of the process since the Unix epoch."),
} as const satisfies Record<string, MetricFacts>;

export type MetricName = keyof typeof metrics;

// Metrics in the Prometheus text format, version 0.0.4.

type Labels = Readonly<Record<string, string>>;

/** A histogram in seconds, with cumulative counts. */
export interface Counted {
  cumulative(): { readonly bound: number; readonly count: number }[];
  readonly sum: number;
  readonly count: number;
}

export class MetricText {
  readonly #samples = new Map<MetricName, string[]>();

  add(name: MetricName, value: number, labels: Labels = {}): void {
    this.#line(name, `${name}${labelled(labels)} ${written(value)}`);
  }

  addBuckets(name: MetricName, buckets: Counted, labels: Labels = {}): void {
    for (const { bound, count } of buckets.cumulative()) {
      const le = written(bound);
      this.#line(name, `${name}_bucket${labelled({ ...labels, le })} ${count}`);
    }
    this.#line(name, `${name}_sum${labelled(labels)} ${written(buckets.sum)}`);
    this.#line(name, `${name}_count${labelled(labels)} ${buckets.count}`);
  }

  /** In the order of the list; metrics without samples are left out. */
  toString(): string {
    const families = Object.entries<MetricFacts>(metrics).flatMap(([name, { type, help }]) => {
      const lines = this.#samples.get(name as MetricName);
      if (lines === undefined) return [];
      return [`# HELP ${name} ${escapedHelp(help)}`, `# TYPE ${name} ${type}`, ...lines];
    });
    return `${families.join("\n")}\n`;
  }

  #line(name: MetricName, line: string): void {
    const lines = this.#samples.get(name);
    if (lines === undefined) this.#samples.set(name, [line]);
    else lines.push(line);
  }
}

function labelled(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escapedHelp(text: string): string {
  return text.replaceAll("\\", String.raw`\\`).replaceAll("\n", String.raw`\n`);
}

function escaped(text: string): string {
  return escapedHelp(text).replaceAll('"', String.raw`\"`);
}

function written(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (Number.isFinite(value)) return String(value);
  return value > 0 ? "+Inf" : "-Inf";
}

/**
 * The label of all names beyond a limit. Names come from users: without a limit, a queue for every customer would mean a
 * time series for each.
 */
export const OTHER = "other";

export function cappedLabel(
  max: number,
  name: string,
  known: ReadonlyMap<string, unknown>,
): string {
  return known.has(name) || known.size < max ? name : OTHER;
}

/** Sums values by name; names beyond the limit are summed under `other`. */
export function cappedSum(
  max: number,
  rows: Iterable<readonly [name: string, value: number]>,
  add: (a: number, b: number) => number = (a, b) => a + b,
): Map<string, number> {
  const sums = new Map<string, number>();
  for (const [name, value] of rows) {
    const label = cappedLabel(max, name, sums);
    sums.set(label, add(sums.get(label) ?? 0, value));
  }
  return sums;
}
