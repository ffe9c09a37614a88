-- The first version of the schema on PostgreSQL.
--
-- Frozen once it is released: a test pins its hash. To change the schema, add a file with the next number
-- beside it (see CONTRIBUTING.md).
--
-- "holdfast" before a dot stands for the schema, which has the name that the URL gives it. The runner
-- writes the real name, in double quotes.
--
-- Names and words compare as bytes (collate "C"), which is also the fastest order.
--
-- Names that end in _at are instants, in milliseconds since 1970; those that end in _ms are spans.
-- Limits of lengths and lists of words are literals here. A test compares them with src/core.

-- For triggers that refuse a change: the message is their argument.
create function holdfast.refuse() returns trigger language plpgsql as $$
begin raise exception using errcode = '23514', message = 'holdfast: ' || tg_argv[0]; end $$;

-- ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────
-- A job is written once, into "job". Exactly one of ready, waiting, lease and finished has a row
-- with its id: its state. These rows share the columns from id to max_attempts.

-- job and finished grow without end. They are partitioned by id (UUIDv7, so by time), and a week is dropped
-- at once; the default partition takes ids of clocks that were wrong.
create table holdfast.job (
  id            uuid    not null,
  queue         text    collate "C" not null check (length(queue) between 1 and 128),
  task          text    collate "C" not null check (length(task) between 1 and 128),
  payload       text    not null,
  rank          integer not null,
  max_attempts  integer not null check (max_attempts >= 1),
  job_key       text    collate "C",
  enqueued_at   bigint  not null check (enqueued_at > 0),
  primary key (id)
) partition by range (id);
create table holdfast.job_default partition of holdfast.job default;
create index job_by_key on holdfast.job (job_key, id) where job_key is not null;

-- Dead rows of a hot table cost every claim that reads past them, and every claim and every settlement
-- leaves one. So these tables are vacuumed early.
-- `lane` is the job's lane; if its task has a limit of its own, U+001F and the task's name follow.
-- `place` is the order in the lane: ready_at + rank * ageing. Without ageing a rank weighs 2^37 ms.
create table holdfast.ready (
  id            uuid    not null,
  queue         text    collate "C" not null,
  task          text    collate "C" not null,
  rank          integer not null,
  job_key       text    collate "C",
  epoch         integer not null check (epoch >= 0),
  attempts      integer not null check (attempts between 0 and max_attempts and attempts <= epoch),
  crashes       integer not null check (crashes between 0 and epoch),
  max_attempts  integer not null check (max_attempts >= 1),
  ready_at      bigint  not null check (ready_at > 0),
  lane          text    collate "C" not null default '',
  place         bigint  not null,
  start_by      bigint,
  check (attempts < max_attempts),
  primary key (queue, lane, place, id) include (ready_at) -- so that counts read the index alone
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
  autovacuum_vacuum_cost_delay = 0
);
create unique index ready_id on holdfast.ready (id);
create index ready_start_by on holdfast.ready (start_by) where start_by is not null;

-- `missing`: how many rows of dep the job has. A job with none left is released.
create table holdfast.waiting (
  id            uuid    not null,
  queue         text    collate "C" not null,
  task          text    collate "C" not null,
  rank          integer not null,
  job_key       text    collate "C",
  epoch         integer not null check (epoch >= 0),
  attempts      integer not null check (attempts between 0 and max_attempts and attempts <= epoch),
  crashes       integer not null check (crashes between 0 and epoch),
  max_attempts  integer not null check (max_attempts >= 1),
  status        text    collate "C" not null check (status in ('scheduled', 'waiting', 'retry')),
  due_at        bigint  check (due_at is not null or status = 'waiting'),
  lane          text    collate "C",
  start_by      bigint,
  missing       integer not null default 0 check (missing >= 0),
  check (attempts < max_attempts),
  primary key (id)
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
  autovacuum_vacuum_cost_delay = 0
);
create index waiting_due on holdfast.waiting (due_at) where due_at is not null;
create index waiting_start_by on holdfast.waiting (start_by) where start_by is not null;

-- `lane` is null if the queue had no rules at the claim. Concurrency is counted from these rows and from
-- nothing else.
create table holdfast.lease (
  id            uuid    not null,
  queue         text    collate "C" not null,
  task          text    collate "C" not null,
  rank          integer not null,
  job_key       text    collate "C",
  epoch         integer not null check (epoch >= 0),
  attempts      integer not null check (attempts between 0 and max_attempts and attempts <= epoch),
  crashes       integer not null check (crashes between 0 and epoch),
  max_attempts  integer not null check (max_attempts >= 1),
  locked_by     text    collate "C" not null check (length(locked_by) > 0),
  locked_until  bigint  not null check (locked_until > 0),
  claimed_at    bigint  not null,
  heartbeat_at  bigint  not null,
  cancel_requested_at bigint,
  claim_id      bigint,
  lane          text    collate "C",
  check (attempts >= 1),
  primary key (id)
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
  autovacuum_vacuum_cost_delay = 0
);
-- Leases are taken in about the order in which they end, so a BRIN index is enough to find the expired ones.
-- A B-tree would make every claim and every settlement a tenth slower.
create index lease_ends on holdfast.lease using brin (locked_until)
  with (pages_per_range = 16, autosummarize = on);
create index lease_lane on holdfast.lease (queue, lane) where lane is not null;

create table holdfast.finished (
  id            uuid    not null,
  queue         text    collate "C" not null,
  task          text    collate "C" not null,
  rank          integer not null,
  job_key       text    collate "C",
  epoch         integer not null check (epoch >= 0),
  attempts      integer not null check (attempts between 0 and max_attempts and attempts <= epoch),
  crashes       integer not null check (crashes between 0 and epoch),
  max_attempts  integer not null check (max_attempts >= 1),
  status        text    collate "C" not null check (status in ('done', 'failed', 'cancelled', 'expired')),
  worker        text    collate "C",
  started_at    bigint,
  finished_at   bigint  not null,
  result        text,
  error         text,
  error_kind    text    collate "C",
  lane          text    collate "C",
  check (status <> 'done' or attempts >= 1),
  primary key (id)
) partition by range (id);
create table holdfast.finished_default partition of holdfast.finished default;
create index finished_at on holdfast.finished using brin (finished_at) with (autosummarize = on);
create index finished_failed on holdfast.finished (id) where status = 'failed';
create index finished_cancelled on holdfast.finished (id) where status = 'cancelled';
create index finished_expired on holdfast.finished (id) where status = 'expired';
create index finished_ended on holdfast.finished (status, finished_at, id) where status <> 'done';
create index finished_kind on holdfast.finished (error_kind, id) where error_kind is not null;

create table holdfast.attempt (
  job_id        uuid    not null,
  epoch         integer not null check (epoch >= 1),
  attempt       integer not null check (attempt between 0 and epoch),
  worker        text    collate "C" not null,
  outcome       text    collate "C" not null
                check (outcome in ('retry', 'suspended', 'released', 'crashed', 'failed', 'cancelled')),
  started_at    bigint  not null,
  ended_at      bigint  not null,
  error         text,
  error_kind    text    collate "C",
  primary key (job_id, epoch)
);
-- Attempts end in about the order in which they are written.
create index attempt_ended on holdfast.attempt using brin (ended_at) with (autosummarize = on);

create table holdfast.job_key (
  task          text    collate "C" not null,
  job_key       text    collate "C" not null,
  job_id        uuid    not null unique,
  primary key (task, job_key)
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
  autovacuum_vacuum_cost_delay = 0
);

-- How long a job keeps its key after its end.
create table holdfast.kept_key (
  task          text    collate "C" not null,
  job_key       text    collate "C" not null,
  job_id        uuid    not null unique,
  keep_ms       bigint  not null check (keep_ms > 0),
  primary key (task, job_key)
);

-- A job is written once. Its queue and priority change while it is unclaimed, by an operator; its input
-- changes with a row in job_revision that keeps the old one, or while enqueueing again delays it.
-- A rerun keeps how the job had ended, and the steps that it takes back.
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

-- No operation of the library does this, and SQL typed by hand must not do it either.
-- Once for all rows of a statement, and always by index: a trigger for each row was half the cost of a
-- bulk insert.
create function holdfast.stand_once() returns trigger language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  if exists (select from entered e join holdfast.finished f on f.id = e.id) then
    raise exception using errcode = '23514',
      message = 'holdfast: the job has finished; only a retry or a rerun makes it pending again';
  end if;
  if exists (select from entered e join holdfast.lease l on l.id = e.id) then
    raise exception using errcode = '23514', message = 'holdfast: a worker holds the job';
  end if;
  return null;
end $$;

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

create trigger job_is_written_once before update on holdfast.job for each row
execute function holdfast.job_is_written_once();

create trigger finished_is_written_once before update on holdfast.finished for each row
execute function holdfast.refuse('a finished job is written once and never updated');

create trigger ready_epoch_never_falls before update on holdfast.ready for each row
when (new.epoch < old.epoch)
execute function holdfast.refuse('an epoch never goes down');

create trigger ready_id_stays before update on holdfast.ready for each row
when (new.id <> old.id)
execute function holdfast.refuse('a row stays with its job');

create trigger waiting_epoch_never_falls before update on holdfast.waiting for each row
when (new.epoch < old.epoch)
execute function holdfast.refuse('an epoch never goes down');

create trigger waiting_id_stays before update on holdfast.waiting for each row
when (new.id <> old.id)
execute function holdfast.refuse('a row stays with its job');

create trigger lease_epoch_never_falls before update on holdfast.lease for each row
when (new.epoch < old.epoch)
execute function holdfast.refuse('an epoch never goes down');

create trigger lease_id_stays before update on holdfast.lease for each row
when (new.id <> old.id)
execute function holdfast.refuse('a row stays with its job');

create trigger ready_stands_once after insert on holdfast.ready
referencing new table as entered for each statement
execute function holdfast.stand_once();

