-- Flows and batches: jobs that wait for the ends of other jobs.

-- How many rows of dep the job has. A job with none left is released.
alter table holdfast_waiting add column missing integer not null default 0 check (missing >= 0);

create table holdfast_flow (
  id            text    not null,
  kind          text    not null check (kind in ('flow', 'batch')),
  name          text    not null check (length(name) between 1 and 128),
  size          integer not null check (size >= 0),
  callback_id   text,
  created_at    integer not null check (created_at > 0),
  primary key (id)
) strict, without rowid;

-- A row of each job that waits for others or belongs to a flow. A transaction that makes another job wait
-- for this one changes the row, and the transaction in which this one ends locks it: so the second sees
-- what the first wrote. start_at and delay_ms say when the job starts once it is released; ended_by is the
-- job whose failure or cancellation ended it.
create table holdfast_flow_job (
  job_id        text    not null,
  flow_id       text,
  name          text    check (name is null or length(name) between 1 and 128),
  awaited       integer not null default 0,
  start_at      integer,
  delay_ms      integer,
  ended_by      text,
  primary key (job_id)
) strict, without rowid;
create unique index holdfast_flow_job_of on holdfast_flow_job (flow_id, job_id) where flow_id is not null;
create unique index holdfast_flow_job_name on holdfast_flow_job (flow_id, name) where name is not null;

-- What each job was to wait for, kept as long as the job.
create table holdfast_job_after (
  job_id        text    not null,
  position      integer not null check (position >= 1),
  on_id         text    not null,
  on_failed     text    not null check (on_failed in ('fail', 'cancel', 'ignore')),
  on_cancelled  text    not null check (on_cancelled in ('fail', 'cancel', 'ignore')),
  primary key (job_id, position)
) strict, without rowid;
create index holdfast_job_after_on on holdfast_job_after (on_id, job_id);

-- What each job still waits for. The end of on_id deletes the row and subtracts it from missing. With
-- look = 1 maintenance looks whether on_id has ended: its end does not do that by itself.
create table holdfast_dep (
  job_id        text    not null,
  on_id         text    not null,
  on_failed     text    not null check (on_failed in ('fail', 'cancel', 'ignore')),
  on_cancelled  text    not null check (on_cancelled in ('fail', 'cancel', 'ignore')),
  look          integer not null check (look in (0, 1)),
  primary key (job_id, on_id)
) strict, without rowid;
create index holdfast_dep_on on holdfast_dep (on_id, job_id);
create index holdfast_dep_look on holdfast_dep (on_id) where look = 1;

-- One row, locked by calls that could close a circle of waiting jobs together with another such call.
create table holdfast_flow_gate (
  id            integer not null primary key check (id = 1),
  passed        integer not null
) strict;
insert into holdfast_flow_gate (id, passed) values (1, 0);
