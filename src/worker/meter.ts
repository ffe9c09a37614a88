/**
 * Whoever measures a worker: told of every claim and every attempt, in plain arguments, because on a busy worker an event
 * for each would cost more than what it measures.
 */
import type { ClaimedJob } from "../store/store.ts";

export const attemptOutcomes = [
  "completed",
  "retried",
  "dead",
  "cancelled",
  "released",
  "suspended",
] as const;

export type AttemptOutcome = (typeof attemptOutcomes)[number];

export interface Meter {
  /** The store took so long to settle what had ended and to claim. */
  claimed(tookMs: number): void;
  /** `waitedMs`: since the job became pending; null: nobody knows. */
  started(job: ClaimedJob, waitedMs: number | null): void;
  /** `tookMs`: from the start of its function to its end. */
  ended(job: ClaimedJob, outcome: AttemptOutcome, tookMs: number): void;
}

/** How far a worker's loops and its keeper are behind. */
export interface Pulse {
  /** How often it gives a sign of life. */
  readonly heartbeatMs: number;
  /** Since the last one that the database has answered. */
  readonly beatAgeMs: number;
  readonly loops: readonly LoopPulse[];
}

export interface LoopPulse {
  readonly name: string;
  /** For how long its turn has been under way, or should have begun. */
  readonly lateMs: number;
}
