-- What the dashboard shows, on SQLite.
--
-- This file is frozen once it is released: to change the schema, add a file with the next number.

-- -------------------------------------------------------------------------------------------------
-- Sessions
-- A person signs in with a token and gets a cookie; only the hash of its secret is stored. Without a
-- token_id, the session belongs to the token of the configuration, which is part of the hash.
-- -------------------------------------------------------------------------------------------------

create table holdfast_session (
  hash          text    not null check (length(hash) = 64),
  token_id      text,
  created_at    integer not null,
  expires_at    integer not null,
  primary key (hash)
) strict, without rowid;
create index holdfast_session_token on holdfast_session (token_id, created_at);
create index holdfast_session_expires on holdfast_session (expires_at);

-- -------------------------------------------------------------------------------------------------
-- Figures over time
-- span_total has longer steps than minute_total, and the sum of all queues (queue ''). Workers write
-- how long jobs waited into pickup_stat; the process that folds a minute adds that up.
-- -------------------------------------------------------------------------------------------------

alter table holdfast_minute_total add column retried integer not null default 0 check (retried >= 0);
alter table holdfast_minute_total add column crashed integer not null default 0 check (crashed >= 0);
alter table holdfast_minute_total add column pickups text;
alter table holdfast_minute_total add column pending integer check (pending >= 0);

create index holdfast_attempt_ended on holdfast_attempt (ended_at);

-- The stack of a main thread that a task has blocked, and for how long.
alter table holdfast_worker add column blocked_ms integer not null default 0;
alter table holdfast_worker add column blocked_stack text;

create table holdfast_span_total (
  step_ms       integer not null,
  at            integer not null,
  queue         text    not null,
  arrived       integer not null check (arrived >= 0),
  done          integer not null check (done >= 0),
  failed        integer not null check (failed >= 0),
  cancelled     integer not null check (cancelled >= 0),
  expired       integer not null check (expired >= 0),
  retried       integer not null check (retried >= 0),
  crashed       integer not null check (crashed >= 0),
  run_ms_sum    integer not null check (run_ms_sum >= 0),
  run_ms_max    integer not null check (run_ms_max >= 0),
  pickups       text,
  pending       integer,
  check (at % step_ms = 0),
  primary key (step_ms, queue, at)
) strict, without rowid;

create table holdfast_pickup_stat (
  minute        integer not null,
  queue         text    not null,
  source        text    not null,
  waits         text    not null,
  check (minute % 60000 = 0),
  primary key (minute, queue, source)
) strict, without rowid;

create table holdfast_task_stat (
  hour          integer not null,
  task          text    not null,
  source        text    not null,
  runs          text    not null,
  check (hour % 3600000 = 0),
  primary key (task, hour, source)
) strict, without rowid;
create index holdfast_task_stat_hour on holdfast_task_stat (hour);

create table holdfast_lock_span (
  at            integer not null,
  type          text    not null,
  acquisitions  integer not null check (acquisitions >= 0),
  timeouts      integer not null check (timeouts >= 0),
  wait_ms_sum   integer not null check (wait_ms_sum >= 0),
  held_ms_max   integer not null check (held_ms_max >= 0),
  waits         text    not null,
  check (at % 900000 = 0),
  primary key (at, type)
) strict, without rowid;

create table holdfast_build (
  version       text    not null check (length(version) between 1 and 128),
  first_at      integer not null,
  last_at       integer not null,
  primary key (version)
) strict, without rowid;
create index holdfast_build_first on holdfast_build (first_at);

-- -------------------------------------------------------------------------------------------------
-- Tasks
-- What workers say about the tasks that they run: the JSON schema of the input, for forms.
-- -------------------------------------------------------------------------------------------------

create table holdfast_task (
  name          text    not null check (length(name) between 1 and 128),
  input_schema  text,
  version       text    not null,
  seen_at       integer not null,
  primary key (name)
) strict, without rowid;

-- -------------------------------------------------------------------------------------------------
-- Errors by kind
-- Errors of one task with the same name, code and message, apart from numbers and names in it. The
-- process that folds a minute counts its errors.
-- -------------------------------------------------------------------------------------------------

create table holdfast_error_kind (
  id            text    not null check (length(id) = 32),
  task          text    not null,
  name          text    not null,
  code          text,
  message       text    not null,
  sample        text    not null,
  sample_job    text    not null,
  state         text    not null check (state in ('open', 'resolved', 'muted')),
  first_at      integer not null,
  last_at       integer not null,
  first_build   text,
  builds        text    not null,
  failed        integer not null check (failed >= 0),
  retried       integer not null check (retried >= 0),
  changed_at    integer,
  changed_by    text,
  resolved_in   text,
  came_back_at  integer,
  primary key (id)
) strict, without rowid;
create index holdfast_error_kind_last on holdfast_error_kind (state, last_at);

create table holdfast_error_hour (
  kind_id       text    not null check (length(kind_id) = 32),
  hour          integer not null,
  failed        integer not null check (failed >= 0),
  retried       integer not null check (retried >= 0),
  check (hour % 3600000 = 0),
  primary key (kind_id, hour)
) strict, without rowid;
create index holdfast_error_hour_at on holdfast_error_hour (hour);
