/** Figures for applications and pages: what somebody has counted already, so that nobody who looks counts rows. */
import { checkKnown } from "../core/check.ts";
import { toMs, type Duration } from "../core/duration.ts";
import { checkName } from "../core/name.ts";
import type { AgedCensus, Figures as FigureRows, MinuteFigures } from "../store/figures.ts";

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

export class Figures {
  readonly #store: FigureRows;

  constructor(store: FigureRows) {
    this.#store = store;
  }

  /** How many jobs stood where when a monitor last counted, and how long ago that is. Null: none has counted yet. */
  census(): Promise<AgedCensus | null> {
    return this.#store.census();
  }

  /** What came and what ended in every minute of every queue, the oldest first. Minutes in which nothing did have no row. */
  async minutes(options: MinutesOptions = {}): Promise<MinuteFigures[]> {
    checkKnown(options, MINUTES_OPTIONS);
    const { queue } = options;
    const forMs = toMs("for", options.for ?? "1h", FOR_RANGE);
    const filter = { forMs, limit: ROWS_MAX };
    return this.#store.minutes(
      queue === undefined ? filter : { ...filter, queue: checkName("queue", queue) },
    );
  }
}
