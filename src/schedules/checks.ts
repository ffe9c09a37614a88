/** Schedules that no scheduler handles, that fail, or that never run again. */
import { subjects } from "../audit/entry.ts";
import { asking, type Check } from "../database/check.ts";
import { sql } from "../database/sql.ts";

/** Every worker handles ticks within seconds. */
const OVERDUE_MS = 5 * 60_000;

interface Found {
  readonly name: string;
  readonly at: number;
}

export const scheduleChecks: readonly Check[] = [
  {
    name: "schedule-overdue",
    severity: "warning",
    problem: "Ticks of schedules are overdue: no worker handles them.",
    remedy: "Start a worker: any worker handles all schedules. If one is running, check its log.",
    cost: "quick",
    find: asking<Found>(
      (engine, { limit }) => sql`
        select name, next_at as at
          from holdfast.schedule
         where paused_at is null
           and next_at < ${engine.now()} - ${OVERDUE_MS}
         order by next_at
         limit ${limit}`,
      ({ name, at }) => ({
        subject: subjects.schedule(name),
        detail: "has a tick that no worker has handled",
        sinceAt: at,
      }),
    ),
  },
  {
    name: "schedule-failing",
    severity: "warning",
    problem: "Schedules cannot enqueue their jobs.",
    remedy:
      "Read the error (holdfast schedules show <name>) and edit the schedule. Its tick stays due.",
    cost: "quick",
    find: asking<Found & { error: string }>(
      (_engine, { limit }) => sql`
        select name, error, error_at as at
          from holdfast.schedule
         where error is not null
         order by name
         limit ${limit}`,
      ({ name, error, at }) => ({
        subject: subjects.schedule(name),
        detail: `failed: ${error}`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "schedule-over",
    severity: "info",
    problem: "Schedules will never run again: no future date matches.",
    remedy: "Edit them, or delete them.",
    cost: "quick",
    find: asking<Found>(
      (_engine, { limit }) => sql`
        select name, updated_at as at
          from holdfast.schedule
         where next_at is null
         order by name
         limit ${limit}`,
      ({ name, at }) => ({
        subject: subjects.schedule(name),
        detail: "has no next tick",
        sinceAt: at,
      }),
    ),
  },
  {
    name: "schedule-run-orphaned",
    severity: "warning",
    problem: "Runs wait for the end of a job, but their schedule does not count them.",
    remedy: "Correct the counts (--fix): the runs then start one after the other.",
    cost: "full",
    find: asking<Found>(
      (_engine, { limit }) => sql`
        select s.name, min(r.at) as at
          from holdfast.schedule_run r
          join holdfast.schedule s on s.name = r.schedule
         where r.outcome = 'queued'
         group by s.name, s.queued_count
        having count(*) > s.queued_count
         order by s.name
         limit ${limit}`,
      ({ name, at }) => ({
        subject: subjects.schedule(name),
        detail: "has runs that would wait forever",
        sinceAt: at,
      }),
    ),
    fix: (engine, { limit, sign }) =>
      engine.transaction(async (tx) => {
        const rows = await tx.all<{ name: string; runs: number | string }>(sql`
          select s.name, count(*) as runs
            from holdfast.schedule_run r
            join holdfast.schedule s on s.name = r.schedule
           where r.outcome = 'queued'
           group by s.name, s.queued_count
          having count(*) > s.queued_count
           order by s.name
           limit ${limit}`);
        for (const { name, runs } of rows) {
          await tx.run(sql`
            update holdfast.schedule
               set queued_count = ${Number(runs)}
             where name = ${name}
               and queued_count < ${Number(runs)}`);
        }
        const fixed = rows.map(({ name }) => subjects.schedule(name));
        await sign(tx, fixed);
        return { subjects: fixed, queues: [] };
      }),
  },
];
