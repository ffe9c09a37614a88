-- Schedules: what to enqueue, and when.
--
-- This file is frozen; see 0010-first.sql.
--
-- next_at is the tick that is handled next. A scheduler moves it, writes the run of the tick and
-- enqueues its job in one transaction. The key of schedule_run allows one run of a tick, even if
-- next_at was set back.

create table holdfast.schedule (
  name          text    collate "C" not null primary key check (length(name) between 1 and 128),
  task          text    collate "C" not null check (length(task) between 1 and 128),
  payload       text    not null,
  options       text    not null,
  cron          text    check (length(cron) between 1 and 256),
  time_zone     text    check (length(time_zone) between 1 and 64),
  every_ms      bigint  check (every_ms >= 1000),
  offset_ms     bigint  check (offset_ms >= 0 and offset_ms < every_ms),
  missed        text    collate "C" not null check (missed in ('skip', 'once', 'all')),
  missed_limit  integer not null check (missed_limit between 1 and 1000),
  overlap       text    collate "C" not null check (overlap in ('allow', 'skip', 'queue')),
  description   text,
  next_at       bigint,
  since_at      bigint  not null,
  last_at       bigint,
  paused_at     bigint,
  paused_by     text    check ((paused_at is null) = (paused_by is null)),
  declared_by   text    collate "C",
  declared      text    check ((declared_by is null) = (declared is null)),
  revision      integer not null check (revision >= 1),
  created_at    bigint  not null,
  updated_at    bigint  not null,
  missed_count  bigint  not null check (missed_count >= 0),
  queued_count  integer not null check (queued_count >= 0),
  error         text,
  error_at      bigint,
  check ((cron is null) = (every_ms is not null)),
  check ((cron is null) = (time_zone is null)),
  check ((every_ms is null) = (offset_ms is null))
) with (fillfactor = 70);
create index schedule_next on holdfast.schedule (next_at)
  where paused_at is null and next_at is not null;
create index schedule_queued on holdfast.schedule (name) where queued_count > 0;
create index schedule_declared on holdfast.schedule (declared_by) where declared_by is not null;

create table holdfast.schedule_run (
  schedule      text    collate "C" not null,
  tick          bigint  not null,
  is_manual     integer not null check (is_manual in (0, 1)),
  outcome       text    collate "C" not null check (outcome in ('enqueued', 'joined', 'queued', 'skipped')),
  job_id        uuid    check ((job_id is null) = (outcome in ('queued', 'skipped'))),
  at            bigint  not null,
  primary key (schedule, tick, is_manual)
);
create index schedule_run_job on holdfast.schedule_run (job_id) where job_id is not null;
create index schedule_run_queued on holdfast.schedule_run (schedule, tick) where outcome = 'queued';