create trigger waiting_stands_once after insert on holdfast.waiting
referencing new table as entered for each statement
execute function holdfast.stand_once();

-- A job is looked up by its id in each of the state tables, and exactly one of them has it. With joins,
-- every engine reads one job by its id instead of building all jobs first. The library reads this view
-- itself. claimed_at and trace_id belong to the running attempt or to the last one.
create view holdfast.job_state as
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
       nullif(coalesce(split_part(r.lane, E'\x1f', 1), w.lane, l.lane, f.lane), '') as lane,
       coalesce(r.start_by, w.start_by) as start_by
  from holdfast.job j
  left join holdfast.ready r on r.id = j.id
  left join holdfast.waiting w on w.id = j.id
  left join holdfast.lease l on l.id = j.id
  left join holdfast.finished f on f.id = j.id
 where coalesce(r.id, w.id, l.id, f.id) is not null;

-- For people and tools.
create view holdfast.jobs as
select s.id, s.queue, s.task, s.status, -s.rank as priority, s.job_key, s.locked_by,
       to_timestamp(s.locked_until / 1000.0) as locked_until,
       s.attempts, s.max_attempts, s.crashes, s.epoch,
       to_timestamp(s.enqueued_at / 1000.0) as enqueued_at,
       to_timestamp(s.due_at / 1000.0) as due_at,
       to_timestamp(s.claimed_at / 1000.0) as claimed_at,
       to_timestamp(s.heartbeat_at / 1000.0) as heartbeat_at,
       to_timestamp(s.finished_at / 1000.0) as finished_at, s.trace_id,
       coalesce(s.error, (select a.error
                            from holdfast.attempt a
                           where a.job_id = s.id
                             and a.error is not null
                           order by a.epoch desc
                           limit 1)) as last_error
  from holdfast.job_state s;

-- All attempts of all jobs: the running one, and those after whose success a job ran again. Its times are
-- milliseconds.
create view holdfast.attempts as
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

-- Which worker holds which job. The next worker takes back an expired lease.
create view holdfast.leases as
select id, queue, task, job_key, locked_by, locked_by || '-' || id || '-' || attempts as trace_id,
       attempts as attempt, epoch,
       case when locked_until < (extract(epoch from clock_timestamp()) * 1000)::bigint then 'expired'
            else 'active' end as state,
       to_timestamp(claimed_at / 1000.0) as claimed_at,
       to_timestamp(heartbeat_at / 1000.0) as heartbeat_at,
       to_timestamp(locked_until / 1000.0) as locked_until,
       (extract(epoch from clock_timestamp()) * 1000)::bigint - claimed_at as held_ms,
       (extract(epoch from clock_timestamp()) * 1000)::bigint - heartbeat_at as heartbeat_age_ms,
       locked_until - (extract(epoch from clock_timestamp()) * 1000)::bigint as remaining_ms
  from holdfast.lease;

-- ── Lanes, limits and pauses ─────────────────────────────────────────────────────────────────────
-- A lane is the set of pending jobs of a queue that are subject to the same limits: those of one tenant,
-- for example. It has no row of its own: it is part of the key of `ready`, so that an enqueue takes no
-- lock that another enqueue or a claim waits for.

-- A queue has a row if it has settings. `governed`: claims must look at its rules, its lanes or its pause.
-- `paused_all`: it was paused together with all others. `let_through`: a JSON list of jobs that a claim
-- may take despite the pause.
create table holdfast.queue (
  name          text    collate "C" not null primary key check (length(name) between 1 and 128),
  governed      integer not null check (governed in (0, 1)),
  lanes         integer not null default 0 check (lanes in (0, 1)),
  paused_at     bigint,
  paused_by     text,
  pause_reason  text,
  paused_all    integer not null default 0 check (paused_all in (0, 1)),
  let_through   text,
  ageing_ms     bigint  check (ageing_ms > 0),
  revision      integer not null default 1 check (revision >= 1),
  updated_at    bigint  not null,
  check ((paused_at is null) = (paused_by is null)),
  check (let_through is null or paused_at is not null),
  check (paused_all = 0 or paused_at is not null),
  check (governed = 1 or (paused_at is null and lanes = 0))
);

-- A limit of the queue, of each of its lanes, of one lane, or of one task in the queue. At most rate_count
-- starts in rate_ms, or rate_burst at once. Only a lane has a pause here: that of a queue is in its row.
create table holdfast.queue_rule (
  queue         text    collate "C" not null,
  kind          text    collate "C" not null check (kind in ('queue', 'lanes', 'lane', 'task')),
  name          text    collate "C" not null check ((name = '') = (kind in ('queue', 'lanes'))),
  concurrency   integer check (concurrency >= 0),
  rate_count    integer check (rate_count >= 1),
  rate_ms       bigint  check (rate_ms >= 1),
  rate_burst    integer check (rate_burst >= 1),
  weight        integer check (weight between 1 and 1000),
  paused_at     bigint,
  paused_by     text,
  pause_reason  text,
  primary key (queue, kind, name),
  check ((rate_count is null) = (rate_ms is null) and (rate_count is null) = (rate_burst is null)),
  check ((paused_at is null) = (paused_by is null)),
  check (paused_at is null or kind = 'lane')
);

-- Claims that are subject to one limit lock its row, one after the other. Nothing is counted here:
-- `allowed_at` is the clock of the rate, in microseconds.
create table holdfast.gate (
  queue         text    collate "C" not null,
  kind          text    collate "C" not null check (kind in ('queue', 'lane', 'task')),
  name          text    collate "C" not null,
  allowed_at    bigint  not null default 0,
  primary key (queue, kind, name)
) with (fillfactor = 50);

-- ── Debounce and throttle ────────────────────────────────────────────────────────────────────────
-- The job that a key of debounce or throttle stands for, and until when.

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

-- ── Functions for triggers and for programs in other languages ───────────────────────────────────
-- They keep the promises of the store. Tests compare what they do to a job with what the store does, and
-- the texts of the two shared statements. If one of those changes, a new migration creates its function
-- again.
--
-- Each notifies the channel that is named after the schema, in the transaction of its caller: a
-- rollback wakes no worker.

create function holdfast.check_name(field text, value text, most integer) returns text
language plpgsql immutable as $$
begin
  if value is null or value = '' then
    raise exception using errcode = '22023', message = format('holdfast: %s must not be empty', field);
  elsif length(value) > most then
    raise exception using errcode = '22023',
      message = format('holdfast: %s has %s characters; at most %s are allowed', field, length(value), most);
  elsif value ~ '^\s|\s$|[[:cntrl:]]' or value is not nfc normalized then
    raise exception using errcode = '22023', message = format(
      'holdfast: %s must have no blank at its ends, no control character, and be in normal form C', field);
  elsif value ~ '[\u061C\u200B\u200E\u200F\u2028-\u202E\u2060-\u2064\u2066-\u2069\uFEFF]' then
    raise exception using errcode = '22023', message = format(
      'holdfast: %s must have no character that has no width or turns the direction of a text', field);
  end if;
  return value;
end $$;

create function holdfast.check_complete() returns void language plpgsql stable as $$
begin
  if exists (select from holdfast.copy where ended_at is null) then
    raise exception using errcode = '55000', message = 'holdfast: a copy into this database is incomplete';
  end if;
end $$;

create function holdfast.check_whole(field text, value bigint, lowest bigint, most bigint) returns bigint
language plpgsql immutable as $$
begin
  if value is null or value not between lowest and most then
    raise exception using errcode = '22023',
      message = format('holdfast: %s must be from %s to %s, not %s', field, lowest, most, value);
  end if;
  return value;
end $$;

-- A UUIDv7: the first 48 bits are the time.
create function holdfast.new_id() returns uuid language sql volatile as $$
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
              placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
      52, 1), 53, 1), 'hex')::uuid
$$;

-- The place of a job that becomes pending, for the functions; the library computes it itself.
create function holdfast.place(of_queue text, rank integer, at_ms bigint) returns bigint language sql stable as $$
  select at_ms + rank * coalesce((select q.ageing_ms from holdfast.queue q where q.name = of_queue), 137438953472)
$$;

create function holdfast.enqueue(
  task text,
  payload json default 'null',
  queue text default 'default',
  priority integer default 0,
  max_attempts integer default 3,
  key text default null,
  start_at timestamptz default null,
  delay interval default null,
  id uuid default null
) returns uuid language plpgsql as $$
#variable_conflict use_variable
declare
  job_id uuid := coalesce(id, holdfast.new_id());
  holder uuid;
  -- A key belongs to the name without the version, so two versions of a task share it.
  bare_name text := split_part(task, '@', 1);
  now_ms bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint;
  due_ms bigint := coalesce((extract(epoch from start_at) * 1000)::bigint,
                            now_ms + (extract(epoch from delay) * 1000)::bigint, now_ms);
