/** The tables of a database that is used again, and how they are emptied. */
import type { Engine } from "../../src/store/engine.ts";

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
  "report",
  "worker",
  "worker_type",
  "enqueuer",
  "audit",
  "lock",
  "lock_stat",
  "depth",
  "rollup",
  "alert",
  "alert_delivery",
  "token",
  "request",
  "job_trace",
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

/** Nobody has counted yet. */
export const FORGET =
  "update holdfast.census set begun_at = 0, counted_at = 0, took_ms = 0, folded_until = 0";

/** Deletes every row, as one script: a server is asked once and not for every table. */
export async function emptyTables(engine: Engine): Promise<void> {
  const prefix = engine.address?.engine === "postgres" ? "holdfast." : "holdfast_";
  const deletions = TABLES.map((table) => `delete from ${prefix}${table}`);
  const updates = [LET_GO, FORGET].map((update) => update.replaceAll("holdfast.", prefix));
  const script = [...updates, ...deletions].join(";");
  await engine.transaction((tx) => tx.script(script));
}
