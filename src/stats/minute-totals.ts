/**
 * How many jobs arrived and ended in every minute, counted when the minute is over. Until then, the last count provides its
 * rows.
 *
 * The rows and the end of the last folded minute are written in one transaction, after a compare-and-set on that end. So
 * of two processes that fold the same minutes one writes, and a process that dies midway has written nothing.
 */
import { firstIdAt } from "../core/id.ts";
import type { FinalStatus } from "../core/job.ts";
import { isReserved, OTHER_QUEUES } from "../core/name.ts";
import { writeOrLookUp } from "../database/database.ts";
import type { Engine } from "../database/engine.ts";
import { nothing, sql } from "../database/sql.ts";

const MINUTE_MS = 60_000;

/** A minute is folded this long after its end, so that its transactions have committed. */
export const FOLD_LAG_MS = 5_000;

/** How far back to fold at the first start on a database that has jobs … */
const FIRST_MS = 60 * MINUTE_MS;

/** … and after a long time without a fold. */
const OUTAGE_MS_MAX = 7 * 24 * 60 * MINUTE_MS;

/** An id may be this much older or younger than its row: another clock makes it, and a batch is made before it is written. */
const ID_SPREAD_MS = MINUTE_MS;

export interface Standing {
  readonly begunAt: number;
  readonly tookMs: number;
  readonly foldedUntil: number;
  readonly now: number;
}

/** The one row, and the database's clock. */
export async function standing(engine: Engine): Promise<Standing> {
  const [row] = await engine.all<Standing>(sql`
    select begun_at as "begunAt", took_ms as "tookMs", folded_until as "foldedUntil", ${engine.now()} as now
      from holdfast.counts
     where id = 1`);
  return row as Standing;
}

export async function foldMinutes(engine: Engine, { limit }: { limit: number }): Promise<number> {
  const { foldedUntil, now } = await standing(engine);
  const from = firstMinute(foldedUntil, now);
  const until = Math.min(minuteOf(now - FOLD_LAG_MS), from + limit * MINUTE_MS);
  if (until <= from) return 0;
  const rows = await statsBetween(engine, from, until);
  const isOurs = await writeOrLookUp(
    engine,
    () => keep(engine, { foldedUntil, from, until, rows }),
    async () => (await standing(engine)).foldedUntil >= until,
  );
  return isOurs ? (until - from) / MINUTE_MS : 0;
}

/**
 * Writes the current rows of the minutes that are not over; their fold replaces these. Called by the process that takes
 * the count, so that this time is part of the count's.
 */
export async function countOpenMinutes(engine: Engine): Promise<void> {
  const { foldedUntil, now } = await standing(engine);
  const from = Math.max(firstMinute(foldedUntil, now), minuteOf(now) - MINUTE_MS);
  const rows = await statsBetween(engine, from, now + 1);
  await keep(engine, { foldedUntil, from, until: foldedUntil, rows });
}

async function statsBetween(engine: Engine, from: number, until: number): Promise<MinuteStats[]> {
  const rows: MinuteStats[] = [];
  for (let minute = from; minute < until; minute += MINUTE_MS)
    rows.push(...(await statsOf(engine, minute)));
  return rows;
}

/** Ignores the end that a clock far ahead of the time has written. */
function firstMinute(foldedUntil: number, now: number): number {
  if (foldedUntil === 0 || foldedUntil > now + MINUTE_MS) return minuteOf(now - FIRST_MS);
  return Math.max(foldedUntil, minuteOf(now - OUTAGE_MS_MAX));
}

function minuteOf(instant: number): number {
  return Math.floor(instant / MINUTE_MS) * MINUTE_MS;
}

interface Tally {
  readonly queue: string;
  readonly kind: "arrived" | FinalStatus;
  readonly jobs: number;
  readonly runMsSum: number | string;
  readonly runMsMax: number | string;
}

/** Never below zero, because clocks are set back. A job that was cancelled before it started has not run. */
const RUN_MS = sql`case when finished_at > started_at then finished_at - started_at else 0 end`;

/**
 * Both parts use an index: ended jobs by the time of their end, and new jobs by their ids, which begin with a time. The
 * database's clock decides in which minute a job arrived.
 */
