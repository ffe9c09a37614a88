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
import type { Engine, Transaction } from "../database/engine.ts";
import { nothing, sql } from "../database/sql.ts";
import { type FoldedMinute, keepSpans, mergedTimes, type MinuteStats, together } from "./spans.ts";

const MINUTE_MS = 60_000;

/** A minute is folded this long after its end, so that its transactions have committed and workers have written their times. */
export const FOLD_LAG_MS = 10_000;

/** A count that is older does not say how many jobs are pending now. */
const PENDING_MS_MAX = 10 * MINUTE_MS;

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
  readonly countedAt: number;
  readonly now: number;
}

/** What other features count in the same minutes: each minute once, because they are written with the fold. */
export interface MinuteFold {
  read(engine: Engine, from: number, until: number): Promise<(tx: Transaction) => Promise<void>>;
}

/** The one row, and the database's clock. */
export async function standing(engine: Engine): Promise<Standing> {
  const [row] = await engine.all<Standing>(sql`
    select begun_at as "begunAt", took_ms as "tookMs", folded_until as "foldedUntil",
           counted_at as "countedAt", ${engine.now()} as now
      from holdfast.counts
     where id = 1`);
  return row as Standing;
}

export async function foldMinutes(
  engine: Engine,
  { limit, also = [] }: { limit: number; also?: readonly MinuteFold[] },
): Promise<number> {
  const at = await standing(engine);
  const { foldedUntil, now } = at;
  const from = firstMinute(foldedUntil, now);
  const until = Math.min(minuteOf(now - FOLD_LAG_MS), from + limit * MINUTE_MS);
  if (until <= from) return 0;
  const rows = await statsBetween(engine, { from, until, at });
  const others: ((tx: Transaction) => Promise<void>)[] = [];
  for (const fold of also) others.push(await fold.read(engine, from, until));
  const isOurs = await writeOrLookUp(
    engine,
    () => keep(engine, { foldedUntil, from, until, end: until, now, rows, others }),
    async () => (await standing(engine)).foldedUntil >= until,
  );
  return isOurs ? (until - from) / MINUTE_MS : 0;
}

/**
 * Writes the current rows of the minutes that are not over; their fold replaces these. Called by the process that takes
 * the count, so that this time is part of the count's.
 */
export async function countOpenMinutes(engine: Engine): Promise<void> {
  const at = await standing(engine);
  const { foldedUntil, now } = at;
  const from = Math.max(firstMinute(foldedUntil, now), minuteOf(now) - MINUTE_MS);
  const rows = await statsBetween(engine, { from, until: now + 1, at });
  const end = minuteOf(now) + MINUTE_MS;
  await keep(engine, { foldedUntil, from, until: foldedUntil, end, now, rows, others: [] });
}

interface Minutes {
  readonly from: number;
  readonly until: number;
  readonly at: Standing;
}

async function statsBetween(engine: Engine, { from, until, at }: Minutes): Promise<FoldedMinute[]> {
  const rows: FoldedMinute[] = [];
  const last = minuteOf(until - 1);
  for (let minute = from; minute < until; minute += MINUTE_MS) {
    const isKnown = minute === last && at.now - at.countedAt < PENDING_MS_MAX;
    const pending = isKnown ? await pendingByQueue(engine) : null;
    rows.push(...(await statsOf(engine, minute, pending)));
  }
  return rows;
}

/** As of the last count. */
async function pendingByQueue(engine: Engine): Promise<Map<string, number>> {
  const rows = await engine.all<{ queue: string; jobs: number }>(
    sql`select queue, jobs from holdfast.depth where status = 'pending'`,
  );
  return new Map(rows.map(({ queue, jobs }) => [queue, jobs]));
}

/** Attempts that ended in the minute and were not the last ones of their jobs. */
function attemptsIn(engine: Engine, minute: number): Promise<AttemptTally[]> {
  return engine.all<AttemptTally>(sql`
    select j.queue, a.outcome, count(*) as n
      from holdfast.attempt a
      join holdfast.job j on j.id = a.job_id
     where a.ended_at >= ${minute}
       and a.ended_at < ${minute + MINUTE_MS}
       and a.outcome in ('retry', 'crashed')
     group by j.queue, a.outcome`);
}

interface AttemptTally {
  readonly queue: string;
  readonly outcome: string;
  readonly n: number;
}

async function pickupsIn(engine: Engine, minute: number): Promise<Map<string, string>> {
  const rows = await engine.all<{ queue: string; waits: string }>(
    sql`select queue, waits from holdfast.pickup_stat where minute = ${minute}`,
  );
  const queues = Map.groupBy(rows, ({ queue }) => queue);
  return new Map(
    [...queues].map(([queue, some]) => [
      queue,
      mergedTimes(some.map(({ waits }) => waits)) ?? "{}",
    ]),
  );
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
async function statsOf(
  engine: Engine,
  minute: number,
  pending: ReadonlyMap<string, number> | null,
): Promise<FoldedMinute[]> {
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
  const attempts = await attemptsIn(engine, minute);
  const pickups = await pickupsIn(engine, minute);
  const named = [...tallies, ...attempts].map(({ queue }) => queue);
  const queues = new Set([...named, ...pickups.keys(), ...(pending?.keys() ?? [])]);
  const rows = [...queues]
    .filter((queue) => !isReserved(queue))
    .map((queue) => ({
      minute,
      queue,
      ...addedUp(tallies.filter((tally) => tally.queue === queue)),
      ...endedAttempts(attempts.filter((tally) => tally.queue === queue)),
      pickups: pickups.get(queue) ?? null,
      pending: pending === null ? null : (pending.get(queue) ?? 0),
    }));
  return capQueues(rows, { weight: minuteWeight, add: together });
}

function minuteWeight(row: FoldedMinute): number {
  return row.arrived + row.done + row.failed + row.cancelled + row.expired;
}

function endedAttempts(tallies: readonly AttemptTally[]): { retried: number; crashed: number } {
  const of = (outcome: string): number => tallies.find((one) => one.outcome === outcome)?.n ?? 0;
  return { retried: of("retry"), crashed: of("crashed") };
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
    runMsMax: Math.max(0, ...tallies.map(({ runMsMax }) => Number(runMsMax))),
  };
}

/**
 * False: another process was faster. Deletes rows that a wrong clock has written; a fold leaves those of the minute that is
 * not over.
 */
function keep(
  engine: Engine,
  folded: {
    foldedUntil: number;
    from: number;
    until: number;
    /** The end of the minutes that are written. */
    end: number;
    now: number;
    rows: readonly FoldedMinute[];
    others: readonly ((tx: Transaction) => Promise<void>)[];
  },
): Promise<boolean> {
  const { foldedUntil, from, until, end, now, rows, others } = folded;
  return engine.transaction(async (tx) => {
    const ours = await tx.run(sql`
      update holdfast.counts
         set folded_until = ${until}
       where id = 1
         and folded_until = ${foldedUntil}`);
    if (ours === 0) return false;
    const replaced = sql`minute >= ${from} and (minute < ${end} or minute > ${now})`;
    await tx.run(sql`delete from holdfast.minute_total where ${replaced}`);
    const written = rows.map(({ runMsSum, runMsMax, ...rest }) => {
      return { ...rest, run_ms_sum: runMsSum, run_ms_max: runMsMax };
    });
    await tx.insert("minute_total", written);
    await keepSpans(tx, { from, until, end, now, rows });
    for (const write of others) await write(tx);
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
       and (arrived > 0 or done > 0 or failed > 0 or cancelled > 0 or expired > 0)
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
