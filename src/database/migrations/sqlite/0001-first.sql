-- The first version of the schema on SQLite.
--
-- Frozen once it is released: a test pins its hash. To change the schema, add a file with the next number
-- beside it (see CONTRIBUTING.md).
--
-- Every name begins with holdfast_, because the tables may share a file with those of an application.
--
-- Names that end in _at are instants, in milliseconds since 1970; those that end in _ms are spans.
-- Limits of lengths and lists of words are literals here. A test compares them with src/core.

-- ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────
-- A job is written once, into "job". Exactly one of ready, waiting, lease and finished has a row
-- with its id: its state. These rows share the columns from id to max_attempts.

-- It keeps its rowid: wide rows are appended, and a bulk insert is three times faster than into a tree
-- ordered by id. The state tables are narrow trees, ordered by the key they are read by.
create table holdfast_job (
  id            text    not null unique check (length(id) = 36),
  queue         text    not null check (length(queue) between 1 and 128),
  task          text    not null check (length(task) between 1 and 128),
  payload       text    not null,
  rank          integer not null,
  max_attempts  integer not null check (max_attempts >= 1),
  job_key       text,
  enqueued_at   integer not null check (enqueued_at > 0)
) strict;
create index holdfast_job_by_key on holdfast_job (job_key, id) where job_key is not null;

-- `lane` is the job's lane; if its task has a limit of its own, U+001F and the task's name follow.
-- `place` is the order in the lane: ready_at + rank * ageing. Without ageing a rank weighs 2^37 ms.
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

-- Statuses are compared with "or": for three or more words, "in" builds a small table at every insert.
-- `missing`: how many rows of dep the job has. A job with none left is released.
create table holdfast_waiting (
  id            text    not null,
  queue         text    not null,
  task          text    not null,
  rank          integer not null,
  job_key       text,
  epoch         integer not null check (epoch >= 0),
  attempts      integer not null check (attempts between 0 and max_attempts and attempts <= epoch),
  crashes       integer not null check (crashes between 0 and epoch),
  max_attempts  integer not null check (max_attempts >= 1),
  status        text    not null check (status = 'scheduled' or status = 'waiting' or status = 'retry'),
  due_at        integer check (due_at is not null or status = 'waiting'),
  lane          text,
  start_by      integer,
  missing       integer not null default 0 check (missing >= 0),
  check (attempts < max_attempts),
  primary key (id)
) strict, without rowid;
create index holdfast_waiting_due on holdfast_waiting (due_at) where due_at is not null;
create index holdfast_waiting_start_by on holdfast_waiting (start_by) where start_by is not null;

-- `lane` is null if the queue had no rules at the claim. Concurrency is counted from these rows and from
-- nothing else.
create table holdfast_lease (
  id            text    not null,
  queue         text    not null,
  task          text    not null,
  rank          integer not null,
  job_key       text,
  epoch         integer not null check (epoch >= 0),
  attempts      integer not null check (attempts between 0 and max_attempts and attempts <= epoch),
  crashes       integer not null check (crashes between 0 and epoch),
  max_attempts  integer not null check (max_attempts >= 1),
  locked_by     text    not null check (length(locked_by) > 0),
  locked_until  integer not null check (locked_until > 0),
  claimed_at    integer not null,
  heartbeat_at  integer not null,
  cancel_requested_at integer,
  claim_id      integer,
  lane          text,
  check (attempts >= 1),
  primary key (id)
) strict, without rowid;
create index holdfast_lease_lane on holdfast_lease (queue, lane) where lane is not null;

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
  error_kind    text,
  lane          text,
  check (status <> 'done' or attempts >= 1),
  primary key (id)
) strict, without rowid;
create index holdfast_finished_at on holdfast_finished (status, finished_at);
create index holdfast_finished_failed on holdfast_finished (status, id) where status = 'failed';
create index holdfast_finished_cancelled on holdfast_finished (status, id) where status = 'cancelled';
create index holdfast_finished_expired on holdfast_finished (status, id) where status = 'expired';
create index holdfast_finished_kind on holdfast_finished (error_kind, id) where error_kind is not null;

create table holdfast_attempt (
  job_id        text    not null,
  epoch         integer not null check (epoch >= 1),
  attempt       integer not null check (attempt between 0 and epoch),
  worker        text    not null,
  outcome       text    not null
                check (outcome in ('retry', 'suspended', 'released', 'crashed', 'failed', 'cancelled')),
  started_at    integer not null,
  ended_at      integer not null,
  error         text,
  error_kind    text,
  primary key (job_id, epoch)
) strict, without rowid;
create index holdfast_attempt_ended on holdfast_attempt (ended_at);

create table holdfast_job_key (
  task          text    not null,
  job_key       text    not null,
  job_id        text    not null unique,
  primary key (task, job_key)
) strict, without rowid;

-- How long a job keeps its key after its end.
create table holdfast_kept_key (
  task          text    not null,
  job_key       text    not null,
  job_id        text    not null unique,
  keep_ms       integer not null check (keep_ms > 0),
  primary key (task, job_key)
) strict, without rowid;

-- A job is written once. Its queue and priority change while it is unclaimed, by an operator; its input
-- changes with a row in job_revision that keeps the old one, or while enqueueing again delays it.
-- A rerun keeps how the job had ended, and the steps that it takes back.
create table holdfast_job_revision (
  job_id        text    not null,
  revision      integer not null check (revision >= 1),
  payload       text    not null,
  changed_at    integer not null,
  primary key (job_id, revision)
) strict, without rowid;

create table holdfast_rerun (
  job_id        text    not null,
  run           integer not null check (run >= 1),
  step          text    check (length(step) between 1 and 128),
  occurrence    integer check ((occurrence is null) = (step is null)),
  status        text    not null,
  epoch         integer not null check (epoch >= 0),
  attempt       integer not null,
  worker        text,
  started_at    integer,
  finished_at   integer not null,
  result        text,
  error         text,
  rerun_at      integer not null,
  primary key (job_id, run)
) strict, without rowid;

create table holdfast_rerun_step (
  job_id        text    not null,
  run           integer not null,
  name          text    not null,
  occurrence    integer not null,
  position      integer not null,
  kind          text    not null,
  status        text    not null,
  epoch         integer not null,
  begun_at      integer not null,
  ended_at      integer,
  result        text,
  primary key (job_id, run, name, occurrence)
) strict, without rowid;

-- No operation of the library does this, and SQL typed by hand must not do it either.
create trigger holdfast_job_is_written_once before update on holdfast_job
when new.id is not old.id or new.task is not old.task or new.max_attempts is not old.max_attempts
  or new.job_key is not old.job_key or new.enqueued_at is not old.enqueued_at
  or (new.payload is old.payload
      and not exists (select 1 from holdfast_ready r where r.id = old.id)
      and not exists (select 1 from holdfast_waiting w where w.id = old.id))
  or (new.payload is not old.payload
      and not exists (select 1 from holdfast_job_revision v where v.job_id = old.id and v.payload = old.payload)
      and not (exists (select 1 from holdfast_pacing p where p.job_id = old.id and p.kind = 'debounce')
               and (exists (select 1 from holdfast_ready r where r.id = old.id and r.epoch = 0)
                    or exists (select 1 from holdfast_waiting w where w.id = old.id and w.epoch = 0))))
begin select raise(abort, 'holdfast: a job is written once and never updated'); end;

create trigger holdfast_finished_is_written_once before update on holdfast_finished
begin select raise(abort, 'holdfast: a finished job is written once and never updated'); end;

create trigger holdfast_ready_epoch_never_falls before update of epoch on holdfast_ready
when new.epoch < old.epoch
begin select raise(abort, 'holdfast: an epoch never goes down'); end;

