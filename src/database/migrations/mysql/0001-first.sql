-- The first version of the schema on MySQL and MariaDB.
--
-- Frozen once it is released: a test pins its hash. To change the schema, add a file with the next number
-- beside it (see CONTRIBUTING.md).
--
-- Every name begins with holdfast_, because the tables share the database with those of an application.
-- The collation of the tables compares as bytes, and a blank at the end counts. MariaDB has it under
-- another name, which the runner writes there.
--
-- To define a table commits, so a migration that was interrupted may have been applied in part. Every
-- statement can therefore run again: "if not exists", "or replace", "drop trigger" before "create".
--
-- Names that end in _at are instants, in milliseconds since 1970; those that end in _ms are spans.
-- Limits of lengths and lists of words are literals here. A test compares them with src/core.

-- ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────
-- A job is written once, into "job". Exactly one of ready, waiting, lease and finished has a row
-- with its id: its state. These rows share the columns from id to max_attempts.

create table if not exists holdfast_job (
  id            char(36) character set ascii collate ascii_bin not null,
  queue         varchar(128) not null,
  task          varchar(128) not null,
  payload       longtext not null,
  "rank"        int not null,
  max_attempts  int not null,
  job_key       varchar(256),
  enqueued_at   bigint not null,
  check (char_length(id) = 36),
  check (queue <> ''),
  check (task <> ''),
  check (max_attempts >= 1),
  check (enqueued_at > 0),
  primary key (id),
  key by_key (job_key, id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- `lane` is the job's lane; if its task has a limit of its own, U+001F and the task's name follow.
-- `place` is the order in the lane: ready_at + rank * ageing. Without ageing a rank weighs 2^37 ms.
create table if not exists holdfast_ready (
  id            char(36) character set ascii collate ascii_bin not null,
  queue         varchar(128) not null,
  task          varchar(128) not null,
  "rank"        int not null,
  job_key       varchar(256),
  epoch         int not null,
  attempts      int not null,
  crashes       int not null,
  max_attempts  int not null,
  ready_at      bigint not null,
  lane          varchar(385) not null default '',
  place         bigint not null,
  start_by      bigint,
  check (epoch >= 0),
  check (attempts between 0 and max_attempts and attempts <= epoch),
  check (crashes between 0 and epoch),
  check (max_attempts >= 1),
  check (ready_at > 0),
  check (attempts < max_attempts),
  primary key (queue, lane, place, id),
  unique by_id (id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- `missing`: how many rows of dep the job has. A job with none left is released.
create table if not exists holdfast_waiting (
  id            char(36) character set ascii collate ascii_bin not null,
  queue         varchar(128) not null,
  task          varchar(128) not null,
  "rank"        int not null,
  job_key       varchar(256),
  epoch         int not null,
  attempts      int not null,
  crashes       int not null,
  max_attempts  int not null,
  status        varchar(16) not null,
  due_at        bigint,
  lane          varchar(256),
  start_by      bigint,
  missing       int not null default 0,
  check (epoch >= 0),
  check (attempts between 0 and max_attempts and attempts <= epoch),
  check (crashes between 0 and epoch),
  check (max_attempts >= 1),
  check (status in ('scheduled', 'waiting', 'retry')),
  check (due_at is not null or status = 'waiting'),
  check (attempts < max_attempts),
  check (missing >= 0),
  primary key (id),
  key by_due (due_at),
  key by_start (start_by)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- `lane` is null if the queue had no rules at the claim. Concurrency is counted from these rows and from
-- nothing else.
create table if not exists holdfast_lease (
  id            char(36) character set ascii collate ascii_bin not null,
  queue         varchar(128) not null,
  task          varchar(128) not null,
  "rank"        int not null,
  job_key       varchar(256),
  epoch         int not null,
  attempts      int not null,
  crashes       int not null,
  max_attempts  int not null,
  locked_by     varchar(255) not null,
  locked_until  bigint not null,
  claimed_at    bigint not null,
  heartbeat_at  bigint not null,
  cancel_requested_at bigint,
  claim_id      bigint,
  lane          varchar(256),
  check (epoch >= 0),
  check (attempts between 0 and max_attempts and attempts <= epoch),
  check (crashes between 0 and epoch),
  check (max_attempts >= 1),
  check (locked_by <> ''),
  check (locked_until > 0),
  check (attempts >= 1),
  primary key (id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_finished (
  id            char(36) character set ascii collate ascii_bin not null,
  queue         varchar(128) not null,
  task          varchar(128) not null,
  "rank"        int not null,
  job_key       varchar(256),
  epoch         int not null,
  attempts      int not null,
  crashes       int not null,
  max_attempts  int not null,
  status        varchar(16) not null,
  worker        varchar(255),
  started_at    bigint,
  finished_at   bigint not null,
  result        longtext,
  error         longtext,
  error_kind    char(32) character set ascii collate ascii_bin,
  lane          varchar(256),
  check (epoch >= 0),
  check (attempts between 0 and max_attempts and attempts <= epoch),
  check (crashes between 0 and epoch),
  check (max_attempts >= 1),
  check (status in ('done', 'failed', 'cancelled', 'expired')),
  check (status <> 'done' or attempts >= 1),
  primary key (id),
  key by_end (status, finished_at),
  key by_status (status, id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_attempt (
  job_id        char(36) character set ascii collate ascii_bin not null,
  epoch         int not null,
  attempt       int not null,
  worker        varchar(255) not null,
  outcome       varchar(16) not null,
  started_at    bigint not null,
  ended_at      bigint not null,
  error         longtext,
  error_kind    char(32) character set ascii collate ascii_bin,
  check (epoch >= 1),
  check (attempt between 0 and epoch),
  check (outcome in ('retry', 'suspended', 'released', 'crashed', 'failed', 'cancelled')),
  primary key (job_id, epoch),
  key by_end (ended_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_job_key (
  task          varchar(128) not null,
  job_key       varchar(256) not null,
  job_id        char(36) character set ascii collate ascii_bin not null,
  primary key (task, job_key),
  unique by_job (job_id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- How long a job keeps its key after its end.
create table if not exists holdfast_kept_key (
  task          varchar(128) not null,
  job_key       varchar(256) not null,
  job_id        char(36) character set ascii collate ascii_bin not null,
  keep_ms       bigint not null,
  check (keep_ms > 0),
  primary key (task, job_key),
  unique by_job (job_id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- A job is written once. Its queue and priority change while it is unclaimed, by an operator; its input
-- changes with a row in job_revision that keeps the old one, or while enqueueing again delays it.
-- A rerun keeps how the job had ended, and the steps that it takes back.
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

-- No operation of the library does this, and SQL typed by hand must not do it either.
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

drop trigger if exists holdfast_finished_is_written_once;
create trigger holdfast_finished_is_written_once before update on holdfast_finished for each row
begin
  signal sqlstate '45000' set message_text = 'holdfast: a finished job is written once and never updated';
end;

drop trigger if exists holdfast_ready_stays;
create trigger holdfast_ready_stays before update on holdfast_ready for each row
begin
  if new.id <> old.id then
    signal sqlstate '45000' set message_text = 'holdfast: a row stays with its job';
  end if;
  if new.epoch < old.epoch then
    signal sqlstate '45000' set message_text = 'holdfast: an epoch never goes down';
  end if;
end;

drop trigger if exists holdfast_waiting_stays;
create trigger holdfast_waiting_stays before update on holdfast_waiting for each row
begin
  if new.id <> old.id then
    signal sqlstate '45000' set message_text = 'holdfast: a row stays with its job';
  end if;
  if new.epoch < old.epoch then
    signal sqlstate '45000' set message_text = 'holdfast: an epoch never goes down';
  end if;
end;

drop trigger if exists holdfast_lease_stays;
create trigger holdfast_lease_stays before update on holdfast_lease for each row
begin
  if new.id <> old.id then
    signal sqlstate '45000' set message_text = 'holdfast: a row stays with its job';
  end if;
  if new.epoch < old.epoch then
    signal sqlstate '45000' set message_text = 'holdfast: an epoch never goes down';
  end if;
end;

-- A job that was never claimed is not looked up: that would nearly double the cost of an enqueue.
drop trigger if exists holdfast_ready_enters;
create trigger holdfast_ready_enters before insert on holdfast_ready for each row
begin
  if new.epoch > 0 then
    if exists (select 1 from holdfast_finished where id = new.id) then
      signal sqlstate '45000'
        set message_text = 'holdfast: the job has finished; only a retry or a rerun makes it pending again';
    end if;
    if exists (select 1 from holdfast_lease where id = new.id) then
      signal sqlstate '45000' set message_text = 'holdfast: a worker holds the job';
    end if;
  end if;
  if new.start_by is not null then
    insert into holdfast_deadline (id, start_by)
    values (new.id, new.start_by)
    on duplicate key update start_by = new.start_by;
  end if;
end;

drop trigger if exists holdfast_waiting_enters;
create trigger holdfast_waiting_enters before insert on holdfast_waiting for each row
begin
  if new.epoch > 0 then
    if exists (select 1 from holdfast_finished where id = new.id) then
      signal sqlstate '45000'
        set message_text = 'holdfast: the job has finished; only a retry or a rerun makes it pending again';
    end if;
    if exists (select 1 from holdfast_lease where id = new.id) then
      signal sqlstate '45000' set message_text = 'holdfast: a worker holds the job';
    end if;
  end if;
end;

-- Views have the rights of their reader: the account that created them may be deleted one day. Their
-- times are in the time zone of the connection that reads.
--
-- A job is looked up by its id in each of the state tables, and exactly one of them has it. With joins,
-- every engine reads one job by its id instead of building all jobs first. The library reads this view
-- itself. claimed_at and trace_id belong to the running attempt or to the last one.
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

-- For people and tools.
create or replace sql security invoker view holdfast_jobs as
select s.id, s.queue, s.task, s.status, -s.rank as priority, s.job_key, s.locked_by,
       cast(from_unixtime(s.locked_until / 1000) as datetime(3)) as locked_until,
       s.attempts, s.max_attempts, s.crashes, s.epoch,
       cast(from_unixtime(s.enqueued_at / 1000) as datetime(3)) as enqueued_at,
       cast(from_unixtime(s.due_at / 1000) as datetime(3)) as due_at,
       cast(from_unixtime(s.claimed_at / 1000) as datetime(3)) as claimed_at,
       cast(from_unixtime(s.heartbeat_at / 1000) as datetime(3)) as heartbeat_at,
       cast(from_unixtime(s.finished_at / 1000) as datetime(3)) as finished_at, s.trace_id,
       coalesce(s.error, (select a.error
                            from holdfast_attempt a
                           where a.job_id = s.id
                             and a.error is not null
                           order by a.epoch desc
                           limit 1)) as last_error
  from holdfast_job_state s;

-- All attempts of all jobs: the running one, and those after whose success a job ran again. Its times are
-- milliseconds.
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

-- Which worker holds which job. The next worker takes back an expired lease.
create or replace sql security invoker view holdfast_leases as
select id, queue, task, job_key, locked_by, concat(locked_by, '-', id, '-', attempts) as trace_id,
       attempts as attempt, epoch,
       case when locked_until < cast(floor(unix_timestamp(now(3)) * 1000) as signed) then 'expired'
            else 'active' end as state,
       cast(from_unixtime(claimed_at / 1000) as datetime(3)) as claimed_at,
       cast(from_unixtime(heartbeat_at / 1000) as datetime(3)) as heartbeat_at,
       cast(from_unixtime(locked_until / 1000) as datetime(3)) as locked_until,
       cast(floor(unix_timestamp(now(3)) * 1000) as signed) - claimed_at as held_ms,
       cast(floor(unix_timestamp(now(3)) * 1000) as signed) - heartbeat_at as heartbeat_age_ms,
       locked_until - cast(floor(unix_timestamp(now(3)) * 1000) as signed) as remaining_ms
  from holdfast_lease;

-- ── Sparse indexes ───────────────────────────────────────────────────────────────────────────────
-- InnoDB has no partial indexes: an index has an entry for every row, also where few rows have a value.
-- So a small table holds the entries of those that have one, and the other jobs pay nothing. An entry may
-- outlive its row, and readers join the two. The reverse never happens: no row with a value is without its
-- entry.

-- Pending jobs that must start by some time. A trigger writes the entry, in the transaction that writes the row.
create table if not exists holdfast_deadline (
  id            char(36) character set ascii collate ascii_bin not null,
  start_by      bigint not null,
  primary key (id),
  key by_start (start_by)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- Leases that count towards the limits of their queue. The claim writes the entry with the lease. An epoch
-- never comes again, so an entry without its lease can be deleted at any time.
create table if not exists holdfast_lane_lease (
  queue         varchar(128) not null,
  lane          varchar(256) not null,
  id            char(36) character set ascii collate ascii_bin not null,
  epoch         int not null,
  primary key (queue, lane, id, epoch)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- ── Lanes, limits and pauses ─────────────────────────────────────────────────────────────────────
-- A lane is the set of pending jobs of a queue that are subject to the same limits: those of one tenant,
-- for example. It has no row of its own: it is part of the key of `ready`, so that an enqueue takes no
-- lock that another enqueue or a claim waits for.

-- A queue has a row if it has settings. `governed`: claims must look at its rules, its lanes or its pause.
-- `paused_all`: it was paused together with all others. `let_through`: a JSON list of jobs that a claim
-- may take despite the pause.
create table if not exists holdfast_queue (
  name          varchar(128) not null primary key,
  governed      tinyint not null,
  lanes         tinyint not null default 0,
  paused_at     bigint,
  paused_by     varchar(256),
  pause_reason  text,
  paused_all    tinyint not null default 0,
  let_through   text,
  ageing_ms     bigint,
  revision      int not null default 1,
  updated_at    bigint not null,
  check (name <> ''),
  check (governed in (0, 1)),
  check (lanes in (0, 1)),
  check ((paused_at is null) = (paused_by is null)),
  check (paused_all in (0, 1)),
  check (let_through is null or paused_at is not null),
  check (paused_all = 0 or paused_at is not null),
  check (governed = 1 or (paused_at is null and lanes = 0)),
  check (ageing_ms > 0),
  check (revision >= 1)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- A limit of the queue, of each of its lanes, of one lane, or of one task in the queue. At most rate_count
-- starts in rate_ms, or rate_burst at once. Only a lane has a pause here: that of a queue is in its row.
create table if not exists holdfast_queue_rule (
  queue         varchar(128) not null,
  kind          varchar(8) not null,
  name          varchar(256) not null,
  concurrency   int,
  rate_count    int,
  rate_ms       bigint,
  rate_burst    int,
  weight        int,
  paused_at     bigint,
  paused_by     varchar(256),
  pause_reason  text,
  check (kind in ('queue', 'lanes', 'lane', 'task')),
  check ((name = '') = (kind in ('queue', 'lanes'))),
  check (concurrency >= 0),
  check (rate_count >= 1),
  check (rate_ms >= 1),
  check (rate_burst >= 1),
  check (weight between 1 and 1000),
  check ((rate_count is null) = (rate_ms is null) and (rate_count is null) = (rate_burst is null)),
  check ((paused_at is null) = (paused_by is null)),
  check (paused_at is null or kind = 'lane'),
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

-- ── Tags ─────────────────────────────────────────────────────────────────────────────────────────
-- A job without tags has no row here. The primary key lists the jobs of a tag, newest first; the
-- index lists the tags of a job.

create table if not exists holdfast_job_tag (
  tag           varchar(64) not null,
  job_id        char(36) character set ascii collate ascii_bin not null,
  check (tag <> ''),
  primary key (tag, job_id),
  key by_job (job_id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- ── Debounce and throttle ────────────────────────────────────────────────────────────────────────
-- The job that a key of debounce or throttle stands for, and until when.

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

-- ── Workers ──────────────────────────────────────────────────────────────────────────────────────
-- Every running worker has a row. The database refuses a second active worker in a slot.

create table if not exists holdfast_worker_type (
  name          varchar(128) not null,
  slots         int,
  instance      bigint not null default 0,
  check (name <> ''),
  check (slots between 1 and 1000),
  check (instance >= 0),
  primary key (name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_worker (
  id            varchar(255) not null,
  type          varchar(128) not null,
  slot          int,
  instance      bigint not null,
  status        varchar(16) not null,
  reason        text,
  desired_state varchar(16) not null default 'run',
  hostname      varchar(255) not null,
  pid           int not null,
  host_boot     varchar(255),
  process_start varchar(64),
  version       varchar(255) not null,
  node_version  varchar(64) not null,
  platform      varchar(32) not null,
  arch          varchar(32) not null,
  queues        text not null,
  tasks         mediumtext not null,
  concurrency   int not null,
  started_at    bigint not null,
  heartbeat_at  bigint not null,
  stale_ms      bigint not null default 30000,
  hung_ms       bigint not null default 60000,
  stopped_at    bigint,
  heartbeats    bigint not null default 0,
  gap_ms_max    bigint not null default 0,
  claimed       bigint not null default 0,
  done          bigint not null default 0,
  failed        bigint not null default 0,
  retried       bigint not null default 0,
  leases_lost   bigint not null default 0,
  running       int not null default 0,
  loop_delay_ms bigint not null default 0,
  memory_bytes  bigint not null default 0,
  -- There are no partial indexes: only an active worker has its slot in the column that the index covers.
  active_slot   int as (case when status in ('starting', 'running') then slot end) stored,
  -- The stack of a main thread that a task has blocked, and for how long.
  blocked_ms    bigint not null default 0,
  blocked_stack longtext,
  check (id <> ''),
  check (status in ('starting', 'running', 'stopping', 'stopped')),
  check (desired_state in ('run', 'pause', 'drain', 'stop')),
  check ((status = 'stopped') = (stopped_at is not null)),
  primary key (id),
  unique by_slot (type, active_slot),
  key by_state (status, type),
  key by_end (status, stopped_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

drop trigger if exists holdfast_worker_fits;
create trigger holdfast_worker_fits before insert on holdfast_worker for each row
begin
  declare declared int default 0;
  declare most int;
  if new.status in ('starting', 'running') then
    if exists (select 1 from holdfast_copy where ended_at is null) then
      signal sqlstate '45000' set message_text = 'holdfast: a copy into this database is incomplete';
    end if;
    select count(*), max(slots) into declared, most from holdfast_worker_type where name = new.type;
    if declared = 0 then
      signal sqlstate '45000' set message_text = 'holdfast: this type of worker was never declared';
    end if;
    if most is not null and (new.slot is null or new.slot not between 1 and most) then
      signal sqlstate '45000'
        set message_text = 'holdfast: an active worker of a limited type needs a slot within its limit';
    end if;
    if most is null and new.slot is not null then
      signal sqlstate '45000' set message_text = 'holdfast: this type of worker has no slots';
    end if;
  end if;
end;

drop trigger if exists holdfast_worker_stays;
create trigger holdfast_worker_stays before update on holdfast_worker for each row
begin
  if new.id <> old.id or new.type <> old.type or not (new.slot <=> old.slot) or new.instance <> old.instance then
    signal sqlstate '45000' set message_text = 'holdfast: a row stays with its worker and its slot';
  end if;
  if old.status = 'starting' and new.status not in ('starting', 'running', 'stopping', 'stopped')
      or old.status = 'running' and new.status not in ('running', 'stopping', 'stopped')
      or old.status = 'stopping' and new.status not in ('stopping', 'stopped')
      or old.status = 'stopped' and new.status <> 'stopped' then
    signal sqlstate '45000'
      set message_text = 'holdfast: a worker starts, runs, stops and is stopped, and never goes back';
  end if;
end;

drop trigger if exists holdfast_worker_type_fits;
create trigger holdfast_worker_type_fits before update on holdfast_worker_type for each row
begin
  if new.name <> old.name or new.instance < old.instance then
    signal sqlstate '45000'
      set message_text = 'holdfast: a type keeps its name, and its instance number never goes down';
  end if;
  if not (new.slots <=> old.slots) and exists (
      select 1 from holdfast_worker
       where type = old.name and status in ('starting', 'running')
         and ((slot is null) <> (new.slots is null) or slot > new.slots)) then
    signal sqlstate '45000'
      set message_text = 'holdfast: an active worker does not fit the new limit of its type';
  end if;
end;

drop trigger if exists holdfast_worker_type_is_used;
create trigger holdfast_worker_type_is_used before delete on holdfast_worker_type for each row
begin
  if exists (select 1 from holdfast_worker where type = old.name and status in ('starting', 'running')) then
    signal sqlstate '45000' set message_text = 'holdfast: the type has active workers';
  end if;
end;

-- Running workers, and those that ended recently. "leases" is what each holds at this instant.
create or replace sql security invoker view holdfast_workers as
select w.id, w.type, w.slot, w.status, w.reason, w.desired_state, w.hostname, w.pid, w.version, w.queues,
       w.concurrency, coalesce(l.leases, 0) as leases, w.claimed, w.done, w.failed, w.retried, w.leases_lost,
       cast(from_unixtime(w.started_at / 1000) as datetime(3)) as started_at,
       cast(from_unixtime(w.heartbeat_at / 1000) as datetime(3)) as heartbeat_at,
       cast(from_unixtime(w.stopped_at / 1000) as datetime(3)) as stopped_at,
       case when w.stopped_at is null
            then cast(floor(unix_timestamp(now(3)) * 1000) as signed) - w.heartbeat_at end as heartbeat_age_ms
  from holdfast_worker w
  left join (select locked_by, count(*) as leases
               from holdfast_lease
              group by locked_by) l on l.locked_by = w.id;

-- The builds that enqueue jobs.
create table if not exists holdfast_enqueuer (
  version       varchar(128) not null,
  first_at      bigint not null,
  last_at       bigint not null,
  check (version <> ''),
  primary key (version)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- Standbys, and programs that acquire leases through SQL or HTTP: for people to see.
create table if not exists holdfast_unregistered_worker (
  id            varchar(255) not null,
  kind          varchar(16) not null,
  type          varchar(128),
  hostname      varchar(255),
  pid           int,
  version       varchar(255),
  queues        text not null,
  tasks         mediumtext,
  started_at    bigint not null,
  heartbeat_at  bigint not null,
  check (id <> ''),
  check (kind in ('standby', 'leases')),
  primary key (id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- ── Steps and events ─────────────────────────────────────────────────────────────────────────────
-- Completed steps are saved, so a job resumes after a crash without repeating them.

create table if not exists holdfast_step (
  job_id        char(36) character set ascii collate ascii_bin not null,
  name          varchar(128) not null,
  occurrence    int not null,
  position      int not null,
  kind          varchar(16) not null,
  status        varchar(16) not null,
  epoch         int not null,
  begun_at      bigint not null,
  ended_at      bigint,
  result        longtext,
  check (name <> ''),
  check (occurrence >= 1),
  check (position >= 0),
  check (kind in ('step', 'effect', 'commit', 'sleep', 'event', 'call')),
  check (status in ('begun', 'done', 'failed', 'doubt')),
  check (epoch >= 1),
  check ((status = 'begun') = (ended_at is null)),
  primary key (job_id, name, occurrence),
  key by_state (status, begun_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_event (
  name          varchar(128) not null,
  event_key     varchar(256) not null,
  awaited       int not null default 0,
  payload       longtext,
  emitted_at    bigint,
  primary key (name, event_key),
  key by_time (emitted_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_wait (
  job_id        char(36) character set ascii collate ascii_bin not null,
  name          varchar(128) not null,
  event_key     varchar(256) not null,
  primary key (job_id, name, event_key),
  key by_event (name, event_key)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

drop trigger if exists holdfast_step_stays;
create trigger holdfast_step_stays before update on holdfast_step for each row
begin
  if old.status = 'done' or new.epoch < old.epoch then
    signal sqlstate '45000'
      set message_text = 'holdfast: a step that is done stays as it is, and an epoch never goes down';
  end if;
end;

drop trigger if exists holdfast_event_is_said_once;
create trigger holdfast_event_is_said_once before update on holdfast_event for each row
begin
  if old.name <> '@job' and old.emitted_at is not null
      and not (new.payload <=> old.payload and new.emitted_at <=> old.emitted_at) then
    signal sqlstate '45000' set message_text = 'holdfast: what an event said stands';
  end if;
end;

-- ── Reports ──────────────────────────────────────────────────────────────────────────────────────
-- Progress, log lines and reports that a running job emits, numbered per job.

create table if not exists holdfast_report (
  job_id        char(36) character set ascii collate ascii_bin not null,
  seq           int not null,
  epoch         int not null,
  kind          varchar(16) not null,
  name          varchar(128),
  at            bigint not null,
  data          longtext,
  check (seq >= 1),
  check (epoch >= 1),
  check (kind in ('progress', 'log', 'report', 'dropped')),
  check (name <> ''),
  check ((kind = 'report') = (name is not null)),
  primary key (job_id, seq)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

drop trigger if exists holdfast_report_is_written_once;
create trigger holdfast_report_is_written_once before update on holdfast_report for each row
begin
  signal sqlstate '45000' set message_text = 'holdfast: a report is written once and never updated';
end;

-- ── Schedules ────────────────────────────────────────────────────────────────────────────────────
-- next_at is the tick that is handled next. A scheduler moves it, writes the run of the tick and
-- enqueues its job in one transaction. The key of schedule_run allows one run of a tick, even if
-- next_at was set back.

create table if not exists holdfast_schedule (
  name          varchar(128) not null,
  task          varchar(128) not null,
  payload       longtext not null,
  options       mediumtext not null,
  cron          varchar(256),
  time_zone     varchar(64),
  every_ms      bigint,
  offset_ms     bigint,
  missed        varchar(16) not null,
  missed_limit  int not null,
  overlap       varchar(16) not null,
  description   text,
  next_at       bigint,
  since_at      bigint not null,
  last_at       bigint,
  paused_at     bigint,
  paused_by     varchar(255),
  declared_by   varchar(128),
  declared      char(64) character set ascii collate ascii_bin,
  revision      int not null,
  created_at    bigint not null,
  updated_at    bigint not null,
  missed_count  bigint not null,
  queued_count  int not null,
  error         text,
  error_at      bigint,
  check (name <> ''),
  check (task <> ''),
  check (cron <> ''),
  check (time_zone <> ''),
  check (every_ms >= 1000),
  check (offset_ms >= 0 and offset_ms < every_ms),
  check (missed in ('skip', 'once', 'all')),
  check (missed_limit between 1 and 1000),
  check (overlap in ('allow', 'skip', 'queue')),
  check ((paused_at is null) = (paused_by is null)),
  check ((declared_by is null) = (declared is null)),
  check (revision >= 1),
  check (missed_count >= 0),
  check (queued_count >= 0),
  check ((cron is null) = (every_ms is not null)),
  check ((cron is null) = (time_zone is null)),
  check ((every_ms is null) = (offset_ms is null)),
  primary key (name),
  key holdfast_schedule_next (paused_at, next_at),
  key holdfast_schedule_queued (queued_count, name),
  key holdfast_schedule_declared (declared_by)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_schedule_run (
  schedule      varchar(128) not null,
  tick          bigint not null,
  is_manual     int not null,
  outcome       varchar(16) not null,
  job_id        char(36) character set ascii collate ascii_bin,
  at            bigint not null,
  -- 0: its job is known to have ended, or it has none. A tick that must not overlap looks at the others alone.
  is_open       int not null default 1,
  check (is_manual in (0, 1)),
  check (outcome in ('enqueued', 'joined', 'queued', 'skipped')),
  check ((job_id is null) = (outcome in ('queued', 'skipped'))),
  check (is_open in (0, 1)),
  primary key (schedule, tick, is_manual),
  key holdfast_schedule_run_job (job_id),
  key holdfast_schedule_run_queued (schedule, outcome, tick),
  key schedule_run_open (schedule, is_open, tick)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- ── Flows and batches ────────────────────────────────────────────────────────────────────────────
-- Jobs that wait for the ends of other jobs.

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

-- ── Bulk actions ─────────────────────────────────────────────────────────────────────────────────
-- A change of all jobs that match a filter. Any process carries it out, chunk by chunk: the row is locked for
-- each chunk, and (walk, before_id) says where the next one begins. "carrier" only keeps others from trying.

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

-- ── Workflows ────────────────────────────────────────────────────────────────────────────────────
-- Declarations, and the items that move through them. The database checks every move against the
-- declaration and writes the audit line itself, so SQL typed by hand cannot go around either.

create table if not exists holdfast_workflow (
  name          varchar(128) not null,
  version       int not null,
  -- The workflow of the parents of its items. Its own name: a parent is optional.
  parent        varchar(128),
  keep_ms       bigint,
  declared_at   bigint not null,
  declaration   mediumtext not null,
  check (name <> ''),
  check (version >= 1),
  check (keep_ms >= 0),
  primary key (name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_workflow_type (
  workflow      varchar(128) not null,
  name          varchar(128) not null,
  -- 0: only ended items have it; a new item cannot.
  is_declared   int not null,
  check (name <> ''),
  check (is_declared in (0, 1)),
  primary key (workflow, name),
  foreign key (workflow) references holdfast_workflow (name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_workflow_state (
  workflow      varchar(128) not null,
  name          varchar(128) not null,
  is_initial    int not null,
  is_final      int not null,
  check (name <> ''),
  check (is_initial in (0, 1)),
  check (is_final in (0, 1)),
  primary key (workflow, name),
  foreign key (workflow) references holdfast_workflow (name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_workflow_move (
  workflow      varchar(128) not null,
  from_state    varchar(128) not null,
  to_state      varchar(128) not null,
  name          varchar(128) not null,
  check (name <> ''),
  primary key (workflow, from_state, to_state, name),
  foreign key (workflow, from_state) references holdfast_workflow_state (workflow, name),
  foreign key (workflow, to_state) references holdfast_workflow_state (workflow, name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_item (
  id            char(36) character set ascii collate ascii_bin not null,
  workflow      varchar(128) not null,
  type          varchar(128) not null,
  tenant        varchar(128) not null,
  identifier    varchar(256) not null,
  parent_id     char(36) character set ascii collate ascii_bin,
  root_id       char(36) character set ascii collate ascii_bin not null,
  depth         int not null,
  status        varchar(128) not null,
  data          mediumtext not null,
  revision      bigint not null,
  created_at    bigint not null,
  updated_at    bigint not null,
  entered_at    bigint not null,
  audit_seq     bigint not null,
  audit_hash    char(64) character set ascii collate ascii_bin not null,
  -- The last change. The database writes the audit line from these columns.
  change_id     char(36) character set ascii collate ascii_bin not null,
  actor         varchar(255) not null,
  action        varchar(16) not null,
  move          varchar(128),
  reason        text,
  lock_wait_us  bigint,
  trace_id      text,
  jobs          text not null,
  data_hash     char(64) character set ascii collate ascii_bin not null,
  check (tenant <> ''),
  check (identifier <> ''),
  check (depth between 0 and 7),
  check (revision >= 1),
  check (audit_seq >= 1),
  check (length(audit_hash) = 64),
  check (action in ('start', 'import', 'move', 'update')),
  check (parent_id <> id),
  check ((parent_id is null) = (root_id = id)),
  check ((parent_id is null) = (depth = 0)),
  check (created_at <= entered_at and entered_at <= updated_at),
  check ((action = 'move') = (move is not null)),
  primary key (id),
  key by_parent (parent_id, status, updated_at),
  key by_identifier (identifier, tenant, status),
  key by_status (id, status),
  key by_root (root_id, depth),
  -- Lists are newest first, that is, by id.
  key children (parent_id, id),
  key list (workflow, id),
  key list_status (workflow, status, id),
  key list_tenant (workflow, tenant, id),
  key list_tenant_status (workflow, tenant, status, id),
  key list_over (depth, workflow, status, updated_at),
  foreign key (parent_id) references holdfast_item (id),
  foreign key (workflow, type) references holdfast_workflow_type (workflow, name),
  foreign key (workflow, status) references holdfast_workflow_state (workflow, name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_item_progress (
  item_id       char(36) character set ascii collate ascii_bin not null,
  workflow      varchar(128) not null,
  status        varchar(128) not null,
  children      bigint not null,
  check (children >= 0),
  primary key (item_id, workflow, status)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_item_due (
  item_id       char(36) character set ascii collate ascii_bin not null,
  reason        varchar(16) not null,
  workflow      varchar(128) not null,
  -- When the item entered the state that this row is about.
  entered_at    bigint not null,
  due_at        bigint not null,
  check (reason in ('limit', 'jobs')),
  primary key (item_id, reason),
  key by_due (workflow, due_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_item_job (
  job_id        char(36) character set ascii collate ascii_bin not null,
  item_id       char(36) character set ascii collate ascii_bin not null,
  status        varchar(16),
  primary key (job_id),
  key by_item (item_id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_item_audit (
  item_id       char(36) character set ascii collate ascii_bin not null,
  seq           bigint not null,
  change_id     char(36) character set ascii collate ascii_bin not null,
  at            bigint not null,
  actor         varchar(255) not null,
  action        varchar(16) not null,
  move          varchar(128),
  old_status    varchar(128),
  new_status    varchar(128) not null,
  revision      bigint not null,
  reason        text,
  lock_wait_us  bigint,
  trace_id      text,
  jobs          text not null,
  data_hash     char(64) character set ascii collate ascii_bin not null,
  previous_hash char(64) character set ascii collate ascii_bin not null,
  hash          char(64) character set ascii collate ascii_bin not null,
  check (seq >= 1),
  check (action in ('start', 'import', 'move', 'update')),
  primary key (item_id, seq),
  key by_change (change_id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- Items that retention is deleting at the moment.
create table if not exists holdfast_item_pruning (
  item_id       char(36) character set ascii collate ascii_bin not null,
  primary key (item_id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- "lock in share mode" reads rows as they are now: a transaction with repeatable reads would otherwise see
-- them as they were when it began. A change of the declaration locks its row, and this waits for it.
drop trigger if exists holdfast_item_fits;
create trigger holdfast_item_fits before insert on holdfast_item for each row
begin
  declare found int default 0;
  if not exists (select 1 from holdfast_copy where ended_at is null) then
    select count(*) into found from holdfast_workflow where name = new.workflow lock in share mode;
    select count(*) into found from holdfast_workflow_type
     where workflow = new.workflow and name = new.type and is_declared = 1 lock in share mode;
    if found = 0 then
      signal sqlstate '45000' set message_text = 'holdfast: the workflow declares no such type';
    end if;
    select count(*) into found from holdfast_workflow_state
     where workflow = new.workflow and name = new.status
       and (is_initial = 1 or new.action = 'import') lock in share mode;
    if found = 0 then
      signal sqlstate '45000'
        set message_text = 'holdfast: an item begins in the initial state of its workflow, or is imported into a declared one, at revision 1';
    end if;
    if new.revision <> 1 or new.audit_seq <> 1 or new.action not in ('start', 'import') then
      signal sqlstate '45000'
        set message_text = 'holdfast: an item begins in the initial state of its workflow, or is imported into a declared one, at revision 1';
    end if;
    if new.parent_id is null then
      select count(*) into found from holdfast_workflow
       where name = new.workflow and parent <> name lock in share mode;
      if found > 0 then
        signal sqlstate '45000' set message_text = 'holdfast: an item of this workflow needs a parent';
      end if;
    else
      select count(*) into found from holdfast_item above
       where above.id = new.parent_id lock in share mode;
      if found = 0 then
        signal sqlstate '45000' set message_text = 'holdfast: there is no such parent';
      end if;
      select count(*) into found from holdfast_item above
        join holdfast_workflow w on w.name = new.workflow and w.parent = above.workflow
       where above.id = new.parent_id lock in share mode;
      if found = 0 then
        signal sqlstate '45000' set message_text = 'holdfast: the parent is of another workflow than declared';
      end if;
      select count(*) into found from holdfast_item above
       where above.id = new.parent_id and above.root_id = new.root_id and above.depth + 1 = new.depth
         lock in share mode;
      if found = 0 then
        signal sqlstate '45000' set message_text = 'holdfast: an item stands below its parent';
      end if;
      select count(*) into found from holdfast_item above
        join holdfast_workflow_state s on s.workflow = above.workflow and s.name = above.status
       where above.id = new.parent_id and s.is_final = 1
         and not (new.action = 'import' and exists (
           select 1 from holdfast_workflow_state e
            where e.workflow = new.workflow and e.name = new.status and e.is_final = 1))
         lock in share mode;
      if found > 0 then
        signal sqlstate '45000' set message_text = 'holdfast: the parent has ended';
      end if;
      select count(*) into found from holdfast_item above
       where above.id = new.parent_id and above.updated_at < new.updated_at lock in share mode;
      if found > 0 then
        signal sqlstate '45000' set message_text = 'holdfast: a parent is never behind its children';
      end if;
    end if;
  end if;
end;

drop trigger if exists holdfast_item_is_started;
create trigger holdfast_item_is_started after insert on holdfast_item for each row
begin
  if not exists (select 1 from holdfast_copy where ended_at is null) then
    insert into holdfast_item_audit
           (item_id, seq, at, old_status, new_status, revision, previous_hash, hash,
            change_id, actor, action, move, reason, lock_wait_us, trace_id, jobs, data_hash)
    values (new.id, new.audit_seq, new.updated_at, null, new.status, new.revision,
            '0000000000000000000000000000000000000000000000000000000000000000', new.audit_hash,
            new.change_id, new.actor, new.action, new.move, new.reason, new.lock_wait_us, new.trace_id,
            new.jobs, new.data_hash);
    if new.parent_id is not null then
      insert into holdfast_item_progress (item_id, workflow, status, children)
      values (new.parent_id, new.workflow, new.status, 1)
          on duplicate key update children = children + 1;
    end if;
  end if;
end;

drop trigger if exists holdfast_item_stays;
create trigger holdfast_item_stays before update on holdfast_item for each row
begin
  declare found int default 0;
  if not ((new.id, new.workflow, new.type, new.tenant, new.identifier, new.parent_id, new.root_id, new.depth,
           new.created_at) <=>
          (old.id, old.workflow, old.type, old.tenant, old.identifier, old.parent_id, old.root_id, old.depth,
           old.created_at)) then
    signal sqlstate '45000'
      set message_text = 'holdfast: an item keeps its workflow, type, tenant, identifier and parent';
  end if;
  if new.revision <> old.revision + 1 or new.updated_at < old.updated_at then
    signal sqlstate '45000'
      set message_text = 'holdfast: a revision goes up by one with every change, and time does not go back';
  end if;
  if new.audit_seq not in (old.audit_seq, old.audit_seq + 1)
      or new.audit_seq = old.audit_seq and not (
      (new.status, new.data, new.entered_at, new.audit_hash, new.change_id, new.actor, new.action, new.move,
       new.reason, new.lock_wait_us, new.trace_id, new.jobs, new.data_hash) <=>
      (old.status, old.data, old.entered_at, old.audit_hash, old.change_id, old.actor, old.action, old.move,
       old.reason, old.lock_wait_us, old.trace_id, old.jobs, old.data_hash)) then
    signal sqlstate '45000'
      set message_text = 'holdfast: every change of an item leaves one line in its audit';
  end if;
  if new.audit_seq <> old.audit_seq and new.action = 'update' then
    if new.status <> old.status then
      signal sqlstate '45000' set message_text = 'holdfast: the workflow declares no such move';
    end if;
    if new.entered_at <> old.entered_at then
      signal sqlstate '45000'
        set message_text = 'holdfast: an item is in a state since the move that brought it there';
    end if;
  elseif new.audit_seq <> old.audit_seq then
    select count(*) into found from holdfast_workflow where name = new.workflow lock in share mode;
    select count(*) into found from holdfast_workflow_move
     where workflow = new.workflow and from_state = old.status and to_state = new.status
       and name = new.move and new.action = 'move' lock in share mode;
    if found = 0 then
      signal sqlstate '45000' set message_text = 'holdfast: the workflow declares no such move';
    end if;
    if new.entered_at <> new.updated_at or new.entered_at <= old.entered_at then
      signal sqlstate '45000'
        set message_text = 'holdfast: an item is in a state since the move that brought it there';
    end if;
  end if;
  if new.parent_id is not null then
    select count(*) into found from holdfast_item above
     where above.id = new.parent_id and above.updated_at < new.updated_at lock in share mode;
    if found > 0 then
      signal sqlstate '45000' set message_text = 'holdfast: a parent is never behind its children';
    end if;
  end if;
end;

drop trigger if exists holdfast_item_is_told;
create trigger holdfast_item_is_told after update on holdfast_item for each row
begin
  if new.audit_seq <> old.audit_seq then
    insert into holdfast_item_audit
           (item_id, seq, at, old_status, new_status, revision, previous_hash, hash,
            change_id, actor, action, move, reason, lock_wait_us, trace_id, jobs, data_hash)
    values (new.id, new.audit_seq, new.updated_at, old.status, new.status, new.revision,
            old.audit_hash, new.audit_hash,
            new.change_id, new.actor, new.action, new.move, new.reason, new.lock_wait_us, new.trace_id,
            new.jobs, new.data_hash);
  end if;
  if new.parent_id is not null and new.status <> old.status then
    update holdfast_item_progress set children = children - 1
     where item_id = old.parent_id and workflow = old.workflow and status = old.status;
    insert into holdfast_item_progress (item_id, workflow, status, children)
    values (new.parent_id, new.workflow, new.status, 1)
        on duplicate key update children = children + 1;
  end if;
end;

drop trigger if exists holdfast_item_is_let_go;
create trigger holdfast_item_is_let_go before insert on holdfast_item_pruning for each row
begin
  declare found int default 0;
  select count(*) into found from holdfast_item i
    join holdfast_workflow_state s on s.workflow = i.workflow and s.name = i.status
    join holdfast_item top on top.id = i.root_id
    join holdfast_workflow w on w.name = top.workflow
   where i.id = new.item_id and s.is_final = 1 and w.keep_ms is not null lock in share mode;
  if found = 0 then
    signal sqlstate '45000'
      set message_text = 'holdfast: only what has ended is deleted, and nothing of a workflow that keeps its items for ever';
  end if;
end;

drop trigger if exists holdfast_item_is_kept;
create trigger holdfast_item_is_kept before delete on holdfast_item for each row
begin
  if not exists (select 1 from holdfast_item_pruning where item_id = old.id) then
    signal sqlstate '45000'
      set message_text = 'holdfast: items and their audit are deleted by their retention only';
  end if;
end;

drop trigger if exists holdfast_item_is_discounted;
create trigger holdfast_item_is_discounted after delete on holdfast_item for each row
begin
  if old.parent_id is not null then
    update holdfast_item_progress set children = children - 1
     where item_id = old.parent_id and workflow = old.workflow and status = old.status;
  end if;
end;

drop trigger if exists holdfast_item_audit_is_kept;
create trigger holdfast_item_audit_is_kept before delete on holdfast_item_audit for each row
begin
  if not exists (select 1 from holdfast_item_pruning where item_id = old.item_id) then
    signal sqlstate '45000'
      set message_text = 'holdfast: items and their audit are deleted by their retention only';
  end if;
end;

drop trigger if exists holdfast_item_audit_stays;
create trigger holdfast_item_audit_stays before update on holdfast_item_audit for each row
begin
  signal sqlstate '45000' set message_text = 'holdfast: what is in the audit stays as it is';
end;

drop trigger if exists holdfast_item_audit_is_told;
create trigger holdfast_item_audit_is_told before insert on holdfast_item_audit for each row
begin
  if exists (select 1 from holdfast_item_audit where item_id = new.item_id and seq = new.seq)
      or not exists (select 1 from holdfast_copy where ended_at is null) and not exists (select 1 from holdfast_item
                      where id = new.item_id and audit_seq = new.seq and audit_hash = new.hash
                        and status = new.new_status and revision = new.revision) then
    signal sqlstate '45000'
      set message_text = 'holdfast: the audit is written by the database, with the change that it tells of';
  end if;
end;

-- ── Locks ────────────────────────────────────────────────────────────────────────────────────────
-- A row stays when its lock is released, because the fencing token must never go down.

create table if not exists holdfast_lock (
  name          varchar(255) not null,
  token         bigint not null,
  holder        char(36) character set ascii collate ascii_bin,
  owner         varchar(255) not null,
  trace         varchar(255),
  acquired_at   bigint not null,
  expires_at    bigint not null,
  next_holder   char(36) character set ascii collate ascii_bin,
  next_until    bigint,
  check (name <> ''),
  check (token >= 1),
  check ((next_holder is null) = (next_until is null)),
  primary key (name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_lock_stat (
  minute        bigint not null,
  type          varchar(255) not null,
  source        char(36) character set ascii collate ascii_bin not null,
  acquisitions  bigint not null,
  timeouts      bigint not null,
  wait_ms_sum   bigint not null,
  held_ms_max   bigint not null,
  waits         text not null,
  check (minute % 60000 = 0),
  check (type <> ''),
  check (acquisitions >= 0 and timeouts >= 0 and wait_ms_sum >= 0 and held_ms_max >= 0),
  primary key (minute, type, source)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

drop trigger if exists holdfast_lock_stays;
create trigger holdfast_lock_stays before update on holdfast_lock for each row
begin
  if new.name <> old.name then
    signal sqlstate '45000' set message_text = 'holdfast: a row stays with its lock';
  end if;
  if new.token < old.token then
    signal sqlstate '45000' set message_text = 'holdfast: the token of a lock never goes down';
  end if;
end;

-- What one process waits for, while it waits, and what it gave up within the last hour: one row for each key.
create table if not exists holdfast_lock_wait (
  name          varchar(255) not null,
  source        varchar(64) character set ascii collate ascii_bin not null,
  owner         varchar(255) not null,
  waiting       int not null,
  since_at      bigint not null,
  timeouts      int not null,
  seen_at       bigint not null,
  check (waiting >= 0),
  check (timeouts >= 0),
  primary key (name, source)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- ── Audit of operators ───────────────────────────────────────────────────────────────────────────
-- Each line contains the hash of the line before. audit_head is the end of that chain, and the
-- position up to which retention has deleted it.

create table if not exists holdfast_audit (
  id            char(36) character set ascii collate ascii_bin not null,
  at            bigint not null,
  actor         varchar(255) not null,
  action        varchar(64) not null,
  subject       varchar(512) not null,
  detail        text,
  seq           bigint,
  old_status    varchar(128),
  new_status    varchar(128),
  reason        text,
  trace_id      text,
  previous_hash char(64) character set ascii collate ascii_bin,
  hash          char(64) character set ascii collate ascii_bin,
  primary key (id),
  unique key by_seq (seq),
  key by_subject (subject, seq)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_audit_head (
  id            int not null,
  seq           bigint not null,
  hash          char(64) character set ascii collate ascii_bin not null,
  pruned_seq    bigint not null,
  pruned_hash   char(64) character set ascii collate ascii_bin not null,
  check (id = 1),
  check (pruned_seq between 0 and seq),
  primary key (id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

insert ignore into holdfast_audit_head (id, seq, hash, pruned_seq, pruned_hash)
values (1, 0, '0000000000000000000000000000000000000000000000000000000000000000', 0,
           '0000000000000000000000000000000000000000000000000000000000000000');

-- After the insert: the head looks for its line.
drop trigger if exists holdfast_audit_follows;
create trigger holdfast_audit_follows after insert on holdfast_audit for each row
begin
  if new.hash is null then
    signal sqlstate '45000' set message_text = 'holdfast: a line of the audit follows the one before';
  end if;
  update holdfast_audit_head set seq = new.seq, hash = new.hash
   where seq + 1 = new.seq and hash = new.previous_hash;
  if row_count() = 0 then
    signal sqlstate '45000' set message_text = 'holdfast: a line of the audit follows the one before';
  end if;
end;

drop trigger if exists holdfast_audit_stays;
create trigger holdfast_audit_stays before update on holdfast_audit for each row
begin
  signal sqlstate '45000' set message_text = 'holdfast: what is in the audit stays as it is';
end;

drop trigger if exists holdfast_audit_is_kept;
create trigger holdfast_audit_is_kept before delete on holdfast_audit for each row
begin
  if not exists (select 1 from holdfast_audit_head where pruned_seq >= old.seq) then
    signal sqlstate '45000' set message_text = 'holdfast: the audit is deleted by its retention only';
  end if;
end;

-- The head moves only to the line that follows it. A copy continues where retention cut the audit of its
-- source; the line about that cut comes with it.
drop trigger if exists holdfast_audit_head_grows;
create trigger holdfast_audit_head_grows before update on holdfast_audit_head for each row
begin
  if (new.seq <> old.seq or new.hash <> old.hash or new.pruned_seq < old.pruned_seq)
      and not (new.pruned_seq >= old.pruned_seq and new.seq = old.seq + 1 and exists (
        select 1 from holdfast_audit where seq = new.seq and hash = new.hash and previous_hash = old.hash))
      and not (old.seq = 0 and new.seq = new.pruned_seq and new.hash = new.pruned_hash
               and exists (select 1 from holdfast_copy where ended_at is null)) then
    signal sqlstate '45000' set message_text = 'holdfast: the audit grows line by line';
  end if;
  if (new.pruned_seq <> old.pruned_seq or new.pruned_hash <> old.pruned_hash)
      and not (old.seq = 0 and new.seq = new.pruned_seq and new.hash = new.pruned_hash
               and exists (select 1 from holdfast_copy where ended_at is null))
      and (new.pruned_seq >= new.seq or not exists (
        select 1 from holdfast_audit
         where seq = new.seq and action = 'audit.prune'
           and detail = concat(old.pruned_seq + 1, ' to ', new.pruned_seq, ', hash ', new.pruned_hash))) then
    signal sqlstate '45000'
      set message_text = 'holdfast: the audit is pruned by a line that names the range and its last hash';
  end if;
end;

drop trigger if exists holdfast_audit_head_is_kept;
create trigger holdfast_audit_head_is_kept before delete on holdfast_audit_head for each row
begin
  signal sqlstate '45000' set message_text = 'holdfast: the audit has one head';
end;

-- How long a workflow keeps its items changes only together with an audit line about the change.
drop trigger if exists holdfast_workflow_keeps;
create trigger holdfast_workflow_keeps before update on holdfast_workflow for each row
begin
  if new.name <> old.name or not (new.keep_ms <=> old.keep_ms) and not exists (
      select 1 from holdfast_audit
       where seq = (select seq from holdfast_audit_head) and action = 'workflow.keep'
         and subject = concat('workflow ', new.name)
         and detail = concat(coalesce(old.keep_ms, 'forever'), ' to ', coalesce(new.keep_ms, 'forever'))) then
    signal sqlstate '45000'
      set message_text = 'holdfast: a workflow with items stays, and how long it keeps them changes with a line of the audit that says so';
  end if;
end;

drop trigger if exists holdfast_workflow_is_kept;
create trigger holdfast_workflow_is_kept before delete on holdfast_workflow for each row
begin
  if exists (select 1 from holdfast_item where workflow = old.name) then
    signal sqlstate '45000'
      set message_text = 'holdfast: a workflow with items stays, and how long it keeps them changes with a line of the audit that says so';
  end if;
end;

-- ── Statistics ───────────────────────────────────────────────────────────────────────────────────
-- Jobs by state, and arrivals and ends in each minute, so that reading them does not count rows.

create table if not exists holdfast_counts (
  id            int not null,
  begun_at      bigint not null,
  counted_at    bigint not null,
  took_ms       bigint not null,
  folded_until  bigint not null,
  check (id = 1),
  check (took_ms >= 0),
  check (folded_until % 60000 = 0),
  primary key (id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;
insert ignore into holdfast_counts (id, begun_at, counted_at, took_ms, folded_until) values (1, 0, 0, 0, 0);

create table if not exists holdfast_depth (
  queue         varchar(128) not null,
  status        varchar(16) not null,
  jobs          bigint not null,
  oldest_at     bigint,
  check (jobs >= 0),
  primary key (queue, status)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_minute_total (
  minute        bigint not null,
  queue         varchar(128) not null,
  arrived       bigint not null,
  done          bigint not null,
  failed        bigint not null,
  cancelled     bigint not null,
  run_ms_sum    bigint not null,
  run_ms_max    bigint not null,
  expired       bigint not null default 0 check (expired >= 0),
  retried       bigint not null default 0,
  crashed       bigint not null default 0,
  pickups       longtext,
  pending       bigint,
  check (minute % 60000 = 0),
  check (arrived >= 0 and done >= 0 and failed >= 0 and cancelled >= 0 and run_ms_sum >= 0 and run_ms_max >= 0),
  primary key (minute, queue)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- span_total has longer steps than minute_total, and the sum of all queues (queue ''). Workers write
-- how long jobs waited into pickup_stat; the process that folds a minute adds that up.
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
  build         varchar(128) not null,
  runs          longtext not null,
  waits         longtext not null,
  check (hour % 3600000 = 0),
  primary key (task, hour, source),
  key by_hour (hour)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- What became of the jobs of a task in an hour, by the build of the worker that ended them (build '': none did).
-- The process that folds a minute adds it; the times of task_stat follow when the hour is over.
create table if not exists holdfast_task_total (
  hour          bigint not null,
  task          varchar(128) not null,
  build         varchar(128) not null,
  done          bigint not null,
  failed        bigint not null,
  cancelled     bigint not null,
  expired       bigint not null,
  retried       bigint not null,
  crashed       bigint not null,
  runs          longtext,
  waits         longtext,
  check (hour % 3600000 = 0),
  check (done >= 0 and failed >= 0 and cancelled >= 0 and expired >= 0 and retried >= 0 and crashed >= 0),
  primary key (hour, task, build),
  key by_task (task, hour),
  key by_build (build, hour)
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

-- ── Tasks ────────────────────────────────────────────────────────────────────────────────────────
-- What workers say about the tasks that they run: the JSON schema of the input, for forms.

create table if not exists holdfast_task (
  name          varchar(128) not null,
  input_schema  longtext,
  version       varchar(128) not null,
  seen_at       bigint not null,
  check (name <> ''),
  primary key (name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- ── Errors by kind ───────────────────────────────────────────────────────────────────────────────
-- Errors of one task with the same name, code and message, apart from numbers and names in it. The
-- process that folds a minute counts its errors.

create table if not exists holdfast_error_kind (
  id            char(32) character set ascii collate ascii_bin not null,
  task          varchar(128) not null,
  name          varchar(255) not null,
  code          varchar(255),
  message       longtext not null,
  sample        longtext not null,
  sample_job    char(36) character set ascii collate ascii_bin not null,
  first_sample  longtext not null,
  first_job     char(36) character set ascii collate ascii_bin not null,
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
  build         varchar(128) not null,
  failed        bigint not null,
  retried       bigint not null,
  check (hour % 3600000 = 0),
  check (failed >= 0 and retried >= 0),
  primary key (kind_id, hour, build),
  key by_at (hour)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- The same by minute, for a day.
create table if not exists holdfast_error_minute (
  minute        bigint not null,
  kind_id       char(32) character set ascii collate ascii_bin not null,
  build         varchar(128) not null,
  failed        bigint not null,
  retried       bigint not null,
  check (minute % 60000 = 0),
  check (failed >= 0 and retried >= 0),
  primary key (minute, kind_id, build)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- ── Alerts ───────────────────────────────────────────────────────────────────────────────────────
-- The unique index allows one open alert of a rule and subject, even if two processes raise it.

create table if not exists holdfast_alert (
  id            char(36) character set ascii collate ascii_bin not null,
  rule          varchar(128) not null,
  subject       varchar(255) not null,
  severity      varchar(16) not null,
  status        varchar(16) not null,
  message       text not null,
  facts         mediumtext not null,
  change_id     char(36) character set ascii collate ascii_bin not null,
  since_at      bigint not null,
  seen_at       bigint not null,
  raised_at     bigint,
  resolved_at   bigint,
  -- When its targets were last told that it is raised: what they were not told is not taken back.
  notified_at   bigint,
  acknowledged_at bigint,
  acknowledged_by varchar(255),
  silenced_until  bigint,
  silenced_by   varchar(255),
  -- The reason of the last operator.
  note          text,
  -- There are no partial indexes: only an open alert has its rule in the column that the index covers.
  open_rule     varchar(128) as (case when status <> 'resolved' then rule end) stored,
  check (rule <> ''),
  check (severity in ('info', 'warning', 'critical')),
  check (status in ('pending', 'raised', 'resolved')),
  check ((status = 'pending') = (raised_at is null)),
  check ((status = 'resolved') = (resolved_at is not null)),
  primary key (id),
  unique key holdfast_alert_open (open_rule, subject),
  key holdfast_alert_status (status, id),
  key holdfast_alert_ended (resolved_at),
  key holdfast_alert_silenced (silenced_until)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- ── API tokens and idempotency keys ──────────────────────────────────────────────────────────────
-- Only the hash of a token is stored. A request row holds the response to an idempotency key.

create table if not exists holdfast_token (
  id            char(36) character set ascii collate ascii_bin not null,
  name          varchar(128) not null,
  role          varchar(16) not null,
  hash          char(64) character set ascii collate ascii_bin not null,
  created_at    bigint not null,
  expires_at    bigint,
  revoked_at    bigint,
  used_at       bigint,
  -- Only a token that was not revoked has its name in the column that the index covers.
  live_name     varchar(128) as (case when revoked_at is null then name end) stored,
  check (name <> ''),
  check (role in ('viewer', 'operator')),
  primary key (id),
  unique key holdfast_token_hash (hash),
  unique key holdfast_token_name (live_name)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

create table if not exists holdfast_request (
  principal     varchar(128) not null,
  request_key   varchar(255) not null,
  fingerprint   char(64) character set ascii collate ascii_bin not null,
  seed          mediumtext not null,
  begun_at      bigint not null,
  status        int,
  body          mediumtext,
  check (request_key <> ''),
  primary key (principal, request_key),
  key holdfast_request_begun (begun_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- ── Sessions ─────────────────────────────────────────────────────────────────────────────────────
-- A person signs in with a token and gets a cookie; only the hash of its secret is stored. Without a
-- token_id, the session belongs to the token of the configuration, which is part of the hash.

create table if not exists holdfast_session (
  hash          char(64) character set ascii collate ascii_bin not null,
  token_id      char(36) character set ascii collate ascii_bin,
  created_at    bigint not null,
  expires_at    bigint not null,
  primary key (hash),
  key by_token (token_id, created_at),
  key by_expires (expires_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- ── Traces ───────────────────────────────────────────────────────────────────────────────────────
-- The trace that a job belongs to. Few jobs have one, so it is not a column of job.

create table if not exists holdfast_job_trace (
  job_id        char(36) character set ascii collate ascii_bin not null,
  traceparent   varchar(255) not null,
  tracestate    varchar(512),
  check (traceparent <> ''),
  primary key (job_id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

-- ── Copies ───────────────────────────────────────────────────────────────────────────────────────
-- The row of a copy from another database. While the copy is incomplete, triggers suspend the rules
-- about how items and audit lines come into being, because both arrive with their history. A copy
-- begins in an empty database only and never begins again, so no rule is suspended for data in use.

create table if not exists holdfast_copy (
  id            int not null,
  source        text not null,
  fingerprint   char(64) character set ascii collate ascii_bin not null,
  begun_at      bigint not null,
  ended_at      bigint,
  batches       bigint not null,
  progress      mediumtext not null,
  check (id = 1),
  check (length(fingerprint) = 64),
  check (batches >= 0),
  primary key (id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

drop trigger if exists holdfast_copy_begins;
create trigger holdfast_copy_begins before insert on holdfast_copy for each row
begin
  if exists (select 1 from holdfast_job)
      or exists (select 1 from holdfast_item)
      or exists (select 1 from holdfast_item_audit)
      or exists (select 1 from holdfast_audit_head where seq > 0) then
    signal sqlstate '45000' set message_text = 'holdfast: a copy begins in an empty database';
  end if;
end;

drop trigger if exists holdfast_copy_stays;
create trigger holdfast_copy_stays before update on holdfast_copy for each row
begin
  if old.ended_at is not null or new.id <> old.id or new.fingerprint <> old.fingerprint then
    signal sqlstate '45000' set message_text = 'holdfast: a complete copy stays complete';
  end if;
end;

drop trigger if exists holdfast_copy_is_kept;
create trigger holdfast_copy_is_kept before delete on holdfast_copy for each row
begin
  signal sqlstate '45000' set message_text = 'holdfast: the row of a copy is not deleted';
end;
