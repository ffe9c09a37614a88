/**
 * Figures for charts: the sum of all queues by minute, and every queue and the sum in steps of 15 minutes.
 *
 * A chart of any range reads a few hundred rows, however many jobs and queues there are. A minute without a row was never
 * folded: the chart has a gap there.
 */
import { Histogram } from "../core/histogram.ts";
import type { Engine, Row, Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";

// The figures of a queue in a minute, or in a longer step: what arrived, what ended, and how long that took.

/** What happened in one minute. */
export interface MinuteStats {
  /** The instant it began. */
  readonly minute: number;
  /** The name of the queue. */
  readonly queue: string;
  /** Jobs that were enqueued in it … */
  readonly arrived: number;
  /** … and that ended in it. */
  readonly done: number;
  /** How many failed in it for good. */
  readonly failed: number;
  /** How many were cancelled in it. */
  readonly cancelled: number;
  /** How many expired in it: no worker started them in time. */
  readonly expired: number;
  /** How long the last attempts of the ended jobs took. */
  readonly runMsSum: number;
  /** The longest of these, in milliseconds. */
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

const MINUTE_MS = 60_000;
const QUARTER_MS = 15 * MINUTE_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Names the sum of all queues. */
const ALL_QUEUES = "";

/** How long each kind of row is kept: a day more than the longest chart that reads it. */
const MINUTES_KEEP_MS = 28 * HOUR_MS;
const QUARTERS_KEEP_MS = 8 * 24 * HOUR_MS;
const PICKUPS_KEEP_MS = 2 * HOUR_MS;

/** A quarter of an hour of the most queues that are kept apart. */
const QUARTER_ROWS_MAX = 16_000;

interface Folded {
  readonly from: number;
  readonly until: number;
  /** The end of the minutes that are written. */
  readonly end: number;
  readonly now: number;
  readonly rows: readonly FoldedMinute[];
}

/** Writes with the minutes that were folded what follows from them. */
export async function keepSpans(tx: Transaction, folded: Folded): Promise<void> {
  const { from, until, end, now, rows } = folded;
  const byMinute = Map.groupBy(rows, ({ minute }) => minute);
  for (let minute = from; minute < until; minute += MINUTE_MS) {
    if (!byMinute.has(minute)) byMinute.set(minute, []);
  }
  const sums = [...byMinute].map(([minute, some]) =>
    spanRow(MINUTE_MS, minute, sumOf(minute, some)),
  );
  await tx.run(sql`
    delete from holdfast.span_total
     where step_ms = ${MINUTE_MS}
       and queue = ${ALL_QUEUES}
       and at >= ${from}
       and (at < ${end} or at > ${now})`);
  await tx.insert("span_total", sums);
  const first = Math.floor(from / QUARTER_MS) * QUARTER_MS;
  for (let quarter = first; quarter + QUARTER_MS <= until; quarter += QUARTER_MS) {
    await keepQuarter(tx, quarter);
  }
  if (Math.floor(until / QUARTER_MS) > Math.floor(from / QUARTER_MS)) await prune(tx, until);
}

async function keepQuarter(tx: Transaction, quarter: number): Promise<void> {
  const minutes = await tx.all<FoldedMinute>(sql`
    select ${FIGURES}, minute
      from holdfast.minute_total
     where minute >= ${quarter}
       and minute < ${quarter + QUARTER_MS}
     order by minute
     limit ${QUARTER_ROWS_MAX}`);
  const byQueue = Map.groupBy(minutes, ({ queue }) => queue);
  const sums = await tx.all<{ pending: number | null }>(sql`
    select pending
      from holdfast.span_total
     where step_ms = ${MINUTE_MS}
       and queue = ${ALL_QUEUES}
       and at >= ${quarter}
       and at < ${quarter + QUARTER_MS}
     order by at`);
  const all = { ...sumOf(quarter, minutes), pending: lastKnown(sums) };
  const rows = [...byQueue.values()].map((some) => ({ ...sum(some), pending: lastKnown(some) }));
  await tx.run(sql`
    delete from holdfast.span_total where step_ms = ${QUARTER_MS} and at = ${quarter}`);
  const written = [all, ...rows].map((row) => spanRow(QUARTER_MS, quarter, row));
  await tx.insert("span_total", written);
}

function lastKnown(rows: readonly { readonly pending: number | null }[]): number | null {
  return rows.findLast(({ pending }) => pending !== null)?.pending ?? null;
}

async function prune(tx: Transaction, until: number): Promise<void> {
  await tx.run(sql`
    delete from holdfast.span_total
     where step_ms = ${MINUTE_MS}
       and at < ${until - MINUTES_KEEP_MS}`);
  await tx.run(sql`
    delete from holdfast.span_total
     where step_ms = ${QUARTER_MS}
       and at < ${until - QUARTERS_KEEP_MS}`);
  await tx.run(sql`delete from holdfast.pickup_stat where minute < ${until - PICKUPS_KEEP_MS}`);
}

const NONE = {
  arrived: 0,
  done: 0,
  failed: 0,
  cancelled: 0,
  expired: 0,
  runMsSum: 0,
  runMsMax: 0,
  retried: 0,
  crashed: 0,
  pickups: null,
  pending: null,
};

/** Of at least one row; its queue and minute are those of the first. */
function sum([first, ...others]: readonly FoldedMinute[]): FoldedMinute {
  const numbers = others.reduce((all, row) => together(all, { ...row, pickups: null }), {
    ...(first as FoldedMinute),
    pickups: null,
  });
  return {
    ...numbers,
    pickups: mergedTimes([first, ...others].map((row) => row?.pickups ?? null)),
  };
}

function sumOf(minute: number, rows: readonly FoldedMinute[]): FoldedMinute {
  return sum([{ ...NONE, minute, queue: ALL_QUEUES }, ...rows]);
}

function spanRow(stepMs: number, at: number, row: FoldedMinute): Row {
  const { minute: _minute, runMsSum, runMsMax, ...figures } = row;
  return { step_ms: stepMs, at, ...figures, run_ms_sum: runMsSum, run_ms_max: runMsMax };
}

// Reading.

const FIGURES = sql`
       queue, arrived, done, failed, cancelled, expired, retried, crashed, run_ms_sum as "runMsSum",
       run_ms_max as "runMsMax", pickups, pending`;

/** By name: how far back, and the steps of the chart. */
export const RANGES = {
  "15m": { spanMs: QUARTER_MS, stepMs: MINUTE_MS },
  "1h": { spanMs: HOUR_MS, stepMs: MINUTE_MS },
  "4h": { spanMs: 4 * HOUR_MS, stepMs: 4 * MINUTE_MS },
  "24h": { spanMs: 24 * HOUR_MS, stepMs: QUARTER_MS },
  "7d": { spanMs: 7 * 24 * HOUR_MS, stepMs: 2 * HOUR_MS },
} as const;

export type Range = keyof typeof RANGES;

export interface SeriesPoint {
  /** The instant the step began. */
  readonly at: number;
  readonly arrived: number;
  readonly done: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  readonly retried: number;
  readonly crashed: number;
  readonly runMsSum: number;
  readonly runMsMax: number;
  /** How long jobs waited until a worker started them; null: unknown. Accurate to a fifth. */
  readonly pickupP50Ms: number | null;
  readonly pickupP99Ms: number | null;
  /** At the end of the step; null: unknown. */
  readonly pending: number | null;
}

export interface Series {
  readonly from: number;
  readonly to: number;
  readonly stepMs: number;
  /** The beginning of the minute that is not over: the figures of the step with it still grow. */
  readonly openAt: number;
  /** Oldest first. A step that no process has folded is missing. */
  readonly points: readonly SeriesPoint[];
}

/** Of one queue, or of all. The last step is not over. */
export async function series(
  engine: Engine,
  now: number,
  { range, queue = ALL_QUEUES }: { range: Range; queue?: string },
): Promise<Series> {
  const { spanMs, stepMs } = RANGES[range];
  const openAt = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  const to = openAt + MINUTE_MS;
  const from = Math.ceil((openAt - spanMs) / stepMs) * stepMs;
  const rows =
    stepMs < QUARTER_MS
      ? await minuteRows(engine, { from, to, queue })
      : await quarterRows(engine, { from, to, queue });
  const steps = Map.groupBy(rows, ({ minute }) => Math.floor(minute / stepMs) * stepMs);
  const points = [...steps].map(([at, some]) => pointOf(at, some));
  return { from, to, stepMs, openAt, points: points.toSorted((a, b) => a.at - b.at) };
}

interface Wanted {
  readonly from: number;
  readonly to: number;
  readonly queue: string;
}

/** Rows of a week in quarters, or of four hours in minutes: there are fewer. */
const ROWS_MAX = 2_000;

function minuteRows(engine: Engine, { from, to, queue }: Wanted): Promise<FoldedMinute[]> {
  if (queue === ALL_QUEUES) return spanRows(engine, MINUTE_MS, { from, to, queue });
  return engine.all<FoldedMinute>(sql`
    select ${FIGURES}, minute
      from holdfast.minute_total
     where minute >= ${from}
       and minute < ${to}
       and queue = ${queue}
     order by minute
     limit ${ROWS_MAX}`);
}

/** Quarters that are over, and the minutes of the one that is not. */
async function quarterRows(engine: Engine, { from, to, queue }: Wanted): Promise<FoldedMinute[]> {
  const quarters = await spanRows(engine, QUARTER_MS, { from, to, queue });
  const last = quarters.at(-1);
  const open = Math.max(from, to - HOUR_MS, last === undefined ? 0 : last.minute + QUARTER_MS);
  return [...quarters, ...(await minuteRows(engine, { from: open, to, queue }))];
}

function spanRows(
  engine: Engine,
  stepMs: number,
  { from, to, queue }: Wanted,
): Promise<FoldedMinute[]> {
  const at: Sql = sql`at >= ${from} and at < ${to}`;
  return engine.all<FoldedMinute>(sql`
    select ${FIGURES}, at as minute
      from holdfast.span_total
     where step_ms = ${stepMs}
       and queue = ${queue}
       and ${at}
     order by at
     limit ${ROWS_MAX}`);
}

function pointOf(at: number, rows: readonly FoldedMinute[]): SeriesPoint {
  const { minute: _minute, queue: _queue, pickups, ...figures } = sum(rows);
  const [p50, p99] = quantilesOf(pickups, [0.5, 0.99]);
  return {
    at,
    ...figures,
    pickupP50Ms: p50 ?? null,
    pickupP99Ms: p99 ?? null,
    pending: lastKnown(rows),
  };
}

/** Of a histogram; empty: it has no times. To a hundredth of a millisecond. */
export function quantilesOf(text: string | null, shares: readonly number[]): number[] {
  if (text === null) return [];
  const histogram = histogramOf(text);
  return shares.flatMap((share) => {
    const ms = histogram.quantile(share);
    return ms === null ? [] : [Math.round(ms * 100) / 100];
  });
}

export function histogramOf(text: string): Histogram {
  const histogram = new Histogram();
  histogram.addText(text);
  return histogram;
}
