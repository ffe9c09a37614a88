/** Checks of waiting jobs, steps and attempts. */
import { subjects } from "../audit/entry.ts";
import { asking, type Check, deleting, type FixedRows, type Fixing } from "../database/check.ts";
import { type Engine, readNow } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import { queuesOf } from "../jobs/rows.ts";
import { wake } from "./events.ts";

interface WaitRow {
  id: string;
  name: string;
  key: string;
}

const named = ({ name, key }: WaitRow): string =>
  name === "@job" ? `the end of job ${key}` : `event ${name} '${key}'`;

export const waitChecks: readonly Check[] = [
  {
    name: "waiting-for-nothing",
    severity: "critical",
    problem:
      "Jobs are waiting, but not for a time, an event, a job or an effect in doubt, so they wait forever.",
    remedy:
      "Cancel and retry them (holdfast cancel <id>, holdfast retry <id>): their completed steps are kept.",
    cost: "full",
    find: asking<{ id: string; task: string }>(
      (_engine, { limit }) => sql`
        select w.id, w.task
          from holdfast.waiting w
         where w.status = 'waiting'
           and w.due_at is null
           and w.missing = 0
           and not exists (select 1 from holdfast.wait e where e.job_id = w.id)
           and not exists (select 1 from holdfast.step s where s.job_id = w.id and s.status = 'doubt')
         limit ${limit}`,
      ({ id, task }) => ({
        subject: subjects.job(id),
        detail: `(${task}) waits for nothing`,
        sinceAt: null,
      }),
    ),
  },
  {
    name: "wait-unheard",
    severity: "critical",
    problem: "Jobs wait for something that has already happened: a wake-up was lost.",
    remedy: "Resume them (--fix).",
    cost: "full",
    find: asking<WaitRow & { at: number }>(
      (_engine, { limit }) => unheard(limit),
      (row) => ({
        subject: subjects.job(row.id),
        detail: `waits for ${named(row)}, which has already happened`,
        sinceAt: row.at,
      }),
    ),
    fix: wakeThem,
  },
  {
    name: "wait-orphaned",
    severity: "warning",
    problem: "Wait rows belong to jobs that are not waiting.",
    remedy: "Delete these rows (--fix).",
    cost: "full",
    find: asking<WaitRow>(
      (_engine, { limit }) => orphaned(limit),
      (row) => ({
        subject: subjects.job(row.id),
        detail: `is not waiting but has a wait row for ${named(row)}`,
        sinceAt: null,
      }),
    ),
    fix: deleting<WaitRow>({
      find: (limit) => orphaned(limit),
      remove: ({ id, name, key }) => sql`
        delete from holdfast.wait
         where job_id = ${id} and name = ${name} and event_key = ${key}
           and ${DOES_NOT_WAIT}`,
      subject: ({ id }) => subjects.job(id),
    }),
  },
];

/** Without a table alias: not every database accepts one in a delete. */
const DOES_NOT_WAIT = sql`not exists (
            select 1 from holdfast.waiting w where w.id = holdfast.wait.job_id and w.status = 'waiting')`;

function orphaned(limit: number): Sql {
  return sql`
    select job_id as id, name, event_key as "key" from holdfast.wait where ${DOES_NOT_WAIT} limit ${limit}`;
}

function unheard(limit: number): Sql {
  return sql`
    select e.job_id as id, e.name, e.event_key as "key", v.emitted_at as at
      from holdfast.wait e
      join holdfast.event v on v.name = e.name and v.event_key = e.event_key
     where v.emitted_at is not null
     limit ${limit}`;
}

/** Wakes them as if the event came just now; a job woken meanwhile is no longer waiting. */
function wakeThem(engine: Engine, { limit, sign }: Fixing): Promise<FixedRows> {
  return engine.transaction(async (tx) => {
    const rows = await tx.all<WaitRow>(unheard(limit));
    const of = rows.map(({ name, key }) => ({ event: name, key }));
    const woken = await wake(engine, tx, { of, now: await readNow(engine, tx) });
    const jobs = woken.map(({ id }) => subjects.job(id));
    await sign(tx, jobs);
    return { subjects: jobs, queues: queuesOf(woken) };
  });
}

interface StepRow {
  id: string;
  name: string;
  at: number;
}

export const stepChecks: readonly Check[] = [
  {
    name: "effect-in-doubt",
    severity: "warning",
    problem: "Jobs are blocked by an effect in doubt: it may or may not have happened.",
    remedy:
      "Check in the external system whether it happened, then record it: holdfast effects resolve <job> <effect>.",
    cost: "quick",
    find: asking<StepRow>(
      (_engine, { limit }) => sql`
        select s.job_id as id, s.name, s.begun_at as at
          from holdfast.step s
          join holdfast.waiting w on w.id = s.job_id
         where s.status = 'doubt'
         order by s.begun_at
         limit ${limit}`,
      ({ id, name, at }) => ({
        subject: subjects.job(id),
        detail: `waits for an operator to record whether '${name}' happened`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "effect-left-open",
    severity: "info",
    problem: "Jobs have ended with effects that may or may not have happened.",
    remedy:
      "Check in the external system whether they happened. An effect started by an attempt that died may have happened.",
    cost: "full",
    find: asking<StepRow & { status: string; ended: string }>(
      (_engine, { limit }) => sql`
        select s.job_id as id, s.name, s.begun_at as at, s.status, f.status as ended
          from holdfast.step s
          join holdfast.finished f on f.id = s.job_id
         where s.kind = 'effect'
           and s.status in ('begun', 'doubt')
         limit ${limit}`,
      ({ id, name, at, status, ended }) => ({
        subject: subjects.job(id),
        detail: `is ${ended}, but its effect '${name}' is ${status === "doubt" ? "in doubt" : "started and not completed"}`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "attempt-missing",
    severity: "warning",
    problem: "The number of recorded attempts differs from the number of claims.",
    remedy:
      "Attempts were deleted manually, or states were written manually. The missing history cannot be restored.",
    cost: "full",
    find: asking<{ id: string; epoch: number; recorded: number }>(
      // Every claim leaves a row when it ends; a running one has not ended.
      (_engine, { limit }) => sql`
        select id, epoch, recorded
          from (select live.id, live.epoch, live.ended,
                       (select count(*) from holdfast.attempt a where a.job_id = live.id)
                       + (select count(*) from holdfast.rerun b
                           where b.job_id = live.id and b.status = 'done') as recorded
                  from (select r.id, r.epoch, r.epoch as ended from holdfast.ready r where r.epoch > 0
                         union all
                        select w.id, w.epoch, w.epoch from holdfast.waiting w where w.epoch > 0
                         union all
                        select l.id, l.epoch, l.epoch - 1 from holdfast.lease l) live) counted
         where recorded <> ended
         limit ${limit}`,
      ({ id, epoch, recorded }) => ({
        subject: subjects.job(id),
        detail: `was claimed ${epoch} times but has ${recorded} recorded attempts`,
        sinceAt: null,
      }),
    ),
  },
];