begin
  perform holdfast.check_complete();
  perform holdfast.check_name('task', task, 128);
  if task !~ '^[^@]+(@[1-9]\d{0,5})?$' then
    raise exception using errcode = '22023', message =
      format('holdfast: ''%s'' is no task''s name: after ''@'' comes its version, a number from 1', task);
  end if;
  perform holdfast.check_name('queue', queue, 128);
  perform holdfast.check_whole('priority', priority, -1000000, 1000000);
  perform holdfast.check_whole('max_attempts', max_attempts, 1, 1000000);
  perform holdfast.check_whole('the payload''s bytes', octet_length(payload::text), 1, 262144);
  if exists (select from holdfast.job j where j.id = job_id) then
    return job_id; -- a repeated call changes nothing
  end if;
  if key is not null then
    perform holdfast.check_name('key', key, 256);
    loop
      insert into holdfast.job_key (task, job_key, job_id) values (bare_name, key, job_id) on conflict do nothing;
      select k.job_id into holder from holdfast.job_key k where k.task = bare_name and k.job_key = key;
      exit when holder is not null; -- null: the holder has just finished
    end loop;
    if holder <> job_id then return holder; end if;
    -- No other call can take the key now. Does a finished job still keep it?
    select k.job_id into holder
      from holdfast.kept_key k
      join holdfast.finished f on f.id = k.job_id
     where k.task = bare_name and k.job_key = key and f.finished_at + k.keep_ms > now_ms;
    if found then
      delete from holdfast.job_key k where k.job_id = job_id;
      return holder;
    end if;
  end if;
  insert into holdfast.job (id, queue, task, payload, rank, max_attempts, job_key, enqueued_at)
  values (job_id, queue, task, payload::text, -priority, max_attempts, key, now_ms);
  if due_ms > now_ms then
    insert into holdfast.waiting
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, status, due_at)
    values (job_id, queue, task, -priority, key, 0, 0, 0, max_attempts, 'scheduled', due_ms);
    perform pg_notify(btrim('holdfast.', '".'), 'sql:waiting');
  else
    insert into holdfast.ready
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ready_at, place)
    values (job_id, queue, task, -priority, key, 0, 0, 0, max_attempts, now_ms,
            holdfast.place(queue, -priority, now_ms));
    perform pg_notify(btrim('holdfast.', '".'), 'sql:pending:' || queue);
  end if;
  return job_id;
end $$;

-- Settles and claims with the statement of the workers, but returns one row for each job.
create function holdfast.turn(
  uuid[], text, integer[], text[], bigint, text[], text[], integer, bigint, bigint
) returns table (
  id uuid, epoch integer, queue text, task text, payload text, attempt integer, max_attempts integer, rank integer,
  at_ms bigint, until_ms bigint
) language sql volatile as $$
with clock as materialized (
  select coalesce($5::bigint, (extract(epoch from statement_timestamp()) * 1000)::bigint) as now
),
ours as (
  delete from holdfast.lease
   where id = any($1::uuid[])
     and locked_by = $2
     and ((id, epoch) in (select f.id, f.epoch
                            from unnest($1::uuid[], $3::int[]) as f (id, epoch))) is true
  returning *
),
ended as (
  insert into holdfast.finished
         (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts,
          status, worker, started_at, finished_at, result, lane)
  select o.id, o.queue, o.task, o.rank, o.job_key, o.epoch, o.attempts, o.crashes, o.max_attempts,
         case when o.cancel_requested_at is null then 'done' else 'cancelled' end,
         o.locked_by, o.claimed_at, (select now from clock),
         case when o.cancel_requested_at is null then i.result end, nullif(o.lane, '')
    from ours o
    join unnest($1::uuid[], $3::int[], $4::text[]) as i (id, epoch, result)
      on i.id = o.id and i.epoch = o.epoch
),
freed as (
  delete from holdfast.job_key k
   using ours o
   where o.job_key is not null
     and k.job_id = o.id
),
governed as materialized (
  select name
    from holdfast.queue
   where name = any($6::text[])
     and governed = 1
),
taken as (
  delete from holdfast.ready
   where ctid = any(array(select p.ctid
                            from unnest($6::text[]) as q (name)
                           cross join lateral (
                                 select ctid, place, id
                                   from holdfast.ready
                                  where queue = q.name
                                    and lane = ''
                                    and ($7::text[] is null or task = any($7::text[]))
                                    and (start_by is null or start_by > (select now from clock))
                                  order by place, id
                                  limit $8
                                    for update skip locked) p
                           where not exists (select from governed g where g.name = q.name)
                           order by p.place, p.id
                           limit $8))
  returning id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ready_at
),
leased as (
  insert into holdfast.lease
         (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts,
          locked_by, locked_until, claimed_at, heartbeat_at, claim_id)
  select id, queue, task, rank, job_key, epoch + 1, attempts + 1, crashes, max_attempts,
         $2, c.now + $9::bigint, c.now, c.now, $10::bigint
    from taken, clock c
)
select t.id, t.epoch + 1, t.queue, t.task, j.payload, t.attempts + 1, t.max_attempts, t.rank, t.ready_at,
       (select now from clock) + $9::bigint
  from taken t
  join holdfast.job j on j.id = t.id
$$;

create function holdfast.acquire_lease(
  worker text,
  queues text[] default array['default'],
  tasks text[] default null,
  max integer default 1,
  lease interval default '30 seconds'
) returns table (
  id uuid, epoch integer, queue text, task text, payload json, attempt integer, max_attempts integer,
  locked_until timestamptz
) language plpgsql volatile as $$
begin
  perform holdfast.check_complete();
  perform holdfast.check_name('worker', worker, 128);
  perform holdfast.check_whole('max', max, 1, 1000);
  perform holdfast.check_whole(
    'the lease''s milliseconds', (extract(epoch from lease) * 1000)::bigint, 100, 31536000000);
  return query
    select t.id, t.epoch, t.queue, t.task, t.payload::json, t.attempt, t.max_attempts,
           to_timestamp(t.until_ms / 1000.0)
      from holdfast.turn('{}', worker, '{}', '{}', null, queues, tasks, max,
                         (extract(epoch from lease) * 1000)::bigint, null) t
     order by t.rank, t.at_ms, t.id;
end $$;

-- The statement with which workers renew a single lease.
create function holdfast.extend(uuid[], text, integer[], bigint, bigint)
returns table (id uuid, epoch integer, until_ms bigint, cancel_requested boolean)
language sql volatile as $$
with clock as materialized (
  select coalesce($4::bigint, (extract(epoch from statement_timestamp()) * 1000)::bigint) as now
),
ours as (
  select id
    from holdfast.lease
   where id = any($1::uuid[])
     and locked_by = $2
     and ((id, epoch) in (select f.id, f.epoch
                            from unnest($1::uuid[], $3::int[]) as f (id, epoch))) is true
     for no key update
)
update holdfast.lease
   set locked_until = greatest(locked_until, (select now from clock) + $5::bigint),
       heartbeat_at = (select now from clock)
 where id = any(array(select id from ours))
returning id, epoch, locked_until, cancel_requested_at is not null
$$;

create function holdfast.extend_lease(
  id uuid, worker text, epoch integer, lease interval default '30 seconds'
) returns table (locked_until timestamptz, cancel_requested boolean)
language plpgsql volatile as $$
begin
  perform holdfast.check_whole(
    'the lease''s milliseconds', (extract(epoch from lease) * 1000)::bigint, 100, 31536000000);
  return query
    select to_timestamp(e.until_ms / 1000.0), e.cancel_requested
      from holdfast.extend(array[id], worker, array[epoch], null, (extract(epoch from lease) * 1000)::bigint) e;
end $$;

-- The fingerprint of an error, as src/core/error-kind.ts makes it.
create function holdfast.kind_of_error(task text, error json) returns text
language sql immutable parallel safe as $$
  with line as (
    select split_part(left(error ->> 'message', 600), E'\n', 1) collate "C" as text
  ),
  pattern as (
    select left(
      regexp_replace(regexp_replace(regexp_replace(regexp_replace(
        text,
        '"[^"]*"|''[^'']*''|`[^`]*`', '…', 'g'),
        '\y[\w.+-]{1,64}@[\w.-]{1,255}', '…', 'g'),
        '[\w-]*\d[\w-]*', '…', 'g'),
        '…(?:[.:,/]?…)+', '…', 'g'), 300) as text
      from line
  )
  select left(encode(sha256(convert_to(concat(
           '[', to_json(split_part(task, '@', 1)), ',', to_json(left(error ->> 'name', 255)), ',',
           coalesce(to_json(left(error ->> 'code', 255))::text, 'null'), ',', to_json(text), ']'), 'UTF8')), 'hex'), 32)
    from pattern
$$;

-- Decides as the store does when it settles a job.
create function holdfast.release_lease(
  id uuid,
  worker text,
  epoch integer,
  outcome text default 'released',
  result json default null,
  error text default null,
  retry_in interval default '1 second',
  final boolean default false
) returns text language plpgsql volatile as $$
#variable_conflict use_variable
declare
  l holdfast.lease%rowtype;
  now_ms bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint;
  status text;
  told json;
begin
  if outcome is null or outcome not in ('done', 'failed', 'suspended', 'released') then
    raise exception using errcode = '22023',
      message = 'holdfast: outcome must be done, failed, suspended or released';
  end if;
  if outcome = 'suspended' and retry_in is null then
    raise exception using errcode = '22023', message = 'holdfast: retry_in says for how long it is suspended';
  end if;
  delete from holdfast.lease t
   where t.id = release_lease.id and t.locked_by = worker and t.epoch = release_lease.epoch
  returning * into l;
  if not found then return null; end if; -- the worker lost the lease: nothing was written
  told := case when error is null then null
               else json_build_object('name', 'Error', 'message', error) end;
  status := case
    when l.cancel_requested_at is not null then 'cancelled'
    when outcome = 'done' then 'done'
    when outcome = 'released' then 'pending'
    when outcome = 'suspended' then 'waiting'
    when final or l.attempts >= l.max_attempts then 'failed'
    else 'retry' end;
  if status in ('done', 'failed', 'cancelled') then
    insert into holdfast.finished
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts,
            status, worker, started_at, finished_at, result, error, error_kind, lane)
    values (l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts, l.crashes, l.max_attempts,
            status, worker, l.claimed_at, now_ms,
            case when status = 'done' then result::text end, told::text,
            case when status = 'failed' then holdfast.kind_of_error(l.task, told) end, nullif(l.lane, ''));
    delete from holdfast.job_key k where k.job_id = l.id;
    perform pg_notify(btrim('holdfast.', '".'), 'sql:finished');
    return status;
  end if;
  insert into holdfast.attempt
         (job_id, epoch, attempt, worker, outcome, started_at, ended_at, error, error_kind)
  values (l.id, l.epoch, l.attempts, worker,
          case status when 'pending' then 'released' when 'waiting' then 'suspended' else 'retry' end,
          l.claimed_at, now_ms, case when status = 'retry' then told::text end,
          case when status = 'retry' then holdfast.kind_of_error(l.task, told) end);
  if status = 'pending' then
    insert into holdfast.ready
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ready_at, lane, place)
    values (l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts - 1, l.crashes, l.max_attempts, now_ms,
            coalesce(l.lane, ''), holdfast.place(l.queue, l.rank, now_ms));
    perform pg_notify(btrim('holdfast.', '".'), 'sql:pending:' || l.queue);
  else
    insert into holdfast.waiting
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, status, due_at, lane)
    values (l.id, l.queue, l.task, l.rank, l.job_key, l.epoch,
            case when status = 'waiting' then l.attempts - 1 else l.attempts end, l.crashes, l.max_attempts,
            status, now_ms + (extract(epoch from coalesce(retry_in, '1 second')) * 1000)::bigint, nullif(l.lane, ''));
    perform pg_notify(btrim('holdfast.', '".'), 'sql:waiting');
  end if;
  return status;
