-- What the dashboard shows, on PostgreSQL.
--
-- This file is frozen once it is released: to change the schema, add a file with the next number.

-- -------------------------------------------------------------------------------------------------
-- Sessions
-- A person signs in with a token and gets a cookie; only the hash of its secret is stored. Without a
-- token_id, the session belongs to the token of the configuration, which is part of the hash.
-- -------------------------------------------------------------------------------------------------

create table holdfast.session (
  hash          text    collate "C" not null check (length(hash) = 64),
  token_id      uuid,
  created_at    bigint  not null,
  expires_at    bigint  not null,
  primary key (hash)
);
create index session_token on holdfast.session (token_id, created_at);
create index session_expires on holdfast.session (expires_at);

-- -------------------------------------------------------------------------------------------------
-- Figures over time
-- span_total has longer steps than minute_total, and the sum of all queues (queue ''). Workers write
-- how long jobs waited into pickup_stat; the process that folds a minute adds that up.
-- -------------------------------------------------------------------------------------------------

alter table holdfast.minute_total
  add column retried bigint not null default 0 check (retried >= 0),
  add column crashed bigint not null default 0 check (crashed >= 0),
  add column pickups text,
  add column pending bigint check (pending >= 0);

-- Attempts end in about the order in which they are written.
create index attempt_ended on holdfast.attempt using brin (ended_at) with (autosummarize = on);

-- The stack of a main thread that a task has blocked, and for how long.
alter table holdfast.worker
  add column blocked_ms bigint not null default 0,
  add column blocked_stack text;

create table holdfast.span_total (
  step_ms       bigint  not null,
  at            bigint  not null,
  queue         text    collate "C" not null,
  arrived       bigint  not null check (arrived >= 0),
  done          bigint  not null check (done >= 0),
  failed        bigint  not null check (failed >= 0),
  cancelled     bigint  not null check (cancelled >= 0),
  expired       bigint  not null check (expired >= 0),
  retried       bigint  not null check (retried >= 0),
  crashed       bigint  not null check (crashed >= 0),
  run_ms_sum    bigint  not null check (run_ms_sum >= 0),
  run_ms_max    bigint  not null check (run_ms_max >= 0),
  pickups       text,
  pending       bigint,
  check (at % step_ms = 0),
  primary key (step_ms, queue, at)
);

create table holdfast.pickup_stat (
  minute        bigint  not null,
  queue         text    collate "C" not null,
  source        text    collate "C" not null,
  waits         text    not null,
  check (minute % 60000 = 0),
  primary key (minute, queue, source)
) with (fillfactor = 70);

create table holdfast.task_stat (
  hour          bigint  not null,
  task          text    collate "C" not null,
  source        text    collate "C" not null,
  runs          text    not null,
  check (hour % 3600000 = 0),
  primary key (task, hour, source)
) with (fillfactor = 70);
create index task_stat_hour on holdfast.task_stat (hour);

create table holdfast.lock_span (
  at            bigint  not null,
  type          text    collate "C" not null,
  acquisitions  bigint  not null check (acquisitions >= 0),
  timeouts      bigint  not null check (timeouts >= 0),
  wait_ms_sum   bigint  not null check (wait_ms_sum >= 0),
  held_ms_max   bigint  not null check (held_ms_max >= 0),
  waits         text    not null,
  check (at % 900000 = 0),
  primary key (at, type)
);

create table holdfast.build (
  version       text    collate "C" not null check (length(version) between 1 and 128),
  first_at      bigint  not null,
  last_at       bigint  not null,
  primary key (version)
);
create index build_first on holdfast.build (first_at);

-- -------------------------------------------------------------------------------------------------
-- Tasks
-- What workers say about the tasks that they run: the JSON schema of the input, for forms.
-- -------------------------------------------------------------------------------------------------

create table holdfast.task (
  name          text    collate "C" not null check (length(name) between 1 and 128),
  input_schema  text,
  version       text    collate "C" not null,
  seen_at       bigint  not null,
  primary key (name)
);

-- -------------------------------------------------------------------------------------------------
-- Errors by kind
-- Errors of one task with the same name, code and message, apart from numbers and names in it. The
-- process that folds a minute counts its errors.
-- -------------------------------------------------------------------------------------------------

create table holdfast.error_kind (
  id            text    collate "C" not null check (length(id) = 32),
  task          text    collate "C" not null,
  name          text    collate "C" not null,
  code          text    collate "C",
  message       text    not null,
  sample        text    not null,
  sample_job    uuid    not null,
  state         text    collate "C" not null check (state in ('open', 'resolved', 'muted')),
  first_at      bigint  not null,
  last_at       bigint  not null,
  first_build   text    collate "C",
  builds        text    not null,
  failed        bigint  not null check (failed >= 0),
  retried       bigint  not null check (retried >= 0),
  changed_at    bigint,
  changed_by    text,
  resolved_in   text    collate "C",
  came_back_at  bigint,
  primary key (id)
) with (fillfactor = 70);
create index error_kind_last on holdfast.error_kind (state, last_at);

create table holdfast.error_hour (
  kind_id       text    collate "C" not null check (length(kind_id) = 32),
  hour          bigint  not null,
  failed        bigint  not null check (failed >= 0),
  retried       bigint  not null check (retried >= 0),
  check (hour % 3600000 = 0),
  primary key (kind_id, hour)
) with (fillfactor = 70);
create index error_hour_at on holdfast.error_hour (hour);
