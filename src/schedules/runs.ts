/** The runs of a schedule: each is written in the transaction that enqueues its job, under the lock of the schedule. */
import { StoreRefusedError } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { asRow, type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { enqueueIn } from "../jobs/enqueue-policy.ts";
import { checkOptions } from "../jobs/enqueue.ts";
import type { JobHooks, MoveContext } from "../jobs/hooks.ts";
import type { NewJob } from "../jobs/store.ts";
import { hasLiveJob } from "./open-runs.ts";
import {
  type Definition,
  firstTick,
  type RunOutcome,
  type RunRecord,
  type ScheduledJobOptions,
  type ScheduleRecord,
} from "./schedule.ts";
import { LATE_MS, planTicks, timingOf, type TimingRow } from "./timing.ts";

/** Runs of one schedule that wait for the end of a job. Further ticks are skipped. */
const QUEUED_MAX = 1_000;

/** What one transaction did. */
export interface Fired {
  readonly schedule: string;
  readonly task: string;
  readonly runs: readonly FiredRun[];
  /** Missed ticks that were skipped. */
  readonly missed: number;
  readonly hints: readonly Hint[];
}

interface FiredRun {
  readonly tick: number;
  readonly outcome: RunOutcome;
  readonly job: string | null;
}

/** Handles the ticks that are due. Null: none is, or with `onTime` they are late. */
export async function fireIn(
  context: MoveContext,
  tx: Transaction,
  schedule: ScheduleRecord,
  { onTime = false }: { readonly onTime?: boolean } = {},
): Promise<Fired | null> {
  const { engine } = context;
  const { name, task, nextAt, pausedAt } = schedule;
  if (nextAt === null || pausedAt !== null) return null;
  const now = await readNow(engine, tx);
  if (nextAt > now || (onTime && nextAt <= now - LATE_MS)) return null;
  const plan = planTicks(timingOf(schedule), { ...schedule, nextAt }, now);
  const ticks = await unhandled(tx, name, plan.run);
  const outcomes = await decide(tx, engine, schedule, ticks.length);
  const queued = outcomes.filter((outcome) => outcome === "queued").length;
  const { runs, hints } = await enqueueRuns(context, tx, schedule, {
    runs: ticks.map((tick, at) => ({ tick, outcome: outcomes[at] as RunOutcome })),
    now,
    manual: false,
  });
  await tx.run(sql`
    update holdfast.schedule
       set next_at = ${plan.next}, last_at = ${plan.run.at(-1) ?? nextAt},
           missed_count = missed_count + ${plan.left}, queued_count = queued_count + ${queued},
           error = null, error_at = null
     where name = ${name}`);
  return { schedule: name, task, runs, missed: plan.left, hints };
}

/** Without ticks that have a run already: next_at was set back. */
async function unhandled(
  tx: Transaction,
  name: string,
  ticks: readonly number[],
): Promise<readonly number[]> {
  const [first, last] = [ticks[0], ticks.at(-1)];
  if (first === undefined || last === undefined) return [];
  const rows = await tx.all<{ tick: number }>(sql`
    select tick
      from holdfast.schedule_run
     where schedule = ${name}
       and tick between ${first} and ${last}
       and is_manual = 0`);
  const handled = new Set(rows.map(({ tick }) => tick));
  return ticks.filter((tick) => !handled.has(tick));
}

/** What becomes of so many ticks, in order: each job that one of them enqueues is in the way of the next. */
async function decide(
  tx: Transaction,
  engine: Engine,
  { name, overlap, queuedCount }: ScheduleRecord,
  count: number,
): Promise<RunOutcome[]> {
  if (overlap === "allow" || count === 0) return Array.from({ length: count }, () => "enqueued");
  let isFree = queuedCount === 0 && !(await hasLiveJob(tx, engine, name));
  let room = overlap === "queue" ? QUEUED_MAX - queuedCount : 0;
  return Array.from({ length: count }, () => {
    if (isFree) {
      isFree = false;
      return "enqueued";
    }
    room -= 1;
    return room >= 0 ? "queued" : "skipped";
  });
}

interface PlannedRuns {
  readonly runs: readonly { readonly tick: number; readonly outcome: RunOutcome }[];
  readonly now: number;
  readonly manual: boolean;
}

/** Enqueues the jobs of runs, and writes the runs. */
async function enqueueRuns(
  context: MoveContext,
  tx: Transaction,
  schedule: ScheduleRecord,
  { runs: planned, now, manual }: PlannedRuns,
): Promise<{ runs: FiredRun[]; hints: readonly Hint[] }> {
  const newId = makeIds(context.engine.runtime);
  const withJobs = planned.filter(({ outcome }) => outcome === "enqueued");
  const jobs = withJobs.map(() => jobOf(schedule, newId()));
  const { enqueued, hints } =
    jobs.length === 0 ? { enqueued: [], hints: [] } : await enqueueIn(context, tx, jobs);
  const runs = planned.map(({ tick, outcome }): FiredRun => {
    const job = enqueued[withJobs.findIndex((one) => one.tick === tick)];
    if (job === undefined) return { tick, outcome, job: null };
    return { tick, outcome: job.added ? "enqueued" : "joined", job: job.id };
  });
  await tx.insert(
    "schedule_run",
    runs.map(({ tick, outcome, job }) =>
      asRow({
        schedule: schedule.name,
        tick,
        is_manual: manual ? 1 : 0,
        outcome,
        job_id: job,
        at: now,
        is_open: job === null ? 0 : 1,
      }),
    ),
  );
  return { runs, hints };
}

/** The options were checked when they were stored, perhaps by another version. */
function jobOf({ task, payload, options }: ScheduleRecord, id: string): NewJob {
  const stored = JSON.parse(options) as ScheduledJobOptions & {
    queue: string;
    maxAttempts: number;
  };
  return { ...checkOptions(stored, stored), id, task, payload };
}

/** Enqueues the oldest run that waits. Null: none does, or a job has not ended. */
export async function releaseIn(
  context: MoveContext,
  tx: Transaction,
  schedule: ScheduleRecord,
): Promise<Fired | null> {
  const { engine } = context;
  const { name, task, queuedCount, pausedAt } = schedule;
  if (queuedCount === 0 || pausedAt !== null || (await hasLiveJob(tx, engine, name))) return null;
  const [run] = await tx.all<{ tick: number }>(sql`
    select tick
      from holdfast.schedule_run
     where schedule = ${name}
       and outcome = 'queued'
     order by tick
     limit 1`);
  const now = await readNow(engine, tx);
  // A count without a run was changed by hand.
  const left = run === undefined ? 0 : queuedCount - 1;
  await tx.run(sql`update holdfast.schedule set queued_count = ${left} where name = ${name}`);
  if (run === undefined) return null;
  const { enqueued, hints } = await enqueueIn(context, tx, [
    jobOf(schedule, makeIds(engine.runtime)()),
  ]);
  const [job] = enqueued;
  const outcome = job?.added === true ? "enqueued" : "joined";
  await tx.run(sql`
    update holdfast.schedule_run
       set outcome = ${outcome}, job_id = ${job?.id ?? null}, at = ${now}, is_open = 1
     where schedule = ${name}
       and tick = ${run.tick}
       and is_manual = 0`);
  const runs: FiredRun[] = [{ tick: run.tick, outcome, job: job?.id ?? null }];
  return { schedule: name, task, runs, missed: 0, hints };
}

/** A run that an operator asked for: now, whatever the overlap. */
export async function requestRunIn(
  context: MoveContext,
  tx: Transaction,
  schedule: ScheduleRecord,
): Promise<{ job: string; hints: readonly Hint[] }> {
  const now = await readNow(context.engine, tx);
  const [last] = await tx.all<{ tick: number | null }>(sql`
    select max(tick) as tick
      from holdfast.schedule_run
     where schedule = ${schedule.name}
       and tick >= ${now}
       and is_manual = 1`);
  const tick = last?.tick === null || last === undefined ? now : last.tick + 1;
  const { runs, hints } = await enqueueRuns(context, tx, schedule, {
    runs: [{ tick, outcome: "enqueued" }],
    now,
    manual: true,
  });
  return { job: runs[0]?.job ?? "", hints };
}

// The rows of schedules and runs, and the writes that several changes share.

const SCHEDULE_COLUMNS = sql`
       name, task, payload, options, cron, time_zone as "timeZone", every_ms as "everyMs", offset_ms as "offsetMs", missed,
       missed_limit as "missedLimit", overlap, description, next_at as "nextAt", since_at as "sinceAt", last_at as "lastAt",
       paused_at as "pausedAt", paused_by as "pausedBy", declared_by as "declaredBy", declared, revision,
       created_at as "createdAt", updated_at as "updatedAt", missed_count as "missedCount",
       queued_count as "queuedCount", error, error_at as "errorAt"`;

export const SCHEDULES = sql`select ${SCHEDULE_COLUMNS} from holdfast.schedule`;

export const RUNS = sql`
    select schedule, tick, is_manual as "isManual", outcome, job_id as job, at from holdfast.schedule_run`;

export interface RunRow extends Omit<RunRecord, "manual"> {
  readonly isManual: number;
}

export function runOf({ isManual, ...run }: RunRow): RunRecord {
  return { ...run, manual: isManual === 1 };
}

export interface RecentFilter {
  readonly schedules: readonly string[];
  /** Of each. */
  readonly limit: number;
}

export async function recentRuns(
  engine: Engine,
  { schedules, limit }: RecentFilter,
): Promise<RunRecord[]> {
  if (schedules.length === 0) return [];
  const rows = await engine.all<RunRow>(sql`
    select r.schedule, r.tick, r.is_manual as "isManual", r.outcome, r.job_id as job, r.at
      from (select s.name,
                   coalesce((select x.tick
                               from holdfast.schedule_run x
                              where x.schedule = s.name
                              order by x.schedule desc, x.tick desc
                              limit 1 offset ${limit - 1}), 0) as since
              from holdfast.schedule s
             where ${engine.among(sql`s.name`, schedules)}) t
      join holdfast.schedule_run r on r.schedule = t.name and r.tick >= t.since
     order by r.schedule, r.tick desc, r.is_manual desc
     limit ${schedules.length * limit * 2}`);
  return rows.map(runOf);
}

export async function findSchedule(
  from: Pick<Transaction, "all">,
  name: string,
): Promise<ScheduleRecord | null> {
  const [row] = await from.all<ScheduleRecord>(sql`${SCHEDULES} where name = ${name}`);
  return row ?? null;
}

/** Only one transaction at a time has the row. */
export async function lockSchedule(
  engine: Engine,
  tx: Transaction,
  name: string,
): Promise<ScheduleRecord | null> {
  const locking = engine.lockRows();
  const [row] = await tx.all<ScheduleRecord>(sql`${SCHEDULES} where name = ${name} ${locking}`);
  return row ?? null;
}

interface NewSchedule {
  /** Null: it is not paused. */
  readonly pausedBy: string | null;
  /** Null: it is not declared in code. */
  readonly declared: { readonly by: string; readonly hash: string } | null;
}

export async function insertSchedule(
  engine: Engine,
  tx: Transaction,
  definition: Definition,
  { pausedBy, declared }: NewSchedule,
): Promise<void> {
  const now = await readNow(engine, tx);
  const { name, task, payload, options, missed, overlap, description } = definition;
  await tx.insert("schedule", [
    {
      name,
      task,
      payload,
      options,
      missed,
      overlap,
      description,
      cron: definition.cron,
      time_zone: definition.timeZone,
      every_ms: definition.everyMs,
      offset_ms: definition.offsetMs,
      missed_limit: definition.missedLimit,
      next_at: firstTick(definition, now),
      since_at: now,
      last_at: null,
      paused_at: pausedBy === null ? null : now,
      paused_by: pausedBy,
      declared_by: declared?.by ?? null,
      declared: declared?.hash ?? null,
      revision: 1,
      created_at: now,
      updated_at: now,
      missed_count: 0,
      queued_count: 0,
      error: null,
      error_at: null,
    },
  ]);
}

/**
 * Another timing begins now: its first tick is after this moment. A tick that is due already stays due, so that a change
 * loses none.
 */
export async function writeDefinition(
  engine: Engine,
  tx: Transaction,
  before: ScheduleRecord,
  after: Definition,
): Promise<void> {
  const now = await readNow(engine, tx);
  const { nextAt, sinceAt, pausedAt } = before;
  const isOwed = nextAt !== null && nextAt <= (pausedAt ?? now);
  const isSame = isSameTiming(before, after);
  const next = isOwed || isSame ? nextAt : firstTick(after, now);
  // A timing that never matches is refused, even while a tick of the old one is due.
  if (!isSame) firstTick(after, now);
  await tx.run(sql`
    update holdfast.schedule
       set task = ${after.task}, payload = ${after.payload}, options = ${after.options}, cron = ${after.cron},
           time_zone = ${after.timeZone}, every_ms = ${after.everyMs}, offset_ms = ${after.offsetMs},
           missed = ${after.missed}, missed_limit = ${after.missedLimit}, overlap = ${after.overlap},
           description = ${after.description}, next_at = ${next}, since_at = ${isSame ? sinceAt : now},
           error = null, error_at = null, revision = revision + 1, updated_at = ${now}
     where name = ${before.name}`);
}

function isSameTiming(one: TimingRow, other: TimingRow): boolean {
  return (["cron", "timeZone", "everyMs", "offsetMs"] as const).every(
    (field) => one[field] === other[field],
  );
}

/**
 * Workers of several names may declare the same: it belongs to the name that did so last, so that none of the others deletes
 * it. That is not a change of the schedule, so nothing is audited.
 */
export async function adoptSchedule(
  engine: Engine,
  name: string,
  { by, hash }: { readonly by: string; readonly hash: string },
): Promise<void> {
  await engine.run(
    sql`update holdfast.schedule set declared_by = ${by} where name = ${name} and declared = ${hash}`,
  );
}

export async function deleteSchedule(tx: Transaction, name: string): Promise<void> {
  await tx.run(sql`delete from holdfast.schedule_run where schedule = ${name}`);
  await tx.run(sql`delete from holdfast.schedule where name = ${name}`);
}

/** What an audit line says about a definition. */
export function detailOf({ task, cron, timeZone, everyMs, missed, overlap }: Definition): string {
  const timing = cron === null ? `every ${everyMs} ms` : `cron '${cron}' in ${timeZone}`;
  return `task ${task}, ${timing}, missed ${missed}, overlap ${overlap}`;
}

/** Transactions that fail because another process inserted the same schedule at this moment. */
const TRIES_MAX = 5;

/** The next try finds the row of the other process. */
export async function insertAgain<T>(act: () => Promise<T>, tries = TRIES_MAX): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof StoreRefusedError) || tries === 1) throw error;
    return insertAgain(act, tries - 1);
  }
}

export const scheduleHooks: JobHooks = {
  async reopened(tx, id) {
    await tx.run(sql`update holdfast.schedule_run set is_open = 1 where job_id = ${id}`);
  },

  upcoming: (engine) => sql`
           coalesce((select 0 from holdfast.schedule where queued_count > 0 and paused_at is null limit 1),
                    (select next_at from holdfast.schedule where paused_at is null and next_at is not null order by next_at limit 1)
                      - ${engine.now()}) as "schedulesInMs"`,
};
