-- What operators do with many jobs, on SQLite.
--
-- This file is frozen once it is released: to change the schema, add a file with the next number.

-- -------------------------------------------------------------------------------------------------
-- Tags
-- A job without tags has no row here. The primary key lists the jobs of a tag, newest first; the
-- index lists the tags of a job.
-- -------------------------------------------------------------------------------------------------

create table holdfast_job_tag (
  tag           text    not null check (length(tag) between 1 and 64),
  job_id        text    not null,
  primary key (tag, job_id)
) strict, without rowid;
create index holdfast_job_tag_job on holdfast_job_tag (job_id);

-- -------------------------------------------------------------------------------------------------
-- Bulk actions
-- A change of all jobs that match a filter. Any process carries it out, chunk by chunk: the row is locked for
-- each chunk, and (walk, before_id) says where the next one begins. "carrier" only keeps others from trying.
-- -------------------------------------------------------------------------------------------------

create table holdfast_bulk_action (
  id            text    not null primary key,
  action        text    not null check (action in ('retry', 'cancel', 'delete', 'move', 'priority')),
  filter        text    not null,
  terms         text    not null,
  dry_run       integer not null check (dry_run in (0, 1)),
  actor         text    not null,
  reason        text,
  trace_id      text,
  status        text    not null check (status in ('running', 'done', 'stopped', 'failed')),
  walk          text    not null,
  before_id     text,
  looked        integer not null default 0 check (looked >= 0),
  matched       integer not null default 0 check (matched >= 0),
  changed       integer not null default 0 check (changed >= 0),
  refused       integer not null default 0 check (refused >= 0),
  sample        text    not null,
  refusals      text    not null,
  error         text,
  carrier       text,
  created_at    integer not null,
  changed_at    integer not null,
  ended_at      integer check ((status = 'running') = (ended_at is null))
) strict, without rowid;
create index holdfast_bulk_action_open on holdfast_bulk_action (id) where ended_at is null;

-- -------------------------------------------------------------------------------------------------
-- Inputs that were changed, and jobs that run again
-- A job is written once. Its queue and priority change while it is unclaimed, by an operator; its input
-- changes with a row in job_revision that keeps the old one, or while enqueueing again delays it.
-- A rerun keeps how the job had ended, and the steps that it takes back.
-- -------------------------------------------------------------------------------------------------

create table holdfast_job_revision (
  job_id        text    not null,
  revision      integer not null check (revision >= 1),
  payload       text    not null,
  changed_at    integer not null,
  primary key (job_id, revision)
) strict, without rowid;

create table holdfast_rerun (
  job_id        text    not null,
  run           integer not null check (run >= 1),
  step          text    check (length(step) between 1 and 128),
  occurrence    integer check ((occurrence is null) = (step is null)),
  status        text    not null,
  epoch         integer not null check (epoch >= 0),
  attempt       integer not null,
  worker        text,
  started_at    integer,
  finished_at   integer not null,
  result        text,
  error         text,
  rerun_at      integer not null,
  primary key (job_id, run)
) strict, without rowid;

create table holdfast_rerun_step (
  job_id        text    not null,
  run           integer not null,
  name          text    not null,
  occurrence    integer not null,
  position      integer not null,
  kind          text    not null,
  status        text    not null,
  epoch         integer not null,
  begun_at      integer not null,
  ended_at      integer,
  result        text,
  primary key (job_id, run, name, occurrence)
) strict, without rowid;

-- With the attempts after whose success a job ran again.
drop view holdfast_attempts;
create view holdfast_attempts as
select job_id, epoch, attempt, worker, outcome, started_at, ended_at, error,
       worker || '-' || job_id || '-' || attempt as trace_id
  from holdfast_attempt
 union all
select job_id, epoch, attempt, worker, status, started_at, finished_at, error,
       worker || '-' || job_id || '-' || attempt
  from holdfast_rerun
 where status = 'done'
   and worker is not null
 union all
select id, epoch, attempts, worker, status, started_at, finished_at, error,
       worker || '-' || id || '-' || attempts
  from holdfast_finished
 where worker is not null
 union all
select id, epoch, attempts, locked_by, 'running', claimed_at, null, null,
       locked_by || '-' || id || '-' || attempts
  from holdfast_lease;

-- -------------------------------------------------------------------------------------------------
-- Debounce and throttle
-- The job that a key of debounce or throttle stands for, and until when.
-- -------------------------------------------------------------------------------------------------

create table holdfast_pacing (
  kind          text    not null check (kind in ('debounce', 'throttle')),
  task          text    not null,
  pace_key      text    not null,
  job_id        text    not null,
  first_at      integer not null,
  until_at      integer not null,
  primary key (kind, task, pace_key)
) strict, without rowid;
create index holdfast_pacing_job on holdfast_pacing (job_id);
create index holdfast_pacing_until on holdfast_pacing (until_at);

drop trigger holdfast_job_is_written_once;
create trigger holdfast_job_is_written_once before update on holdfast_job
when new.id is not old.id or new.task is not old.task or new.max_attempts is not old.max_attempts
  or new.job_key is not old.job_key or new.enqueued_at is not old.enqueued_at
  or (new.payload is old.payload
      and not exists (select 1 from holdfast_ready r where r.id = old.id)
      and not exists (select 1 from holdfast_waiting w where w.id = old.id))
  or (new.payload is not old.payload
      and not exists (select 1 from holdfast_job_revision v where v.job_id = old.id and v.payload = old.payload)
      and not (exists (select 1 from holdfast_pacing p where p.job_id = old.id and p.kind = 'debounce')
               and (exists (select 1 from holdfast_ready r where r.id = old.id and r.epoch = 0)
                    or exists (select 1 from holdfast_waiting w where w.id = old.id and w.epoch = 0))))
begin select raise(abort, 'holdfast: a job is written once and never updated'); end;
