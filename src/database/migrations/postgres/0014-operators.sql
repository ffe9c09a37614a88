-- What operators do with many jobs, on PostgreSQL.
--
-- This file is frozen once it is released: to change the schema, add a file with the next number.

-- -------------------------------------------------------------------------------------------------
-- Tags
-- A job without tags has no row here. The primary key lists the jobs of a tag, newest first; the
-- index lists the tags of a job.
-- -------------------------------------------------------------------------------------------------

create table holdfast.job_tag (
  tag           text    collate "C" not null check (length(tag) between 1 and 64),
  job_id        uuid    not null,
  primary key (tag, job_id)
);
create index job_tag_job on holdfast.job_tag (job_id);

-- For programs in other languages: select holdfast.tag(holdfast.enqueue('mail.send'), 'invoices').
-- A job whose key was held already gets the tags too. Returns the id, and null if there is no such job.
create function holdfast.tag(id uuid, variadic tags text[]) returns uuid language plpgsql as $$
#variable_conflict use_variable
declare
  one text;
begin
  -- Jobs that are being deleted are waited for, and two calls for the same job are in turn.
  perform from holdfast.job j where j.id = id for update;
  if not found then return null; end if;
  foreach one in array tags loop
    perform holdfast.check_name('tag', one, 64);
    insert into holdfast.job_tag (tag, job_id) values (one, id) on conflict do nothing;
  end loop;
  perform holdfast.check_whole('the number of tags',
    (select count(*) from holdfast.job_tag t where t.job_id = id), 0, 10);
  return id;
end $$;

-- -------------------------------------------------------------------------------------------------
-- Bulk actions
-- A change of all jobs that match a filter. Any process carries it out, chunk by chunk: the row is locked for
-- each chunk, and (walk, before_id) says where the next one begins. "carrier" only keeps others from trying.
-- -------------------------------------------------------------------------------------------------

create table holdfast.bulk_action (
  id            uuid    not null primary key,
  action        text    collate "C" not null check (action in ('retry', 'cancel', 'delete', 'move', 'priority')),
  filter        text    not null,
  terms         text    not null,
  dry_run       integer not null check (dry_run in (0, 1)),
  actor         text    not null,
  reason        text,
  trace_id      text,
  status        text    collate "C" not null check (status in ('running', 'done', 'stopped', 'failed')),
  walk          text    collate "C" not null,
  before_id     uuid,
  looked        bigint  not null default 0 check (looked >= 0),
  matched       bigint  not null default 0 check (matched >= 0),
  changed       bigint  not null default 0 check (changed >= 0),
  refused       bigint  not null default 0 check (refused >= 0),
  sample        text    not null,
  refusals      text    not null,
  error         text,
  carrier       text    collate "C",
  created_at    bigint  not null,
  changed_at    bigint  not null,
  ended_at      bigint  check ((status = 'running') = (ended_at is null))
) with (fillfactor = 50);
create index bulk_action_open on holdfast.bulk_action (id) where ended_at is null;

-- -------------------------------------------------------------------------------------------------
-- Inputs that were changed, and jobs that run again
-- A job is written once. Its queue and priority change while it is unclaimed, by an operator; its input
-- changes with a row in job_revision that keeps the old one, or while enqueueing again delays it.
-- A rerun keeps how the job had ended, and the steps that it takes back.
-- -------------------------------------------------------------------------------------------------

create table holdfast.job_revision (
  job_id        uuid    not null,
  revision      integer not null check (revision >= 1),
  payload       text    not null,
  changed_at    bigint  not null,
  primary key (job_id, revision)
);

create table holdfast.rerun (
  job_id        uuid    not null,
  run           integer not null check (run >= 1),
  step          text    collate "C" check (length(step) between 1 and 128),
  occurrence    integer check ((occurrence is null) = (step is null)),
  status        text    collate "C" not null,
  epoch         integer not null check (epoch >= 0),
  attempt       integer not null,
  worker        text    collate "C",
  started_at    bigint,
  finished_at   bigint  not null,
  result        text,
  error         text,
  rerun_at      bigint  not null,
  primary key (job_id, run)
);

create table holdfast.rerun_step (
  job_id        uuid    not null,
  run           integer not null,
  name          text    collate "C" not null,
  occurrence    integer not null,
  position      integer not null,
  kind          text    collate "C" not null,
  status        text    collate "C" not null,
  epoch         integer not null,
  begun_at      bigint  not null,
  ended_at      bigint,
  result        text,
  primary key (job_id, run, name, occurrence)
);

-- With the attempts after whose success a job ran again.
create or replace view holdfast.attempts as
select job_id, epoch, attempt, worker, outcome, started_at, ended_at, error,
       worker || '-' || job_id || '-' || attempt as trace_id
  from holdfast.attempt
 union all
select job_id, epoch, attempt, worker, status, started_at, finished_at, error,
       worker || '-' || job_id || '-' || attempt
  from holdfast.rerun
 where status = 'done'
   and worker is not null
 union all
select id, epoch, attempts, worker, status, started_at, finished_at, error,
       worker || '-' || id || '-' || attempts
  from holdfast.finished
 where worker is not null
 union all
select id, epoch, attempts, locked_by, 'running', claimed_at, null, null,
       locked_by || '-' || id || '-' || attempts
  from holdfast.lease;

-- -------------------------------------------------------------------------------------------------
-- Debounce and throttle
-- The job that a key of debounce or throttle stands for, and until when.
-- -------------------------------------------------------------------------------------------------

create table holdfast.pacing (
  kind          text    collate "C" not null check (kind in ('debounce', 'throttle')),
  task          text    collate "C" not null,
  pace_key      text    collate "C" not null,
  job_id        uuid    not null,
  first_at      bigint  not null,
  until_at      bigint  not null,
  primary key (kind, task, pace_key)
) with (fillfactor = 70);
create index pacing_job on holdfast.pacing (job_id);
create index pacing_until on holdfast.pacing (until_at);

create function holdfast.job_is_written_once() returns trigger language plpgsql as $$
begin
  if (new.id, new.task, new.max_attempts, new.job_key, new.enqueued_at)
      is distinct from (old.id, old.task, old.max_attempts, old.job_key, old.enqueued_at) then
    null;
  elsif new.payload = old.payload then
    if exists (select from holdfast.ready r where r.id = old.id)
        or exists (select from holdfast.waiting w where w.id = old.id) then
      return new;
    end if;
  elsif exists (select from holdfast.job_revision v where v.job_id = old.id and v.payload = old.payload)
      or (exists (select from holdfast.pacing p where p.job_id = old.id and p.kind = 'debounce')
          and (exists (select from holdfast.ready r where r.id = old.id and r.epoch = 0)
               or exists (select from holdfast.waiting w where w.id = old.id and w.epoch = 0))) then
    return new;
  end if;
  raise exception using errcode = '23514', message = 'holdfast: a job is written once and never updated';
end $$;

drop trigger job_is_written_once on holdfast.job;
create trigger job_is_written_once before update on holdfast.job for each row
execute function holdfast.job_is_written_once();
