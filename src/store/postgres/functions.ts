/**
 * The verbs as SQL functions, for triggers and for programs in other languages. They keep the promises of store.ts.
 *
 * Claiming and extending run the very statements of the hot path. What becomes of a job is decided in rows.ts for every
 * engine; `settle_lease` and `reset_expired` say the same in SQL, and a test compares the two answer by answer. A
 * change of a statement that is shared here needs a migration that makes the functions anew.
 */
import { DEFAULT_PAYLOAD_BYTES_MAX } from "../../core/json.ts";
import { KEY_LENGTH_MAX, NAME_LENGTH_MAX } from "../../core/name.ts";
import { TASK_NAME } from "../../core/task-name.ts";
import { COPYING } from "./copy.ts";
import { claimRows, statements } from "./statements.ts";

const LIMIT_MAX = 1_000;
const LEASE_MS_MIN = 100;

const NOW = "(extract(epoch from clock_timestamp()) * 1000)::bigint";
const msOf = (interval: string): string => `(extract(epoch from ${interval}) * 1000)::bigint`;
const at = (ms: string): string => `to_timestamp(${ms} / 1000.0)`;

/** The schema's name, whatever it is called by the time this is spelt. */
const CHANNEL = `btrim('holdfast.', '".')`;

/** One channel a schema; whoever listens is told in the caller's own transaction, so a rollback wakes nobody. */
const NOTIFY = (note: string): string => `perform pg_notify(${CHANNEL}, 'sql:' || ${note});`;

const CHECKS = `
create function holdfast.check_name(field text, value text, most integer) returns text
language plpgsql immutable as $$
begin
  if value is null or value = '' then
    raise exception using errcode = '22023', message = format('holdfast: %s must not be empty', field);
  elsif length(value) > most then
    raise exception using errcode = '22023',
      message = format('holdfast: %s has %s characters; at most %s are allowed', field, length(value), most);
  elsif value ~ '^\\s|\\s$|[[:cntrl:]]' or value is not nfc normalized then
    raise exception using errcode = '22023', message = format(
      'holdfast: %s must have no blank at its ends, no control character, and be in normal form C', field);
  elsif value ~ '[\\u061C\\u200B\\u200E\\u200F\\u2028-\\u202E\\u2060-\\u2064\\u2066-\\u2069\\uFEFF]' then
    raise exception using errcode = '22023', message = format(
      'holdfast: %s must have no character that has no width or turns the direction of a text', field);
  end if;
  return value;
end $$;

create function holdfast.check_complete() returns void language plpgsql stable as $$
begin
  if ${COPYING} then
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

create function holdfast.new_id() returns uuid language sql volatile as $$
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
              placing substring(int8send(${NOW}) from 3) from 1 for 6),
      52, 1), 53, 1), 'hex')::uuid
$$;
`;

export const ENQUEUE = `
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
  -- Keys go by the name without the version, so that two versions of a task do not do the same thing twice.
  bare_name text := split_part(task, '@', 1);
  now_ms bigint := ${NOW};
  due_ms bigint := coalesce(${msOf("start_at")}, now_ms + ${msOf("delay")}, now_ms);
begin
  perform holdfast.check_complete();
  perform holdfast.check_name('task', task, ${NAME_LENGTH_MAX});
  if task !~ '${TASK_NAME.source}' then
    raise exception using errcode = '22023', message =
      format('holdfast: ''%s'' is no task''s name: after ''@'' comes its version, a number from 1', task);
  end if;
  perform holdfast.check_name('queue', queue, ${NAME_LENGTH_MAX});
  perform holdfast.check_whole('priority', priority, -1000000, 1000000);
  perform holdfast.check_whole('max_attempts', max_attempts, 1, 1000000);
  perform holdfast.check_whole('the payload''s bytes', octet_length(payload::text), 1, ${DEFAULT_PAYLOAD_BYTES_MAX});
  if exists (select from holdfast.job j where j.id = job_id) then
    return job_id; -- made before: a call that is repeated changes nothing
  end if;
  if key is not null then
    perform holdfast.check_name('key', key, ${KEY_LENGTH_MAX});
    loop
      insert into holdfast.job_key (task, job_key, job_id) values (bare_name, key, job_id) on conflict do nothing;
      select k.job_id into holder from holdfast.job_key k where k.task = bare_name and k.job_key = key;
      exit when holder is not null; -- null: whoever held it has just finished
    end loop;
    if holder <> job_id then return holder; end if;
    -- Nobody else can take it now: is there somebody who has ended and keeps it?
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
    ${NOTIFY("'waiting'")}
  else
    insert into holdfast.ready
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ready_at)
    values (job_id, queue, task, -priority, key, 0, 0, 0, max_attempts, now_ms);
    ${NOTIFY("'pending:' || queue")}
  end if;
  return job_id;
end $$;
`;

