-- -------------------------------------------------------------------------------------------------
-- Lanes, limits and pauses
-- A lane is the set of pending jobs of a queue that are subject to the same limits: those of one tenant,
-- for example. It has no row of its own: it is part of the key of `ready`.
-- -------------------------------------------------------------------------------------------------

-- `lane` is the job's lane; if its task has a limit of its own, U+001F and the task's name follow.
-- `place` is the order in the lane: ready_at + rank * ageing. Without ageing a rank weighs 2^37 ms.
create table holdfast_ready_before as select * from holdfast_ready;
drop table holdfast_ready;
create table holdfast_ready (
  id            text    not null,
  queue         text    not null,
  task          text    not null,
  rank          integer not null,
  job_key       text,
  epoch         integer not null check (epoch >= 0),
  attempts      integer not null check (attempts between 0 and max_attempts and attempts <= epoch),
  crashes       integer not null check (crashes between 0 and epoch),
  max_attempts  integer not null check (max_attempts >= 1),
  ready_at      integer not null check (ready_at > 0),
  lane          text    not null default '',
  place         integer not null,
  start_by      integer,
  check (attempts < max_attempts),
  primary key (queue, lane, place, id)
) strict, without rowid;
create unique index holdfast_ready_id on holdfast_ready (id);
create index holdfast_ready_start_by on holdfast_ready (start_by) where start_by is not null;
insert into holdfast_ready
       (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ready_at, place)
select id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ready_at,
       ready_at + rank * 137438953472
  from holdfast_ready_before;
drop table holdfast_ready_before;

create trigger holdfast_ready_epoch_never_falls before update of epoch on holdfast_ready
when new.epoch < old.epoch
begin select raise(abort, 'holdfast: an epoch never goes down'); end;

create trigger holdfast_ready_id_stays before update of id on holdfast_ready
begin select raise(abort, 'holdfast: a row stays with its job'); end;

create trigger holdfast_ready_not_finished before insert on holdfast_ready
when exists (select 1 from holdfast_finished where id = new.id)
begin select raise(abort, 'holdfast: the job has finished; only a revival makes it pending again'); end;

create trigger holdfast_ready_not_claimed before insert on holdfast_ready
when exists (select 1 from holdfast_lease where id = new.id)
begin select raise(abort, 'holdfast: a worker holds the job'); end;

alter table holdfast_waiting add column lane text;
alter table holdfast_waiting add column start_by integer;
create index holdfast_waiting_start_by on holdfast_waiting (start_by) where start_by is not null;

-- Null: claimed from a queue without rules. Concurrency is counted from these rows and from nothing else.
alter table holdfast_lease add column lane text;
create index holdfast_lease_lane on holdfast_lease (queue, lane) where lane is not null;

create table holdfast_finished_before as select * from holdfast_finished;
drop table holdfast_finished;
create table holdfast_finished (
  id            text    not null,
  queue         text    not null,
  task          text    not null,
  rank          integer not null,
  job_key       text,
  epoch         integer not null check (epoch >= 0),
  attempts      integer not null check (attempts between 0 and max_attempts and attempts <= epoch),
  crashes       integer not null check (crashes between 0 and epoch),
  max_attempts  integer not null check (max_attempts >= 1),
  status        text    not null
                check (status = 'done' or status = 'failed' or status = 'cancelled' or status = 'expired'),
  worker        text,
  started_at    integer,
  finished_at   integer not null,
  result        text,
  error         text,
  lane          text,
  check (status <> 'done' or attempts >= 1),
  primary key (id)
) strict, without rowid;
insert into holdfast_finished
       (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts,
        status, worker, started_at, finished_at, result, error)
select id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts,
       status, worker, started_at, finished_at, result, error
  from holdfast_finished_before;
