/**
 * What became of the jobs of each task, by hour and by the build of the worker that ended them.
 *
 * Counts are read when a minute is folded, so they are exact and cost a job nothing. Times are histograms that workers write
 * (times.ts): when an hour is over, those of all its workers are added up and deleted.
 */
import { AFTER_RESERVED, bareName, OTHER_QUEUES, RESERVED } from "../core/name.ts";
import { isKnownVersion } from "../core/version.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import { buildsOf } from "./builds.ts";
import { mergedTimes } from "./spans.ts";

const HOUR_MS = 3_600_000;

/** Workers write times until this long after their hour; those that come later are dropped. */
const LATE_MS = 5 * 60_000;

/** A day more than the longest range that is shown. */
const TASK_TOTALS_KEEP_MS = 8 * 24 * HOUR_MS;

/** Tasks and builds that have their own row in an hour; all others share one. */
const ROWS_PER_HOUR_MAX = 1_000;

/** Groups of a task, a worker and an outcome that are read, the largest first. */
const TALLIES_MAX = 20_000;

/** Rows that are read for one task, or for a build and those before it: the newest. */
const TOTALS_READ_MAX = 20_000;

/** Jobs that no known build ended: cancelled before they started, expired, or run by a worker whose version is not set. */
export const NO_BUILD = "";

export interface Outcomes {
  readonly done: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  /** Attempts that failed and were followed by another. */
  readonly retried: number;
  /** Attempts whose worker died. */
  readonly crashed: number;
}

export interface TaskTotal extends Outcomes {
  readonly hour: number;
  readonly task: string;
  readonly build: string;
  /** Histograms of how long jobs that are done ran, and of how long jobs waited to be started; null: none are known. */
  readonly runs: string | null;
  readonly waits: string | null;
}

export const NO_OUTCOMES: Outcomes = {
  done: 0,
  failed: 0,
  cancelled: 0,
  expired: 0,
  retried: 0,
  crashed: 0,
};

type Outcome = keyof Outcomes;

const outcomeNames = Object.keys(NO_OUTCOMES) as Outcome[];

/** The sum of two rows; hour, task and build are those of the first. */
export function addTotals(a: TaskTotal, b: Omit<TaskTotal, "hour" | "task" | "build">): TaskTotal {
  const sums = outcomeNames.map((name) => [name, a[name] + b[name]] as const);
  return {
    ...a,
    ...(Object.fromEntries(sums) as unknown as Outcomes),
    runs: mergedTimes([a.runs, b.runs]),
    waits: mergedTimes([a.waits, b.waits]),
  };
}

/** Part of every fold of minutes. */
export const taskFold = {
  async read(
    engine: Engine,
    from: number,
    until: number,
  ): Promise<(tx: Transaction) => Promise<void>> {
    const first = hourOf(from - LATE_MS - HOUR_MS);
    const added = new Map<number, TaskTotal[]>();
    for (let hour = first; hour < until; hour += HOUR_MS) {
      const counts = await countsIn(engine, Math.max(hour, from), Math.min(hour + HOUR_MS, until));
      const closesAt = hour + HOUR_MS + LATE_MS;
      const times = closesAt > from && closesAt <= until ? await timesIn(engine, hour) : [];
      if (counts.length > 0 || times.length > 0) added.set(hour, [...counts, ...times]);
    }
    return async (tx) => {
      for (const [hour, rows] of added) await addTo(tx, hour, rows);
      await tx.run(sql`
        delete from holdfast.task_stat where hour <= ${hourOf(until - LATE_MS) - HOUR_MS}`);
      if (hourOf(until) === hourOf(from)) return;
      await tx.run(
        sql`delete from holdfast.task_total where hour < ${until - TASK_TOTALS_KEEP_MS}`,
      );
    };
  },
};

function hourOf(instant: number): number {
  return Math.floor(instant / HOUR_MS) * HOUR_MS;
}

interface Tally {
  readonly task: string;
  readonly worker: string | null;
  readonly outcome: Outcome | "retry";
  readonly n: number;
}

/** Both queries use the index by the time of the end. */
async function countsIn(engine: Engine, from: number, until: number): Promise<TaskTotal[]> {
  if (until <= from) return [];
  const tallies = await engine.all<Tally>(sql`
    select task, worker, status as outcome, count(*) as n
      from holdfast.finished
     where status in ('done', 'failed', 'cancelled', 'expired')
       and finished_at >= ${from}
       and finished_at < ${until}
       and (queue < ${RESERVED} or queue >= ${AFTER_RESERVED})
     group by task, worker, status
     order by count(*) desc
     limit ${TALLIES_MAX}`);
  const attempts = await engine.all<Tally>(sql`
    select j.task, a.worker, a.outcome, count(*) as n
      from holdfast.attempt a
      join holdfast.job j on j.id = a.job_id
     where a.ended_at >= ${from}
       and a.ended_at < ${until}
       and a.outcome in ('retry', 'crashed')
       and (j.queue < ${RESERVED} or j.queue >= ${AFTER_RESERVED})
     group by j.task, a.worker, a.outcome
     order by count(*) desc
     limit ${TALLIES_MAX}`);
  const all = [...tallies, ...attempts];
  const builds = await buildsOf(
    engine,
    all.map(({ worker }) => worker),
  );
  return all.map(({ task, worker, outcome, n }) => ({
    hour: hourOf(from),
    task: bareName(task),
    build: named(builds.get(worker ?? "")),
    ...NO_OUTCOMES,
    [outcome === "retry" ? "retried" : outcome]: n,
    runs: null,
    waits: null,
  }));
}

