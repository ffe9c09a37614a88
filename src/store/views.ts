/**
 * The views that read the same on every engine. Tables are written `holdfast.<name>`, as in all shared SQL.
 *
 * A job is found by its id in each of the state tables, and exactly one of them has it. Written with joins because
 * that is the form in which every engine looks a job up by its id instead of putting all jobs together first.
 */

/** How an engine writes what these views need. */
export interface ViewDialect {
  /** A column of milliseconds as the engine's own time. */
  readonly instant: (column: string) => string;
  /** The database's clock in milliseconds. */
  readonly now: string;
  readonly concat: (...parts: readonly string[]) => string;
}

/** As `traceId` of core/job.ts; null where there is no worker. */
function trace({ concat }: ViewDialect, worker: string, job: string, attempt: string): string {
  return concat(worker, "'-'", job, "'-'", attempt);
}

/** What `jobs` and the library itself read. `claimed_at` and `trace_id`: of the running attempt or of the last one. */
const jobState = (dialect: ViewDialect): string => `
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
       w.due_at, l.locked_by, l.locked_until, coalesce(l.claimed_at, f.started_at) as claimed_at, l.heartbeat_at,
       case when l.id is not null then ${trace(dialect, "l.locked_by", "l.id", "l.attempts")}
            when f.worker is not null then ${trace(dialect, "f.worker", "f.id", "f.attempts")}
             end as trace_id,
       l.cancel_requested_at, f.finished_at, f.result, f.error
  from holdfast.job j
  left join holdfast.ready r on r.id = j.id
  left join holdfast.waiting w on w.id = j.id
  left join holdfast.lease l on l.id = j.id
  left join holdfast.finished f on f.id = j.id
 where coalesce(r.id, w.id, l.id, f.id) is not null;
`;

/** For people and tools. */
const jobs = ({ instant }: ViewDialect): string => `
create view holdfast.jobs as
select s.id, s.queue, s.task, s.status, -s.rank as priority, s.job_key, s.locked_by,
       ${instant("s.locked_until")} as locked_until, s.attempts, s.max_attempts, s.crashes, s.epoch,
       ${instant("s.enqueued_at")} as enqueued_at, ${instant("s.due_at")} as due_at,
       ${instant("s.claimed_at")} as claimed_at, ${instant("s.heartbeat_at")} as heartbeat_at,
       ${instant("s.finished_at")} as finished_at, s.trace_id,
       coalesce(s.error, (select a.error
                            from holdfast.attempt a
                           where a.job_id = s.id
                             and a.error is not null
                           order by a.epoch desc
                           limit 1)) as last_error
  from holdfast.job_state s;
`;

/** Its times are milliseconds. */
const attempts = (dialect: ViewDialect): string => `
create view holdfast.attempts as
select job_id, epoch, attempt, worker, outcome, started_at, ended_at, error,
       ${trace(dialect, "worker", "job_id", "attempt")} as trace_id
  from holdfast.attempt
 union all
select id, epoch, attempts, worker, status, started_at, finished_at, error,
       ${trace(dialect, "worker", "id", "attempts")}
  from holdfast.finished
 where worker is not null
 union all
select id, epoch, attempts, locked_by, 'running', claimed_at, null, null,
       ${trace(dialect, "locked_by", "id", "attempts")}
  from holdfast.lease;
`;

/** Who works on what. An expired lease is one that the next worker takes back. */
const leases = (dialect: ViewDialect): string => `
create view holdfast.leases as
select id, queue, task, job_key, locked_by, ${trace(dialect, "locked_by", "id", "attempts")} as trace_id,
       attempts as attempt, epoch, case when locked_until < ${dialect.now} then 'expired' else 'active' end as state,
       ${dialect.instant("claimed_at")} as claimed_at, ${dialect.instant("heartbeat_at")} as heartbeat_at,
       ${dialect.instant("locked_until")} as locked_until,
       ${dialect.now} - claimed_at as held_ms, ${dialect.now} - heartbeat_at as heartbeat_age_ms,
       locked_until - ${dialect.now} as remaining_ms
  from holdfast.lease;
`;

/** Workers that run, and those that ended a while ago; `leases` is what each holds at this instant. */
export const workers = ({ instant, now }: ViewDialect): string => `
create view holdfast.workers as
select w.id, w.type, w.slot, w.status, w.reason, w.wish as desired_state, w.hostname, w.pid, w.version, w.queues,
       w.concurrency, coalesce(l.leases, 0) as leases, w.claimed, w.done, w.failed, w.retried, w.leases_lost,
       ${instant("w.started_at")} as started_at, ${instant("w.heartbeat_at")} as heartbeat_at,
       ${instant("w.stopped_at")} as stopped_at,
       case when w.stopped_at is null then ${now} - w.heartbeat_at end as heartbeat_age_ms
  from holdfast.worker w
  left join (select locked_by, count(*) as leases from holdfast.lease group by locked_by) l on l.locked_by = w.id;
`;

export const jobViews = (dialect: ViewDialect): string =>
  jobState(dialect) + jobs(dialect) + attempts(dialect) + leases(dialect);
