/** What is kept about what operators do. What is done to items is kept with them: see item.ts. */
import { createHash } from "node:crypto";

/** One line: who did what to whom, and why. The lines have no gaps, and each carries the hash of the one before. */
export interface AuditEntry {
  readonly id: string;
  /** From 1. */
  readonly seq: number;
  readonly at: number;
  readonly actor: string;
  /** Such as `job.cancel`, `job.retry`, `step.done`, `worker.pause`, `worker.limit`, `lock.release`, `token.create`, `workflow.keep`. */
  readonly action: string;
  /** Such as `job 0199…`, `worker mailer-…`, `type mailer`, `lock order:…`, `token ci`, `workflow order`. */
  readonly subject: string;
  /** Null where nobody's status is concerned, or where there are several. */
  readonly oldStatus: string | null;
  readonly newStatus: string | null;
  readonly reason: string | null;
  /** Whatever the actor traces by. */
  readonly traceId: string | null;
  /** More about it, such as the name of a step. */
  readonly detail: string | null;
  readonly previousHash: string | null;
  /** Null: it was removed. */
  readonly hash: string | null;
}

/**
 * What is wrong with a line, or with what it tells of: lines are missing before it (`gap`); it does not follow the one
 * before (`link`); it does not say any more what it said when it was written (`changed`); the last line is another than was
 * counted (`head`); its hash was taken away (`hash`); lines before it were removed without the line that a pruning leaves
 * (`pruning`); what it tells of has another status or other data by now (`status`, `data`); it tells of an item that is not
 * there (`orphan`); or it is not the one that an earlier run saw (`witness`).
 */
export type BreakKind =
  | "gap"
  | "link"
  | "changed"
  | "head"
  | "hash"
  | "pruning"
  | "status"
  | "data"
  | "orphan"
  | "witness";

export interface AuditBreak {
  readonly kind: BreakKind;
  /** Null: it is in the audit of what operators do. */
  readonly item: string | null;
  readonly seq: number;
  /** In a sentence. */
  readonly problem: string;
}

/** How the lines name what was acted upon. */
export const subjects = {
  job: (id: string): string => `job ${id}`,
  worker: (id: string): string => `worker ${id}`,
  type: (name: string): string => `type ${name}`,
  workers: "all workers",
  lock: (key: string): string => `lock ${key}`,
  workflow: (name: string): string => `workflow ${name}`,
  token: (name: string): string => `token ${name}`,
  audit: "audit",
  database: "database",
} as const;

/** What the first line has before it. */
export const NO_HASH = "0".repeat(64);

export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
