/** The rows of schedules and runs, and the writes that several changes share. */
import { StoreRefusedError } from "../core/errors.ts";
import { type Engine, readNow, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { type Definition, firstTick, type RunRecord, type ScheduleRecord } from "./schedule.ts";
import type { TimingRow } from "./timing.ts";

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