async function statsOf(engine: Engine, minute: number): Promise<MinuteStats[]> {
  const end = minute + MINUTE_MS;
  const tallies = await engine.all<Tally>(sql`
    select queue, status as kind, count(*) as jobs, sum(${RUN_MS}) as "runMsSum", max(${RUN_MS}) as "runMsMax"
      from holdfast.finished
     where status in ('done', 'failed', 'cancelled', 'expired')
       and finished_at >= ${minute}
       and finished_at < ${end}
     group by queue, status
     union all
    select queue, 'arrived', count(*), 0, 0
      from holdfast.job
     where id >= ${firstIdAt(Math.max(0, minute - ID_SPREAD_MS))}
       and id < ${firstIdAt(end + ID_SPREAD_MS)}
       and enqueued_at >= ${minute}
       and enqueued_at < ${end}
     group by queue`);
  const counted = tallies.filter(({ queue }) => !isReserved(queue));
  const queues = [...Map.groupBy(counted, ({ queue }) => queue)];
  const rows = queues.map(([queue, some]) => ({ minute, queue, ...addedUp(some) }));
  const weight = (row: MinuteStats): number =>
    row.arrived + row.done + row.failed + row.cancelled + row.expired;
  return capQueues(rows, { weight, add: together });
}

function addedUp(tallies: readonly Tally[]): Omit<MinuteStats, "minute" | "queue"> {
  const of = (kind: Tally["kind"]): number =>
    tallies.find((tally) => tally.kind === kind)?.jobs ?? 0;
  return {
    arrived: of("arrived"),
    done: of("done"),
    failed: of("failed"),
    cancelled: of("cancelled"),
    expired: of("expired"),
    runMsSum: tallies.reduce((sum, { runMsSum }) => sum + Number(runMsSum), 0),
    runMsMax: Math.max(...tallies.map(({ runMsMax }) => Number(runMsMax))),
  };
}

function together(a: MinuteStats, b: MinuteStats): MinuteStats {
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
  };
}

/** False: another process was faster. Replaces rows that a wrong clock has written. */
function keep(
  engine: Engine,
  folded: { foldedUntil: number; from: number; until: number; rows: readonly MinuteStats[] },
): Promise<boolean> {
  const { foldedUntil, from, until, rows } = folded;
  return engine.transaction(async (tx) => {
    const ours = await tx.run(sql`
      update holdfast.counts
         set folded_until = ${until}
       where id = 1
         and folded_until = ${foldedUntil}`);
    if (ours === 0) return false;
    await tx.run(sql`delete from holdfast.minute_total where minute >= ${from}`);
    const written = rows.map(({ runMsSum, runMsMax, ...rest }) => {
      return { ...rest, run_ms_sum: runMsSum, run_ms_max: runMsMax };
    });
    await tx.insert("minute_total", written);
    return true;
  });
}

export async function minutes(
  engine: Engine,
  { forMs, queue, limit }: MinuteFilter,
): Promise<MinuteStats[]> {
  const newest = await engine.all<MinuteStats>(sql`
    select minute, queue, arrived, done, failed, cancelled, expired, run_ms_sum as "runMsSum", run_ms_max as "runMsMax"
      from holdfast.minute_total
     where minute > ${engine.now()} - ${forMs}
       and minute <= ${engine.now()}
           ${queue === undefined ? nothing : sql`and queue = ${queue}`}
     order by minute desc, queue desc
     limit ${limit}`);
  return newest.toReversed();
}

/** Deletes whole minutes, so that no minute is partial. */
export async function pruneMinutes(
  engine: Engine,
  { forMs, limit }: { forMs: number; limit: number },
): Promise<number> {
  const old = await engine.all<{ minute: number }>(sql`
    select minute from holdfast.minute_total where minute < ${engine.now()} - ${forMs} order by minute limit ${limit}`);
  const last = old.at(-1);
  if (last === undefined) return 0;
  return engine.run(sql`delete from holdfast.minute_total where minute <= ${last.minute}`);
}

export interface MinuteFilter {
  readonly forMs: number;
  readonly queue?: string;
  /** The oldest rows beyond this are left out. */
  readonly limit: number;
}

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

/** An application may have a queue for every customer. */
export const QUEUES_MAX = 1_000;

/** Limits the number of rows: the heaviest queues have their own, and all others share one, so that sums are right. */
export function capQueues<Queue extends { readonly queue: string }>(
  rows: readonly Queue[],
  { weight, add }: { weight: (row: Queue) => number; add: (a: Queue, b: Queue) => Queue },
): Queue[] {
  if (rows.length <= QUEUES_MAX) return [...rows];
  // Ordered by name when the weights are equal, so the result is deterministic.
  const heaviest = rows.toSorted((a, b) => weight(b) - weight(a) || (a.queue < b.queue ? -1 : 1));
  const others = heaviest.slice(QUEUES_MAX).reduce(add);
  return [...heaviest.slice(0, QUEUES_MAX), { ...others, queue: OTHER_QUEUES }];
}
