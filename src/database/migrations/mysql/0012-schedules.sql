-- Schedules: what to enqueue, and when.
--
-- This file is frozen; see 0010-first.sql.
--
-- next_at is the tick that is handled next. A scheduler moves it, writes the run of the tick and
-- enqueues its job in one transaction. The key of schedule_run allows one run of a tick, even if
-- next_at was set back.

create table if not exists holdfast_schedule (
  name          varchar(128) not null,
  task          varchar(128) not null,
  payload       longtext not null,
  options       mediumtext not null,
  cron          varchar(256),
  time_zone     varchar(64),
  every_ms      bigint,
  offset_ms     bigint,
  missed        varchar(16) not null,
  missed_limit  int not null,
  overlap       varchar(16) not null,
  description   text,
  next_at       bigint,
  since_at      bigint not null,
  last_at       bigint,
  paused_at     bigint,
  paused_by     varchar(255),
  declared_by   varchar(128),
  declared      char(64) character set ascii collate ascii_bin,
  revision      int not null,
  created_at    bigint not null,
  updated_at    bigint not null,
  missed_count  bigint not null,
  queued_count  int not null,
  error         text,
  error_at      bigint,
  check (name <> ''),
  check (task <> ''),
  check (cron <> ''),
  check (time_zone <> ''),
  check (every_ms >= 1000),
  check (offset_ms >= 0 and offset_ms < every_ms),
  check (missed in ('skip', 'once', 'all')),
  check (missed_limit between 1 and 1000),
  check (overlap in ('allow', 'skip', 'queue')),
  check ((paused_at is null) = (paused_by is null)),
  check ((declared_by is null) = (declared is null)),
  check (revision >= 1),
  check (missed_count >= 0),
  check (queued_count >= 0),
  check ((cron is null) = (every_ms is not null)),
  check ((cron is null) = (time_zone is null)),
  check ((every_ms is null) = (offset_ms is null)),
  primary key (name),
  key holdfast_schedule_next (paused_at, next_at),
  key holdfast_schedule_queued (queued_count, name),
  key holdfast_schedule_declared (declared_by)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_schedule_run (
  schedule      varchar(128) not null,
  tick          bigint not null,
  is_manual     int not null,
  outcome       varchar(16) not null,
  job_id        char(36) character set ascii collate ascii_bin,
  at            bigint not null,
  check (is_manual in (0, 1)),
  check (outcome in ('enqueued', 'joined', 'queued', 'skipped')),
  check ((job_id is null) = (outcome in ('queued', 'skipped'))),
  primary key (schedule, tick, is_manual),
  key holdfast_schedule_run_job (job_id),
  key holdfast_schedule_run_queued (schedule, outcome, tick)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;