end $$;

-- Decides as the store does when a lease has expired.
create function holdfast.reset_expired(
  grace interval default '2 seconds', max integer default 100, crashes_max integer default 3
) returns table (id uuid, status text) language plpgsql volatile as $$
#variable_conflict use_column
declare
  l holdfast.lease%rowtype;
  now_ms bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint;
  crashed integer;
  ends text;
  told text;
  pause_ms bigint;
  digits text;
begin
  perform holdfast.check_whole('max', max, 1, 1000);
  for l in
    delete from holdfast.lease
     where ctid = any(array(select ctid
                              from holdfast.lease
                             where locked_until < now_ms - (extract(epoch from grace) * 1000)::bigint
                             limit max
                               for update skip locked))
    returning *
  loop
    crashed := l.crashes + 1;
    ends := case
      when l.cancel_requested_at is not null then 'cancelled'
      when crashed >= crashes_max or l.attempts >= l.max_attempts then 'failed'
      else 'retry' end;
    told := case
      when l.cancel_requested_at is not null then null
      when crashed >= crashes_max then json_build_object('name', 'PoisonJob', 'code', 'POISON', 'message',
        format('Every one of %s workers that ran this job died or lost its lease; it is kept from the next.',
               crashed))::text
      else json_build_object('name', 'LeaseExpired', 'code', 'LEASE_EXPIRED', 'message',
        format('The lease of worker %s ran out: the worker died, froze or lost the database.', l.locked_by))::text
      end;
    if ends = 'retry' then
      digits := substr(l.id::text, 36 - 3 * (l.crashes % 4) - 2, 3);
      pause_ms := least(60000, 1000 * 2 ^ l.crashes)::bigint;
      pause_ms := floor(pause_ms * (0.5 + ('x' || lpad(digits, 8, '0'))::bit(32)::integer / 4096.0));
      insert into holdfast.waiting
             (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, status, due_at, lane)
      values (l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts, crashed, l.max_attempts,
              'retry', now_ms + pause_ms, nullif(l.lane, ''));
      insert into holdfast.attempt
             (job_id, epoch, attempt, worker, outcome, started_at, ended_at, error, error_kind)
      values (l.id, l.epoch, l.attempts, l.locked_by, 'crashed', l.claimed_at, now_ms, told,
              holdfast.kind_of_error(l.task, told::json));
    else
      insert into holdfast.finished
             (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts,
              status, worker, started_at, finished_at, result, error, error_kind, lane)
      values (l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts, crashed, l.max_attempts,
              ends, l.locked_by, l.claimed_at, now_ms, null, told,
              case when ends = 'failed' then holdfast.kind_of_error(l.task, told::json) end, nullif(l.lane, ''));
      delete from holdfast.job_key k where k.job_id = l.id;
    end if;
    id := l.id;
    status := ends;
    return next;
  end loop;
  perform pg_notify(btrim('holdfast.', '".'), 'sql:waiting');
  perform pg_notify(btrim('holdfast.', '".'), 'sql:finished');
end $$;

create function holdfast.stats() returns table (queue text, status text, jobs bigint)
language sql stable as $$
  select queue, 'pending', count(*) from holdfast.ready group by queue
   union all
  select queue, status, count(*) from holdfast.waiting group by queue, status
   union all
  select queue, 'processing', count(*) from holdfast.lease group by queue
   union all
  select queue, status, count(*) from holdfast.finished group by queue, status
$$;

-- ── Tags ─────────────────────────────────────────────────────────────────────────────────────────
-- A job without tags has no row here. The primary key lists the jobs of a tag, newest first; the
-- index lists the tags of a job.

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

-- ── Workers ──────────────────────────────────────────────────────────────────────────────────────
-- Every running worker has a row. The database refuses a second active worker in a slot.

create table holdfast.worker_type (
  name          text    collate "C" not null primary key check (length(name) between 1 and 128),
  slots         integer check (slots between 1 and 1000),
  instance      bigint  not null default 0 check (instance >= 0)
);

create table holdfast.worker (
  id            text    collate "C" not null primary key check (length(id) between 1 and 255),
  type          text    collate "C" not null,
  slot          integer,
  instance      bigint  not null,
  status        text    collate "C" not null check (status in ('starting', 'running', 'stopping', 'stopped')),
  reason        text,
  desired_state text    collate "C" not null default 'run' check (desired_state in ('run', 'pause', 'drain', 'stop')),
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
  started_at    bigint  not null,
  heartbeat_at  bigint  not null,
  stale_ms      bigint  not null default 30000,
  hung_ms       bigint  not null default 60000,
  stopped_at    bigint,
  heartbeats    bigint  not null default 0,
  gap_ms_max    bigint  not null default 0,
  claimed       bigint  not null default 0,
  done          bigint  not null default 0,
  failed        bigint  not null default 0,
  retried       bigint  not null default 0,
  leases_lost   bigint  not null default 0,
  running       integer not null default 0,
  loop_delay_ms bigint  not null default 0,
  memory_bytes  bigint  not null default 0,
  -- The stack of a main thread that a task has blocked, and for how long.
  blocked_ms    bigint  not null default 0,
  blocked_stack text,
  check ((status = 'stopped') = (stopped_at is not null))
) with (fillfactor = 50);
create unique index worker_slot on holdfast.worker (type, slot) where status in ('starting', 'running');
create index worker_alive on holdfast.worker (type) where status <> 'stopped';
create index worker_ended on holdfast.worker (stopped_at) where status = 'stopped';

create function holdfast.worker_fits() returns trigger language plpgsql as $$
declare most integer;
begin
  if exists (select from holdfast.copy where ended_at is null) then
    raise exception using errcode = '23514', message = 'holdfast: a copy into this database is incomplete';
  end if;
  -- Other workers that start share this lock; a change of the limit waits for it.
  select slots into most from holdfast.worker_type where name = new.type for key share;
  if not found then
    raise exception using errcode = '23514', message = 'holdfast: this type of worker was never declared';
  end if;
  if most is not null and (new.slot is null or new.slot not between 1 and most) then
    raise exception using errcode = '23514',
      message = 'holdfast: an active worker of a limited type needs a slot within its limit';
  end if;
  if most is null and new.slot is not null then
    raise exception using errcode = '23514', message = 'holdfast: this type of worker has no slots';
  end if;
  return new;
end $$;

create function holdfast.worker_type_fits() returns trigger language plpgsql as $$
begin
  if exists (select from holdfast.worker
              where type = old.name and status in ('starting', 'running')
                and (tg_op = 'DELETE' or (slot is null) <> (new.slots is null) or slot > new.slots)) then
    raise exception using errcode = '23514',
      message = 'holdfast: an active worker does not fit the new limit of its type';
  end if;
  return case when tg_op = 'DELETE' then old else new end;
end $$;

create trigger worker_fits before insert on holdfast.worker for each row
when (new.status in ('starting', 'running'))
execute function holdfast.worker_fits();

create trigger worker_stays before update on holdfast.worker for each row
when (new.id <> old.id or new.type <> old.type or new.slot is distinct from old.slot or new.instance <> old.instance)
execute function holdfast.refuse('a row stays with its worker and its slot');

create trigger worker_moves before update of status on holdfast.worker for each row
when (old.status = 'starting' and new.status not in ('starting', 'running', 'stopping', 'stopped')
      or old.status = 'running' and new.status not in ('running', 'stopping', 'stopped')
      or old.status = 'stopping' and new.status not in ('stopping', 'stopped')
      or old.status = 'stopped' and new.status <> 'stopped')
execute function holdfast.refuse('a worker starts, runs, stops and is stopped, and never goes back');

create trigger worker_type_fits before update of slots on holdfast.worker_type for each row
when (new.slots is distinct from old.slots)
execute function holdfast.worker_type_fits();

create trigger worker_type_is_used before delete on holdfast.worker_type for each row
execute function holdfast.worker_type_fits();

create trigger worker_type_stays before update on holdfast.worker_type for each row
when (new.name <> old.name or new.instance < old.instance)
execute function holdfast.refuse('a type keeps its name, and its instance number never goes down');

-- Running workers, and those that ended recently. "leases" is what each holds at this instant.
create view holdfast.workers as
select w.id, w.type, w.slot, w.status, w.reason, w.desired_state, w.hostname, w.pid, w.version, w.queues,
       w.concurrency, coalesce(l.leases, 0) as leases, w.claimed, w.done, w.failed, w.retried, w.leases_lost,
       to_timestamp(w.started_at / 1000.0) as started_at,
       to_timestamp(w.heartbeat_at / 1000.0) as heartbeat_at,
       to_timestamp(w.stopped_at / 1000.0) as stopped_at,
       case when w.stopped_at is null
            then (extract(epoch from clock_timestamp()) * 1000)::bigint - w.heartbeat_at end as heartbeat_age_ms
  from holdfast.worker w
  left join (select locked_by, count(*) as leases
               from holdfast.lease
              group by locked_by) l on l.locked_by = w.id;

