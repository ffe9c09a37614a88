/** Counts and minute totals in the database. */
import type { Duration } from "../core/duration.ts";
import { checkName } from "../core/name.ts";
import { by, duration, optionsOf } from "../core/options.ts";
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
import { type MinuteStats, type Range, type Series, series } from "./spans.ts";
import {
  type BuildBrief,
  buildList,
  type BuildView,
  buildView,
  type TaskBrief,
  taskList,
  type TaskRange,
  type TaskView,
  taskView,
} from "./task-views.ts";
import { putTimes, type TimesRow, type Usual, usualTimes } from "./times.ts";

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

  /** The tasks of which jobs ended lately. */
  tasks(range: TaskRange): Promise<TaskBrief[]> {
    return taskList(this.#engine, range);
  }

  /** How the jobs of a task fare, by hour and by build; null: none was seen. */
  task(name: string, range: TaskRange): Promise<TaskView | null> {
    return taskView(this.#engine, name, range);
  }

  /** The builds of workers, newest first. */
  builds(range: TaskRange): Promise<BuildBrief[]> {
    return buildList(this.#engine, range);
  }

  /** What a build changed, task by task; null: it was never seen. */
  build(name: string): Promise<BuildView | null> {
    return buildView(this.#engine, name);
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

// Statistics for applications and pages, from counts that a monitor has taken: reading them counts no rows.

const MINUTE_MS = 60_000;

/** How long minute totals are kept. */
export const MINUTES_KEEP_MS = 7 * 24 * 60 * MINUTE_MS;

const FOR_RANGE = { least: MINUTE_MS, most: MINUTES_KEEP_MS };

/** The oldest rows beyond this are left out. A week of one queue is 10,080. */
const ROWS_MAX = 50_000;

/** Which minutes. */
export interface MinutesOptions {
  /** How far back. Default 1 hour, at most 7 days. */
  readonly for?: Duration;
  /** Only jobs of this queue. */
  readonly queue?: string;
}

const minutesOptions = optionsOf<MinutesOptions>()({
  for: duration(FOR_RANGE, "1h"),
  queue: by(checkName),
});

/** Counts of jobs and minutes: `holdfast.metrics`. */
export class Stats {
  readonly #stats: StatsStore;

  /** @internal Applications get it from a Holdfast. */
  constructor(stats: StatsStore) {
    this.#stats = stats;
  }

  /** The last counts of jobs by queue and status, and their age. Null: no monitor has counted yet. */
  counts(): Promise<AgedCounts | null> {
    return this.#stats.counts();
  }

  /** The jobs that arrived and ended by minute and queue, oldest first. Minutes without any have no row. */
  async minutes(options: MinutesOptions = {}): Promise<MinuteStats[]> {
    return this.#stats.minutes({ ...minutesOptions.read(options), limit: ROWS_MAX });
  }
}
