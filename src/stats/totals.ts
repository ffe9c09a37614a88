/** The figures of a queue in a minute, or in a longer step: what arrived, what ended, and how long that took. */
import { Histogram } from "../core/histogram.ts";

export interface MinuteStats {
  /** The instant it began. */
  readonly minute: number;
  readonly queue: string;
  /** Jobs that were enqueued in it … */
  readonly arrived: number;
  /** … and that ended in it. */
  readonly done: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  /** How long the last attempts of the ended jobs took. */
  readonly runMsSum: number;
  readonly runMsMax: number;
}

/** A row with the figures that only charts use. */
export interface FoldedMinute extends MinuteStats {
  readonly retried: number;
  readonly crashed: number;
  /** A histogram of the time until jobs started; null: none is known. */
  readonly pickups: string | null;
  /** Jobs that were pending at its end; null: unknown. */
  readonly pending: number | null;
}

/** The sum of two rows; the queue and the minute are those of the first. */
export function together(a: FoldedMinute, b: FoldedMinute): FoldedMinute {
  return {
    minute: a.minute,
    queue: a.queue,
    arrived: a.arrived + b.arrived,
    done: a.done + b.done,
    failed: a.failed + b.failed,
    cancelled: a.cancelled + b.cancelled,
    expired: a.expired + b.expired,
    runMsSum: a.runMsSum + b.runMsSum,
    runMsMax: Math.max(a.runMsMax, b.runMsMax),
    retried: a.retried + b.retried,
    crashed: a.crashed + b.crashed,
    pickups: mergedTimes([a.pickups, b.pickups]),
    pending: a.pending === null ? b.pending : a.pending + (b.pending ?? 0),
  };
}

/** The sum of histograms; null: there are none. */
export function mergedTimes(texts: readonly (string | null)[]): string | null {
  const given = texts.filter((text) => text !== null);
  if (given.length === 0) return null;
  const all = new Histogram();
  for (const text of given) all.addText(text);
  return all.toText();
}
