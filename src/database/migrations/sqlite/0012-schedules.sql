-- Schedules: what to enqueue, and when.
--
-- This file is frozen; see 0010-first.sql.
--
-- next_at is the tick that is handled next. A scheduler moves it, writes the run of the tick and
-- enqueues its job in one transaction. The key of schedule_run allows one run of a tick, even if
-- next_at was set back.

create table holdfast_schedule (
  name          text    not null primary key check (length(name) between 1 and 128),
  task          text    not null check (length(task) between 1 and 128),
  payload       text    not null,
  options       text    not null,
  cron          text    check (length(cron) between 1 and 256),
  time_zone     text    check (length(time_zone) between 1 and 64),
  every_ms      integer check (every_ms >= 1000),
  offset_ms     integer check (offset_ms >= 0 and offset_ms < every_ms),
  missed        text    not null check (missed in ('skip', 'once', 'all')),
  missed_limit  integer not null check (missed_limit between 1 and 1000),
  overlap       text    not null check (overlap in ('allow', 'skip', 'queue')),
  description   text,
  next_at       integer,
  since_at      integer not null,
  last_at       integer,
  paused_at     integer,
  paused_by     text    check ((paused_at is null) = (paused_by is null)),
  declared_by   text,
  declared      text    check ((declared_by is null) = (declared is null)),
  revision      integer not null check (revision >= 1),
  created_at    integer not null,
  updated_at    integer not null,
  missed_count  integer not null check (missed_count >= 0),
  queued_count  integer not null check (queued_count >= 0),
  error         text,
  error_at      integer,
  check ((cron is null) = (every_ms is not null)),
  check ((cron is null) = (time_zone is null)),
  check ((every_ms is null) = (offset_ms is null))
) strict, without rowid;
create index holdfast_schedule_next on holdfast_schedule (next_at)
  where paused_at is null and next_at is not null;
create index holdfast_schedule_queued on holdfast_schedule (name) where queued_count > 0;
create index holdfast_schedule_declared on holdfast_schedule (declared_by) where declared_by is not null;

create table holdfast_schedule_run (
  schedule      text    not null,
  tick          integer not null,
  is_manual     integer not null check (is_manual in (0, 1)),
  outcome       text    not null check (outcome in ('enqueued', 'joined', 'queued', 'skipped')),
  job_id        text    check ((job_id is null) = (outcome in ('queued', 'skipped'))),
  at            integer not null,
  primary key (schedule, tick, is_manual)
) strict, without rowid;
create index holdfast_schedule_run_job on holdfast_schedule_run (job_id) where job_id is not null;
create index holdfast_schedule_run_queued on holdfast_schedule_run (schedule, tick) where outcome = 'queued';