drop table holdfast_finished_before;
create index holdfast_finished_at on holdfast_finished (status, finished_at);
create index holdfast_finished_failed on holdfast_finished (status, id) where status = 'failed';
create index holdfast_finished_cancelled on holdfast_finished (status, id) where status = 'cancelled';
create index holdfast_finished_expired on holdfast_finished (status, id) where status = 'expired';
create trigger holdfast_finished_is_written_once before update on holdfast_finished
begin select raise(abort, 'holdfast: a finished job is written once and never updated'); end;

alter table holdfast_minute_total add column expired integer not null default 0 check (expired >= 0);

-- A queue has a row if it has settings. `governed`: claims must look at its rules, its lanes or its pause.
create table holdfast_queue (
  name          text    not null primary key check (length(name) between 1 and 128),
  governed      integer not null check (governed in (0, 1)),
  lanes         integer not null default 0 check (lanes in (0, 1)),
  paused_at     integer,
  paused_by     text,
  pause_reason  text,
  ageing_ms     integer check (ageing_ms > 0),
  revision      integer not null default 1 check (revision >= 1),
  updated_at    integer not null,
  check ((paused_at is null) = (paused_by is null)),
  check (governed = 1 or (paused_at is null and lanes = 0))
) strict, without rowid;

-- A limit of the queue, of each of its lanes, of one lane, or of one task in the queue. At most rate_count
-- starts in rate_ms, or rate_burst at once.
create table holdfast_queue_rule (
  queue         text    not null,
  kind          text    not null check (kind in ('queue', 'lanes', 'lane', 'task')),
  name          text    not null check ((name = '') = (kind in ('queue', 'lanes'))),
  concurrency   integer check (concurrency >= 0),
  rate_count    integer check (rate_count >= 1),
  rate_ms       integer check (rate_ms >= 1),
  rate_burst    integer check (rate_burst >= 1),
  weight        integer check (weight between 1 and 1000),
  primary key (queue, kind, name),
  check ((rate_count is null) = (rate_ms is null) and (rate_count is null) = (rate_burst is null))
) strict, without rowid;

-- Nothing is counted here: `allowed_at` is the clock of the rate, in microseconds.
create table holdfast_gate (
  queue         text    not null,
  kind          text    not null check (kind in ('queue', 'lane', 'task')),
  name          text    not null,
  allowed_at    integer not null default 0,
  primary key (queue, kind, name)
) strict, without rowid;

drop view holdfast_job_state;
create view holdfast_job_state as
select j.id, j.queue, j.task, j.rank, j.job_key, j.enqueued_at,
       case when r.id is not null then 'pending'
            when w.id is not null then w.status
            when l.id is not null then 'processing'
            else f.status end as status,
       coalesce(r.epoch, w.epoch, l.epoch, f.epoch) as epoch,
       coalesce(r.attempts, w.attempts, l.attempts, f.attempts) as attempts,
       coalesce(r.crashes, w.crashes, l.crashes, f.crashes) as crashes,
       coalesce(r.max_attempts, w.max_attempts, l.max_attempts, f.max_attempts) as max_attempts,
       w.due_at, l.locked_by, l.locked_until, coalesce(l.claimed_at, f.started_at) as claimed_at, l.heartbeat_at,
       case when l.id is not null then l.locked_by || '-' || l.id || '-' || l.attempts
            when f.worker is not null then f.worker || '-' || f.id || '-' || f.attempts
             end as trace_id,
       l.cancel_requested_at, f.finished_at, f.result, f.error,
       nullif(coalesce(substr(r.lane, 1, instr(r.lane || char(31), char(31)) - 1), w.lane, l.lane, f.lane), '') as lane,
       coalesce(r.start_by, w.start_by) as start_by
  from holdfast_job j
  left join holdfast_ready r on r.id = j.id
  left join holdfast_waiting w on w.id = j.id
  left join holdfast_lease l on l.id = j.id
  left join holdfast_finished f on f.id = j.id
 where coalesce(r.id, w.id, l.id, f.id) is not null;
