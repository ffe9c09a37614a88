/**
 * Every metric there is: what it is called, what it counts and what it is told apart by. What is not in this list cannot be
 * written; the guide's table and the dashboard are compared with it.
 */

export type MetricType = "counter" | "gauge" | "histogram";

export interface MetricFacts {
  readonly type: MetricType;
  readonly help: string;
  readonly labels: readonly string[];
}

function counter(help: string, ...labels: readonly string[]): MetricFacts {
  return { type: "counter", help, labels };
}

function gauge(help: string, ...labels: readonly string[]): MetricFacts {
  return { type: "gauge", help, labels };
}

function histogram(help: string, ...labels: readonly string[]): MetricFacts {
  return { type: "histogram", help, labels };
}

export const metrics = {
  holdfast_up: gauge("Whether the database answered when it was last asked."),
  holdfast_build_info: gauge(
    "Always 1: the library, the build of the application, Node.js and the kind of database.",
    "library",
    "build",
    "node",
    "store",
  ),

  holdfast_push_up: gauge(
    "Whether other processes' changes are pushed to this one (LISTEN, Redis); not there without push.",
  ),

  // What stands where, by the last count.
  holdfast_queue_jobs: gauge(
    "Jobs by queue and status when they were last counted.",
    "queue",
    "status",
  ),
  holdfast_queue_oldest_pending_seconds: gauge(
    "How long the longest pending job of a queue had been pending when jobs were last counted.",
    "queue",
  ),
  holdfast_census_age_seconds: gauge("How long ago jobs were last counted."),

  // What this process does.
  holdfast_claim_duration_seconds: histogram("How long the database took to settle and claim."),
  holdfast_pickup_latency_seconds: histogram(
    "From the moment a job became pending to the start of its attempt.",
    "queue",
  ),
  holdfast_attempt_duration_seconds: histogram(
    "How long attempts ran, whatever they came to.",
    "queue",
    "task",
  ),
  holdfast_attempts_total: counter(
    "Attempts that ended, by what they came to.",
    "queue",
    "task",
    "outcome",
  ),
  holdfast_jobs_claimed_total: counter("Jobs that were claimed."),
  holdfast_leases_lost_total: counter(
    "Jobs that turned out to be somebody else's while they ran here.",
  ),
  holdfast_leases_recovered_total: counter(
    "Leases of others that had run out and were taken back.",
  ),
  holdfast_stale_writes_refused_total: counter(
    "Outcomes that the database refused because the job was somebody else's by then.",
  ),
  holdfast_moves_refused_total: counter(
    "Moves of jobs and items that were refused, by the code of the error.",
    "code",
  ),
  holdfast_lock_acquisitions_total: counter("Locks that were acquired.", "type"),
  holdfast_lock_timeouts_total: counter("Locks that were waited for in vain.", "type"),
  holdfast_lock_wait_seconds: histogram("How long acquired locks were waited for.", "type"),
  holdfast_transactions_rolled_back_total: counter("Transactions that were undone."),
  holdfast_transactions_repeated_total: counter(
    "Transactions that were run again: a conflict, a lock, a connection that was lost in time.",
  ),

  // The workers of this process.
  holdfast_worker_running_jobs: gauge("Jobs that run now.", "worker"),
  holdfast_worker_buffered_jobs: gauge("Jobs that are claimed and wait for a place.", "worker"),
  holdfast_worker_concurrency: gauge("Jobs that may run at once.", "worker"),
  holdfast_worker_heartbeat_age_seconds: gauge(
    "Since the last sign of life that the database has answered.",
    "worker",
  ),

  // All workers of the database, by their rows.
  holdfast_fleet_workers: gauge("Workers that run, by name and build.", "worker", "build"),
  holdfast_fleet_uptime_least_seconds: gauge("How long the youngest worker has run.", "worker"),
  holdfast_fleet_uptime_most_seconds: gauge("How long the oldest worker has run.", "worker"),
  holdfast_fleet_jobs_done: gauge("Jobs done by the workers that run, together.", "worker"),
  holdfast_fleet_jobs_done_most: gauge(
    "Jobs done by the busiest of the workers that run.",
    "worker",
  ),
  holdfast_fleet_starts: gauge("Workers that started within the last day.", "worker"),
  holdfast_fleet_heartbeat_gap_seconds: gauge(
    "The longest time between two signs of life of a worker that runs.",
    "worker",
  ),
  holdfast_fleet_rollout_seconds: gauge(
    "From the start of the first worker of a build to that of its last.",
    "worker",
    "build",
  ),
  holdfast_fleet_drift_builds: gauge(
    "How many builds run at once where there should be one.",
    "worker",
  ),
  holdfast_enqueuing_builds_without_worker: gauge(
    "Builds that enqueue jobs and that no running worker has.",
  ),

  // The database, as far as it tells.
  holdfast_pool_connections: gauge("Connections of a pool, by what they do.", "pool", "state"),
  holdfast_pool_waiting: gauge("Those who wait for a connection of a pool.", "pool"),
  holdfast_table_live_rows: gauge("Rows of a hot table, as PostgreSQL estimates.", "table"),
  holdfast_table_dead_rows: gauge("Rows of a hot table that wait for vacuum.", "table"),
  holdfast_oldest_transaction_seconds: gauge("How long the oldest open transaction has been open."),

  // This process.
  holdfast_event_loop_delay_mean_seconds: gauge(
    "How late the event loop was on average since the last look.",
  ),
  holdfast_event_loop_delay_p99_seconds: gauge(
    "How late the event loop was at the 99th percentile.",
  ),
  holdfast_event_loop_delay_max_seconds: gauge("How late the event loop was at the worst."),
  nodejs_heap_used_bytes: gauge("The part of the heap that is in use."),
  process_resident_memory_bytes: gauge("Memory of the process."),
  process_cpu_seconds_total: counter("Time on the processor, of all threads."),
  process_start_time_seconds: gauge("When the process started, since 1970."),
} as const satisfies Record<string, MetricFacts>;

export type MetricName = keyof typeof metrics;
