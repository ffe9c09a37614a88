/** One observation of the monitor; alerts are decided by it. */
import type { Finding } from "../core/finding.ts";
import type { LockTimes } from "../locks/stats.ts";
import type { Counts } from "../stats/counts.ts";
import type { MinuteStats } from "../stats/totals.ts";

/** How far back lock statistics are read. */
export const LOCKS_OBSERVED_MS = 5 * 60_000;

export interface Observation {
  /** By the clock of this process. */
  readonly at: number;
  /** Null: jobs have not been counted yet. */
  readonly counts: Counts | null;
  /** The last 15 minutes, oldest first. */
  readonly minutes: readonly MinuteStats[];
  /** The findings of the cheap checks. */
  readonly findings: readonly Finding[];
  /** False: the checks could not run this time, so an empty list means nothing. Default true. */
  readonly examined?: boolean;
  /** Lock statistics of the last five minutes, by type. Null or omitted: they could not be read. */
  readonly locks?: readonly LockTimes[] | null;
  readonly canaries: readonly CanaryReport[];
}

/** The result of a queue's last canary job. */
export interface CanaryReport {
  readonly queue: string;
  readonly sentAt: number;
  /** From enqueue to the start of its attempt; null: it has not started. */
  readonly pickupMs: number | null;
  /** From enqueue to its end; null: it has not ended. */
  readonly doneMs: number | null;
}