create trigger holdfast_waiting_epoch_never_falls before update of epoch on holdfast_waiting
when new.epoch < old.epoch
begin select raise(abort, 'holdfast: an epoch never goes down'); end;

create trigger holdfast_lease_epoch_never_falls before update of epoch on holdfast_lease
when new.epoch < old.epoch
begin select raise(abort, 'holdfast: an epoch never goes down'); end;

create trigger holdfast_ready_id_stays before update of id on holdfast_ready
begin select raise(abort, 'holdfast: a row stays with its job'); end;

create trigger holdfast_waiting_id_stays before update of id on holdfast_waiting
begin select raise(abort, 'holdfast: a row stays with its job'); end;

create trigger holdfast_lease_id_stays before update of id on holdfast_lease
begin select raise(abort, 'holdfast: a row stays with its job'); end;

create trigger holdfast_ready_not_finished before insert on holdfast_ready
when exists (select 1 from holdfast_finished where id = new.id)
begin select raise(abort, 'holdfast: the job has finished; only a retry or a rerun makes it pending again'); end;

create trigger holdfast_ready_not_claimed before insert on holdfast_ready
when exists (select 1 from holdfast_lease where id = new.id)
begin select raise(abort, 'holdfast: a worker holds the job'); end;

create trigger holdfast_waiting_not_finished before insert on holdfast_waiting
when exists (select 1 from holdfast_finished where id = new.id)
begin select raise(abort, 'holdfast: the job has finished; only a retry or a rerun makes it pending again'); end;

create trigger holdfast_waiting_not_claimed before insert on holdfast_waiting
when exists (select 1 from holdfast_lease where id = new.id)
begin select raise(abort, 'holdfast: a worker holds the job'); end;

-- Shells that are older than the SQLite of Node can read these views too.
--
-- A job is looked up by its id in each of the state tables, and exactly one of them has it. With joins,
-- every engine reads one job by its id instead of building all jobs first. The library reads this view
-- itself. claimed_at and trace_id belong to the running attempt or to the last one.
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

-- For people and tools.
create view holdfast_jobs as
select s.id, s.queue, s.task, s.status, -s.rank as priority, s.job_key, s.locked_by,
       strftime('%Y-%m-%dT%H:%M:%fZ', s.locked_until / 1000.0, 'unixepoch') as locked_until,
       s.attempts, s.max_attempts, s.crashes, s.epoch,
       strftime('%Y-%m-%dT%H:%M:%fZ', s.enqueued_at / 1000.0, 'unixepoch') as enqueued_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', s.due_at / 1000.0, 'unixepoch') as due_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', s.claimed_at / 1000.0, 'unixepoch') as claimed_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', s.heartbeat_at / 1000.0, 'unixepoch') as heartbeat_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', s.finished_at / 1000.0, 'unixepoch') as finished_at, s.trace_id,
       coalesce(s.error, (select a.error
                            from holdfast_attempt a
                           where a.job_id = s.id
                             and a.error is not null
                           order by a.epoch desc
                           limit 1)) as last_error
  from holdfast_job_state s;

-- All attempts of all jobs: the running one, and those after whose success a job ran again. Its times are
-- milliseconds.
create view holdfast_attempts as
select job_id, epoch, attempt, worker, outcome, started_at, ended_at, error,
       worker || '-' || job_id || '-' || attempt as trace_id
  from holdfast_attempt
 union all
select job_id, epoch, attempt, worker, status, started_at, finished_at, error,
       worker || '-' || job_id || '-' || attempt
  from holdfast_rerun
 where status = 'done'
   and worker is not null
 union all
select id, epoch, attempts, worker, status, started_at, finished_at, error,
       worker || '-' || id || '-' || attempts
  from holdfast_finished
 where worker is not null
 union all
select id, epoch, attempts, locked_by, 'running', claimed_at, null, null,
       locked_by || '-' || id || '-' || attempts
  from holdfast_lease;

-- Which worker holds which job. The next worker takes back an expired lease.
create view holdfast_leases as
select id, queue, task, job_key, locked_by, locked_by || '-' || id || '-' || attempts as trace_id,
       attempts as attempt, epoch,
       case when locked_until < cast((julianday('now') - 2440587.5) * 86400000 as integer) then 'expired'
            else 'active' end as state,
       strftime('%Y-%m-%dT%H:%M:%fZ', claimed_at / 1000.0, 'unixepoch') as claimed_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', heartbeat_at / 1000.0, 'unixepoch') as heartbeat_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', locked_until / 1000.0, 'unixepoch') as locked_until,
       cast((julianday('now') - 2440587.5) * 86400000 as integer) - claimed_at as held_ms,
       cast((julianday('now') - 2440587.5) * 86400000 as integer) - heartbeat_at as heartbeat_age_ms,
       locked_until - cast((julianday('now') - 2440587.5) * 86400000 as integer) as remaining_ms
  from holdfast_lease;

-- ── Lanes, limits and pauses ─────────────────────────────────────────────────────────────────────
-- A lane is the set of pending jobs of a queue that are subject to the same limits: those of one tenant,
-- for example. It has no row of its own: it is part of the key of `ready`.

-- A queue has a row if it has settings. `governed`: claims must look at its rules, its lanes or its pause.
-- `paused_all`: it was paused together with all others. `let_through`: a JSON list of jobs that a claim
-- may take despite the pause.
create table holdfast_queue (
  name          text    not null primary key check (length(name) between 1 and 128),
  governed      integer not null check (governed in (0, 1)),
  lanes         integer not null default 0 check (lanes in (0, 1)),
  paused_at     integer,
  paused_by     text,
  pause_reason  text,
  paused_all    integer not null default 0 check (paused_all in (0, 1)),
  let_through   text,
  ageing_ms     integer check (ageing_ms > 0),
  revision      integer not null default 1 check (revision >= 1),
  updated_at    integer not null,
  check ((paused_at is null) = (paused_by is null)),
  check (let_through is null or paused_at is not null),
  check (paused_all = 0 or paused_at is not null),
  check (governed = 1 or (paused_at is null and lanes = 0))
) strict, without rowid;

-- A limit of the queue, of each of its lanes, of one lane, or of one task in the queue. At most rate_count
-- starts in rate_ms, or rate_burst at once. Only a lane has a pause here: that of a queue is in its row.
create table holdfast_queue_rule (
  queue         text    not null,
  kind          text    not null check (kind in ('queue', 'lanes', 'lane', 'task')),
  name          text    not null check ((name = '') = (kind in ('queue', 'lanes'))),
  concurrency   integer check (concurrency >= 0),
  rate_count    integer check (rate_count >= 1),
  rate_ms       integer check (rate_ms >= 1),
  rate_burst    integer check (rate_burst >= 1),
  weight        integer check (weight between 1 and 1000),
  paused_at     integer,
  paused_by     text,
  pause_reason  text,
  primary key (queue, kind, name),
  check ((rate_count is null) = (rate_ms is null) and (rate_count is null) = (rate_burst is null)),
  check ((paused_at is null) = (paused_by is null)),
  check (paused_at is null or kind = 'lane')
) strict, without rowid;

-- Nothing is counted here: `allowed_at` is the clock of the rate, in microseconds.
create table holdfast_gate (
  queue         text    not null,
  kind          text    not null check (kind in ('queue', 'lane', 'task')),
  name          text    not null,
  allowed_at    integer not null default 0,
  primary key (queue, kind, name)
) strict, without rowid;

-- ── Tags ─────────────────────────────────────────────────────────────────────────────────────────
-- A job without tags has no row here. The primary key lists the jobs of a tag, newest first; the
-- index lists the tags of a job.

