-- What the dashboard shows, on MySQL and MariaDB.
--
-- This file is frozen once it is released: to change the schema, add a file with the next number.

-- -------------------------------------------------------------------------------------------------
-- Sessions
-- A person signs in with a token and gets a cookie; only the hash of its secret is stored. Without a
-- token_id, the session belongs to the token of the configuration, which is part of the hash.
-- -------------------------------------------------------------------------------------------------

create table if not exists holdfast_session (
  hash          char(64) character set ascii collate ascii_bin not null,
  token_id      char(36) character set ascii collate ascii_bin,
  created_at    bigint not null,
  expires_at    bigint not null,
  primary key (hash),
  key by_token (token_id, created_at),
  key by_expires (expires_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- -------------------------------------------------------------------------------------------------
-- Figures over time
-- span_total has longer steps than minute_total, and the sum of all queues (queue ''). Workers write
-- how long jobs waited into pickup_stat; the process that folds a minute adds that up.
-- -------------------------------------------------------------------------------------------------

-- A definition commits by itself, so a migration that was interrupted runs again: each change asks first
-- whether it has been made.
set @change = if(
  exists (select 1 from information_schema.columns
           where table_schema = database() and table_name = 'holdfast_minute_total' and column_name = 'retried'),
  'do 0', 'alter table holdfast_minute_total
    add column retried bigint not null default 0, add column crashed bigint not null default 0,
    add column pickups longtext, add column pending bigint');
prepare change_once from @change;
execute change_once;
deallocate prepare change_once;

set @change = if(
  exists (select 1 from information_schema.statistics
           where table_schema = database() and table_name = 'holdfast_attempt' and index_name = 'by_end'),
  'do 0', 'alter table holdfast_attempt add key by_end (ended_at)');
prepare change_once from @change;
execute change_once;
deallocate prepare change_once;

-- The stack of a main thread that a task has blocked, and for how long.
set @change = if(
  exists (select 1 from information_schema.columns
           where table_schema = database() and table_name = 'holdfast_worker' and column_name = 'blocked_ms'),
  'do 0', 'alter table holdfast_worker
    add column blocked_ms bigint not null default 0, add column blocked_stack longtext');
prepare change_once from @change;
execute change_once;
deallocate prepare change_once;

create table if not exists holdfast_span_total (
  step_ms       bigint not null,
  at            bigint not null,
  queue         varchar(128) not null,
  arrived       bigint not null,
  done          bigint not null,
  failed        bigint not null,
  cancelled     bigint not null,
  expired       bigint not null,
  retried       bigint not null,
  crashed       bigint not null,
  run_ms_sum    bigint not null,
  run_ms_max    bigint not null,
  pickups       longtext,
  pending       bigint,
  check (at % step_ms = 0),
  check (arrived >= 0 and done >= 0 and failed >= 0 and cancelled >= 0 and expired >= 0 and retried >= 0 and crashed >= 0 and run_ms_sum >= 0 and run_ms_max >= 0),
  primary key (step_ms, queue, at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_pickup_stat (
  minute        bigint not null,
  queue         varchar(128) not null,
  source        varchar(255) not null,
  waits         longtext not null,
  check (minute % 60000 = 0),
  primary key (minute, queue, source)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_task_stat (
  hour          bigint not null,
  task          varchar(128) not null,
  source        varchar(255) not null,
  runs          longtext not null,
  check (hour % 3600000 = 0),
  primary key (task, hour, source),
  key by_hour (hour)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_lock_span (
  at            bigint not null,
  type          varchar(255) not null,
  acquisitions  bigint not null,
  timeouts      bigint not null,
  wait_ms_sum   bigint not null,
  held_ms_max   bigint not null,
  waits         longtext not null,
  check (at % 900000 = 0),
  check (acquisitions >= 0 and timeouts >= 0 and wait_ms_sum >= 0 and held_ms_max >= 0),
  primary key (at, type)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_build (
  version       varchar(128) not null,
  first_at      bigint not null,
  last_at       bigint not null,
  check (version <> ''),
  primary key (version),
  key by_first (first_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- -------------------------------------------------------------------------------------------------
-- Tasks
-- What workers say about the tasks that they run: the JSON schema of the input, for forms.
-- -------------------------------------------------------------------------------------------------

create table if not exists holdfast_task (
  name          varchar(128) not null,
  input_schema  longtext,
  version       varchar(128) not null,
  seen_at       bigint not null,
  check (name <> ''),
  primary key (name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- -------------------------------------------------------------------------------------------------
-- Errors by kind
-- Errors of one task with the same name, code and message, apart from numbers and names in it. The
-- process that folds a minute counts its errors.
-- -------------------------------------------------------------------------------------------------

create table if not exists holdfast_error_kind (
  id            char(32) character set ascii collate ascii_bin not null,
  task          varchar(128) not null,
  name          varchar(255) not null,
  code          varchar(255),
  message       longtext not null,
  sample        longtext not null,
  sample_job    char(36) character set ascii collate ascii_bin not null,
  state         varchar(16) not null,
  first_at      bigint not null,
  last_at       bigint not null,
  first_build   varchar(128),
  builds        longtext not null,
  failed        bigint not null,
  retried       bigint not null,
  changed_at    bigint,
  changed_by    longtext,
  resolved_in   varchar(128),
  came_back_at  bigint,
  check (state in ('open', 'resolved', 'muted')),
  check (failed >= 0 and retried >= 0),
  primary key (id),
  key by_last (state, last_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_error_hour (
  kind_id       char(32) character set ascii collate ascii_bin not null,
  hour          bigint not null,
  failed        bigint not null,
  retried       bigint not null,
  check (hour % 3600000 = 0),
  check (failed >= 0 and retried >= 0),
  primary key (kind_id, hour),
  key by_at (hour)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;
