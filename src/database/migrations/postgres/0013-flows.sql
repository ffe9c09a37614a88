-- Flows and batches: jobs that wait for the ends of other jobs.

-- How many rows of dep the job has. A job with none left is released.
alter table holdfast.waiting add column missing integer not null default 0 check (missing >= 0);

create table holdfast.flow (
  id            uuid    not null,
  kind          text    collate "C" not null check (kind in ('flow', 'batch')),
  name          text    collate "C" not null check (length(name) between 1 and 128),
  size          integer not null check (size >= 0),
  callback_id   uuid,
  created_at    bigint  not null check (created_at > 0),
  primary key (id)
);

-- A row of each job that waits for others or belongs to a flow. A transaction that makes another job wait
-- for this one changes the row, and the transaction in which this one ends locks it: so the second sees
-- what the first wrote. start_at and delay_ms say when the job starts once it is released; ended_by is the
-- job whose failure or cancellation ended it.
create table holdfast.flow_job (
  job_id        uuid    not null,
  flow_id       uuid,
  name          text    collate "C" check (name is null or length(name) between 1 and 128),
  awaited       integer not null default 0,
  start_at      bigint,
  delay_ms      bigint,
  ended_by      uuid,
  primary key (job_id)
);
create unique index flow_job_of on holdfast.flow_job (flow_id, job_id) where flow_id is not null;
create unique index flow_job_name on holdfast.flow_job (flow_id, name) where name is not null;

-- What each job was to wait for, kept as long as the job.
create table holdfast.job_after (
  job_id        uuid    not null,
  position      integer not null check (position >= 1),
  on_id         uuid    not null,
  on_failed     text    collate "C" not null check (on_failed in ('fail', 'cancel', 'ignore')),
  on_cancelled  text    collate "C" not null check (on_cancelled in ('fail', 'cancel', 'ignore')),
  primary key (job_id, position)
);
create index job_after_on on holdfast.job_after (on_id, job_id);

-- What each job still waits for. The end of on_id deletes the row and subtracts it from missing. With
-- look = 1 maintenance looks whether on_id has ended: its end does not do that by itself.
create table holdfast.dep (
  job_id        uuid    not null,
  on_id         uuid    not null,
  on_failed     text    collate "C" not null check (on_failed in ('fail', 'cancel', 'ignore')),
  on_cancelled  text    collate "C" not null check (on_cancelled in ('fail', 'cancel', 'ignore')),
  look          integer not null check (look in (0, 1)),
  primary key (job_id, on_id)
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
  autovacuum_vacuum_cost_delay = 0
);
create index dep_on on holdfast.dep (on_id, job_id);
create index dep_look on holdfast.dep (on_id) where look = 1;

-- One row, locked by calls that could close a circle of waiting jobs together with another such call.
create table holdfast.flow_gate (
  id            integer not null primary key check (id = 1),
  passed        bigint  not null
);
insert into holdfast.flow_gate (id, passed) values (1, 0);
