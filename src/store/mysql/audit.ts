/** The audit of what operators do, on MySQL and MariaDB. What it refuses is refused to everybody, also to hand-typed SQL. */
import { NO_HASH } from "../trail.ts";
import { COPYING } from "./copy.ts";
import { HASH, NAME, refuse, trigger } from "./spelling.ts";

/** Only MariaDB adds a column if it is not there, so whether it is there is asked first. */
const COLUMNS = `
set @holdfast_alter = (
  select case when count(*) > 0 then 'do 0' else
    'alter table holdfast_audit
       modify column subject varchar(512) not null,
       add column seq bigint,
       add column old_status ${NAME},
       add column new_status ${NAME},
       add column reason text,
       add column trace_id text,
       add column previous_hash ${HASH},
       add column hash ${HASH},
       add unique key by_seq (seq),
       add key by_subject (subject, seq)' end
    from information_schema.columns
   where table_schema = database() and table_name = 'holdfast_audit' and column_name = 'seq');
prepare holdfast_alter from @holdfast_alter;
execute holdfast_alter;
deallocate prepare holdfast_alter;
`;

export const AUDIT_HEAD = `
create table if not exists holdfast_audit_head (
  id            int not null,
  seq           bigint not null,
  hash          ${HASH} not null,
  pruned_seq    bigint not null,
  pruned_hash   ${HASH} not null,
  check (id = 1),
  check (pruned_seq between 0 and seq),
  primary key (id)
);
`;

const FIRST_HEAD = `
insert ignore into holdfast_audit_head (id, seq, hash, pruned_seq, pruned_hash)
values (1, 0, '${NO_HASH}', 0, '${NO_HASH}');
`;

/** For versions of this library that know nothing of numbers; a release later they will be refused. */
const NUMBER = `update holdfast_audit_head set seq = seq + 1;
    set new.seq = (select seq from holdfast_audit_head);`;

const ONE_HEAD = refuse("the audit has one head");

const RULES = [
  trigger(
    "audit_follows",
    "before insert",
    "audit",
    `if new.seq is null and new.hash is null then
    ${NUMBER}
  else
    update holdfast_audit_head set seq = new.seq, hash = new.hash
     where seq + 1 = new.seq and hash = new.previous_hash;
    if row_count() = 0 then ${refuse("a line of the audit follows the one before")} end if;
  end if;`,
  ),
  trigger(
    "audit_stays",
    "before update",
    "audit",
    `if old.seq is not null then ${refuse("what is in the audit stays as it is")} end if;
    ${NUMBER}`,
  ),
  trigger(
    "audit_is_kept",
    "before delete",
    "audit",
    `if not exists (select 1 from holdfast_audit_head where pruned_seq >= old.seq) then
    ${refuse("the audit is deleted by its retention only")}
  end if;`,
  ),
  trigger(
    "audit_head_grows",
    "before update",
    "audit_head",
    `if (new.seq not in (old.seq, old.seq + 1) or new.pruned_seq < old.pruned_seq
         or new.seq = old.seq and new.hash <> old.hash)
      and not (old.seq = 0 and new.seq = new.pruned_seq and new.hash = new.pruned_hash and ${COPYING}) then
    ${refuse("the audit grows line by line")}
  end if;`,
  ),
  trigger("audit_head_is_kept", "before delete", "audit_head", ONE_HEAD),
].join("");

/** What was there before has its number from now on, and no hash: the trigger gives it. */
const NUMBERS = `
update holdfast_audit set seq = 0 where seq is null order by at, id;
`;

export const auditChain = (inEngine: (tables: string) => string): string =>
  COLUMNS + inEngine(AUDIT_HEAD) + FIRST_HEAD + RULES + NUMBERS;
