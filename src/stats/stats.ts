/** Statistics for applications and pages, from counts that a monitor has taken: reading them counts no rows. */
import { type Duration, toMs } from "../core/duration.ts";
import { checkName } from "../core/name.ts";
import { checkKnown } from "../core/options.ts";
import type { AgedCounts } from "./counts.ts";
import type { MinuteStats } from "./totals.ts";
import type { StatsStore } from "./store.ts";

const MINUTE_MS = 60_000;

/** How long minute totals are kept. */
export const MINUTES_KEEP_MS = 7 * 24 * 60 * MINUTE_MS;

const FOR_RANGE = { min: MINUTE_MS, max: MINUTES_KEEP_MS };

/** The oldest rows beyond this are left out. A week of one queue is 10,080. */
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

  /** The last counts of jobs by queue and status, and their age. Null: no monitor has counted yet. */
  counts(): Promise<AgedCounts | null> {
    return this.#stats.counts();
  }

  /** The jobs that arrived and ended by minute and queue, oldest first. Minutes without any have no row. */
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
