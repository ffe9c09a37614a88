/** The runs of a schedule: each is written in the transaction that enqueues its job, under the lock of the schedule. */
import { makeIds } from "../core/id.ts";
import { asRow, type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { checkOptions } from "../jobs/enqueue.ts";
import { enqueueIn } from "../jobs/enqueue-policy.ts";
import type { MoveContext } from "../jobs/hooks.ts";
import type { NewJob } from "../jobs/store.ts";
import type { RunOutcome, ScheduledJobOptions, ScheduleRecord } from "./schedule.ts";
import { LATE_MS, planTicks } from "./ticks.ts";
import { timingOf } from "./timing.ts";

/** Runs of one schedule that wait for the end of a job. Further ticks are skipped. */
export const QUEUED_MAX = 1_000;

/** The jobs of so many runs are looked at to decide whether one has not ended. */
const LIVE_LOOK_MAX = 20;

/** Runs that are kept of each schedule; those of the last day are kept in any case. */
export const RUNS_KEPT = 1_000;
const RUNS_KEPT_MS = 86_400_000;

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

async function hasLiveJob(tx: Transaction, engine: Engine, name: string): Promise<boolean> {
  const runs = await tx.all<{ job: string }>(sql`
    select job_id as job
      from holdfast.schedule_run
     where schedule = ${name}
       and job_id is not null
     order by tick desc, is_manual desc
     limit ${LIVE_LOOK_MAX}`);
  if (runs.length === 0) return false;
  const isOne = engine.among(
    sql`id`,
    runs.map(({ job }) => job),
  );
  // In one statement: a job that moves from one table to another is in exactly one of them.
  const live = await tx.all(sql`
    select id from holdfast.ready where ${isOne}
     union all select id from holdfast.waiting where ${isOne}
     union all select id from holdfast.lease where ${isOne}
     limit 1`);
  return live.length > 0;
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
       set outcome = ${outcome}, job_id = ${job?.id ?? null}, at = ${now}
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

/** Deletes old runs of a schedule. They are kept long enough that a clock set back does not repeat a tick. */
export async function pruneRuns(engine: Engine, name: string): Promise<number> {
  const [oldest] = await engine.all<{ tick: number }>(sql`
    select tick
      from holdfast.schedule_run
     where schedule = ${name}
     order by tick desc
     limit 1 offset ${RUNS_KEPT}`);
  if (oldest === undefined) return 0;
  return engine.run(sql`
    delete from holdfast.schedule_run
     where schedule = ${name}
       and tick <= ${oldest.tick}
       and tick < ${engine.now()} - ${RUNS_KEPT_MS}
       and outcome <> 'queued'`);
}