create table holdfast_job_tag (
  tag           text    not null check (length(tag) between 1 and 64),
  job_id        text    not null,
  primary key (tag, job_id)
) strict, without rowid;
create index holdfast_job_tag_job on holdfast_job_tag (job_id);

-- ── Debounce and throttle ────────────────────────────────────────────────────────────────────────
-- The job that a key of debounce or throttle stands for, and until when.

create table holdfast_pacing (
  kind          text    not null check (kind in ('debounce', 'throttle')),
  task          text    not null,
  pace_key      text    not null,
  job_id        text    not null,
  first_at      integer not null,
  until_at      integer not null,
  primary key (kind, task, pace_key)
) strict, without rowid;
create index holdfast_pacing_job on holdfast_pacing (job_id);
create index holdfast_pacing_until on holdfast_pacing (until_at);

-- ── Workers ──────────────────────────────────────────────────────────────────────────────────────
-- Every running worker has a row. The database refuses a second active worker in a slot.

create table holdfast_worker_type (
  name          text    not null primary key check (length(name) between 1 and 128),
  slots         integer check (slots between 1 and 1000),
  instance      integer not null default 0 check (instance >= 0)
) strict, without rowid;

create table holdfast_worker (
  id            text    not null primary key check (length(id) between 1 and 255),
  type          text    not null,
  slot          integer,
  instance      integer not null,
  status        text    not null check (status in ('starting', 'running', 'stopping', 'stopped')),
  reason        text,
  desired_state text    not null default 'run' check (desired_state in ('run', 'pause', 'drain', 'stop')),
  hostname      text    not null,
  pid           integer not null,
  host_boot     text,
  process_start text,
  version       text    not null,
  node_version  text    not null,
  platform      text    not null,
  arch          text    not null,
  queues        text    not null,
  tasks         text    not null,
  concurrency   integer not null,
  started_at    integer not null,
  heartbeat_at  integer not null,
  stale_ms      integer not null default 30000,
  hung_ms       integer not null default 60000,
  stopped_at    integer,
  heartbeats    integer not null default 0,
  gap_ms_max    integer not null default 0,
  claimed       integer not null default 0,
  done          integer not null default 0,
  failed        integer not null default 0,
  retried       integer not null default 0,
  leases_lost   integer not null default 0,
  running       integer not null default 0,
  loop_delay_ms integer not null default 0,
  memory_bytes  integer not null default 0,
  -- The stack of a main thread that a task has blocked, and for how long.
  blocked_ms    integer not null default 0,
  blocked_stack text,
  check ((status = 'stopped') = (stopped_at is not null))
) strict, without rowid;
create unique index holdfast_worker_slot on holdfast_worker (type, slot) where status in ('starting', 'running');
create index holdfast_worker_alive on holdfast_worker (type) where status <> 'stopped';
create index holdfast_worker_ended on holdfast_worker (stopped_at) where status = 'stopped';

create trigger holdfast_worker_fits before insert on holdfast_worker
when new.status in ('starting', 'running')
begin
  select raise(abort, 'holdfast: a copy into this database is incomplete')
   where exists (select 1 from holdfast_copy where ended_at is null);
  select raise(abort, 'holdfast: this type of worker was never declared')
   where not exists (select 1 from holdfast_worker_type where name = new.type);
  select raise(abort, 'holdfast: an active worker of a limited type needs a slot within its limit')
    from holdfast_worker_type
   where name = new.type and slots is not null and (new.slot is null or new.slot not between 1 and slots);
  select raise(abort, 'holdfast: this type of worker has no slots')
    from holdfast_worker_type
   where name = new.type and slots is null and new.slot is not null;
end;

create trigger holdfast_worker_stays before update on holdfast_worker
when new.id <> old.id or new.type <> old.type or new.slot is not old.slot or new.instance <> old.instance
begin select raise(abort, 'holdfast: a row stays with its worker and its slot'); end;

create trigger holdfast_worker_moves before update of status on holdfast_worker
when old.status = 'starting' and new.status not in ('starting', 'running', 'stopping', 'stopped')
  or old.status = 'running' and new.status not in ('running', 'stopping', 'stopped')
  or old.status = 'stopping' and new.status not in ('stopping', 'stopped')
  or old.status = 'stopped' and new.status <> 'stopped'
begin select raise(abort, 'holdfast: a worker starts, runs, stops and is stopped, and never goes back'); end;

create trigger holdfast_worker_type_fits before update of slots on holdfast_worker_type
when exists (select 1 from holdfast_worker
              where type = new.name and status in ('starting', 'running')
                and (slot is null) <> (new.slots is null)
                 or type = new.name and status in ('starting', 'running') and slot > new.slots)
begin select raise(abort, 'holdfast: an active worker does not fit the new limit of its type'); end;

create trigger holdfast_worker_type_instance before update of instance on holdfast_worker_type
when new.instance < old.instance
begin select raise(abort, 'holdfast: an instance number never goes down'); end;

create trigger holdfast_worker_type_name before update of name on holdfast_worker_type
when new.name <> old.name
begin select raise(abort, 'holdfast: a type keeps its name'); end;

create trigger holdfast_worker_type_is_used before delete on holdfast_worker_type
when exists (select 1 from holdfast_worker where type = old.name and status in ('starting', 'running'))
begin select raise(abort, 'holdfast: the type has active workers'); end;

-- Running workers, and those that ended recently. "leases" is what each holds at this instant.
create view holdfast_workers as
select w.id, w.type, w.slot, w.status, w.reason, w.desired_state, w.hostname, w.pid, w.version, w.queues,
       w.concurrency, coalesce(l.leases, 0) as leases, w.claimed, w.done, w.failed, w.retried, w.leases_lost,
       strftime('%Y-%m-%dT%H:%M:%fZ', w.started_at / 1000.0, 'unixepoch') as started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', w.heartbeat_at / 1000.0, 'unixepoch') as heartbeat_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', w.stopped_at / 1000.0, 'unixepoch') as stopped_at,
       case when w.stopped_at is null
            then cast((julianday('now') - 2440587.5) * 86400000 as integer) - w.heartbeat_at end as heartbeat_age_ms
  from holdfast_worker w
  left join (select locked_by, count(*) as leases
               from holdfast_lease
              group by locked_by) l on l.locked_by = w.id;

-- The builds that enqueue jobs.
create table holdfast_enqueuer (
  version       text    not null primary key check (length(version) between 1 and 128),
  first_at      integer not null,
  last_at       integer not null
) strict, without rowid;

-- Standbys, and programs that acquire leases through SQL or HTTP: for people to see.
create table holdfast_unregistered_worker (
  id            text    not null primary key check (length(id) between 1 and 255),
  kind          text    not null check (kind in ('standby', 'leases')),
  type          text,
  hostname      text,
  pid           integer,
  version       text,
  queues        text    not null,
  tasks         text,
  started_at    integer not null,
  heartbeat_at  integer not null
) strict, without rowid;

-- ── Steps and events ─────────────────────────────────────────────────────────────────────────────
-- Completed steps are saved, so a job resumes after a crash without repeating them.

create table holdfast_step (
  job_id        text    not null,
  name          text    not null check (length(name) between 1 and 128),
  occurrence    integer not null check (occurrence >= 1),
  position      integer not null check (position >= 0),
  kind          text    not null check (kind in ('step', 'effect', 'commit', 'sleep', 'event', 'call')),
  status        text    not null check (status in ('begun', 'done', 'failed', 'doubt')),
  epoch         integer not null check (epoch >= 1),
  begun_at      integer not null,
  ended_at      integer,
  result        text,
  check ((status = 'begun') = (ended_at is null)),
  primary key (job_id, name, occurrence)
) strict, without rowid;
create index holdfast_step_doubt on holdfast_step (begun_at) where status = 'doubt';

