-- Flows and batches: jobs that wait for the ends of other jobs.

-- How many rows of dep the job has. A job with none left is released.
set @holdfast_ddl = case when exists (
    select 1 from information_schema.columns
     where table_schema = database() and table_name = 'holdfast_waiting' and column_name = 'missing')
  then 'do 0'
  else 'alter table holdfast_waiting add column missing int not null default 0, add check (missing >= 0)' end;
prepare holdfast_ddl from @holdfast_ddl;
execute holdfast_ddl;
deallocate prepare holdfast_ddl;

create table if not exists holdfast_flow (
  id            char(36) character set ascii collate ascii_bin not null,
  kind          varchar(16) not null,
  name          varchar(128) not null,
  size          int not null,
  callback_id   char(36) character set ascii collate ascii_bin,
  created_at    bigint not null,
  check (kind in ('flow', 'batch')),
  check (name <> ''),
  check (size >= 0),
  check (created_at > 0),
  primary key (id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- A row of each job that waits for others or belongs to a flow. A transaction that makes another job wait
-- for this one changes the row, and the transaction in which this one ends locks it: so the second sees
-- what the first wrote. start_at and delay_ms say when the job starts once it is released; ended_by is the
-- job whose failure or cancellation ended it.
create table if not exists holdfast_flow_job (
  job_id        char(36) character set ascii collate ascii_bin not null,
  flow_id       char(36) character set ascii collate ascii_bin,
  name          varchar(128),
  awaited       int not null default 0,
  start_at      bigint,
  delay_ms      bigint,
  ended_by      char(36) character set ascii collate ascii_bin,
  check (name <> ''),
  primary key (job_id),
  unique key of_flow (flow_id, job_id),
  unique key by_name (flow_id, name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- What each job was to wait for, kept as long as the job.
create table if not exists holdfast_job_after (
  job_id        char(36) character set ascii collate ascii_bin not null,
  position      int not null,
  on_id         char(36) character set ascii collate ascii_bin not null,
  on_failed     varchar(16) not null,
  on_cancelled  varchar(16) not null,
  check (position >= 1),
  check (on_failed in ('fail', 'cancel', 'ignore')),
  check (on_cancelled in ('fail', 'cancel', 'ignore')),
  primary key (job_id, position),
  key by_on (on_id, job_id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- What each job still waits for. The end of on_id deletes the row and subtracts it from missing. With
-- look = 1 maintenance looks whether on_id has ended: its end does not do that by itself.
create table if not exists holdfast_dep (
  job_id        char(36) character set ascii collate ascii_bin not null,
  on_id         char(36) character set ascii collate ascii_bin not null,
  on_failed     varchar(16) not null,
  on_cancelled  varchar(16) not null,
  look          int not null,
  check (on_failed in ('fail', 'cancel', 'ignore')),
  check (on_cancelled in ('fail', 'cancel', 'ignore')),
  check (look in (0, 1)),
  primary key (job_id, on_id),
  key by_on (on_id, job_id),
  key by_look (look, on_id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- One row, locked by calls that could close a circle of waiting jobs together with another such call.
create table if not exists holdfast_flow_gate (
  id            int not null,
  passed        bigint not null,
  check (id = 1),
  primary key (id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;
insert ignore into holdfast_flow_gate (id, passed) values (1, 0);
