/**
 * Statistics of locks by minute and type.
 *
 * Every process writes changed counts every ten seconds, as whole rows of its own, so that a write may be lost or repeated.
 * Readers add up the rows of all processes.
 */
import type { Duration } from "../core/duration.ts";
import { Histogram } from "../core/histogram.ts";
import { by, duration, optionsOf } from "../core/options.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { checkLockKey, lockType } from "./lock.ts";

const MINUTE_MS = 60_000;

const FLUSH_EVERY_MS = 10_000;

/** A process counts at most this many types in a minute; all others count as `OTHERS`. */
const TYPES_MAX = 50;

const OTHERS = "other";

/** Beyond this, the oldest unwritten counts are dropped. */
const UNWRITTEN_MAX = 500;

/** Rows that are added up, newest first. */
const READ_MAX = 20_000;

const LAST_RANGE = { least: MINUTE_MS, most: 7 * 24 * 3_600_000 };

/** How often locks of a type were acquired, and how long that took. */
export interface LockTimes {
  /** The part of the keys before the first colon. */
  readonly type: string;
  /** How often a lock of the type was acquired. */
  readonly acquisitions: number;
  /** How often a caller gave up waiting. */
  readonly timeouts: number;
  /** How long acquisitions took; null: there were none. Quantiles are accurate to a fifth. */
  readonly waitMs: {
    /** The mean, in milliseconds. */
    readonly average: number;
    /** Half of the acquisitions took no longer, in milliseconds. */
    readonly p50: number;
    /** 95 % took no longer, in milliseconds. */
    readonly p95: number;
    /** 99 % took no longer, in milliseconds. */
    readonly p99: number;
  } | null;
  /** The longest time that a lock was held, or is held so far. */
  readonly heldMsMax: number;
}

/** How long locks were waited for and held, by type and minute. */
export interface LockStatistics {
  /** Most acquisitions first. */
  readonly types: readonly LockTimes[];
  /** The same by minute, oldest first. */
  readonly minutes: readonly (LockTimes & {
    /** When the minute began (ms since 1970). */
    readonly minute: number;
  })[];
  /** True: there were too many rows, and the oldest are missing. */
  readonly partial: boolean;
}

/** Which locks, and how far back. */
export interface LockStatsOptions {
  /** How far back. Default 1 hour, at most 7 days. */
  readonly last?: Duration;
  /** Locks of this type. */
  readonly type?: string;
}

const statsOptions = optionsOf<LockStatsOptions>()({
  last: duration(LAST_RANGE, "1h"),
  type: by(checkLockKey),
});

/** The use of locks of a type by this process since it started. */
export interface LockTotals {
  /** The part of the keys before the first colon. */
  readonly type: string;
  /** How often a lock of the type was acquired. */
  acquisitions: number;
  /** How often a caller gave up waiting. */
  timeouts: number;
  /** How long all acquisitions took together, in milliseconds. */
  waitMs: number;
  /** Of successful acquisitions. */
  readonly waits: Pick<Histogram, "cumulative">;
}

interface Total extends LockTotals {
  readonly waits: Histogram;
}

interface Cell {
  readonly minute: number;
  readonly type: string;
  acquisitions: number;
  timeouts: number;
  waitMsSum: number;
  heldMsMax: number;
  readonly waits: Histogram;
}

interface LockStatsParts {
  readonly store: {
    readonly locks: {
      putStats(rows: readonly LockStatRow[]): Promise<void>;
      stats(filter: LockStatFilter): Promise<LockStatRow[]>;
    };
  };
  readonly runtime: Runtime;
  /** The id of this process. */
  readonly source: string;
}