create trigger holdfast_step_stays before update on holdfast_step
when old.status = 'done' or new.epoch < old.epoch
begin select raise(abort, 'holdfast: a step that is done stays as it is, and an epoch never goes down'); end;

create table holdfast_event (
  name          text    not null,
  event_key     text    not null,
  awaited       integer not null default 0,
  payload       text,
  emitted_at    integer,
  primary key (name, event_key)
) strict, without rowid;

create trigger holdfast_event_is_said_once before update on holdfast_event
when old.name <> '@job' and old.emitted_at is not null
 and (new.payload is not old.payload or new.emitted_at is not old.emitted_at)
begin select raise(abort, 'holdfast: what an event said stands'); end;

create index holdfast_event_said on holdfast_event (emitted_at) where emitted_at is not null;

create table holdfast_wait (
  job_id        text    not null,
  name          text    not null,
  event_key     text    not null,
  primary key (job_id, name, event_key)
) strict, without rowid;
create index holdfast_wait_event on holdfast_wait (name, event_key);

-- ── Reports ──────────────────────────────────────────────────────────────────────────────────────
-- Progress, log lines and reports that a running job emits, numbered per job.

create table holdfast_report (
  job_id        text    not null,
  seq           integer not null check (seq >= 1),
  epoch         integer not null check (epoch >= 1),
  kind          text    not null check (kind in ('progress', 'log', 'report', 'dropped')),
  name          text    check (length(name) between 1 and 128),
  at            integer not null,
  data          text,
  check ((kind = 'report') = (name is not null)),
  primary key (job_id, seq)
) strict, without rowid;

create trigger holdfast_report_is_written_once before update on holdfast_report
begin select raise(abort, 'holdfast: a report is written once and never updated'); end;

-- ── Schedules ────────────────────────────────────────────────────────────────────────────────────
-- next_at is the tick that is handled next. A scheduler moves it, writes the run of the tick and
-- enqueues its job in one transaction. The key of schedule_run allows one run of a tick, even if
-- next_at was set back.

create table holdfast_schedule (
  name          text    not null primary key check (length(name) between 1 and 128),
  task          text    not null check (length(task) between 1 and 128),
  payload       text    not null,
  options       text    not null,
  cron          text    check (length(cron) between 1 and 256),
  time_zone     text    check (length(time_zone) between 1 and 64),
  every_ms      integer check (every_ms >= 1000),
  offset_ms     integer check (offset_ms >= 0 and offset_ms < every_ms),
  missed        text    not null check (missed in ('skip', 'once', 'all')),
  missed_limit  integer not null check (missed_limit between 1 and 1000),
  overlap       text    not null check (overlap in ('allow', 'skip', 'queue')),
  description   text,
  next_at       integer,
  since_at      integer not null,
  last_at       integer,
  paused_at     integer,
  paused_by     text    check ((paused_at is null) = (paused_by is null)),
  declared_by   text,
  declared      text    check ((declared_by is null) = (declared is null)),
  revision      integer not null check (revision >= 1),
  created_at    integer not null,
  updated_at    integer not null,
  missed_count  integer not null check (missed_count >= 0),
  queued_count  integer not null check (queued_count >= 0),
  error         text,
  error_at      integer,
  check ((cron is null) = (every_ms is not null)),
  check ((cron is null) = (time_zone is null)),
  check ((every_ms is null) = (offset_ms is null))
) strict, without rowid;
create index holdfast_schedule_next on holdfast_schedule (next_at)
  where paused_at is null and next_at is not null;
create index holdfast_schedule_queued on holdfast_schedule (name) where queued_count > 0;
create index holdfast_schedule_declared on holdfast_schedule (declared_by) where declared_by is not null;

create table holdfast_schedule_run (
  schedule      text    not null,
  tick          integer not null,
  is_manual     integer not null check (is_manual in (0, 1)),
  outcome       text    not null check (outcome in ('enqueued', 'joined', 'queued', 'skipped')),
  job_id        text    check ((job_id is null) = (outcome in ('queued', 'skipped'))),
  at            integer not null,
  -- 0: its job is known to have ended, or it has none. A tick that must not overlap looks at the others alone.
  is_open       integer not null default 1 check (is_open in (0, 1)),
  primary key (schedule, tick, is_manual)
) strict, without rowid;
create index holdfast_schedule_run_job on holdfast_schedule_run (job_id) where job_id is not null;
create index holdfast_schedule_run_queued on holdfast_schedule_run (schedule, tick) where outcome = 'queued';
create index holdfast_schedule_run_open on holdfast_schedule_run (schedule, tick)
  where is_open = 1 and job_id is not null;

-- ── Flows and batches ────────────────────────────────────────────────────────────────────────────
-- Jobs that wait for the ends of other jobs.

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

-- ── Bulk actions ─────────────────────────────────────────────────────────────────────────────────
-- A change of all jobs that match a filter. Any process carries it out, chunk by chunk: the row is locked for
-- each chunk, and (walk, before_id) says where the next one begins. "carrier" only keeps others from trying.

create table holdfast_bulk_action (
  id            text    not null primary key,
  action        text    not null check (action in ('retry', 'cancel', 'delete', 'move', 'priority')),
  filter        text    not null,
  terms         text    not null,
  dry_run       integer not null check (dry_run in (0, 1)),
  actor         text    not null,
  reason        text,
  trace_id      text,
  status        text    not null check (status in ('running', 'done', 'stopped', 'failed')),
  walk          text    not null,
  before_id     text,
  looked        integer not null default 0 check (looked >= 0),
  matched       integer not null default 0 check (matched >= 0),
  changed       integer not null default 0 check (changed >= 0),
  refused       integer not null default 0 check (refused >= 0),
  sample        text    not null,
  refusals      text    not null,
  error         text,
  carrier       text,
  created_at    integer not null,
  changed_at    integer not null,
  ended_at      integer check ((status = 'running') = (ended_at is null))
) strict, without rowid;
create index holdfast_bulk_action_open on holdfast_bulk_action (id) where ended_at is null;

-- ── Workflows ────────────────────────────────────────────────────────────────────────────────────
-- Declarations, and the items that move through them. The database checks every move against the
-- declaration and writes the audit line itself, so SQL typed by hand cannot go around either.

create table holdfast_workflow (
  name          text    not null primary key check (length(name) between 1 and 128),
  version       integer not null check (version >= 1),
  -- The workflow of the parents of its items. Its own name: a parent is optional.
  parent        text,
  keep_ms       integer check (keep_ms >= 0),
  declared_at   integer not null,
  declaration   text    not null
) strict, without rowid;

create table holdfast_workflow_type (
  workflow      text    not null references holdfast_workflow (name),
  name          text    not null check (length(name) between 1 and 128),
  -- 0: only ended items have it; a new item cannot.
  is_declared   integer not null check (is_declared in (0, 1)),
  primary key (workflow, name)
) strict, without rowid;

create table holdfast_workflow_state (
  workflow      text    not null references holdfast_workflow (name),
  name          text    not null check (length(name) between 1 and 128),
  is_initial    integer not null check (is_initial in (0, 1)),
  is_final      integer not null check (is_final in (0, 1)),
  primary key (workflow, name)
) strict, without rowid;

create table holdfast_workflow_move (
  workflow      text    not null,
  from_state    text    not null,
  to_state      text    not null,
  name          text    not null check (length(name) between 1 and 128),
  primary key (workflow, from_state, to_state, name),
  foreign key (workflow, from_state) references holdfast_workflow_state (workflow, name),
  foreign key (workflow, to_state) references holdfast_workflow_state (workflow, name)
) strict, without rowid;