-- The builds that enqueue jobs.
create table holdfast.enqueuer (
  version       text    collate "C" not null primary key check (length(version) between 1 and 128),
  first_at      bigint  not null,
  last_at       bigint  not null
);

-- Standbys, and programs that acquire leases through SQL or HTTP: for people to see.
create table holdfast.unregistered_worker (
  id            text    collate "C" not null primary key check (length(id) between 1 and 255),
  kind          text    collate "C" not null check (kind in ('standby', 'leases')),
  type          text    collate "C",
  hostname      text,
  pid           integer,
  version       text,
  queues        text    not null,
  tasks         text,
  started_at    bigint  not null,
  heartbeat_at  bigint  not null
);

-- ── Steps and events ─────────────────────────────────────────────────────────────────────────────
-- Completed steps are saved, so a job resumes after a crash without repeating them.

create table holdfast.step (
  job_id        uuid    not null,
  name          text    collate "C" not null check (length(name) between 1 and 128),
  occurrence    integer not null check (occurrence >= 1),
  position      integer not null check (position >= 0),
  kind          text    collate "C" not null check (kind in ('step', 'effect', 'commit', 'sleep', 'event', 'call')),
  status        text    collate "C" not null check (status in ('begun', 'done', 'failed', 'doubt')),
  epoch         integer not null check (epoch >= 1),
  begun_at      bigint  not null,
  ended_at      bigint,
  result        text,
  check ((status = 'begun') = (ended_at is null)),
  primary key (job_id, name, occurrence)
);
create index step_doubt on holdfast.step (begun_at) where status = 'doubt';

create trigger step_stays before update on holdfast.step for each row
when (old.status = 'done' or new.epoch < old.epoch)
execute function holdfast.refuse('a step that is done stays as it is, and an epoch never goes down');

create table holdfast.event (
  name          text    collate "C" not null,
  event_key     text    collate "C" not null,
  awaited       integer not null default 0,
  payload       text,
  emitted_at    bigint,
  primary key (name, event_key)
);

create trigger event_is_said_once before update on holdfast.event for each row
when (old.name <> '@job' and old.emitted_at is not null
      and (new.payload is distinct from old.payload or new.emitted_at is distinct from old.emitted_at))
execute function holdfast.refuse('what an event said stands');

create index event_said on holdfast.event (emitted_at) where emitted_at is not null;

create table holdfast.wait (
  job_id        uuid    not null,
  name          text    collate "C" not null,
  event_key     text    collate "C" not null,
  primary key (job_id, name, event_key)
);
create index wait_event on holdfast.wait (name, event_key);

-- ── Reports ──────────────────────────────────────────────────────────────────────────────────────
-- Progress, log lines and reports that a running job emits, numbered per job.

create table holdfast.report (
  job_id        uuid    not null,
  seq           integer not null check (seq >= 1),
  epoch         integer not null check (epoch >= 1),
  kind          text    collate "C" not null check (kind in ('progress', 'log', 'report', 'dropped')),
  name          text    collate "C" check (length(name) between 1 and 128),
  at            bigint  not null,
  data          text,
  check ((kind = 'report') = (name is not null)),
  primary key (job_id, seq)
);

create trigger report_is_written_once before update on holdfast.report for each row
execute function holdfast.refuse('a report is written once and never updated');

-- ── Schedules ────────────────────────────────────────────────────────────────────────────────────
-- next_at is the tick that is handled next. A scheduler moves it, writes the run of the tick and
-- enqueues its job in one transaction. The key of schedule_run allows one run of a tick, even if
-- next_at was set back.

create table holdfast.schedule (
  name          text    collate "C" not null primary key check (length(name) between 1 and 128),
  task          text    collate "C" not null check (length(task) between 1 and 128),
  payload       text    not null,
  options       text    not null,
  cron          text    check (length(cron) between 1 and 256),
  time_zone     text    check (length(time_zone) between 1 and 64),
  every_ms      bigint  check (every_ms >= 1000),
  offset_ms     bigint  check (offset_ms >= 0 and offset_ms < every_ms),
  missed        text    collate "C" not null check (missed in ('skip', 'once', 'all')),
  missed_limit  integer not null check (missed_limit between 1 and 1000),
  overlap       text    collate "C" not null check (overlap in ('allow', 'skip', 'queue')),
  description   text,
  next_at       bigint,
  since_at      bigint  not null,
  last_at       bigint,
  paused_at     bigint,
  paused_by     text    check ((paused_at is null) = (paused_by is null)),
  declared_by   text    collate "C",
  declared      text    check ((declared_by is null) = (declared is null)),
  revision      integer not null check (revision >= 1),
  created_at    bigint  not null,
  updated_at    bigint  not null,
  missed_count  bigint  not null check (missed_count >= 0),
  queued_count  integer not null check (queued_count >= 0),
  error         text,
  error_at      bigint,
  check ((cron is null) = (every_ms is not null)),
  check ((cron is null) = (time_zone is null)),
  check ((every_ms is null) = (offset_ms is null))
) with (fillfactor = 70);
create index schedule_next on holdfast.schedule (next_at)
  where paused_at is null and next_at is not null;
create index schedule_queued on holdfast.schedule (name) where queued_count > 0;
create index schedule_declared on holdfast.schedule (declared_by) where declared_by is not null;

create table holdfast.schedule_run (
  schedule      text    collate "C" not null,
  tick          bigint  not null,
  is_manual     integer not null check (is_manual in (0, 1)),
  outcome       text    collate "C" not null check (outcome in ('enqueued', 'joined', 'queued', 'skipped')),
  job_id        uuid    check ((job_id is null) = (outcome in ('queued', 'skipped'))),
  at            bigint  not null,
  -- 0: its job is known to have ended, or it has none. A tick that must not overlap looks at the others alone.
  is_open       integer not null default 1 check (is_open in (0, 1)),
  primary key (schedule, tick, is_manual)
);
create index schedule_run_job on holdfast.schedule_run (job_id) where job_id is not null;
create index schedule_run_queued on holdfast.schedule_run (schedule, tick) where outcome = 'queued';
create index schedule_run_open on holdfast.schedule_run (schedule, tick)
  where is_open = 1 and job_id is not null;

-- ── Flows and batches ────────────────────────────────────────────────────────────────────────────
-- Jobs that wait for the ends of other jobs.

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

-- ── Bulk actions ─────────────────────────────────────────────────────────────────────────────────
-- A change of all jobs that match a filter. Any process carries it out, chunk by chunk: the row is locked for
-- each chunk, and (walk, before_id) says where the next one begins. "carrier" only keeps others from trying.

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

-- ── Workflows ────────────────────────────────────────────────────────────────────────────────────
-- Declarations, and the items that move through them. The database checks every move against the
-- declaration and writes the audit line itself, so SQL typed by hand cannot go around either.

create table holdfast.workflow (
  name          text    collate "C" not null primary key check (length(name) between 1 and 128),
  version       integer not null check (version >= 1),
  -- The workflow of the parents of its items. Its own name: a parent is optional.
  parent        text    collate "C",
  keep_ms       bigint  check (keep_ms >= 0),
  declared_at   bigint  not null,
  declaration   text    not null
);

create table holdfast.workflow_type (
  workflow      text    collate "C" not null references holdfast.workflow (name),
  name          text    collate "C" not null check (length(name) between 1 and 128),
  -- 0: only ended items have it; a new item cannot.
  is_declared   integer not null check (is_declared in (0, 1)),
  primary key (workflow, name)
);

create table holdfast.workflow_state (
  workflow      text    collate "C" not null references holdfast.workflow (name),
  name          text    collate "C" not null check (length(name) between 1 and 128),
  is_initial    integer not null check (is_initial in (0, 1)),
  is_final      integer not null check (is_final in (0, 1)),
  primary key (workflow, name)
);

create table holdfast.workflow_move (
  workflow      text    collate "C" not null,
  from_state    text    collate "C" not null,
  to_state      text    collate "C" not null,
  name          text    collate "C" not null check (length(name) between 1 and 128),
  primary key (workflow, from_state, to_state, name),
  foreign key (workflow, from_state) references holdfast.workflow_state (workflow, name),
  foreign key (workflow, to_state) references holdfast.workflow_state (workflow, name)
);

create table holdfast.item (
  id            uuid    not null primary key,
  workflow      text    collate "C" not null,
  type          text    collate "C" not null,
  tenant        text    collate "C" not null check (length(tenant) between 1 and 128),
  identifier    text    collate "C" not null check (length(identifier) between 1 and 256),
  parent_id     uuid    references holdfast.item (id),
  root_id       uuid    not null,
  depth         integer not null check (depth between 0 and 7),
  status        text    collate "C" not null,
  data          text    not null,
  revision      bigint  not null check (revision >= 1),
  created_at    bigint  not null,
  updated_at    bigint  not null,
  entered_at    bigint  not null,
  audit_seq     bigint  not null check (audit_seq >= 1),
  audit_hash    text    collate "C" not null check (length(audit_hash) = 64),
  -- The last change. The database writes the audit line from these columns.
  change_id     uuid    not null,
  actor         text    not null,
  action        text    collate "C" not null check (action in ('start', 'import', 'move', 'update')),
  move          text    collate "C",
  reason        text,
  lock_wait_us  bigint,
  trace_id      text,
  jobs          text    not null,
  data_hash     text    collate "C" not null,
  check (parent_id <> id),
  check ((parent_id is null) = (root_id = id)),
  check ((parent_id is null) = (depth = 0)),
  check (created_at <= entered_at and entered_at <= updated_at),
  check ((action = 'move') = (move is not null)),
  foreign key (workflow, type) references holdfast.workflow_type (workflow, name),
  foreign key (workflow, status) references holdfast.workflow_state (workflow, name)
) with (fillfactor = 80);
create index item_parent on holdfast.item (parent_id, status, updated_at);
create index item_identifier on holdfast.item (identifier, tenant, status);
create index item_status on holdfast.item (id, status);
create index item_root on holdfast.item (root_id, depth);
-- Lists are newest first, that is, by id.
create index item_children on holdfast.item (parent_id, id);
create index item_list on holdfast.item (workflow, id);
create index item_list_status on holdfast.item (workflow, status, id);
create index item_list_tenant on holdfast.item (workflow, tenant, id);
create index item_list_tenant_status on holdfast.item (workflow, tenant, status, id);
create index item_over on holdfast.item (workflow, status, updated_at) where depth = 0;

