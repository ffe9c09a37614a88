/**
 * The views that read the same on every engine. Tables are written `holdfast.<name>`, as in all shared SQL.
 *
 * A job is found by its id in each of the state tables, and exactly one of them has it. Written with joins because
 * that is the form in which every engine looks a job up by its id instead of putting all jobs together first.
 */

export const JOB_STATE = `
create view holdfast.job_state as
select j.id, j.queue, j.task, j.rank, j.job_key, j.enqueued_at,
       case when r.id is not null then 'pending'
            when w.id is not null then w.status
            when l.id is not null then 'processing'
            else f.status end as status,
       coalesce(r.epoch, w.epoch, l.epoch, f.epoch) as epoch,
       coalesce(r.attempts, w.attempts, l.attempts, f.attempts) as attempts,
       coalesce(r.crashes, w.crashes, l.crashes, f.crashes) as crashes,
       coalesce(r.max_attempts, w.max_attempts, l.max_attempts, f.max_attempts) as max_attempts,
       w.due_at, l.locked_by, l.locked_until, l.cancel_requested_at, f.finished_at, f.result, f.error
  from holdfast.job j
  left join holdfast.ready r on r.id = j.id
  left join holdfast.waiting w on w.id = j.id
  left join holdfast.lease l on l.id = j.id
  left join holdfast.finished f on f.id = j.id
 where coalesce(r.id, w.id, l.id, f.id) is not null;
`;

/** For people and tools: `instant` turns a column of milliseconds into the engine's own time. */
export const jobs = (instant: (column: string) => string): string => `
create view holdfast.jobs as
select s.id, s.queue, s.task, s.status, -s.rank as priority, s.job_key, s.locked_by,
       ${instant("s.locked_until")} as locked_until, s.attempts, s.max_attempts, s.crashes, s.epoch,
       ${instant("s.enqueued_at")} as enqueued_at, ${instant("s.due_at")} as due_at,
       ${instant("s.finished_at")} as finished_at,
       coalesce(s.error, (select a.error
                            from holdfast.attempt a
                           where a.job_id = s.id
                             and a.error is not null
                           order by a.epoch desc
                           limit 1)) as last_error
  from holdfast.job_state s;
`;

export const ATTEMPTS = `
create view holdfast.attempts as
select job_id, epoch, attempt, worker, outcome, started_at, ended_at, error
  from holdfast.attempt
 union all
select id, epoch, attempts, worker, status, started_at, finished_at, error
  from holdfast.finished
 where worker is not null
 union all
select id, epoch, attempts, locked_by, 'running', claimed_at, null, null
  from holdfast.lease;
`;