create table holdfast_item (
  id            text    not null primary key,
  workflow      text    not null,
  type          text    not null,
  tenant        text    not null check (length(tenant) between 1 and 128),
  identifier    text    not null check (length(identifier) between 1 and 256),
  parent_id     text    references holdfast_item (id),
  root_id       text    not null,
  depth         integer not null check (depth between 0 and 7),
  status        text    not null,
  data          text    not null,
  revision      integer not null check (revision >= 1),
  created_at    integer not null,
  updated_at    integer not null,
  entered_at    integer not null,
  audit_seq     integer not null check (audit_seq >= 1),
  audit_hash    text    not null check (length(audit_hash) = 64),
  -- The last change. The database writes the audit line from these columns.
  change_id     text    not null,
  actor         text    not null,
  action        text    not null check (action in ('start', 'import', 'move', 'update')),
  move          text,
  reason        text,
  lock_wait_us  integer,
  trace_id      text,
  jobs          text    not null,
  data_hash     text    not null,
  check (parent_id <> id),
  check ((parent_id is null) = (root_id = id)),
  check ((parent_id is null) = (depth = 0)),
  check (created_at <= entered_at and entered_at <= updated_at),
  check ((action = 'move') = (move is not null)),
  foreign key (workflow, type) references holdfast_workflow_type (workflow, name),
  foreign key (workflow, status) references holdfast_workflow_state (workflow, name)
) strict;
create index holdfast_item_parent on holdfast_item (parent_id, status, updated_at);
create index holdfast_item_identifier on holdfast_item (identifier, tenant, status);
create index holdfast_item_status on holdfast_item (id, status);
create index holdfast_item_root on holdfast_item (root_id, depth);
-- Lists are newest first, that is, by id.
create index holdfast_item_children on holdfast_item (parent_id, id);
create index holdfast_item_list on holdfast_item (workflow, id);
create index holdfast_item_list_status on holdfast_item (workflow, status, id);
create index holdfast_item_list_tenant on holdfast_item (workflow, tenant, id);
create index holdfast_item_list_tenant_status on holdfast_item (workflow, tenant, status, id);
create index holdfast_item_over on holdfast_item (workflow, status, updated_at) where depth = 0;

create table holdfast_item_progress (
  item_id       text    not null,
  workflow      text    not null,
  status        text    not null,
  children      integer not null check (children >= 0),
  primary key (item_id, workflow, status)
) strict, without rowid;

create table holdfast_item_due (
  item_id       text    not null,
  reason        text    not null check (reason in ('limit', 'jobs')),
  workflow      text    not null,
  -- When the item entered the state that this row is about.
  entered_at    integer not null,
  due_at        integer not null,
  primary key (item_id, reason)
) strict, without rowid;
create index holdfast_item_due_at on holdfast_item_due (workflow, due_at);

create table holdfast_item_job (
  job_id        text    not null primary key,
  item_id       text    not null,
  status        text
) strict, without rowid;
create index holdfast_item_job_item on holdfast_item_job (item_id);

create table holdfast_item_audit (
  item_id       text    not null,
  seq           integer not null check (seq >= 1),
  change_id     text    not null,
  at            integer not null,
  actor         text    not null,
  action        text    not null check (action in ('start', 'import', 'move', 'update')),
  move          text,
  old_status    text,
  new_status    text    not null,
  revision      integer not null,
  reason        text,
  lock_wait_us  integer,
  trace_id      text,
  jobs          text    not null,
  data_hash     text    not null,
  previous_hash text    not null,
  hash          text    not null,
  primary key (item_id, seq)
) strict, without rowid;
create index holdfast_item_audit_change on holdfast_item_audit (change_id);

-- Items that retention is deleting at the moment.
create table holdfast_item_pruning (item_id text not null primary key) strict, without rowid;

-- SQLite checks foreign keys only for connections that ask for it, so a trigger repeats them.
create trigger holdfast_item_fits before insert on holdfast_item
begin
  -- "replace" deletes the old row without firing the delete trigger, so it is refused here.
  select raise(abort, 'holdfast: items and their audit are deleted by their retention only')
   where exists (select 1 from holdfast_item where id = new.id);
  select raise(abort, 'holdfast: the workflow declares no such type')
   where not exists (select 1 from holdfast_copy where ended_at is null)
     and not exists (select 1 from holdfast_workflow_type
                      where workflow = new.workflow and name = new.type and is_declared = 1);
  select raise(abort, 'holdfast: an item begins in the initial state of its workflow, or is imported into a declared one, at revision 1')
   where not exists (select 1 from holdfast_copy where ended_at is null)
     and (new.revision <> 1 or new.audit_seq <> 1 or new.action not in ('start', 'import')
          or not exists (select 1 from holdfast_workflow_state
                          where workflow = new.workflow and name = new.status
                            and (is_initial = 1 or new.action = 'import')));
end;

create trigger holdfast_item_needs_parent before insert on holdfast_item
when new.parent_id is null and not exists (select 1 from holdfast_copy where ended_at is null)
begin
  select raise(abort, 'holdfast: an item of this workflow needs a parent')
    from holdfast_workflow where name = new.workflow and parent <> name;
end;

create trigger holdfast_item_fits_parent before insert on holdfast_item
when new.parent_id is not null and not exists (select 1 from holdfast_copy where ended_at is null)
begin
  select raise(abort, 'holdfast: there is no such parent')
   where not exists (select 1 from holdfast_item where id = new.parent_id);
  select raise(abort, 'holdfast: the parent is of another workflow than declared')
    from holdfast_item above, holdfast_workflow w
   where above.id = new.parent_id and w.name = new.workflow and above.workflow is not w.parent;
  select raise(abort, 'holdfast: an item stands below its parent')
    from holdfast_item above
   where above.id = new.parent_id and (above.root_id <> new.root_id or above.depth + 1 <> new.depth);
  select raise(abort, 'holdfast: the parent has ended')
    from holdfast_item above
    join holdfast_workflow_state s on s.workflow = above.workflow and s.name = above.status
   where above.id = new.parent_id and s.is_final = 1
     and not (new.action = 'import' and exists (
       select 1 from holdfast_workflow_state e
        where e.workflow = new.workflow and e.name = new.status and e.is_final = 1));
  select raise(abort, 'holdfast: a parent is never behind its children')
    from holdfast_item above
   where above.id = new.parent_id and above.updated_at < new.updated_at;
end;

create trigger holdfast_item_is_started after insert on holdfast_item
when not exists (select 1 from holdfast_copy where ended_at is null)
begin
  insert into holdfast_item_audit
         (item_id, seq, at, old_status, new_status, revision, previous_hash, hash,
          change_id, actor, action, move, reason, lock_wait_us, trace_id, jobs, data_hash)
  values (new.id, new.audit_seq, new.updated_at, null, new.status, new.revision,
          '0000000000000000000000000000000000000000000000000000000000000000', new.audit_hash,
          new.change_id, new.actor, new.action, new.move, new.reason, new.lock_wait_us, new.trace_id,
          new.jobs, new.data_hash);
end;

create trigger holdfast_item_is_counted after insert on holdfast_item
when new.parent_id is not null and not exists (select 1 from holdfast_copy where ended_at is null)
begin
  insert into holdfast_item_progress (item_id, workflow, status, children)
  values (new.parent_id, new.workflow, new.status, 1)
      on conflict (item_id, workflow, status) do update set children = children + 1;
end;

create trigger holdfast_item_stays before update on holdfast_item
when (new.id, new.workflow, new.type, new.tenant, new.identifier, new.parent_id, new.root_id, new.depth,
      new.created_at) is not
     (old.id, old.workflow, old.type, old.tenant, old.identifier, old.parent_id, old.root_id, old.depth,
      old.created_at)
