/** The audit of what operators do, on SQLite. What it refuses is refused to everybody, also to hand-typed SQL. */
import { NO_HASH } from "../trail.ts";
import { COPYING } from "./copy.ts";

const COLUMNS = `
alter table holdfast_audit add column seq           integer check (seq >= 1);
alter table holdfast_audit add column old_status    text;
alter table holdfast_audit add column new_status    text;
alter table holdfast_audit add column reason        text;
alter table holdfast_audit add column trace_id      text;
alter table holdfast_audit add column previous_hash text;
alter table holdfast_audit add column hash          text;

-- What was there before has its number from now on, and no hash.
update holdfast_audit set seq = numbered.seq
  from (select id, row_number() over (order by at, id) as seq from holdfast_audit) numbered
 where numbered.id = holdfast_audit.id;
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
select 1, count(*), '${NO_HASH}', 0, '${NO_HASH}' from holdfast_audit;
`;

/** A replace deletes without asking the trigger that is there for deletes, so it is refused where it inserts. */
const RULES = `
create trigger holdfast_audit_follows before insert on holdfast_audit
begin
  select raise(abort, 'holdfast: what is in the audit stays as it is')
   where exists (select 1 from holdfast_audit where id = new.id or seq = new.seq);
  select raise(abort, 'holdfast: a line of the audit follows the one before')
    from holdfast_audit_head
   where (new.seq is null) <> (new.hash is null)
      or new.seq is not null and (new.seq <> seq + 1 or new.previous_hash is not hash);
end;

-- A version of this library that knows nothing of numbers gives none; a release later this will be refused.
create trigger holdfast_audit_is_counted after insert on holdfast_audit
begin
  update holdfast_audit_head set seq = seq + 1, hash = coalesce(new.hash, hash);
  update holdfast_audit set seq = (select seq from holdfast_audit_head) where id = new.id and seq is null;
end;

create trigger holdfast_audit_stays before update on holdfast_audit
when old.seq is not null
begin select raise(abort, 'holdfast: what is in the audit stays as it is'); end;

create trigger holdfast_audit_is_kept before delete on holdfast_audit
when not exists (select 1 from holdfast_audit_head where pruned_seq >= old.seq)
begin select raise(abort, 'holdfast: the audit is deleted by its retention only'); end;

create trigger holdfast_audit_head_grows before update on holdfast_audit_head
when (new.seq not in (old.seq, old.seq + 1) or new.pruned_seq < old.pruned_seq
      or new.seq = old.seq and new.hash <> old.hash)
  -- A copy goes on from where the audit of its source was cut.
  and not (${COPYING} and old.seq = 0 and new.seq = new.pruned_seq and new.hash = new.pruned_hash)
begin select raise(abort, 'holdfast: the audit grows line by line'); end;

create trigger holdfast_audit_head_is_one before insert on holdfast_audit_head
begin select raise(abort, 'holdfast: the audit has one head'); end;

create trigger holdfast_audit_head_is_kept before delete on holdfast_audit_head
begin select raise(abort, 'holdfast: the audit has one head'); end;
`;

export const AUDIT_CHAIN = COLUMNS + RULES;
