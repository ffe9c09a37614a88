/** Figures for applications and pages: what somebody has counted already, so that nobody who looks counts rows. */
import { type Duration, toMs } from "../core/duration.ts";
import { checkName } from "../core/name.ts";
import { checkKnown } from "../core/options.ts";
import type { AgedCounts } from "./counts.ts";
import type { MinuteStats } from "./minute-totals.ts";
import type { StatsStore } from "./store.ts";

const MINUTE_MS = 60_000;

/** For how long the figures of minutes are kept. */
export const MINUTES_KEEP_MS = 7 * 24 * 60 * MINUTE_MS;

const FOR_RANGE = { min: MINUTE_MS, max: MINUTES_KEEP_MS };

/** Rows that are given at once; of more, the oldest are left out. A week of one queue is 10,080. */
const ROWS_MAX = 50_000;

const MINUTES_OPTIONS = new Set(["for", "queue"]);

export interface MinutesOptions {
  /** How far back. Default 1 hour, at most 7 days. */
  readonly for?: Duration;
  readonly queue?: string;
}

export class Stats {
  readonly #stats: StatsStore;

  constructor(stats: StatsStore) {
    this.#stats = stats;
  }

  /** How many jobs stood where when a monitor last counted, and how long ago that is. Null: none has counted yet. */
  counts(): Promise<AgedCounts | null> {
    return this.#stats.counts();
  }

  /** What came and what ended in every minute of every queue, the oldest first. Minutes in which nothing did have no row. */
  async minutes(options: MinutesOptions = {}): Promise<MinuteStats[]> {
    checkKnown(options, MINUTES_OPTIONS);
    const { queue } = options;
    const forMs = toMs("for", options.for ?? "1h", FOR_RANGE);
    const filter = { forMs, limit: ROWS_MAX };
    return this.#stats.minutes(
      queue === undefined ? filter : { ...filter, queue: checkName("queue", queue) },
    );
  }
}