begin select raise(abort, 'holdfast: an item keeps its workflow, type, tenant, identifier and parent'); end;

create trigger holdfast_item_counts before update on holdfast_item
when new.revision <> old.revision + 1 or new.updated_at < old.updated_at
begin select raise(abort, 'holdfast: a revision goes up by one with every change, and time does not go back'); end;

create trigger holdfast_item_is_audited before update on holdfast_item
when new.audit_seq not in (old.audit_seq, old.audit_seq + 1)
  or new.audit_seq = old.audit_seq and
      (new.status, new.data, new.entered_at, new.audit_hash, new.change_id, new.actor, new.action, new.move,
       new.reason, new.lock_wait_us, new.trace_id, new.jobs, new.data_hash) is not
      (old.status, old.data, old.entered_at, old.audit_hash, old.change_id, old.actor, old.action, old.move,
       old.reason, old.lock_wait_us, old.trace_id, old.jobs, old.data_hash)
begin select raise(abort, 'holdfast: every change of an item leaves one line in its audit'); end;

create trigger holdfast_item_moves before update on holdfast_item
when new.audit_seq <> old.audit_seq
begin
  select raise(abort, 'holdfast: the workflow declares no such move')
   where new.action in ('start', 'import') or new.action = 'update' and new.status <> old.status
      or new.action = 'move' and not exists (
         select 1 from holdfast_workflow_move
          where workflow = new.workflow and from_state = old.status and to_state = new.status and name = new.move);
  select raise(abort, 'holdfast: an item is in a state since the move that brought it there')
   where new.action = 'update' and new.entered_at <> old.entered_at
      or new.action = 'move' and (new.entered_at <> new.updated_at or new.entered_at <= old.entered_at);
end;

create trigger holdfast_item_follows before update on holdfast_item
when new.parent_id is not null and exists (
  select 1 from holdfast_item above where above.id = new.parent_id and above.updated_at < new.updated_at)
begin select raise(abort, 'holdfast: a parent is never behind its children'); end;

create trigger holdfast_item_is_told after update on holdfast_item
when new.audit_seq <> old.audit_seq
begin
  insert into holdfast_item_audit
         (item_id, seq, at, old_status, new_status, revision, previous_hash, hash,
          change_id, actor, action, move, reason, lock_wait_us, trace_id, jobs, data_hash)
  values (new.id, new.audit_seq, new.updated_at, old.status, new.status, new.revision,
          old.audit_hash, new.audit_hash,
          new.change_id, new.actor, new.action, new.move, new.reason, new.lock_wait_us, new.trace_id,
          new.jobs, new.data_hash);
end;

create trigger holdfast_item_is_recounted after update of status on holdfast_item
when new.parent_id is not null and new.status <> old.status
begin
  update holdfast_item_progress set children = children - 1
   where item_id = old.parent_id and workflow = old.workflow and status = old.status;
  insert into holdfast_item_progress (item_id, workflow, status, children)
  values (new.parent_id, new.workflow, new.status, 1)
      on conflict (item_id, workflow, status) do update set children = children + 1;
end;

create trigger holdfast_item_is_let_go before insert on holdfast_item_pruning
begin
  select raise(abort, 'holdfast: only what has ended is deleted, and nothing of a workflow that keeps its items for ever')
   where not exists (
     select 1
       from holdfast_item i
       join holdfast_workflow_state s on s.workflow = i.workflow and s.name = i.status
       join holdfast_item top on top.id = i.root_id
       join holdfast_workflow w on w.name = top.workflow
      where i.id = new.item_id and s.is_final = 1 and w.keep_ms is not null);
end;

create trigger holdfast_item_is_kept before delete on holdfast_item
when not exists (select 1 from holdfast_item_pruning where item_id = old.id)
begin select raise(abort, 'holdfast: items and their audit are deleted by their retention only'); end;

create trigger holdfast_item_is_discounted after delete on holdfast_item
when old.parent_id is not null
begin
  update holdfast_item_progress set children = children - 1
   where item_id = old.parent_id and workflow = old.workflow and status = old.status;
end;

create trigger holdfast_item_audit_is_kept before delete on holdfast_item_audit
when not exists (select 1 from holdfast_item_pruning where item_id = old.item_id)
begin select raise(abort, 'holdfast: items and their audit are deleted by their retention only'); end;

create trigger holdfast_item_audit_stays before update on holdfast_item_audit
begin select raise(abort, 'holdfast: what is in the audit stays as it is'); end;

create trigger holdfast_item_audit_is_told before insert on holdfast_item_audit
begin
  select raise(abort, 'holdfast: the audit is written by the database, with the change that it tells of')
   where exists (select 1 from holdfast_item_audit where item_id = new.item_id and seq = new.seq)
      or not exists (select 1 from holdfast_copy where ended_at is null) and not exists (select 1 from holdfast_item
                      where id = new.item_id and audit_seq = new.seq and audit_hash = new.hash
                        and status = new.new_status and revision = new.revision);
end;

-- ── Locks ────────────────────────────────────────────────────────────────────────────────────────
-- A row stays when its lock is released, because the fencing token must never go down.

create table holdfast_lock (
  name          text    not null primary key check (length(name) between 1 and 255),
  token         integer not null check (token >= 1),
  holder        text,
  owner         text    not null,
  trace         text,
  acquired_at   integer not null,
  expires_at    integer not null,
  next_holder   text,
  next_until    integer,
  check ((next_holder is null) = (next_until is null))
) strict, without rowid;

create trigger holdfast_lock_token_never_falls before update of token on holdfast_lock
when new.token < old.token
begin select raise(abort, 'holdfast: the token of a lock never goes down'); end;

create trigger holdfast_lock_name_stays before update of name on holdfast_lock
when new.name <> old.name
begin select raise(abort, 'holdfast: a row stays with its lock'); end;

create table holdfast_lock_stat (
  minute        integer not null check (minute % 60000 = 0),
  type          text    not null check (length(type) between 1 and 255),
  source        text    not null,
  acquisitions  integer not null check (acquisitions >= 0),
  timeouts      integer not null check (timeouts >= 0),
  wait_ms_sum   integer not null check (wait_ms_sum >= 0),
  held_ms_max   integer not null check (held_ms_max >= 0),
  waits         text    not null,
  primary key (minute, type, source)
) strict, without rowid;

-- What one process waits for, while it waits, and what it gave up within the last hour: one row for each key.
create table holdfast_lock_wait (
  name          text    not null,
  source        text    not null,
  owner         text    not null,
  waiting       integer not null check (waiting >= 0),
  since_at      integer not null,
  timeouts      integer not null check (timeouts >= 0),
  seen_at       integer not null,
  primary key (name, source)
) strict, without rowid;

-- ── Audit of operators ───────────────────────────────────────────────────────────────────────────
-- Each line contains the hash of the line before. audit_head is the end of that chain, and the
-- position up to which retention has deleted it.

create table holdfast_audit (
  id            text    not null primary key,
  at            integer not null,
  actor         text    not null,
  action        text    not null,
  subject       text    not null,
  detail        text,
  seq           integer check (seq >= 1),
  old_status    text,
  new_status    text,
  reason        text,
  trace_id      text,
  previous_hash text,
  hash          text
) strict, without rowid;

create unique index holdfast_audit_seq on holdfast_audit (seq);
create index holdfast_audit_subject on holdfast_audit (subject, seq);

create table holdfast_audit_head (
  id            integer not null primary key check (id = 1),
  seq           integer not null,
  hash          text    not null,
  pruned_seq    integer not null check (pruned_seq between 0 and seq),
  pruned_hash   text    not null
) strict;
insert into holdfast_audit_head (id, seq, hash, pruned_seq, pruned_hash)
values (1, 0, '0000000000000000000000000000000000000000000000000000000000000000', 0,
           '0000000000000000000000000000000000000000000000000000000000000000');

