/** Counts and minute totals in the database. */
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

export type StatsStore = Pick<SqlStats, keyof SqlStats>;

export class SqlStats {
  readonly #engine: Engine;

  constructor({ engine }: Database) {
    this.#engine = engine;
  }

  /** Counts jobs, unless a process did within `everyMs`, or within a hundred times as long as it took. Null: not due. */
  takeCounts(options: { everyMs: number }): Promise<Counts | null> {
    return takeCounts(this.#engine, options);
  }

  /** The last count; null: no process has counted yet. */
  counts(): Promise<AgedCounts | null> {
    return lastCounts(this.#engine);
  }

  /** Adds up to `limit` past minutes to the minute totals. Returns how many; call again when it is `limit`. */
  foldMinutes(options: { limit: number }): Promise<number> {
    return foldMinutes(this.#engine, options);
  }

  /** The minute totals of the last `forMs`, oldest first. */
  minutes(filter: MinuteFilter): Promise<MinuteStats[]> {
    return minutes(this.#engine, filter);
  }

  /** Deletes minute totals older than this. Returns how many; call again when it is `limit` or more. */
  pruneMinutes(options: { forMs: number; limit: number }): Promise<number> {
    return pruneMinutes(this.#engine, options);
  }
}
