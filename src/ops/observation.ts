/** What the monitor saw in one look: what alerts are decided by. */
import type { Finding } from "../core/finding.ts";
import type { LockFigures } from "../queue/lock-stats.ts";
import type { Census, MinuteFigures } from "../store/figures.ts";

/** How far back an observation looks at locks. */
export const LOCKS_OBSERVED_MS = 5 * 60_000;

export interface Observation {
  /** By the clock of this process. */
  readonly at: number;
  /** Null: nobody has counted yet. */
  readonly census: Census | null;
  /** Of the last quarter of an hour, oldest first. */
  readonly minutes: readonly MinuteFigures[];
  /** What the checks found that run all the time. */
  readonly findings: readonly Finding[];
  /** False: the checks could not be run this time, so that none was found says nothing. Default true. */
  readonly examined?: boolean;
  /** How locks were used in the last five minutes, by type. Null or left out: it could not be read. */
  readonly locks?: readonly LockFigures[] | null;
  readonly canaries: readonly CanaryReport[];
}

/** How a synthetic job of a queue fared: the last one that was sent. */
export interface CanaryReport {
  readonly queue: string;
  readonly sentAt: number;
  /** From enqueue to the start of its attempt; null: it has not started. */
  readonly pickupMs: number | null;
  /** From enqueue to its end; null: it has not ended. */
  readonly doneMs: number | null;
}