-- "replace" deletes without firing the delete trigger, so the insert trigger refuses it.
create trigger holdfast_audit_follows before insert on holdfast_audit
begin
  select raise(abort, 'holdfast: what is in the audit stays as it is')
   where exists (select 1 from holdfast_audit where id = new.id or seq = new.seq);
  select raise(abort, 'holdfast: a line of the audit follows the one before')
    from holdfast_audit_head
   where new.seq is not seq + 1 or new.previous_hash is not hash or new.hash is null;
end;

create trigger holdfast_audit_is_counted after insert on holdfast_audit
begin update holdfast_audit_head set seq = new.seq, hash = new.hash; end;

create trigger holdfast_audit_stays before update on holdfast_audit
begin select raise(abort, 'holdfast: what is in the audit stays as it is'); end;

create trigger holdfast_audit_is_kept before delete on holdfast_audit
when not exists (select 1 from holdfast_audit_head where pruned_seq >= old.seq)
begin select raise(abort, 'holdfast: the audit is deleted by its retention only'); end;

-- The head moves only to the line that follows it. A copy continues where retention cut the audit of its
-- source; the line about that cut comes with it.
create trigger holdfast_audit_head_grows before update on holdfast_audit_head
when (new.seq <> old.seq or new.hash <> old.hash or new.pruned_seq < old.pruned_seq)
  and not (new.pruned_seq >= old.pruned_seq and new.seq = old.seq + 1
           and exists (select 1 from holdfast_audit
                        where seq = new.seq and hash = new.hash and previous_hash = old.hash))
  and not (exists (select 1 from holdfast_copy where ended_at is null)
           and old.seq = 0 and new.seq = new.pruned_seq and new.hash = new.pruned_hash)
begin select raise(abort, 'holdfast: the audit grows line by line'); end;

create trigger holdfast_audit_head_is_pruned before update on holdfast_audit_head
when (new.pruned_seq <> old.pruned_seq or new.pruned_hash <> old.pruned_hash)
 and (new.pruned_seq >= new.seq
      or not exists (select 1 from holdfast_audit
                      where seq = new.seq and action = 'audit.prune'
                        and detail = (old.pruned_seq + 1) || ' to ' || new.pruned_seq || ', hash ' || new.pruned_hash))
 and not (exists (select 1 from holdfast_copy where ended_at is null)
           and old.seq = 0 and new.seq = new.pruned_seq and new.hash = new.pruned_hash)
begin select raise(abort, 'holdfast: the audit is pruned by a line that names the range and its last hash'); end;

create trigger holdfast_audit_head_is_one before insert on holdfast_audit_head
begin select raise(abort, 'holdfast: the audit has one head'); end;

create trigger holdfast_audit_head_is_kept before delete on holdfast_audit_head
begin select raise(abort, 'holdfast: the audit has one head'); end;

-- How long a workflow keeps its items changes only together with an audit line about the change.
-- SQLite checks foreign keys only for connections that ask for it, so triggers protect the rows.
create trigger holdfast_workflow_keeps before update on holdfast_workflow
when new.name <> old.name
  or new.keep_ms is not old.keep_ms and not exists (
     select 1 from holdfast_audit
      where seq = (select seq from holdfast_audit_head) and action = 'workflow.keep'
        and subject = 'workflow ' || new.name
        and detail = coalesce(cast(old.keep_ms as text), 'forever') || ' to '
                  || coalesce(cast(new.keep_ms as text), 'forever'))
begin
  select raise(abort, 'holdfast: a workflow with items stays, and how long it keeps them changes with a line of the audit that says so');
end;

create trigger holdfast_workflow_is_not_replaced before insert on holdfast_workflow
when exists (select 1 from holdfast_workflow where name = new.name)
begin
  select raise(abort, 'holdfast: a workflow with items stays, and how long it keeps them changes with a line of the audit that says so');
end;

create trigger holdfast_workflow_is_kept before delete on holdfast_workflow
when exists (select 1 from holdfast_item where workflow = old.name)
begin
  select raise(abort, 'holdfast: a workflow with items stays, and how long it keeps them changes with a line of the audit that says so');
end;

-- ── Statistics ───────────────────────────────────────────────────────────────────────────────────
-- Jobs by state, and arrivals and ends in each minute, so that reading them does not count rows.

create table holdfast_counts (
  id            integer not null primary key check (id = 1),
  begun_at      integer not null,
  counted_at    integer not null,
  took_ms       integer not null check (took_ms >= 0),
  folded_until  integer not null check (folded_until % 60000 = 0)
) strict;
insert into holdfast_counts (id, begun_at, counted_at, took_ms, folded_until) values (1, 0, 0, 0, 0);

create table holdfast_depth (
  queue         text    not null,
  status        text    not null,
  jobs          integer not null check (jobs >= 0),
  oldest_at     integer,
  primary key (queue, status)
) strict, without rowid;

create table holdfast_minute_total (
  minute        integer not null check (minute % 60000 = 0),
  queue         text    not null,
  arrived       integer not null check (arrived >= 0),
  done          integer not null check (done >= 0),
  failed        integer not null check (failed >= 0),
  cancelled     integer not null check (cancelled >= 0),
  run_ms_sum    integer not null check (run_ms_sum >= 0),
  run_ms_max    integer not null check (run_ms_max >= 0),
  expired       integer not null default 0 check (expired >= 0),
  retried       integer not null default 0 check (retried >= 0),
  crashed       integer not null default 0 check (crashed >= 0),
  pickups       text,
  pending       integer check (pending >= 0),
  primary key (minute, queue)
) strict, without rowid;

-- span_total has longer steps than minute_total, and the sum of all queues (queue ''). Workers write
-- how long jobs waited into pickup_stat; the process that folds a minute adds that up.
create table holdfast_span_total (
  step_ms       integer not null,
  at            integer not null,
  queue         text    not null,
  arrived       integer not null check (arrived >= 0),
  done          integer not null check (done >= 0),
  failed        integer not null check (failed >= 0),
  cancelled     integer not null check (cancelled >= 0),
  expired       integer not null check (expired >= 0),
  retried       integer not null check (retried >= 0),
  crashed       integer not null check (crashed >= 0),
  run_ms_sum    integer not null check (run_ms_sum >= 0),
  run_ms_max    integer not null check (run_ms_max >= 0),
  pickups       text,
  pending       integer,
  check (at % step_ms = 0),
  primary key (step_ms, queue, at)
) strict, without rowid;

create table holdfast_pickup_stat (
  minute        integer not null,
  queue         text    not null,
  source        text    not null,
  waits         text    not null,
  check (minute % 60000 = 0),
  primary key (minute, queue, source)
) strict, without rowid;

create table holdfast_task_stat (
  hour          integer not null,
  task          text    not null,
  source        text    not null,
  build         text    not null,
  runs          text    not null,
  waits         text    not null,
  check (hour % 3600000 = 0),
  primary key (task, hour, source)
) strict, without rowid;
create index holdfast_task_stat_hour on holdfast_task_stat (hour);

-- What became of the jobs of a task in an hour, by the build of the worker that ended them (build '': none did).
-- The process that folds a minute adds it; the times of task_stat follow when the hour is over.
create table holdfast_task_total (
  hour          integer not null,
  task          text    not null,
  build         text    not null,
  done          integer not null check (done >= 0),
  failed        integer not null check (failed >= 0),
  cancelled     integer not null check (cancelled >= 0),
  expired       integer not null check (expired >= 0),
  retried       integer not null check (retried >= 0),
  crashed       integer not null check (crashed >= 0),
  runs          text,
  waits         text,
  check (hour % 3600000 = 0),
  primary key (hour, task, build)
) strict, without rowid;
create index holdfast_task_total_task on holdfast_task_total (task, hour);
create index holdfast_task_total_build on holdfast_task_total (build, hour);