export class LockStats {
  readonly #parts: LockStatsParts;
  /** Of this minute, by type. */
  #cells = new Map<string, Cell>();
  #minute = 0;
  readonly #totals = new Map<string, Total>();
  readonly #unwritten = new Set<Cell>();
  #timer: Timer | null = null;
  #flushing: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(parts: LockStatsParts) {
    this.#parts = parts;
  }

  acquired(key: string, waitedMs: number): void {
    const cell = this.#cell(key);
    cell.acquisitions += 1;
    cell.waitMsSum += waitedMs;
    cell.waits.add(waitedMs);
    const total = this.#total(key);
    total.acquisitions += 1;
    total.waitMs += waitedMs;
    total.waits.add(waitedMs);
  }

  timedOut(key: string): void {
    this.#cell(key).timeouts += 1;
    this.#total(key).timeouts += 1;
  }

  held(key: string, heldMs: number): void {
    const cell = this.#cell(key);
    cell.heldMsMax = Math.max(cell.heldMsMax, heldMs);
  }

  /** Of this process, from memory. */
  get totals(): readonly LockTotals[] {
    return [...this.#totals.values()];
  }

  async read(options: LockStatsOptions = {}): Promise<LockStatistics> {
    const { lastMs: forMs, ...filter } = statsOptions.read(options);
    await this.flush();
    return statisticsOf(await this.#parts.store.locks.stats({ ...filter, forMs, limit: READ_MAX }));
  }

  /** Writes changed counts, or the next time if that fails. */
  flush(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    this.#flushing = this.#flushing.then(() => this.#write());
    return this.#flushing;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.flush();
  }

  async #write(): Promise<void> {
    const cells = [...this.#unwritten];
    if (cells.length === 0) return;
    this.#unwritten.clear();
    try {
      await this.#parts.store.locks.putStats(cells.map((cell) => this.#rowOf(cell)));
    } catch {
      // Statistics may be late.
      for (const cell of cells) this.#note(cell);
    }
  }

  #cell(key: string): Cell {
    const minute = Math.floor(this.#parts.runtime.now() / MINUTE_MS) * MINUTE_MS;
    if (minute !== this.#minute) {
      this.#minute = minute;
      this.#cells = new Map();
    }
    const type = countedType(key, this.#cells);
    const none = { acquisitions: 0, timeouts: 0, waitMsSum: 0, heldMsMax: 0 };
    const cell = this.#cells.get(type) ?? { minute, type, ...none, waits: new Histogram() };
    this.#cells.set(type, cell);
    this.#note(cell);
    return cell;
  }

  #total(key: string): Total {
    const type = countedType(key, this.#totals);
    const none = { acquisitions: 0, timeouts: 0, waitMs: 0 };
    const total = this.#totals.get(type) ?? { type, ...none, waits: new Histogram() };
    this.#totals.set(type, total);
    return total;
  }

  #note(cell: Cell): void {
    this.#unwritten.add(cell);
    const [oldest] = this.#unwritten;
    if (this.#unwritten.size > UNWRITTEN_MAX && oldest !== undefined)
      this.#unwritten.delete(oldest);
    if (this.#stopped) return;
    const flush = (): void => void this.flush();
    this.#timer ??= this.#parts.runtime.timer(FLUSH_EVERY_MS, flush, "background");
  }

  #rowOf({ minute, type, acquisitions, timeouts, waitMsSum, heldMsMax, waits }: Cell): LockStatRow {
    const { source } = this.#parts;
    const spans = { waitMsSum: Math.round(waitMsSum), heldMsMax: Math.round(heldMsMax) };
    return { minute, type, source, acquisitions, timeouts, ...spans, waits: waits.toText() };
  }
}

/** A lock that is still held counts with the time so far. */
export function withHeld<T extends { readonly type: string; readonly heldMsMax: number }>(
  types: readonly T[],
  longest: ReadonlyMap<string, number>,
): T[] {
  return types.map((one) => ({
    ...one,
    heldMsMax: Math.max(one.heldMsMax, longest.get(one.type) ?? 0),
  }));
}

function countedType(key: string, counted: ReadonlyMap<string, unknown>): string {
  const type = lockType(key);
  return counted.has(type) || counted.size < TYPES_MAX ? type : OTHERS;
}

function statisticsOf(rows: readonly LockStatRow[]): LockStatistics {
  const oldestFirst = rows.toReversed();
  const byMinute = Map.groupBy(oldestFirst, ({ minute, type }) => `${minute} ${type}`);
  return {
    types: [...Map.groupBy(rows, ({ type }) => type).values()]
      .map(statsOf)
      .toSorted((a, b) => b.acquisitions - a.acquisitions || (a.type < b.type ? -1 : 1)),
    minutes: [...byMinute.values()].map((some) => ({
      minute: (some[0] as LockStatRow).minute,
      ...statsOf(some),
    })),
    partial: rows.length === READ_MAX,
  };
}

/** Of rows of one type. */
function statsOf(rows: readonly LockStatRow[]): LockTimes {
  const sum = (of: (row: LockStatRow) => number): number =>
    rows.reduce((all, row) => all + of(row), 0);
  const waits = new Histogram();
  for (const row of rows) waits.addText(row.waits);
  const acquisitions = sum((row) => row.acquisitions);
  const at = (share: number): number => rounded(waits.quantile(share) ?? 0);
  return {
    type: (rows[0] as LockStatRow).type,
    acquisitions,
    timeouts: sum((row) => row.timeouts),
    waitMs:
      acquisitions === 0
        ? null
        : {
            average: rounded(sum((row) => row.waitMsSum) / acquisitions),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
          },
    heldMsMax: Math.max(...rows.map((row) => row.heldMsMax)),
  };
}

/** To a hundredth of a millisecond. */
function rounded(ms: number): number {
  return Math.round(ms * 100) / 100;
}

/** A row for every minute, type and process, which rewrites its rows as they grow. */
export interface LockStatRow {
  /** The instant it began. */
  readonly minute: number;
  readonly type: string;
  /** The process that wrote it. */
  readonly source: string;
  readonly acquisitions: number;
  readonly timeouts: number;
  readonly waitMsSum: number;
  readonly heldMsMax: number;
  /** A histogram of the waits; see core/histogram.ts. */
  readonly waits: string;
}

export interface LockStatFilter {
  readonly forMs: number;
  readonly type?: string;
  readonly limit: number;
}

// Statistics of locks in steps of 15 minutes, added up over all processes: what charts of a day and a week read.
//
// A quarter of an hour is added up a minute after its end, because processes write their counts every ten seconds.

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

/** How far back a heat map goes. */
export type HeatRange = keyof typeof HEAT_RANGES;

/** How locks were contended over time, by type. */
export interface LockHeat {
  /** Where the map begins (ms since 1970, the database's clock). */
  readonly from: number;
  /** Where it ends. */
  readonly to: number;
  /** How long a step lasts. */
  readonly stepMs: number;
  /** Most time-outs first, then the longest waits. */
  readonly types: readonly {
    /** The part of the keys before the first colon. */
    readonly type: string;
    /** How many locks were acquired. */
    readonly acquisitions: number;
    /** How many requests gave up. */
    readonly timeouts: number;
    /** The longest time that a lock was held. */
    readonly heldMsMax: number;
    /** Half of the locks were acquired within this time; null: none was acquired. */
    readonly p50Ms: number | null;
    /** 99 % of the locks were acquired within this time; null: none was acquired. */
    readonly p99Ms: number | null;
    /** Only steps in which a lock of the type was wanted, oldest first. */
    readonly cells: readonly {
      /** When the step begins. */
      readonly at: number;
      /** How many locks were acquired. */
      readonly acquisitions: number;
      /** How many requests gave up. */
      readonly timeouts: number;
      /** 99 % of the locks were acquired within this time; null: none was acquired. */
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
