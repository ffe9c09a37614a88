/** The audit of what operators do, on MySQL and MariaDB. What it refuses is refused to everybody, also to hand-typed SQL. */
import { PRUNED_BY_LINE } from "../audit.ts";
import { words } from "../item-rules.ts";
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

const FOLLOWS = refuse("a line of the audit follows the one before");
const ONE_HEAD = refuse("the audit has one head");

/** A copy goes on from where the audit of its source was cut; the line that cut it comes with the copy. */
const COPY_BEGINS = `old.seq = 0 and new.seq = new.pruned_seq and new.hash = new.pruned_hash and ${COPYING}`;

const RULES = [
  trigger(
    "audit_follows",
    "before insert",
    "audit",
    `if new.hash is null then ${FOLLOWS} end if;
  update holdfast_audit_head set seq = new.seq, hash = new.hash
   where seq + 1 = new.seq and hash = new.previous_hash;
  if row_count() = 0 then ${FOLLOWS} end if;`,
  ),
  trigger(
    "audit_stays",
    "before update",
    "audit",
    `if old.seq is not null then ${refuse("what is in the audit stays as it is")} end if;
    update holdfast_audit_head set seq = seq + 1;
    set new.seq = (select seq from holdfast_audit_head);`,
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
      and not (${COPY_BEGINS}) then
    ${refuse("the audit grows line by line")}
  end if;
  if (new.pruned_seq <> old.pruned_seq or new.pruned_hash <> old.pruned_hash)
      and not (${COPY_BEGINS})
      and (new.pruned_seq >= new.seq or not exists (
        select 1 from holdfast_audit
         where seq = new.seq and action = 'audit.prune'
           and detail = concat(old.pruned_seq + 1, ' to ', new.pruned_seq, ', hash ', new.pruned_hash))) then
    ${refuse(PRUNED_BY_LINE)}
  end if;`,
  ),
  trigger("audit_head_is_kept", "before delete", "audit_head", ONE_HEAD),
  trigger(
    "workflow_keeps",
    "before update",
    "workflow",
    `if new.name <> old.name or not (new.keep_ms <=> old.keep_ms) and not exists (
      select 1 from holdfast_audit
       where seq = (select seq from holdfast_audit_head) and action = 'workflow.keep'
         and subject = concat('workflow ', new.name)
         and detail = concat(coalesce(old.keep_ms, 'forever'), ' to ', coalesce(new.keep_ms, 'forever'))) then
    ${refuse(words.keep)}
  end if;`,
  ),
  trigger(
    "workflow_is_kept",
    "before delete",
    "workflow",
    `if exists (select 1 from holdfast_item where workflow = old.name) then ${refuse(words.keep)} end if;`,
  ),
].join("");

/** What was there before has its number from now on, and no hash: the trigger gives it. */
const NUMBERS = `
update holdfast_audit set seq = 0 where seq is null order by at, id;
`;

export const auditChain = (inEngine: (tables: string) => string): string =>
  COLUMNS + inEngine(AUDIT_HEAD) + FIRST_HEAD + RULES + NUMBERS;
