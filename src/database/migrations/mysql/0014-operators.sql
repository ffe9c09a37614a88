-- What operators do with many jobs, on MySQL and MariaDB.
--
-- This file is frozen once it is released: to change the schema, add a file with the next number.

-- -------------------------------------------------------------------------------------------------
-- Tags
-- A job without tags has no row here. The primary key lists the jobs of a tag, newest first; the
-- index lists the tags of a job.
-- -------------------------------------------------------------------------------------------------

create table if not exists holdfast_job_tag (
  tag           varchar(64) not null,
  job_id        char(36) character set ascii collate ascii_bin not null,
  check (tag <> ''),
  primary key (tag, job_id),
  key by_job (job_id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- -------------------------------------------------------------------------------------------------
-- Bulk actions
-- A change of all jobs that match a filter. Any process carries it out, chunk by chunk: the row is locked for
-- each chunk, and (walk, before_id) says where the next one begins. "carrier" only keeps others from trying.
-- -------------------------------------------------------------------------------------------------

create table if not exists holdfast_bulk_action (
  id            char(36) character set ascii collate ascii_bin not null,
  action        varchar(16) not null,
  filter        longtext not null,
  terms         longtext not null,
  dry_run       int not null,
  actor         varchar(255) not null,
  reason        longtext,
  trace_id      longtext,
  status        varchar(16) not null,
  walk          varchar(16) not null,
  before_id     char(36) character set ascii collate ascii_bin,
  looked        bigint not null default 0,
  matched       bigint not null default 0,
  changed       bigint not null default 0,
  refused       bigint not null default 0,
  sample        longtext not null,
  refusals      longtext not null,
  error         longtext,
  carrier       varchar(255),
  created_at    bigint not null,
  changed_at    bigint not null,
  ended_at      bigint,
  check (action in ('retry', 'cancel', 'delete', 'move', 'priority')),
  check (dry_run in (0, 1)),
  check (status in ('running', 'done', 'stopped', 'failed')),
  check ((status = 'running') = (ended_at is null)),
  check (looked >= 0 and matched >= 0 and changed >= 0 and refused >= 0),
  primary key (id),
  key by_end (ended_at, id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- -------------------------------------------------------------------------------------------------
-- Inputs that were changed, and jobs that run again
-- A job is written once. Its queue and priority change while it is unclaimed, by an operator; its input
-- changes with a row in job_revision that keeps the old one, or while enqueueing again delays it.
-- A rerun keeps how the job had ended, and the steps that it takes back.
-- -------------------------------------------------------------------------------------------------

create table if not exists holdfast_job_revision (
  job_id        char(36) character set ascii collate ascii_bin not null,
  revision      int not null,
  payload       longtext not null,
  changed_at    bigint not null,
  check (revision >= 1),
  primary key (job_id, revision)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_rerun (
  job_id        char(36) character set ascii collate ascii_bin not null,
  run           int not null,
  step          varchar(128),
  occurrence    int,
  status        varchar(16) not null,
  epoch         int not null,
  attempt       int not null,
  worker        varchar(255),
  started_at    bigint,
  finished_at   bigint not null,
  result        longtext,
  error         longtext,
  rerun_at      bigint not null,
  check (run >= 1),
  check (epoch >= 0),
  check ((occurrence is null) = (step is null)),
  primary key (job_id, run)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_rerun_step (
  job_id        char(36) character set ascii collate ascii_bin not null,
  run           int not null,
  name          varchar(128) not null,
  occurrence    int not null,
  position      int not null,
  kind          varchar(16) not null,
  status        varchar(16) not null,
  epoch         int not null,
  begun_at      bigint not null,
  ended_at      bigint,
  result        longtext,
  primary key (job_id, run, name, occurrence)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- With the attempts after whose success a job ran again.
create or replace sql security invoker view holdfast_attempts as
select job_id, epoch, attempt, worker, outcome, started_at, ended_at, error,
       concat(worker, '-', job_id, '-', attempt) as trace_id
  from holdfast_attempt
 union all
select job_id, epoch, attempt, worker, status, started_at, finished_at, error,
       concat(worker, '-', job_id, '-', attempt)
  from holdfast_rerun
 where status = 'done'
   and worker is not null
 union all
select id, epoch, attempts, worker, status, started_at, finished_at, error,
       concat(worker, '-', id, '-', attempts)
  from holdfast_finished
 where worker is not null
 union all
select id, epoch, attempts, locked_by, 'running', claimed_at, null, null,
       concat(locked_by, '-', id, '-', attempts)
  from holdfast_lease;

-- -------------------------------------------------------------------------------------------------
-- Debounce and throttle
-- The job that a key of debounce or throttle stands for, and until when.
-- -------------------------------------------------------------------------------------------------

create table if not exists holdfast_pacing (
  kind          varchar(16) not null,
  task          varchar(128) not null,
  pace_key      varchar(256) not null,
  job_id        char(36) character set ascii collate ascii_bin not null,
  first_at      bigint not null,
  until_at      bigint not null,
  check (kind in ('debounce', 'throttle')),
  primary key (kind, task, pace_key),
  key by_job (job_id),
  key by_until (until_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

drop trigger if exists holdfast_job_is_written_once;
create trigger holdfast_job_is_written_once before update on holdfast_job for each row
begin
  if not (new.id <=> old.id and new.task <=> old.task and new.max_attempts <=> old.max_attempts
          and new.job_key <=> old.job_key and new.enqueued_at <=> old.enqueued_at
          and ((new.payload <=> old.payload
                and (exists (select 1 from holdfast_ready r where r.id = old.id)
                     or exists (select 1 from holdfast_waiting w where w.id = old.id)))
               or (not new.payload <=> old.payload
                   and (exists (select 1 from holdfast_job_revision v
                                 where v.job_id = old.id and v.payload = old.payload)
                        or (exists (select 1 from holdfast_pacing p
                                     where p.job_id = old.id and p.kind = 'debounce')
                            and (exists (select 1 from holdfast_ready r where r.id = old.id and r.epoch = 0)
                                 or exists (select 1 from holdfast_waiting w
                                             where w.id = old.id and w.epoch = 0))))))) then
    signal sqlstate '45000' set message_text = 'holdfast: a job is written once and never updated';
  end if;
end;
