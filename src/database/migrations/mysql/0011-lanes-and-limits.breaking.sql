-- -------------------------------------------------------------------------------------------------
-- Lanes, limits and pauses
-- A lane is the set of pending jobs of a queue that are subject to the same limits: those of one tenant,
-- for example. It has no row of its own: it is part of the key of `ready`, so that an enqueue takes no
-- lock that another enqueue or a claim waits for.
--
-- A definition commits by itself, so a migration that was interrupted runs again: each change asks first
-- whether it has been made.
-- -------------------------------------------------------------------------------------------------

-- `lane` is the job's lane; if its task has a limit of its own, U+001F and the task's name follow.
-- `place` is the order in the lane: ready_at + rank * ageing. Without ageing a rank weighs 2^37 ms.
set @change = if(
  exists (select 1 from information_schema.columns
           where table_schema = database() and table_name = 'holdfast_ready' and column_name = 'lane'),
  'do 0', 'alter table holdfast_ready
    add column lane varchar(385) not null default '''', add column place bigint, add column start_by bigint');
prepare change_once from @change;
execute change_once;
deallocate prepare change_once;
update holdfast_ready set place = ready_at + "rank" * 137438953472 where place is null;
set @change = if(
  exists (select 1 from information_schema.statistics
           where table_schema = database() and table_name = 'holdfast_ready' and index_name = 'by_start'),
  'do 0', 'alter table holdfast_ready
    modify column place bigint not null, drop primary key, add primary key (queue, lane, place, id),
    add key by_start (start_by)');
prepare change_once from @change;
execute change_once;
deallocate prepare change_once;

set @change = if(
  exists (select 1 from information_schema.columns
           where table_schema = database() and table_name = 'holdfast_waiting' and column_name = 'lane'),
  'do 0', 'alter table holdfast_waiting
    add column lane varchar(256), add column start_by bigint, add key by_start (start_by)');
prepare change_once from @change;
execute change_once;
deallocate prepare change_once;

-- Null: claimed from a queue without rules. Concurrency is counted from these rows and from nothing else.
set @change = if(
  exists (select 1 from information_schema.columns
           where table_schema = database() and table_name = 'holdfast_lease' and column_name = 'lane'),
  'do 0', 'alter table holdfast_lease
    add column lane varchar(256), add key by_lane (queue, lane)');
prepare change_once from @change;
execute change_once;
deallocate prepare change_once;

-- The constraint has no name of its own, so it is found by what it says.
set @constraint_name = (
  select constraint_name from information_schema.check_constraints
   where constraint_schema = database()
     and check_clause like '%status%done%failed%cancelled%' and check_clause not like '%expired%'
   limit 1);
set @change = if(@constraint_name is null, 'do 0', concat('alter table holdfast_finished
    add column lane varchar(256),
    drop constraint "', @constraint_name, '",
    add constraint finished_status check (status in (''done'', ''failed'', ''cancelled'', ''expired''))'));
prepare change_once from @change;
execute change_once;
deallocate prepare change_once;
set @change = if(
  exists (select 1 from information_schema.columns
           where table_schema = database() and table_name = 'holdfast_minute_total' and column_name = 'expired'),
  'do 0', 'alter table holdfast_minute_total
    add column expired bigint not null default 0 check (expired >= 0)');
prepare change_once from @change;
execute change_once;
deallocate prepare change_once;

-- A queue has a row if it has settings. `governed`: claims must look at its rules, its lanes or its pause.
create table if not exists holdfast_queue (
  name          varchar(128) not null primary key,
  governed      tinyint not null,
  lanes         tinyint not null default 0,
  paused_at     bigint,
  paused_by     varchar(256),
  pause_reason  text,
  ageing_ms     bigint,
  revision      int not null default 1,
  updated_at    bigint not null,
  check (name <> ''),
  check (governed in (0, 1)),
  check (lanes in (0, 1)),
  check ((paused_at is null) = (paused_by is null)),
  check (governed = 1 or (paused_at is null and lanes = 0)),
  check (ageing_ms > 0),
  check (revision >= 1)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- A limit of the queue, of each of its lanes, of one lane, or of one task in the queue. At most rate_count
-- starts in rate_ms, or rate_burst at once.
create table if not exists holdfast_queue_rule (
  queue         varchar(128) not null,
  kind          varchar(8) not null,
  name          varchar(256) not null,
  concurrency   int,
  rate_count    int,
  rate_ms       bigint,
  rate_burst    int,
  weight        int,
  check (kind in ('queue', 'lanes', 'lane', 'task')),
  check ((name = '') = (kind in ('queue', 'lanes'))),
  check (concurrency >= 0),
  check (rate_count >= 1),
  check (rate_ms >= 1),
  check (rate_burst >= 1),
  check (weight between 1 and 1000),
  check ((rate_count is null) = (rate_ms is null) and (rate_count is null) = (rate_burst is null)),
  primary key (queue, kind, name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- Claims that are subject to one limit lock its row, one after the other. Nothing is counted here:
-- `allowed_at` is the clock of the rate, in microseconds.
create table if not exists holdfast_gate (
  queue         varchar(128) not null,
  kind          varchar(8) not null,
  name          varchar(256) not null,
  allowed_at    bigint not null default 0,
  check (kind in ('queue', 'lane', 'task')),
  primary key (queue, kind, name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create or replace sql security invoker view holdfast_job_state as
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
       case when l.id is not null then concat(l.locked_by, '-', l.id, '-', l.attempts)
            when f.worker is not null then concat(f.worker, '-', f.id, '-', f.attempts)
             end as trace_id,
       l.cancel_requested_at, f.finished_at, f.result, f.error,
       nullif(coalesce(substring_index(r.lane, char(31 using ascii), 1), w.lane, l.lane, f.lane), '') as lane,
       coalesce(r.start_by, w.start_by) as start_by
  from holdfast_job j
  left join holdfast_ready r on r.id = j.id
  left join holdfast_waiting w on w.id = j.id
  left join holdfast_lease l on l.id = j.id
  left join holdfast_finished f on f.id = j.id
 where coalesce(r.id, w.id, l.id, f.id) is not null;
