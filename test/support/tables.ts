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
  "lock",
  "lock_stat",
];

/** Those of workflows from which the database refuses to delete. */
export const GUARDED_TABLES = ["item_audit", "item"];

/** The others of workflows, which are mostly empty. */
export const WORKFLOW_TABLES = [
  "item_progress",
  "item_due",
  "item_job",
  "item_pruning",
  "workflow_move",
  "workflow_state",
  "workflow_type",
  "workflow",
];

/** Before their rows are deleted: the audit lets go of what its retention has let go of. */
export const LET_GO = "update holdfast.audit_head set pruned_seq = seq, pruned_hash = hash";