create table holdfast_lock_span (
  at            integer not null,
  type          text    not null,
  acquisitions  integer not null check (acquisitions >= 0),
  timeouts      integer not null check (timeouts >= 0),
  wait_ms_sum   integer not null check (wait_ms_sum >= 0),
  held_ms_max   integer not null check (held_ms_max >= 0),
  waits         text    not null,
  check (at % 900000 = 0),
  primary key (at, type)
) strict, without rowid;

create table holdfast_build (
  version       text    not null check (length(version) between 1 and 128),
  first_at      integer not null,
  last_at       integer not null,
  primary key (version)
) strict, without rowid;
create index holdfast_build_first on holdfast_build (first_at);

-- ── Tasks ────────────────────────────────────────────────────────────────────────────────────────
-- What workers say about the tasks that they run: the JSON schema of the input, for forms.

create table holdfast_task (
  name          text    not null check (length(name) between 1 and 128),
  input_schema  text,
  version       text    not null,
  seen_at       integer not null,
  primary key (name)
) strict, without rowid;

-- ── Errors by kind ───────────────────────────────────────────────────────────────────────────────
-- Errors of one task with the same name, code and message, apart from numbers and names in it. The
-- process that folds a minute counts its errors.

create table holdfast_error_kind (
  id            text    not null check (length(id) = 32),
  task          text    not null,
  name          text    not null,
  code          text,
  message       text    not null,
  sample        text    not null,
  sample_job    text    not null,
  first_sample  text    not null,
  first_job     text    not null,
  state         text    not null check (state in ('open', 'resolved', 'muted')),
  first_at      integer not null,
  last_at       integer not null,
  first_build   text,
  builds        text    not null,
  failed        integer not null check (failed >= 0),
  retried       integer not null check (retried >= 0),
  changed_at    integer,
  changed_by    text,
  resolved_in   text,
  came_back_at  integer,
  primary key (id)
) strict, without rowid;
create index holdfast_error_kind_last on holdfast_error_kind (state, last_at);

create table holdfast_error_hour (
  kind_id       text    not null check (length(kind_id) = 32),
  hour          integer not null,
  build         text    not null,
  failed        integer not null check (failed >= 0),
  retried       integer not null check (retried >= 0),
  check (hour % 3600000 = 0),
  primary key (kind_id, hour, build)
) strict, without rowid;
create index holdfast_error_hour_at on holdfast_error_hour (hour);

-- The same by minute, for a day.
create table holdfast_error_minute (
  minute        integer not null check (minute % 60000 = 0),
  kind_id       text    not null check (length(kind_id) = 32),
  build         text    not null,
  failed        integer not null check (failed >= 0),
  retried       integer not null check (retried >= 0),
  primary key (minute, kind_id, build)
) strict, without rowid;

-- ── Alerts ───────────────────────────────────────────────────────────────────────────────────────
-- The unique index allows one open alert of a rule and subject, even if two processes raise it.

create table holdfast_alert (
  id            text    not null primary key check (length(id) = 36),
  rule          text    not null check (length(rule) between 1 and 128),
  subject       text    not null check (length(subject) <= 255),
  severity      text    not null check (severity in ('info', 'warning', 'critical')),
  status        text    not null check (status in ('pending', 'raised', 'resolved')),
  message       text    not null,
  facts         text    not null,
  change_id     text    not null check (length(change_id) = 36),
  since_at      integer not null,
  seen_at       integer not null,
  raised_at     integer check ((status = 'pending') = (raised_at is null)),
  resolved_at   integer check ((status = 'resolved') = (resolved_at is not null)),
  -- When its targets were last told that it is raised: what they were not told is not taken back.
  notified_at   integer,
  acknowledged_at integer,
  acknowledged_by text,
  silenced_until  integer,
  silenced_by   text,
  -- The reason of the last operator.
  note          text
) strict, without rowid;
create unique index holdfast_alert_open on holdfast_alert (rule, subject) where status <> 'resolved';
create index holdfast_alert_status on holdfast_alert (status, id);
create index holdfast_alert_ended on holdfast_alert (resolved_at) where resolved_at is not null;
create index holdfast_alert_silenced on holdfast_alert (silenced_until) where silenced_until is not null;

-- ── API tokens and idempotency keys ──────────────────────────────────────────────────────────────
-- Only the hash of a token is stored. A request row holds the response to an idempotency key.

create table holdfast_token (
  id            text    not null primary key check (length(id) = 36),
  name          text    not null check (length(name) between 1 and 128),
  role          text    not null check (role in ('viewer', 'operator')),
  hash          text    not null unique check (length(hash) = 64),
  created_at    integer not null,
  expires_at    integer,
  revoked_at    integer,
  used_at       integer
) strict, without rowid;
create unique index holdfast_token_name on holdfast_token (name) where revoked_at is null;

create table holdfast_request (
  principal     text    not null,
  request_key   text    not null check (length(request_key) between 1 and 255),
  fingerprint   text    not null check (length(fingerprint) = 64),
  seed          text    not null,
  begun_at      integer not null,
  status        integer,
  body          text,
  primary key (principal, request_key)
) strict, without rowid;
create index holdfast_request_begun on holdfast_request (begun_at);

-- ── Sessions ─────────────────────────────────────────────────────────────────────────────────────
-- A person signs in with a token and gets a cookie; only the hash of its secret is stored. Without a
-- token_id, the session belongs to the token of the configuration, which is part of the hash.

create table holdfast_session (
  hash          text    not null check (length(hash) = 64),
  token_id      text,
  created_at    integer not null,
  expires_at    integer not null,
  primary key (hash)
) strict, without rowid;
create index holdfast_session_token on holdfast_session (token_id, created_at);
create index holdfast_session_expires on holdfast_session (expires_at);

-- ── Traces ───────────────────────────────────────────────────────────────────────────────────────
-- The trace that a job belongs to. Few jobs have one, so it is not a column of job.

create table holdfast_job_trace (
  job_id        text    not null primary key,
  traceparent   text    not null check (length(traceparent) between 1 and 255),
  tracestate    text
) strict, without rowid;

-- ── Copies ───────────────────────────────────────────────────────────────────────────────────────
-- The row of a copy from another database. While the copy is incomplete, triggers suspend the rules
-- about how items and audit lines come into being, because both arrive with their history. A copy
-- begins in an empty database only and never begins again, so no rule is suspended for data in use.

create table holdfast_copy (
  id            integer not null primary key check (id = 1),
  source        text    not null,
  fingerprint   text    not null check (length(fingerprint) = 64),
  begun_at      integer not null,
  ended_at      integer,
  batches       integer not null check (batches >= 0),
  progress      text    not null
) strict;

create trigger holdfast_copy_begins before insert on holdfast_copy
when exists (select 1 from holdfast_copy)
  or exists (select 1 from holdfast_job)
  or exists (select 1 from holdfast_item)
  or exists (select 1 from holdfast_item_audit)
  or exists (select 1 from holdfast_audit_head where seq > 0)
begin select raise(abort, 'holdfast: a copy begins in an empty database'); end;

create trigger holdfast_copy_stays before update on holdfast_copy
when old.ended_at is not null or new.id <> old.id or new.fingerprint <> old.fingerprint
begin select raise(abort, 'holdfast: a complete copy stays complete'); end;

create trigger holdfast_copy_is_kept before delete on holdfast_copy
begin select raise(abort, 'holdfast: the row of a copy is not deleted'); end;
