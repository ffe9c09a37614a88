/**
 * Statistics of locks in steps of 15 minutes, added up over all processes: what charts of a day and a week read.
 *
 * A quarter of an hour is added up a minute after its end, because processes write their counts every ten seconds.
 */
import { Histogram } from "../core/histogram.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { LockStatRow } from "./stats.ts";

const MINUTE_MS = 60_000;
const QUARTER_MS = 15 * MINUTE_MS;
const HOUR_MS = 60 * MINUTE_MS;
const KEEP_MS = 8 * 24 * HOUR_MS;

/** Rows of a quarter of an hour: 50 types of 20 processes in every minute. */
const QUARTER_ROWS_MAX = 20_000;

/** Rows of a chart. */
const ROWS_MAX = 40_000;

type Row = Omit<LockStatRow, "source">;

/** Part of every fold of minutes. */
export const lockFold = {
  async read(
    engine: Engine,
    from: number,
    until: number,
  ): Promise<(tx: Transaction) => Promise<void>> {
    const quarters: { readonly at: number; readonly rows: Row[] }[] = [];
    const first = Math.floor((from - MINUTE_MS) / QUARTER_MS) * QUARTER_MS;
    for (let at = first; at + QUARTER_MS + MINUTE_MS <= until; at += QUARTER_MS) {
      if (at + QUARTER_MS + MINUTE_MS > from)
        quarters.push({ at, rows: await quarterOf(engine, at) });
    }
    return async (tx) => {
      for (const { at, rows } of quarters) {
        await tx.run(sql`delete from holdfast.lock_span where at = ${at} or at < ${at - KEEP_MS}`);
        const written = rows.map(({ minute: _minute, waitMsSum, heldMsMax, ...row }) => {
          return { at, ...row, wait_ms_sum: waitMsSum, held_ms_max: heldMsMax };
        });
        await tx.insert("lock_span", written);
      }
    };
  },
};

async function quarterOf(engine: Engine, at: number): Promise<Row[]> {
  const rows = await engine.all<Row>(sql`
    select minute, type, acquisitions, timeouts, wait_ms_sum as "waitMsSum", held_ms_max as "heldMsMax", waits
      from holdfast.lock_stat
     where minute >= ${at}
       and minute < ${at + QUARTER_MS}
     limit ${QUARTER_ROWS_MAX}`);
  return [...Map.groupBy(rows, ({ type }) => type).values()].map((some) => sumOf(at, some));
}

function sumOf(at: number, rows: readonly Row[]): Row {
  const sum = (of: (row: Row) => number): number => rows.reduce((all, row) => all + of(row), 0);
  const waits = new Histogram();
  for (const row of rows) waits.addText(row.waits);
  return {
    minute: at,
    type: rows[0]?.type ?? "",
    acquisitions: sum((row) => row.acquisitions),
    timeouts: sum((row) => row.timeouts),
    waitMsSum: sum((row) => row.waitMsSum),
    heldMsMax: Math.max(0, ...rows.map((row) => row.heldMsMax)),
    waits: waits.toText(),
  };
}

/** How far back, and the steps, by the name of the range. */
export const HEAT_RANGES = {
  "1h": { spanMs: HOUR_MS, stepMs: MINUTE_MS },
  "4h": { spanMs: 4 * HOUR_MS, stepMs: 5 * MINUTE_MS },
  "24h": { spanMs: 24 * HOUR_MS, stepMs: QUARTER_MS },
  "7d": { spanMs: 7 * 24 * HOUR_MS, stepMs: 2 * HOUR_MS },
} as const;

export type HeatRange = keyof typeof HEAT_RANGES;

export interface LockHeat {
  readonly from: number;
  readonly to: number;
  readonly stepMs: number;
  /** Most time-outs first, then the longest waits. */
  readonly types: readonly {
    readonly type: string;
    readonly acquisitions: number;
    readonly timeouts: number;
    readonly heldMsMax: number;
    readonly p50Ms: number | null;
    readonly p99Ms: number | null;
    /** Only steps in which a lock of the type was wanted, oldest first. */
    readonly cells: readonly {
      readonly at: number;
      readonly acquisitions: number;
      readonly timeouts: number;
      readonly p99Ms: number | null;
    }[];
  }[];
}

/** How locks were contended over time, by type. */
export async function lockHeat(engine: Engine, now: number, range: HeatRange): Promise<LockHeat> {
  const { spanMs, stepMs } = HEAT_RANGES[range];
  const to = Math.floor(now / MINUTE_MS) * MINUTE_MS + MINUTE_MS;
  const from = Math.floor((to - spanMs) / stepMs) * stepMs;
  const rows =
    stepMs < QUARTER_MS ? await minuteRows(engine, from) : await spanRows(engine, from, to);
  const types = [...Map.groupBy(rows, ({ type }) => type)].map(([type, some]) => {
    const all = sumOf(from, some);
    const steps = Map.groupBy(some, ({ minute }) => Math.floor(minute / stepMs) * stepMs);
    const cells = [...steps].map(([at, within]) => {
      const { acquisitions, timeouts, waits } = sumOf(at, within);
      return { at, acquisitions, timeouts, p99Ms: quantileOf(waits, 0.99) };
    });
    const { acquisitions, timeouts, heldMsMax, waits } = all;
    return {
      type,
      acquisitions,
      timeouts,
      heldMsMax,
      p50Ms: quantileOf(waits, 0.5),
      p99Ms: quantileOf(waits, 0.99),
      cells: cells.toSorted((a, b) => a.at - b.at),
    };
  });
  const sorted = types.toSorted(
    (a, b) => b.timeouts - a.timeouts || (b.p99Ms ?? 0) - (a.p99Ms ?? 0),
  );
  return { from, to, stepMs, types: sorted };
}

function quantileOf(text: string, share: number): number | null {
  const histogram = new Histogram();
  histogram.addText(text);
  const ms = histogram.quantile(share);
  return ms === null ? null : Math.round(ms * 100) / 100;
}

function minuteRows(engine: Engine, from: number): Promise<Row[]> {
  return engine.all<Row>(sql`
    select minute, type, acquisitions, timeouts, wait_ms_sum as "waitMsSum", held_ms_max as "heldMsMax", waits
      from holdfast.lock_stat
     where minute >= ${from}
     order by minute desc
     limit ${ROWS_MAX}`);
}

/** Quarters that are added up, and the minutes since the last. */
async function spanRows(engine: Engine, from: number, to: number): Promise<Row[]> {
  const quarters = await engine.all<Row>(sql`
    select at as minute, type, acquisitions, timeouts, wait_ms_sum as "waitMsSum", held_ms_max as "heldMsMax", waits
      from holdfast.lock_span
     where at >= ${from}
     order by at
     limit ${ROWS_MAX}`);
  const last = quarters.at(-1);
  const open = Math.max(to - HOUR_MS, last === undefined ? 0 : last.minute + QUARTER_MS);
  return [...quarters, ...(await minuteRows(engine, Math.max(from, open)))];
}
