/** The lines of the audit log about operators. Lines about items are stored with these: see item.ts. */
import { createHash } from "node:crypto";

/** One line: who did what, and why. The numbers have no gaps, and each line has the hash of the previous one. */
export interface AuditEntry {
  readonly id: string;
  /** From 1. */
  readonly seq: number;
  readonly at: number;
  readonly actor: string;
  /** Such as `job.cancel`, `job.retry`, `step.done`, `worker.pause`, `worker.limit`, `lock.release`, `token.create`, `workflow.keep`, `schedule.edit`. */
  readonly action: string;
  /** Such as `job 0199…`, `worker mailer-…`, `type mailer`, `lock order:…`, `token ci`, `workflow order`, `schedule nightly`. */
  readonly subject: string;
  /** Null where the action concerns no status, or several. */
  readonly oldStatus: string | null;
  readonly newStatus: string | null;
  readonly reason: string | null;
  /** The actor's trace id. */
  readonly traceId: string | null;
  /** More facts, such as the name of a step. */
  readonly detail: string | null;
  readonly previousHash: string | null;
  /** Null: it was removed. */
  readonly hash: string | null;
}

/** What is wrong with a line, or with its subject. */
export type BreakKind =
  | "gap" // lines before it are missing
  | "link" // it does not follow the line before it
  | "changed" // it was changed after it was written
  | "head" // the last line is not the one that was counted
  | "hash" // its hash was removed
  | "pruning" // lines before it were deleted without the line that a pruning writes
  | "status" // its item has another status now
  | "data" // its item has other data now
  | "orphan" // its item does not exist
  | "witness"; // it is not the line that an earlier run saw

export interface AuditBreak {
  readonly kind: BreakKind;
  /** Null: a line of operators. */
  readonly item: string | null;
  readonly seq: number;
  /** A sentence. */
  readonly problem: string;
}

/** The names of subjects. */
export const subjects = {
  job: (id: string): string => `job ${id}`,
  queue: (name: string): string => `queue ${name}`,
  queues: "all queues",
  worker: (id: string): string => `worker ${id}`,
  type: (name: string): string => `type ${name}`,
  workers: "all workers",
  lock: (key: string): string => `lock ${key}`,
  workflow: (name: string): string => `workflow ${name}`,
  token: (name: string): string => `token ${name}`,
  bulk: (id: string): string => `bulk ${id}`,
  schedule: (name: string): string => `schedule ${name}`,
  error: (id: string): string => `error ${id}`,
  audit: "audit",
  database: "database",
} as const;

/** The previous hash of the first line. */
export const NO_HASH = "0".repeat(64);

export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