function named(build = NO_BUILD): string {
  return isKnownVersion(build) ? build : NO_BUILD;
}

interface Times {
  readonly hour: number;
  readonly task: string;
  readonly build: string;
  readonly runs: string;
  readonly waits: string;
}

async function timesIn(engine: Engine, hour: number): Promise<TaskTotal[]> {
  const rows = await engine.all<Times>(sql`
    select hour, task, build, runs, waits
      from holdfast.task_stat
     where hour = ${hour}
     order by task, source
     limit ${TALLIES_MAX}`);
  return rows.map(asTotal);
}

function asTotal({ build, ...times }: Times): TaskTotal {
  return { ...times, build: named(build), ...NO_OUTCOMES };
}

/** Writes the hour anew, with what is added to it: three statements, however many tasks there are. */
async function addTo(tx: Transaction, hour: number, added: readonly TaskTotal[]): Promise<void> {
  const known = await tx.all<TaskTotal>(sql`
    select ${COLUMNS} from holdfast.task_total where hour = ${hour} limit ${2 * ROWS_PER_HOUR_MAX}`);
  const rows = new Map(known.map((row) => [keyOf(row), row]));
  for (const row of added) {
    const isFull = rows.size >= ROWS_PER_HOUR_MAX && !rows.has(keyOf(row));
    const one = isFull ? { ...row, task: OTHER_QUEUES, build: NO_BUILD } : row;
    const before = rows.get(keyOf(one));
    rows.set(keyOf(one), before === undefined ? one : addTotals(before, one));
  }
  await tx.run(sql`delete from holdfast.task_total where hour = ${hour}`);
  await tx.insert(
    "task_total",
    [...rows.values()].map((row) => ({ ...row })),
  );
}

function keyOf({ task, build }: TaskTotal): string {
  return JSON.stringify([task, build]);
}

const COLUMNS = sql`
  hour, task, build, done, failed, cancelled, expired, retried, crashed, runs, waits`;

// Reading.

/** Of one task, or of these builds. Hours that are not over have the times that workers have written so far. */
export async function taskTotals(
  engine: Engine,
  { task, builds, since }: { task?: string; builds?: readonly string[]; since: number },
): Promise<TaskTotal[]> {
  const which: Sql =
    task === undefined ? engine.among(sql`build`, [...(builds ?? [])]) : sql`task = ${task}`;
  const totals = await engine.all<TaskTotal>(sql`
    select ${COLUMNS}
      from holdfast.task_total
     where ${which}
       and hour >= ${hourOf(since)}
     order by hour desc
     limit ${TOTALS_READ_MAX}`);
  const open = await engine.all<Times>(sql`
    select hour, task, build, runs, waits
      from holdfast.task_stat
     where ${which}
       and hour >= ${hourOf(since)}
     order by hour desc
     limit ${TOTALS_READ_MAX}`);
  return [...totals, ...open.map(asTotal)].toReversed();
}

export interface TaskSums extends Outcomes {
  /** Of the task or the build. */
  readonly name: string;
}

/** The sums of every task, or of every build. No histograms: they would be as many as there are hours. */
export async function taskSums(
  engine: Engine,
  { since, by }: { since: number; by: "task" | "build" },
): Promise<TaskSums[]> {
  const column = by === "task" ? sql`task` : sql`build`;
  const rows = await engine.all<Record<"name" | Outcome, string>>(sql`
    select ${column} as name, sum(done) as done, sum(failed) as failed, sum(cancelled) as cancelled,
           sum(expired) as expired, sum(retried) as retried, sum(crashed) as crashed
      from holdfast.task_total
     where hour >= ${hourOf(since)}
     group by ${column}
     order by sum(done + failed + retried + crashed) desc
     limit ${ROWS_PER_HOUR_MAX}`);
  // Some drivers give a sum as text.
  return rows.map(({ name, ...sums }) => ({ name, ...numbersOf(sums) }));
}

function numbersOf(sums: Readonly<Record<Outcome, string>>): Outcomes {
  const pairs = outcomeNames.map((name) => [name, Number(sums[name])] as const);
  return Object.fromEntries(pairs) as unknown as Outcomes;
}