const LEASES = `
create function holdfast.turn(
  uuid[], text, integer[], text[], bigint, text[], text[], integer, bigint, bigint
) returns table (
  id uuid, epoch integer, queue text, task text, payload text, attempt integer, max_attempts integer, rank integer,
  at_ms bigint, until_ms bigint
) language sql volatile as $$ ${claimRows} $$;

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
  perform holdfast.check_name('worker', worker, ${NAME_LENGTH_MAX});
  perform holdfast.check_whole('max', max, 1, ${LIMIT_MAX});
  perform holdfast.check_whole('the lease''s milliseconds', ${msOf("lease")}, ${LEASE_MS_MIN}, 31536000000);
  return query
    select t.id, t.epoch, t.queue, t.task, t.payload::json, t.attempt, t.max_attempts, ${at("t.until_ms")}
      from holdfast.turn('{}', worker, '{}', '{}', null, queues, tasks, max, ${msOf("lease")}, null) t
     order by t.rank, t.at_ms, t.id;
end $$;

create function holdfast.extend(uuid[], text, integer[], bigint, bigint)
returns table (id uuid, epoch integer, until_ms bigint, cancel_requested boolean)
language sql volatile as $$ ${statements.extendOne} $$;

create function holdfast.extend_lease(
  id uuid, worker text, epoch integer, lease interval default '30 seconds'
) returns table (locked_until timestamptz, cancel_requested boolean)
language plpgsql volatile as $$
begin
  perform holdfast.check_whole('the lease''s milliseconds', ${msOf("lease")}, ${LEASE_MS_MIN}, 31536000000);
  return query
    select ${at("e.until_ms")}, e.cancel_requested
      from holdfast.extend(array[id], worker, array[epoch], null, ${msOf("lease")}) e;
end $$;
`;

const RELEASE = `
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
  now_ms bigint := ${NOW};
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
  if not found then return null; end if; -- it is not ours any more: nothing was written
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
            status, worker, started_at, finished_at, result, error)
    values (l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts, l.crashes, l.max_attempts,
            status, worker, l.claimed_at, now_ms,
            case when status = 'done' then result::text end, told::text);
    delete from holdfast.job_key k where k.job_id = l.id;
    ${NOTIFY("'finished'")}
    return status;
  end if;
  insert into holdfast.attempt (job_id, epoch, attempt, worker, outcome, started_at, ended_at, error)
  values (l.id, l.epoch, l.attempts, worker,
          case status when 'pending' then 'released' when 'waiting' then 'suspended' else 'retry' end,
          l.claimed_at, now_ms, case when status = 'retry' then told::text end);
  if status = 'pending' then
    insert into holdfast.ready
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ready_at)
    values (l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts - 1, l.crashes, l.max_attempts, now_ms);
    ${NOTIFY("'pending:' || l.queue")}
  else
    insert into holdfast.waiting
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, status, due_at)
    values (l.id, l.queue, l.task, l.rank, l.job_key, l.epoch,
            case when status = 'waiting' then l.attempts - 1 else l.attempts end, l.crashes, l.max_attempts,
            status, now_ms + ${msOf("coalesce(retry_in, '1 second')")});
    ${NOTIFY("'waiting'")}
  end if;
  return status;
end $$;
`;

/** See landAfterCrash in rows.ts, which this repeats word for word. */
const RESET = `
create function holdfast.reset_expired(
  grace interval default '2 seconds', max integer default 100, crashes_max integer default 3
) returns table (id uuid, status text) language plpgsql volatile as $$
#variable_conflict use_column
declare
  l holdfast.lease%rowtype;
  now_ms bigint := ${NOW};
  crashed integer;
  ends text;
  told text;
  pause_ms bigint;
  digits text;
begin
  perform holdfast.check_whole('max', max, 1, ${LIMIT_MAX});
  for l in
    delete from holdfast.lease
     where ctid = any(array(select ctid
                              from holdfast.lease
                             where locked_until < now_ms - ${msOf("grace")}
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
        format('Every one of %s workers that ran this job died or lost its lease; it is kept from the next.', crashed))::text
      else json_build_object('name', 'LeaseExpired', 'code', 'LEASE_EXPIRED', 'message',
        format('The lease of worker %s ran out: the worker died, froze or lost the database.', l.locked_by))::text
      end;
    if ends = 'retry' then
      digits := substr(l.id::text, 36 - 3 * (l.crashes % 4) - 2, 3);
      pause_ms := least(60000, 1000 * 2 ^ l.crashes)::bigint;
      pause_ms := floor(pause_ms * (0.5 + ('x' || lpad(digits, 8, '0'))::bit(32)::integer / 4096.0));
      insert into holdfast.waiting
             (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, status, due_at)
      values (l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts, crashed, l.max_attempts,
              'retry', now_ms + pause_ms);
      insert into holdfast.attempt (job_id, epoch, attempt, worker, outcome, started_at, ended_at, error)
      values (l.id, l.epoch, l.attempts, l.locked_by, 'crashed', l.claimed_at, now_ms, told);
    else
      insert into holdfast.finished
             (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts,
              status, worker, started_at, finished_at, result, error)
      values (l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts, crashed, l.max_attempts,
              ends, l.locked_by, l.claimed_at, now_ms, null, told);
      delete from holdfast.job_key k where k.job_id = l.id;
    end if;
    id := l.id;
    status := ends;
    return next;
  end loop;
  ${NOTIFY("'waiting'")}
  ${NOTIFY("'finished'")}
end $$;
`;

const STATS = `
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
`;

export const FUNCTIONS = CHECKS + ENQUEUE + LEASES + RELEASE + RESET + STATS;
