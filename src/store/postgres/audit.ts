/** The audit of what operators do, on PostgreSQL. What it refuses is refused to everybody, also to hand-typed SQL. */
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

const RULES = `
create function holdfast.audit_follows() returns trigger language plpgsql as $$
declare head holdfast.audit_head;
begin
  select * into head from holdfast.audit_head where id = 1 for update;
  if new.seq is null and new.hash is null then
    -- A version of this library that knows nothing of numbers; a release later this will be refused.
    new.seq := head.seq + 1;
  elsif new.hash is null or new.seq is distinct from head.seq + 1 or new.previous_hash is distinct from head.hash then
    raise exception using errcode = '23514', message = 'holdfast: a line of the audit follows the one before';
  end if;
  update holdfast.audit_head set seq = new.seq, hash = coalesce(new.hash, head.hash) where id = 1;
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
  -- A copy goes on from where the audit of its source was cut.
  if old.seq = 0 and new.seq = new.pruned_seq and new.hash = new.pruned_hash and ${COPYING} then return new; end if;
  raise exception using errcode = '23514', message = 'holdfast: the audit grows line by line';
end $$;

create trigger audit_head_grows before update on holdfast.audit_head for each row
when (new.seq not in (old.seq, old.seq + 1) or new.pruned_seq < old.pruned_seq
      or new.seq = old.seq and new.hash <> old.hash)
execute function holdfast.audit_head_grows();

create trigger audit_head_is_kept before delete on holdfast.audit_head for each row
execute function holdfast.refuse('the audit has one head');

create trigger audit_head_is_not_emptied before truncate on holdfast.audit_head
execute function holdfast.refuse('the audit has one head');
`;

export const AUDIT_CHAIN = COLUMNS + RULES;