create table holdfast.item_progress (
  item_id       uuid    not null,
  workflow      text    collate "C" not null,
  status        text    collate "C" not null,
  children      bigint  not null check (children >= 0),
  primary key (item_id, workflow, status)
) with (fillfactor = 50);

create table holdfast.item_due (
  item_id       uuid    not null,
  reason        text    collate "C" not null check (reason in ('limit', 'jobs')),
  workflow      text    collate "C" not null,
  -- When the item entered the state that this row is about.
  entered_at    bigint  not null,
  due_at        bigint  not null,
  primary key (item_id, reason)
);
create index item_due_at on holdfast.item_due (workflow, due_at);

create table holdfast.item_job (
  job_id        uuid    not null primary key,
  item_id       uuid    not null,
  status        text    collate "C"
);
create index item_job_item on holdfast.item_job (item_id);

create table holdfast.item_audit (
  item_id       uuid    not null,
  seq           bigint  not null check (seq >= 1),
  change_id     uuid    not null,
  at            bigint  not null,
  actor         text    not null,
  action        text    collate "C" not null check (action in ('start', 'import', 'move', 'update')),
  move          text    collate "C",
  old_status    text    collate "C",
  new_status    text    collate "C" not null,
  revision      bigint  not null,
  reason        text,
  lock_wait_us  bigint,
  trace_id      text,
  jobs          text    not null,
  data_hash     text    collate "C" not null,
  previous_hash text    collate "C" not null,
  hash          text    collate "C" not null,
  primary key (item_id, seq)
);
create index item_audit_change on holdfast.item_audit (change_id);

-- Items that retention is deleting at the moment.
create table holdfast.item_pruning (item_id uuid not null primary key);

create function holdfast.item_fits() returns trigger language plpgsql as $$
declare wanted text; above holdfast.item;
begin
  if exists (select from holdfast.copy where ended_at is null) then return new; end if;
  -- A change of the declaration locks the rows of all states. It waits for this transaction here, or this
  -- one for it; what is read afterwards is the declaration that counts.
  perform from holdfast.workflow_state
    where workflow = new.workflow and name = new.status for key share;
  if not exists (select from holdfast.workflow_type
                  where workflow = new.workflow and name = new.type and is_declared = 1) then
    raise exception using errcode = '23514', message = 'holdfast: the workflow declares no such type';
  end if;
  if new.revision <> 1 or new.audit_seq <> 1 or new.action not in ('start', 'import') or not exists (
      select from holdfast.workflow_state
       where workflow = new.workflow and name = new.status and (is_initial = 1 or new.action = 'import')) then
    raise exception using errcode = '23514',
      message = 'holdfast: an item begins in the initial state of its workflow, or is imported into a declared one, at revision 1';
  end if;
  select parent into wanted from holdfast.workflow where name = new.workflow;
  if new.parent_id is null then
    if wanted <> new.workflow then
      raise exception using errcode = '23514', message = 'holdfast: an item of this workflow needs a parent';
    end if;
    return new;
  end if;
  select * into above from holdfast.item where id = new.parent_id;
  if not found then
    raise exception using errcode = '23514', message = 'holdfast: there is no such parent';
  end if;
  if above.workflow is distinct from wanted then
    raise exception using errcode = '23514',
      message = 'holdfast: the parent is of another workflow than declared';
  end if;
  if above.root_id <> new.root_id or above.depth + 1 <> new.depth then
    raise exception using errcode = '23514', message = 'holdfast: an item stands below its parent';
  end if;
  if exists (select from holdfast.workflow_state
              where workflow = above.workflow and name = above.status and is_final = 1)
      and not (new.action = 'import' and exists (
        select from holdfast.workflow_state
         where workflow = new.workflow and name = new.status and is_final = 1)) then
    raise exception using errcode = '23514', message = 'holdfast: the parent has ended';
  end if;
  if above.updated_at < new.updated_at then
    raise exception using errcode = '23514', message = 'holdfast: a parent is never behind its children';
  end if;
  return new;
end $$;

create trigger item_fits before insert on holdfast.item for each row
execute function holdfast.item_fits();

create function holdfast.item_is_told() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' and exists (select from holdfast.copy where ended_at is null) then return null; end if;
  if tg_op = 'INSERT' then
    insert into holdfast.item_audit
           (item_id, seq, at, old_status, new_status, revision, previous_hash, hash,
            change_id, actor, action, move, reason, lock_wait_us, trace_id, jobs, data_hash)
    values (new.id, new.audit_seq, new.updated_at, null, new.status, new.revision,
            '0000000000000000000000000000000000000000000000000000000000000000', new.audit_hash,
            new.change_id, new.actor, new.action, new.move, new.reason, new.lock_wait_us, new.trace_id,
            new.jobs, new.data_hash);
  else
    insert into holdfast.item_audit
           (item_id, seq, at, old_status, new_status, revision, previous_hash, hash,
            change_id, actor, action, move, reason, lock_wait_us, trace_id, jobs, data_hash)
    values (new.id, new.audit_seq, new.updated_at, old.status, new.status, new.revision,
            old.audit_hash, new.audit_hash,
            new.change_id, new.actor, new.action, new.move, new.reason, new.lock_wait_us, new.trace_id,
            new.jobs, new.data_hash);
  end if;
  return null;
end $$;

create trigger item_is_started after insert on holdfast.item for each row
execute function holdfast.item_is_told();

create function holdfast.item_is_counted() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' and exists (select from holdfast.copy where ended_at is null) then return null; end if;
  if tg_op <> 'INSERT' then
    update holdfast.item_progress set children = children - 1
     where item_id = old.parent_id and workflow = old.workflow and status = old.status;
  end if;
  if tg_op <> 'DELETE' then
    insert into holdfast.item_progress (item_id, workflow, status, children)
    values (new.parent_id, new.workflow, new.status, 1)
        on conflict (item_id, workflow, status) do update set children = item_progress.children + 1;
  end if;
  return null;
end $$;

create trigger item_is_counted after insert on holdfast.item for each row
when (new.parent_id is not null)
execute function holdfast.item_is_counted();

create trigger item_stays before update on holdfast.item for each row
when ((new.id, new.workflow, new.type, new.tenant, new.identifier, new.parent_id, new.root_id, new.depth,
       new.created_at) is distinct from
      (old.id, old.workflow, old.type, old.tenant, old.identifier, old.parent_id, old.root_id, old.depth,
       old.created_at))
execute function holdfast.refuse('an item keeps its workflow, type, tenant, identifier and parent');

create trigger item_counts before update on holdfast.item for each row
when (new.revision <> old.revision + 1 or new.updated_at < old.updated_at)
execute function holdfast.refuse('a revision goes up by one with every change, and time does not go back');

create trigger item_is_audited before update on holdfast.item for each row
when (new.audit_seq not in (old.audit_seq, old.audit_seq + 1)
      or new.audit_seq = old.audit_seq and
      (new.status, new.data, new.entered_at, new.audit_hash, new.change_id, new.actor, new.action, new.move,
       new.reason, new.lock_wait_us, new.trace_id, new.jobs, new.data_hash) is distinct from
      (old.status, old.data, old.entered_at, old.audit_hash, old.change_id, old.actor, old.action, old.move,
       old.reason, old.lock_wait_us, old.trace_id, old.jobs, old.data_hash))
execute function holdfast.refuse('every change of an item leaves one line in its audit');

create function holdfast.item_moves() returns trigger language plpgsql as $$
begin
  if new.action = 'update' then
    if new.status <> old.status then
      raise exception using errcode = '23514', message = 'holdfast: the workflow declares no such move';
    end if;
    if new.entered_at <> old.entered_at then
      raise exception using errcode = '23514',
        message = 'holdfast: an item is in a state since the move that brought it there';
    end if;
    return new;
  end if;
  perform from holdfast.workflow_state
    where workflow = new.workflow and name = new.status for key share;
  if new.action <> 'move' or not exists (
      select from holdfast.workflow_move
       where workflow = new.workflow and from_state = old.status and to_state = new.status and name = new.move) then
    raise exception using errcode = '23514', message = 'holdfast: the workflow declares no such move';
  end if;
  if new.entered_at <> new.updated_at or new.entered_at <= old.entered_at then
    raise exception using errcode = '23514',
      message = 'holdfast: an item is in a state since the move that brought it there';
  end if;
  return new;
end $$;

create trigger item_moves before update on holdfast.item for each row
when (new.audit_seq <> old.audit_seq)
execute function holdfast.item_moves();

create function holdfast.item_follows() returns trigger language plpgsql as $$
begin
  if exists (select from holdfast.item where id = new.parent_id and updated_at < new.updated_at) then
    raise exception using errcode = '23514', message = 'holdfast: a parent is never behind its children';
  end if;
  return new;
end $$;

create trigger item_follows before update on holdfast.item for each row
when (new.parent_id is not null)
execute function holdfast.item_follows();

create trigger item_is_told after update on holdfast.item for each row
when (new.audit_seq <> old.audit_seq)
execute function holdfast.item_is_told();

create trigger item_is_recounted after update of status on holdfast.item for each row
when (new.parent_id is not null and new.status <> old.status)
execute function holdfast.item_is_counted();

