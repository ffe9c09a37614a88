/** The audit of what operators do, on SQLite. What it refuses is refused to everybody, also to hand-typed SQL. */
import { PRUNED_BY_LINE } from "../audit.ts";
import { words } from "../item-rules.ts";
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

/** A copy goes on from where the audit of its source was cut; the line that cut it comes with the copy. */
const COPY_BEGINS = `${COPYING} and old.seq = 0 and new.seq = new.pruned_seq and new.hash = new.pruned_hash`;

/** A replace deletes without asking the trigger that is there for deletes, so it is refused where it inserts. */
const RULES = `
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

create trigger holdfast_audit_head_grows before update on holdfast_audit_head
when (new.seq not in (old.seq, old.seq + 1) or new.pruned_seq < old.pruned_seq
      or new.seq = old.seq and new.hash <> old.hash)
  and not (${COPY_BEGINS})
begin select raise(abort, 'holdfast: the audit grows line by line'); end;

create trigger holdfast_audit_head_is_pruned before update on holdfast_audit_head
when (new.pruned_seq <> old.pruned_seq or new.pruned_hash <> old.pruned_hash)
 and (new.pruned_seq >= new.seq
      or not exists (select 1 from holdfast_audit
                      where seq = new.seq and action = 'audit.prune'
                        and detail = (old.pruned_seq + 1) || ' to ' || new.pruned_seq || ', hash ' || new.pruned_hash))
 and not (${COPY_BEGINS})
begin select raise(abort, 'holdfast: ${PRUNED_BY_LINE}'); end;

create trigger holdfast_audit_head_is_one before insert on holdfast_audit_head
begin select raise(abort, 'holdfast: the audit has one head'); end;

create trigger holdfast_audit_head_is_kept before delete on holdfast_audit_head
begin select raise(abort, 'holdfast: the audit has one head'); end;
`;

const keep = (column: string): string => `coalesce(cast(${column} as text), 'forever')`;

/** Foreign keys are checked only by connections that ask for it, and a replace deletes without asking. */
const KEEPING = `
create trigger holdfast_workflow_keeps before update on holdfast_workflow
when new.name <> old.name
  or new.keep_ms is not old.keep_ms and not exists (
     select 1 from holdfast_audit
      where seq = (select seq from holdfast_audit_head) and action = 'workflow.keep'
        and subject = 'workflow ' || new.name and detail = ${keep("old.keep_ms")} || ' to ' || ${keep("new.keep_ms")})
begin select raise(abort, 'holdfast: ${words.keep}'); end;

create trigger holdfast_workflow_is_not_replaced before insert on holdfast_workflow
when exists (select 1 from holdfast_workflow where name = new.name)
begin select raise(abort, 'holdfast: ${words.keep}'); end;

create trigger holdfast_workflow_is_kept before delete on holdfast_workflow
when exists (select 1 from holdfast_item where workflow = old.name)
begin select raise(abort, 'holdfast: ${words.keep}'); end;
`;

export const AUDIT_CHAIN = COLUMNS + RULES + KEEPING;
