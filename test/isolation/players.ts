/**
 * What is installed in a database in which races are played: a witness that notes every row that enters a state, and
 * players, which say what the product would say and stop at gates on the way.
 */

/** In an order in which they can be filled: a row may not become pending while another table says that it runs. */
const TABLES = [
  "job",
  "ready",
  "waiting",
  "lease",
  "finished",
  "attempt",
  "job_key",
  "flow_job",
  "job_after",
  "dep",
  "queue",
  "queue_rule",
  "gate",
  "audit",
  "audit_head",
];
const WITNESSED = ["ready", "waiting", "lease", "finished", "attempt"];

const PICTURES = `
create function iso.picture() returns jsonb language sql as $$
  select jsonb_build_object(${TABLES.map(
    (table) =>
      `'${table}', (select coalesce(jsonb_agg(to_jsonb(t)), '[]') from holdfast.${table} t)`,
  ).join(", ")})
$$;

create table iso.head as select * from holdfast.audit_head;

create procedure iso.restore(picture jsonb) language plpgsql as $$
begin
  -- The audit does not let its lines be deleted.
  set local session_replication_role = replica;
  ${TABLES.map((table) => `delete from holdfast.${table};`).join("\n  ")}
  ${TABLES.map(
    (table) => `
  insert into holdfast.${table}
  select * from jsonb_populate_recordset(null::holdfast.${table}, picture->'${table}');`,
  ).join("")}
  insert into holdfast.audit_head select * from iso.head where not exists (select from holdfast.audit_head);
  delete from iso.entry;
  delete from iso.told;
  set local session_replication_role = origin;
end $$;`;

/** Rows of one job are written one after the other, each by who took the one before: their numbers are their order. */
const WITNESS = `
create table iso.entry (number bigserial primary key, place text not null, new jsonb not null);
create function iso.note() returns trigger language plpgsql as $$
begin
  insert into iso.entry (place, new) values (tg_argv[0], to_jsonb(new));
  return null;
end $$;
${WITNESSED.map(
  (table) => `
create trigger witness after insert on holdfast.${table} for each row execute function iso.note('${table}');`,
).join("")}`;

/**
 * A gate is a lock that another session holds until it opens it. Called inside a statement it stops it where it is
 * evaluated: after the statement's snapshot was taken and before it locks a row.
 */
const GATES = `
create table iso.closed (actor integer not null, gates integer not null);

create function iso.gate() returns boolean language plpgsql as $$
declare
  actor integer := nullif(current_setting('iso.actor', true), '')::integer;
  place integer;
begin
  if actor is null then return true; end if;
  place := current_setting('iso.passed')::integer + 1;
  perform set_config('iso.passed', place::text, false);
  perform pg_advisory_xact_lock_shared(actor, place);
  return true;
end $$;

-- A statement that meets a changed row evaluates its conditions once more: it has passed this gate already.
create function iso.gate_inside(number integer) returns boolean language plpgsql as $$
declare
  passed text := current_setting('iso.passed_inside', true);
begin
  if passed is null or passed like format('%%<%s>%%', number) then return true; end if;
  perform set_config('iso.passed_inside', format('%s<%s>', passed, number), false);
  return iso.gate();
end $$;

create procedure iso.close() language plpgsql as $$
begin
  perform pg_advisory_lock(c.actor, gate) from iso.closed c, generate_series(1, c.gates) gate;
end $$;

create procedure iso.open(actor integer, gate integer) language plpgsql as $$
begin perform pg_advisory_unlock(actor, gate); end $$;`;

/** One step of a script is one question to the database, the begin or end of a transaction, or a word to the caller. */
const PLAYERS = `
create table iso.fixture (picture jsonb not null);
create table iso.told (number bigserial, actor text not null, told jsonb, gates integer not null);
create table iso.step (
  actor text, at integer, kind text not null, gated boolean not null, text text, arguments text[],
  has_rows boolean, stands_alone boolean, stops_alone boolean, told jsonb, next integer, primary key (actor, at)
);
create table iso.branch (actor text, at integer, key text, next integer, primary key (actor, at, key));

create function iso.key(answer text[]) returns text language sql as $$
  select coalesce(string_agg(part, e'\\n' order by part collate "C"), '') from unnest(answer) part
$$;

-- The rows of the answer; without rows, one word for each that was changed.
create function iso.ask(statement text, arguments text[], has_rows boolean) returns text[] language plpgsql as $$
declare
  known text := 'p' || md5(statement);
  one record;
  rows text[] := '{}';
  count integer;
begin
  if not has_rows then
    execute statement;
    get diagnostics count = row_count;
    return array_fill('changed'::text, array[count]);
  end if;
  if not exists (select from pg_prepared_statements p where p.name = known) then
    execute format('prepare %s as %s', known, statement);
  end if;
  if cardinality(arguments) > 0 then
    known := format('%s(%s)', known, array_to_string(arguments, ', '));
  end if;
  for one in execute 'execute ' || known loop
    rows := rows || one::text;
  end loop;
  return rows;
end $$;

create procedure iso.play(who text) language plpgsql as $$
declare
  step iso.step;
  place integer := 0;
  heard text;
begin
  while place is not null loop
    select * into strict step from iso.step s where s.actor = who and s.at = place;
    if step.gated then perform iso.gate(); end if;
    if step.kind = 'commit' then
      commit;
    elsif step.kind = 'tell' then
      insert into iso.told (actor, told, gates)
      values (who, step.told, current_setting('iso.passed')::integer);
      commit;
    elsif step.kind = 'ask' then
      perform set_config('iso.passed_inside', '', false);
      heard := iso.key(iso.ask(step.text, step.arguments, step.has_rows));
      if step.stands_alone then
        if step.stops_alone then perform iso.gate(); end if;
        commit;
      end if;
    end if;
    place := step.next;
    if step.kind = 'ask' then
      select b.next into place from iso.branch b where b.actor = who and b.at = step.at and b.key = heard;
      if not found then
        raise exception 'never rehearsed: % as the answer to %', heard, step.text;
      end if;
    end if;
  end loop;
end $$;

create procedure iso.reset() language plpgsql as $$
declare
  begins_with jsonb := (select picture from iso.fixture);
begin
  call iso.restore(begins_with);
end $$;

create function iso.facts() returns jsonb language sql as $$
  select jsonb_build_object(
    'told', (select coalesce(jsonb_object_agg(actor, told), '{}')
               from (select actor, jsonb_agg(told order by number) as told from iso.told group by actor) t),
    'gates', (select coalesce(jsonb_object_agg(actor, gates), '{}')
               from (select actor, max(gates) as gates from iso.told group by actor) t),
    'entries', (select coalesce(jsonb_agg(jsonb_build_object('place', place) || new order by number), '[]')
                  from iso.entry),
    'tables', iso.picture())
$$;`;

export const PLAY = `create schema iso; ${WITNESS} ${GATES} ${PICTURES} ${PLAYERS}`;