create function holdfast.item_is_let_go() returns trigger language plpgsql as $$
begin
  if not exists (
      select from holdfast.item i
        join holdfast.workflow_state s on s.workflow = i.workflow and s.name = i.status
        join holdfast.item top on top.id = i.root_id
        join holdfast.workflow w on w.name = top.workflow
       where i.id = new.item_id and s.is_final = 1 and w.keep_ms is not null) then
    raise exception using errcode = '23514',
      message = 'holdfast: only what has ended is deleted, and nothing of a workflow that keeps its items for ever';
  end if;
  return new;
end $$;

create trigger item_is_let_go before insert on holdfast.item_pruning for each row
execute function holdfast.item_is_let_go();

create function holdfast.item_is_kept() returns trigger language plpgsql as $$
begin
  if not exists (select from holdfast.item_pruning where item_id = old.id) then
    raise exception using errcode = '23514',
      message = 'holdfast: items and their audit are deleted by their retention only';
  end if;
  return old;
end $$;

create trigger item_is_kept before delete on holdfast.item for each row
execute function holdfast.item_is_kept();

create trigger item_is_discounted after delete on holdfast.item for each row
when (old.parent_id is not null)
execute function holdfast.item_is_counted();

create trigger item_is_not_emptied before truncate on holdfast.item
execute function holdfast.refuse('items and their audit are deleted by their retention only');

create function holdfast.item_audit_is_kept() returns trigger language plpgsql as $$
begin
  if not exists (select from holdfast.item_pruning where item_id = old.item_id) then
    raise exception using errcode = '23514',
      message = 'holdfast: items and their audit are deleted by their retention only';
  end if;
  return old;
end $$;

create trigger item_audit_is_kept before delete on holdfast.item_audit for each row
execute function holdfast.item_audit_is_kept();

create trigger item_audit_is_not_emptied before truncate on holdfast.item_audit
execute function holdfast.refuse('items and their audit are deleted by their retention only');

create trigger item_audit_stays before update on holdfast.item_audit for each row
execute function holdfast.refuse('what is in the audit stays as it is');

create function holdfast.item_audit_is_told() returns trigger language plpgsql as $$
begin
  if exists (select from holdfast.item_audit where item_id = new.item_id and seq = new.seq)
      or not exists (select from holdfast.copy where ended_at is null) and not exists (select from holdfast.item
                      where id = new.item_id and audit_seq = new.seq and audit_hash = new.hash
                        and status = new.new_status and revision = new.revision) then
    raise exception using errcode = '23514',
      message = 'holdfast: the audit is written by the database, with the change that it tells of';
  end if;
  return new;
end $$;

create trigger item_audit_is_told before insert on holdfast.item_audit for each row
execute function holdfast.item_audit_is_told();

-- ── Locks ────────────────────────────────────────────────────────────────────────────────────────
-- A row stays when its lock is released, because the fencing token must never go down.

-- Its rows are few and change all the time, so each page has room for their next state.
create table holdfast.lock (
  name          text    collate "C" not null primary key check (length(name) between 1 and 255),
  token         bigint  not null check (token >= 1),
  holder        text    collate "C",
  owner         text    not null,
  trace         text,
  acquired_at   bigint  not null,
  expires_at    bigint  not null,
  next_holder   text    collate "C",
  next_until    bigint,
  check ((next_holder is null) = (next_until is null))
) with (
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0.2, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

create trigger lock_token_never_falls before update on holdfast.lock for each row
when (new.token < old.token)
execute function holdfast.refuse('the token of a lock never goes down');

create trigger lock_name_stays before update on holdfast.lock for each row
when (new.name <> old.name)
execute function holdfast.refuse('a row stays with its lock');

create table holdfast.lock_stat (
  minute        bigint  not null check (minute % 60000 = 0),
  type          text    collate "C" not null check (length(type) between 1 and 255),
  source        text    collate "C" not null,
  acquisitions  bigint  not null check (acquisitions >= 0),
  timeouts      bigint  not null check (timeouts >= 0),
  wait_ms_sum   bigint  not null check (wait_ms_sum >= 0),
  held_ms_max   bigint  not null check (held_ms_max >= 0),
  waits         text    not null,
  primary key (minute, type, source)
) with (fillfactor = 70);

-- What one process waits for, while it waits, and what it gave up within the last hour: one row for each key.
create table holdfast.lock_wait (
  name          text    collate "C" not null,
  source        text    collate "C" not null,
  owner         text    not null,
  waiting       integer not null check (waiting >= 0),
  since_at      bigint  not null,
  timeouts      integer not null check (timeouts >= 0),
  seen_at       bigint  not null,
  primary key (name, source)
) with (fillfactor = 50);

-- ── Audit of operators ───────────────────────────────────────────────────────────────────────────
-- Each line contains the hash of the line before. audit_head is the end of that chain, and the
-- position up to which retention has deleted it.

create table holdfast.audit (
  id            uuid    not null primary key,
  at            bigint  not null,
  actor         text    not null,
  action        text    collate "C" not null,
  subject       text    collate "C" not null,
  detail        text,
  seq           bigint  check (seq >= 1),
  old_status    text    collate "C",
  new_status    text    collate "C",
  reason        text,
  trace_id      text,
  previous_hash text    collate "C",
  hash          text    collate "C"
);

create unique index audit_seq on holdfast.audit (seq);
create index audit_subject on holdfast.audit (subject, seq);

create table holdfast.audit_head (
  id            integer not null primary key check (id = 1),
  seq           bigint  not null,
  hash          text    collate "C" not null,
  pruned_seq    bigint  not null check (pruned_seq between 0 and seq),
  pruned_hash   text    collate "C" not null
) with (fillfactor = 50);
insert into holdfast.audit_head (id, seq, hash, pruned_seq, pruned_hash)
values (1, 0, '0000000000000000000000000000000000000000000000000000000000000000', 0,
           '0000000000000000000000000000000000000000000000000000000000000000');

create function holdfast.audit_follows() returns trigger language plpgsql as $$
begin
  update holdfast.audit_head set seq = new.seq, hash = new.hash
   where seq + 1 = new.seq and hash = new.previous_hash and new.hash is not null;
  if not found then
    raise exception using errcode = '23514', message = 'holdfast: a line of the audit follows the one before';
  end if;
  return null;
end $$;

-- After the insert: the head looks for its line.
create trigger audit_follows after insert on holdfast.audit for each row
execute function holdfast.audit_follows();

create trigger audit_stays before update on holdfast.audit for each row
execute function holdfast.refuse('what is in the audit stays as it is');

create function holdfast.audit_is_kept() returns trigger language plpgsql as $$
begin
  if not exists (select from holdfast.audit_head where pruned_seq >= old.seq) then
    raise exception using errcode = '23514', message = 'holdfast: the audit is deleted by its retention only';
  end if;
  return old;
end $$;

create trigger audit_is_kept before delete on holdfast.audit for each row
execute function holdfast.audit_is_kept();

create trigger audit_is_not_emptied before truncate on holdfast.audit
execute function holdfast.refuse('the audit is deleted by its retention only');

-- The head moves only to the line that follows it. A copy continues where retention cut the audit of its
-- source; the line about that cut comes with it.
create function holdfast.audit_head_grows() returns trigger language plpgsql as $$
begin
  if new.pruned_seq >= old.pruned_seq and new.seq = old.seq + 1 and exists (
      select from holdfast.audit where seq = new.seq and hash = new.hash and previous_hash = old.hash) then
    return new;
  end if;
  if old.seq = 0 and new.seq = new.pruned_seq and new.hash = new.pruned_hash
      and exists (select from holdfast.copy where ended_at is null) then
    return new;
  end if;
  raise exception using errcode = '23514', message = 'holdfast: the audit grows line by line';
end $$;

create trigger audit_head_grows before update on holdfast.audit_head for each row
when (new.seq <> old.seq or new.hash <> old.hash or new.pruned_seq < old.pruned_seq)
execute function holdfast.audit_head_grows();

create function holdfast.audit_head_is_pruned() returns trigger language plpgsql as $$
begin
  if old.seq = 0 and new.seq = new.pruned_seq and new.hash = new.pruned_hash
      and exists (select from holdfast.copy where ended_at is null) then
    return new;
  end if;
  if new.pruned_seq >= new.seq or not exists (
      select from holdfast.audit
       where seq = new.seq and action = 'audit.prune'
         and detail = (old.pruned_seq + 1) || ' to ' || new.pruned_seq || ', hash ' || new.pruned_hash) then
    raise exception using errcode = '23514',
      message = 'holdfast: the audit is pruned by a line that names the range and its last hash';
  end if;
  return new;
end $$;

create trigger audit_head_is_pruned before update on holdfast.audit_head for each row
when (new.pruned_seq <> old.pruned_seq or new.pruned_hash <> old.pruned_hash)
execute function holdfast.audit_head_is_pruned();

create trigger audit_head_is_kept before delete on holdfast.audit_head for each row
execute function holdfast.refuse('the audit has one head');

create trigger audit_head_is_not_emptied before truncate on holdfast.audit_head
execute function holdfast.refuse('the audit has one head');

-- How long a workflow keeps its items changes only together with an audit line about the change.
create function holdfast.workflow_keeps() returns trigger language plpgsql as $$
begin
  if new.name <> old.name or not exists (
      select from holdfast.audit
       where seq = (select seq from holdfast.audit_head) and action = 'workflow.keep'
         and subject = 'workflow ' || new.name
         and detail = coalesce(old.keep_ms::text, 'forever') || ' to ' || coalesce(new.keep_ms::text, 'forever')) then
    raise exception using errcode = '23514',
      message = 'holdfast: a workflow with items stays, and how long it keeps them changes with a line of the audit that says so';
  end if;
  return new;
end $$;

create trigger workflow_keeps before update on holdfast.workflow for each row
when (new.name <> old.name or new.keep_ms is distinct from old.keep_ms)
execute function holdfast.workflow_keeps();

create function holdfast.workflow_is_kept() returns trigger language plpgsql as $$
begin
  if exists (select from holdfast.item where workflow = old.name) then
    raise exception using errcode = '23514',
      message = 'holdfast: a workflow with items stays, and how long it keeps them changes with a line of the audit that says so';
  end if;
  return old;
end $$;

create trigger workflow_is_kept before delete on holdfast.workflow for each row
execute function holdfast.workflow_is_kept();

-- ── Statistics ───────────────────────────────────────────────────────────────────────────────────
-- Jobs by state, and arrivals and ends in each minute, so that reading them does not count rows.

create table holdfast.counts (
  id            integer not null primary key check (id = 1),
  begun_at      bigint  not null,
  counted_at    bigint  not null,
  took_ms       bigint  not null check (took_ms >= 0),
  folded_until  bigint  not null check (folded_until % 60000 = 0)
) with (fillfactor = 50);
insert into holdfast.counts (id, begun_at, counted_at, took_ms, folded_until) values (1, 0, 0, 0, 0);

create table holdfast.depth (
  queue         text    collate "C" not null,
  status        text    collate "C" not null,
  jobs          bigint  not null check (jobs >= 0),
  oldest_at     bigint,
  primary key (queue, status)
) with (fillfactor = 50);

create table holdfast.minute_total (
  minute        bigint  not null check (minute % 60000 = 0),
  queue         text    collate "C" not null,
  arrived       bigint  not null check (arrived >= 0),
  done          bigint  not null check (done >= 0),
  failed        bigint  not null check (failed >= 0),
  cancelled     bigint  not null check (cancelled >= 0),
  run_ms_sum    bigint  not null check (run_ms_sum >= 0),
  run_ms_max    bigint  not null check (run_ms_max >= 0),
  expired       bigint  not null default 0 check (expired >= 0),
  retried       bigint  not null default 0 check (retried >= 0),
  crashed       bigint  not null default 0 check (crashed >= 0),
  pickups       text,
  pending       bigint  check (pending >= 0),
  primary key (minute, queue)
);

-- span_total has longer steps than minute_total, and the sum of all queues (queue ''). Workers write
-- how long jobs waited into pickup_stat; the process that folds a minute adds that up.
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
  build         text    collate "C" not null,
  runs          text    not null,
  waits         text    not null,
  check (hour % 3600000 = 0),
  primary key (task, hour, source)
) with (fillfactor = 70);
create index task_stat_hour on holdfast.task_stat (hour);

