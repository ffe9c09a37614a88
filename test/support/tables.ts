/** The tables that are emptied when a database is used again. */
export const TABLES = [
  "job",
  "ready",
  "waiting",
  "lease",
  "finished",
  "attempt",
  "job_key",
  "kept_key",
  "step",
  "event",
  "wait",
  "worker",
  "worker_type",
  "enqueuer",
  "audit",
];
