/** Counts and minute totals in the database. */
import type { Database } from "../database/database.ts";
import { type Engine, readNow } from "../database/engine.ts";
import {
  type AgedCounts,
  type CountOptions,
  type Counts,
  lastCounts,
  takeCounts,
} from "./counts.ts";
import {
  foldMinutes,
  type MinuteFilter,
  type MinuteFold,
  minutes,
  pruneMinutes,
} from "./minute-totals.ts";
import { type Range, type Series, series } from "./spans.ts";
import { putTimes, usualTimes, type Usual } from "./task-times.ts";
import type { TimesRow } from "./times.ts";
import type { MinuteStats } from "./totals.ts";

export type StatsStore = Pick<SqlStats, keyof SqlStats>;

export class SqlStats {
  readonly #engine: Engine;
  readonly #folds: readonly MinuteFold[];

  /** `folds`: what other features count in the same minutes. */
  constructor({ engine }: Database, folds: readonly MinuteFold[] = []) {
    this.#engine = engine;
    this.#folds = folds;
  }

  /** Counts jobs, unless a process did within `everyMs`, or within a hundred times as long as it took. Null: not due. */
  takeCounts(options: CountOptions): Promise<Counts | null> {
    return takeCounts(this.#engine, options);
  }

  /** The last count; null: no process has counted yet. */
  counts(): Promise<AgedCounts | null> {
    return lastCounts(this.#engine);
  }

  /** Adds up to `limit` past minutes to the minute totals. Returns how many; call again when it is `limit`. */
  foldMinutes(options: { limit: number }): Promise<number> {
    return foldMinutes(this.#engine, { ...options, also: this.#folds });
  }

  /** Figures over time, of one queue or of all. */
  async series(wanted: { range: Range; queue?: string }): Promise<Series> {
    return series(this.#engine, await readNow(this.#engine), wanted);
  }

  /** Writes how long jobs waited and ran, as a worker measured it. */
  putTimes(rows: readonly TimesRow[]): Promise<void> {
    return putTimes(this.#engine, rows);
  }

  /** How long jobs of a task usually run; null: too few have. */
  usual(task: string): Promise<Usual | null> {
    return usualTimes(this.#engine, task);
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