-- What became of the jobs of a task in an hour, by the build of the worker that ended them (build '': none did).
-- The process that folds a minute adds it; the times of task_stat follow when the hour is over.
create table holdfast.task_total (
  hour          bigint  not null,
  task          text    collate "C" not null,
  build         text    collate "C" not null,
  done          bigint  not null check (done >= 0),
  failed        bigint  not null check (failed >= 0),
  cancelled     bigint  not null check (cancelled >= 0),
  expired       bigint  not null check (expired >= 0),
  retried       bigint  not null check (retried >= 0),
  crashed       bigint  not null check (crashed >= 0),
  runs          text,
  waits         text,
  check (hour % 3600000 = 0),
  primary key (hour, task, build)
);
create index task_total_task on holdfast.task_total (task, hour);
create index task_total_build on holdfast.task_total (build, hour);

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

-- ── Tasks ────────────────────────────────────────────────────────────────────────────────────────
-- What workers say about the tasks that they run: the JSON schema of the input, for forms.

create table holdfast.task (
  name          text    collate "C" not null check (length(name) between 1 and 128),
  input_schema  text,
  version       text    collate "C" not null,
  seen_at       bigint  not null,
  primary key (name)
);

-- ── Errors by kind ───────────────────────────────────────────────────────────────────────────────
-- Errors of one task with the same name, code and message, apart from numbers and names in it. The
-- process that folds a minute counts its errors.

create table holdfast.error_kind (
  id            text    collate "C" not null check (length(id) = 32),
  task          text    collate "C" not null,
  name          text    collate "C" not null,
  code          text    collate "C",
  message       text    not null,
  sample        text    not null,
  sample_job    uuid    not null,
  first_sample  text    not null,
  first_job     uuid    not null,
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
  build         text    collate "C" not null,
  failed        bigint  not null check (failed >= 0),
  retried       bigint  not null check (retried >= 0),
  check (hour % 3600000 = 0),
  primary key (kind_id, hour, build)
) with (fillfactor = 70);
create index error_hour_at on holdfast.error_hour (hour);

-- The same by minute, for a day.
create table holdfast.error_minute (
  minute        bigint  not null check (minute % 60000 = 0),
  kind_id       text    collate "C" not null check (length(kind_id) = 32),
  build         text    collate "C" not null,
  failed        bigint  not null check (failed >= 0),
  retried       bigint  not null check (retried >= 0),
  primary key (minute, kind_id, build)
);

-- ── Alerts ───────────────────────────────────────────────────────────────────────────────────────
-- The unique index allows one open alert of a rule and subject, even if two processes raise it.

create table holdfast.alert (
  id            uuid    not null primary key,
  rule          text    collate "C" not null check (length(rule) between 1 and 128),
  subject       text    collate "C" not null check (length(subject) <= 255),
  severity      text    collate "C" not null check (severity in ('info', 'warning', 'critical')),
  status        text    collate "C" not null check (status in ('pending', 'raised', 'resolved')),
  message       text    not null,
  facts         text    not null,
  change_id     uuid    not null,
  since_at      bigint  not null,
  seen_at       bigint  not null,
  raised_at     bigint  check ((status = 'pending') = (raised_at is null)),
  resolved_at   bigint  check ((status = 'resolved') = (resolved_at is not null)),
  -- When its targets were last told that it is raised: what they were not told is not taken back.
  notified_at   bigint,
  acknowledged_at bigint,
  acknowledged_by text  collate "C",
  silenced_until  bigint,
  silenced_by   text    collate "C",
  -- The reason of the last operator.
  note          text
);
create unique index alert_open on holdfast.alert (rule, subject) where status <> 'resolved';
create index alert_status on holdfast.alert (status, id);
create index alert_ended on holdfast.alert (resolved_at) where resolved_at is not null;
create index alert_silenced on holdfast.alert (silenced_until) where silenced_until is not null;

-- ── API tokens and idempotency keys ──────────────────────────────────────────────────────────────
-- Only the hash of a token is stored. A request row holds the response to an idempotency key.

create table holdfast.token (
  id            uuid    not null primary key,
  name          text    collate "C" not null check (length(name) between 1 and 128),
  role          text    collate "C" not null check (role in ('viewer', 'operator')),
  hash          text    collate "C" not null unique check (length(hash) = 64),
  created_at    bigint  not null,
  expires_at    bigint,
  revoked_at    bigint,
  used_at       bigint
);
create unique index token_name on holdfast.token (name) where revoked_at is null;

create table holdfast.request (
  principal     text    collate "C" not null,
  request_key   text    collate "C" not null check (length(request_key) between 1 and 255),
  fingerprint   text    collate "C" not null check (length(fingerprint) = 64),
  seed          text    not null,
  begun_at      bigint  not null,
  status        integer,
  body          text,
  primary key (principal, request_key)
);
create index request_begun on holdfast.request (begun_at);

-- ── Sessions ─────────────────────────────────────────────────────────────────────────────────────
-- A person signs in with a token and gets a cookie; only the hash of its secret is stored. Without a
-- token_id, the session belongs to the token of the configuration, which is part of the hash.

create table holdfast.session (
  hash          text    collate "C" not null check (length(hash) = 64),
  token_id      uuid,
  created_at    bigint  not null,
  expires_at    bigint  not null,
  primary key (hash)
);
create index session_token on holdfast.session (token_id, created_at);
create index session_expires on holdfast.session (expires_at);

-- ── Traces ───────────────────────────────────────────────────────────────────────────────────────
-- The trace that a job belongs to. Few jobs have one, so it is not a column of job.

create table holdfast.job_trace (
  job_id        uuid    not null primary key,
  traceparent   text    not null check (length(traceparent) between 1 and 255),
  tracestate    text
);

-- ── Copies ───────────────────────────────────────────────────────────────────────────────────────
-- The row of a copy from another database. While the copy is incomplete, triggers suspend the rules
-- about how items and audit lines come into being, because both arrive with their history. A copy
-- begins in an empty database only and never begins again, so no rule is suspended for data in use.

create table holdfast.copy (
  id            integer not null primary key check (id = 1),
  source        text    not null,
  fingerprint   text    collate "C" not null check (length(fingerprint) = 64),
  begun_at      bigint  not null,
  ended_at      bigint,
  batches       bigint  not null check (batches >= 0),
  progress      text    not null
) with (fillfactor = 50);

create function holdfast.copy_begins() returns trigger language plpgsql as $$
begin
  if exists (select from holdfast.copy)
      or exists (select from holdfast.job)
      or exists (select from holdfast.item)
      or exists (select from holdfast.item_audit)
      or exists (select from holdfast.audit_head where seq > 0) then
    raise exception using errcode = '23514', message = 'holdfast: a copy begins in an empty database';
  end if;
  return new;
end $$;

create trigger copy_begins before insert on holdfast.copy for each row
execute function holdfast.copy_begins();

create trigger copy_stays before update on holdfast.copy for each row
when (old.ended_at is not null or new.id <> old.id or new.fingerprint <> old.fingerprint)
execute function holdfast.refuse('a complete copy stays complete');

create trigger copy_is_kept before delete on holdfast.copy for each row
execute function holdfast.refuse('the row of a copy is not deleted');

create trigger copy_is_not_emptied before truncate on holdfast.copy
execute function holdfast.refuse('the row of a copy is not deleted');
