/**
 * What the store tells without counting: how many jobs stood where when somebody last counted, and how many came and ended in
 * every minute.
 *
 * One process counts for all, seldom enough that counting takes a hundredth of its time at most, however many rows there are.
 * What ended is counted by the minute it ended in, when that minute is over; until then, with every census.
 */
import type { Status } from "../core/job.ts";

export interface Figures {
  /**
   * Counts anew what stands where, unless somebody did within `everyMs`, or within a hundred times as long as it took. Null:
   * it was not due.
   */
  takeCensus(chore: { everyMs: number }): Promise<Census | null>;
  /** The last count; null: nobody has counted yet. */
  census(): Promise<AgedCensus | null>;
  /** Adds minutes that are over to the rollups, at most `limit` of them. Returns how many; call again when it is `limit`. */
  foldMinutes(chore: { limit: number }): Promise<number>;
  /** The rollups of the last `forMs`, oldest first. */
  minutes(filter: MinuteFilter): Promise<MinuteFigures[]>;
  /** Deletes rollups older than this. Returns how many; call again when it is `limit` or more. */
  pruneMinutes(chore: { forMs: number; limit: number }): Promise<number>;
}

export interface Census {
  /** The instant that it tells about, by the database's clock. */
  readonly countedAt: number;
  readonly tookMs: number;
  /** By name. Of very many queues those with the most jobs, and all others as one: see foremost.ts. */
  readonly queues: readonly QueueDepth[];
}

export interface AgedCensus extends Census {
  /** How long ago that is, by the database's clock. */
  readonly ageMs: number;
}

export interface QueueDepth {
  readonly queue: string;
  /**
   * Those that are live as they all stood at one instant. Those that are done, failed or cancelled are never counted: they are
   * the sums of the rollups, so they are the ones that ended within the time that rollups are kept (7 days).
   */
  readonly counts: Readonly<Record<Status, number>>;
  readonly oldestPendingAt: number | null;
}

export interface MinuteFilter {
  readonly forMs: number;
  readonly queue?: string;
  /** Of more rows than this, the oldest are left out. */
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
