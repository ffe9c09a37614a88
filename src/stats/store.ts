/** The verbs about figures. */
import type { Database } from "../database/database.ts";
import type { Engine } from "../database/engine.ts";
import { type AgedCounts, type Counts, lastCounts, takeCounts } from "./counts.ts";
import {
  foldMinutes,
  type MinuteFilter,
  minutes,
  type MinuteStats,
  pruneMinutes,
} from "./minute-totals.ts";

export interface StatsStore {
  /**
   * Counts anew what stands where, unless somebody did within `everyMs`, or within a hundred times as long as it took. Null:
   * it was not due.
   */
  takeCounts(chore: { everyMs: number }): Promise<Counts | null>;
  /** The last count; null: nobody has counted yet. */
  counts(): Promise<AgedCounts | null>;
  /** Adds minutes that are over to the minute totals, at most `limit` of them. Returns how many; call again when it is `limit`. */
  foldMinutes(chore: { limit: number }): Promise<number>;
  /** The minute totals of the last `forMs`, oldest first. */
  minutes(filter: MinuteFilter): Promise<MinuteStats[]>;
  /** Deletes minute totals older than this. Returns how many; call again when it is `limit` or more. */
  pruneMinutes(chore: { forMs: number; limit: number }): Promise<number>;
}

export class SqlStats implements StatsStore {
  readonly #engine: Engine;

  constructor({ engine }: Database) {
    this.#engine = engine;
  }

  takeCounts(chore: { everyMs: number }): Promise<Counts | null> {
    return takeCounts(this.#engine, chore);
  }

  counts(): Promise<AgedCounts | null> {
    return lastCounts(this.#engine);
  }

  foldMinutes(chore: { limit: number }): Promise<number> {
    return foldMinutes(this.#engine, chore);
  }

  minutes(filter: MinuteFilter): Promise<MinuteStats[]> {
    return minutes(this.#engine, filter);
  }

  pruneMinutes(chore: { forMs: number; limit: number }): Promise<number> {
    return pruneMinutes(this.#engine, chore);
  }
}
