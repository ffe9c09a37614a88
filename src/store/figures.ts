/**
 * What the store tells without counting: how many jobs stood where when somebody last counted, and how many came and ended in
 * every minute.
 *
 * One process counts for all, seldom enough that counting takes a hundredth of its time at most, however many rows there are.
 * What ended is counted once, by the minute it ended in, when that minute is over.
 */
import type { Status } from "../core/job.ts";

export interface Figures {
  /**
   * Counts anew what stands where, unless somebody did within `everyMs`, or within a hundred times as long as it took. Null:
   * it was not due.
   */
  takeCensus(chore: { everyMs: number }): Promise<Census | null>;
  /** The last count; null: nobody has counted yet. */
  census(): Promise<Census | null>;
  /** Adds minutes that are over to the rollups, at most `limit` of them. Returns how many; call again when it is `limit`. */
  foldMinutes(chore: { limit: number }): Promise<number>;
  /** The rollups of the last `forMs`, oldest first. */
  minutes(filter: MinuteFilter): Promise<MinuteFigures[]>;
  /** Deletes rollups older than this. Returns how many; call again when it is `limit` or more. */
  pruneMinutes(chore: { forMs: number; limit: number }): Promise<number>;
}

export interface Census {
  /** By the database's clock. */
  readonly countedAt: number;
  readonly tookMs: number;
  readonly queues: readonly QueueDepth[];
}

export interface QueueDepth {
  readonly queue: string;
  readonly counts: Readonly<Record<Status, number>>;
  readonly oldestPendingAt: number | null;
}

export interface MinuteFilter {
  readonly forMs: number;
  readonly queue?: string;
  readonly limit: number;
}

export interface MinuteFigures {
  /** The instant it began. */
  readonly minute: number;
  readonly queue: string;
  /** Jobs that were enqueued in it … */
  readonly arrived: number;
  /** … and that ended in it. */
  readonly done: number;
  readonly failed: number;
  readonly cancelled: number;
  /** How long the last attempts of those took that ended. */
  readonly runMsSum: number;
  readonly runMsMax: number;
}
