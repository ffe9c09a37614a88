-- -------------------------------------------------------------------------------------------------
-- Lanes, limits and pauses
-- A lane is the set of pending jobs of a queue that are subject to the same limits: those of one tenant,
-- for example. It has no row of its own: it is part of the key of `ready`, so that an enqueue takes no
-- lock that another enqueue or a claim waits for.
-- -------------------------------------------------------------------------------------------------

-- `lane` is the job's lane; if its task has a limit of its own, U+001F and the task's name follow.
-- `place` is the order in the lane: ready_at + rank * ageing. Without ageing a rank weighs 2^37 ms.
alter table holdfast.ready
  add column lane     text collate "C" not null default '',
  add column place    bigint,
  add column start_by bigint;
update holdfast.ready set place = ready_at + rank::bigint * 137438953472;
alter table holdfast.ready
  alter column place set not null,
  drop constraint ready_pkey,
  add primary key (queue, lane, place, id) include (ready_at); -- so that counts read the index alone
create index ready_start_by on holdfast.ready (start_by) where start_by is not null;

alter table holdfast.waiting
  add column lane     text collate "C",
  add column start_by bigint;
create index waiting_start_by on holdfast.waiting (start_by) where start_by is not null;

-- Null: claimed from a queue without rules. Concurrency is counted from these rows and from nothing else.
alter table holdfast.lease add column lane text collate "C";
create index lease_lane on holdfast.lease (queue, lane) where lane is not null;

alter table holdfast.finished
  add column lane text collate "C",
  drop constraint finished_status_check,
  add constraint finished_status_check check (status in ('done', 'failed', 'cancelled', 'expired'));
create index finished_expired on holdfast.finished (id) where status = 'expired';

alter table holdfast.minute_total add column expired bigint not null default 0 check (expired >= 0);

-- A queue has a row if it has settings. `governed`: claims must look at its rules, its lanes or its pause.
create table holdfast.queue (
  name          text    collate "C" not null primary key check (length(name) between 1 and 128),
  governed      integer not null check (governed in (0, 1)),
  lanes         integer not null default 0 check (lanes in (0, 1)),
  paused_at     bigint,
  paused_by     text,
  pause_reason  text,
  ageing_ms     bigint  check (ageing_ms > 0),
  revision      integer not null default 1 check (revision >= 1),
  updated_at    bigint  not null,
  check ((paused_at is null) = (paused_by is null)),
  check (governed = 1 or (paused_at is null and lanes = 0))
);

-- A limit of the queue, of each of its lanes, of one lane, or of one task in the queue. At most rate_count
-- starts in rate_ms, or rate_burst at once.
create table holdfast.queue_rule (
  queue         text    collate "C" not null,
  kind          text    collate "C" not null check (kind in ('queue', 'lanes', 'lane', 'task')),
  name          text    collate "C" not null check ((name = '') = (kind in ('queue', 'lanes'))),
  concurrency   integer check (concurrency >= 0),
  rate_count    integer check (rate_count >= 1),
  rate_ms       bigint  check (rate_ms >= 1),
  rate_burst    integer check (rate_burst >= 1),
  weight        integer check (weight between 1 and 1000),
  primary key (queue, kind, name),
  check ((rate_count is null) = (rate_ms is null) and (rate_count is null) = (rate_burst is null))
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

create or replace view holdfast.job_state as
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

-- The place of a job that becomes pending, for the functions below; the library computes it itself.
create function holdfast.place(of_queue text, rank integer, at_ms bigint) returns bigint language sql stable as $$
  select at_ms + rank * coalesce((select q.ageing_ms from holdfast.queue q where q.name = of_queue), 137438953472)
$$;

create or replace function holdfast.enqueue(
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
create or replace function holdfast.turn(
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

-- Decides as the store does when it settles a job.
create or replace function holdfast.release_lease(
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
            status, worker, started_at, finished_at, result, error, lane)
    values (l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts, l.crashes, l.max_attempts,
            status, worker, l.claimed_at, now_ms,
            case when status = 'done' then result::text end, told::text, nullif(l.lane, ''));
    delete from holdfast.job_key k where k.job_id = l.id;
    perform pg_notify(btrim('holdfast.', '".'), 'sql:finished');
    return status;
  end if;
  insert into holdfast.attempt (job_id, epoch, attempt, worker, outcome, started_at, ended_at, error)
  values (l.id, l.epoch, l.attempts, worker,
          case status when 'pending' then 'released' when 'waiting' then 'suspended' else 'retry' end,
          l.claimed_at, now_ms, case when status = 'retry' then told::text end);
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
create or replace function holdfast.reset_expired(
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
      insert into holdfast.attempt (job_id, epoch, attempt, worker, outcome, started_at, ended_at, error)
      values (l.id, l.epoch, l.attempts, l.locked_by, 'crashed', l.claimed_at, now_ms, told);
    else
      insert into holdfast.finished
             (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts,
              status, worker, started_at, finished_at, result, error, lane)
      values (l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts, crashed, l.max_attempts,
              ends, l.locked_by, l.claimed_at, now_ms, null, told, nullif(l.lane, ''));
      delete from holdfast.job_key k where k.job_id = l.id;
    end if;
    id := l.id;
    status := ends;
    return next;
  end loop;
  perform pg_notify(btrim('holdfast.', '".'), 'sql:waiting');
  perform pg_notify(btrim('holdfast.', '".'), 'sql:finished');
end $$;
