/** The audit of what operators do, on PostgreSQL. What it refuses is refused to everybody, also to hand-typed SQL. */
import { PRUNED_BY_LINE } from "../audit.ts";
import { words } from "../item-rules.ts";
import { NO_HASH } from "../trail.ts";
import { COPYING } from "./copy.ts";

const COLUMNS = `
alter table holdfast.audit
  add column seq           bigint check (seq >= 1),
  add column old_status    text collate "C",
  add column new_status    text collate "C",
  add column reason        text,
  add column trace_id      text,
  add column previous_hash text collate "C",
  add column hash          text collate "C";

-- What was there before has its number from now on, and no hash.
update holdfast.audit a set seq = numbered.seq
  from (select id, row_number() over (order by at, id) as seq from holdfast.audit) numbered
 where numbered.id = a.id;
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
select 1, count(*), '${NO_HASH}', 0, '${NO_HASH}' from holdfast.audit;
`;

/** A copy goes on from where the audit of its source was cut; the line that cut it comes with the copy. */
const COPY_BEGINS = `old.seq = 0 and new.seq = new.pruned_seq and new.hash = new.pruned_hash and ${COPYING}`;

const RULES = `
create function holdfast.audit_follows() returns trigger language plpgsql as $$
declare head holdfast.audit_head;
begin
  select * into head from holdfast.audit_head where id = 1 for update;
  if new.hash is null or new.seq is distinct from head.seq + 1 or new.previous_hash is distinct from head.hash then
    raise exception using errcode = '23514', message = 'holdfast: a line of the audit follows the one before';
  end if;
  update holdfast.audit_head set seq = new.seq, hash = new.hash where id = 1;
  return new;
end $$;

create trigger audit_follows before insert on holdfast.audit for each row
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

create function holdfast.audit_head_grows() returns trigger language plpgsql as $$
begin
  if ${COPY_BEGINS} then return new; end if;
  raise exception using errcode = '23514', message = 'holdfast: the audit grows line by line';
end $$;

create trigger audit_head_grows before update on holdfast.audit_head for each row
when (new.seq not in (old.seq, old.seq + 1) or new.pruned_seq < old.pruned_seq
      or new.seq = old.seq and new.hash <> old.hash)
execute function holdfast.audit_head_grows();

create function holdfast.audit_head_is_pruned() returns trigger language plpgsql as $$
begin
  if ${COPY_BEGINS} then return new; end if;
  if new.pruned_seq >= new.seq or not exists (
      select from holdfast.audit
       where seq = new.seq and action = 'audit.prune'
         and detail = (old.pruned_seq + 1) || ' to ' || new.pruned_seq || ', hash ' || new.pruned_hash) then
    raise exception using errcode = '23514', message = 'holdfast: ${PRUNED_BY_LINE}';
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
`;

const keep = (column: string): string => `coalesce(${column}::text, 'forever')`;

const KEEPING = `
create function holdfast.workflow_keeps() returns trigger language plpgsql as $$
begin
  if new.name <> old.name or not exists (
      select from holdfast.audit
       where seq = (select seq from holdfast.audit_head) and action = 'workflow.keep'
         and subject = 'workflow ' || new.name and detail = ${keep("old.keep_ms")} || ' to ' || ${keep("new.keep_ms")}) then
    raise exception using errcode = '23514', message = 'holdfast: ${words.keep}';
  end if;
  return new;
end $$;

create trigger workflow_keeps before update on holdfast.workflow for each row
when (new.name <> old.name or new.keep_ms is distinct from old.keep_ms)
execute function holdfast.workflow_keeps();

create function holdfast.workflow_is_kept() returns trigger language plpgsql as $$
begin
  if exists (select from holdfast.item where workflow = old.name) then
    raise exception using errcode = '23514', message = 'holdfast: ${words.keep}';
  end if;
  return old;
end $$;

create trigger workflow_is_kept before delete on holdfast.workflow for each row
execute function holdfast.workflow_is_kept();
`;

export const AUDIT_CHAIN = COLUMNS + RULES + KEEPING;
