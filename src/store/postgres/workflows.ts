/** The tables of workflows on PostgreSQL. What they refuse is refused to everybody, also to hand-typed SQL. */
import { itemActions, ITEM_LEVELS_MAX } from "../../core/item.ts";
import { audit, audited, kept, words } from "../item-rules.ts";
import { NO_HASH } from "../trail.ts";
import { isOneOf } from "../worker-rules.ts";
import { COPYING } from "./copy.ts";

const DECLARATIONS = `
create table holdfast.workflow (
  name          text    collate "C" not null primary key check (length(name) between 1 and 128),
  version       integer not null check (version >= 1),
  -- The workflow of the items that its items belong to; its own name: they may belong to one.
  parent        text    collate "C",
  keep_ms       bigint  check (keep_ms >= 0),
  declared_at   bigint  not null,
  declaration   text    not null
);

create table holdfast.workflow_type (
  workflow      text    collate "C" not null references holdfast.workflow (name),
  name          text    collate "C" not null check (length(name) between 1 and 128),
  -- 0: ended items have it, and nobody is started with it any more.
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
`;

const ITEMS = `
create table holdfast.item (
  id            uuid    not null primary key,
  workflow      text    collate "C" not null,
  type          text    collate "C" not null,
  tenant        text    collate "C" not null check (length(tenant) between 1 and 128),
  identifier    text    collate "C" not null check (length(identifier) between 1 and 256),
  parent_id     uuid    references holdfast.item (id),
  root_id       uuid    not null,
  depth         integer not null check (depth between 0 and ${ITEM_LEVELS_MAX - 1}),
  status        text    collate "C" not null,
  data          text    not null,
  revision      bigint  not null check (revision >= 1),
  created_at    bigint  not null,
  updated_at    bigint  not null,
  entered_at    bigint  not null,
  audit_seq     bigint  not null check (audit_seq >= 1),
  audit_hash    text    collate "C" not null check (length(audit_hash) = 64),
  -- Its last change, from which the database writes the line in the audit.
  change_id     uuid    not null,
  actor         text    not null,
  action        text    collate "C" not null check (${isOneOf("action", itemActions)}),
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
  reason        text    collate "C" not null check (${isOneOf("reason", ["limit", "jobs"])}),
  workflow      text    collate "C" not null,
  -- Since when the item is in the state that this is about.
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
  action        text    collate "C" not null check (${isOneOf("action", itemActions)}),
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

-- Items whose time is over, while they are deleted.
create table holdfast.item_pruning (item_id uuid not null primary key);
`;

const fail = (why: string): string =>
  `raise exception using errcode = '23514', message = 'holdfast: ${why}';`;

/**
 * Whoever changes the declaration locks the rows of all states (see ../declarations.ts): they wait for us here, or we for
 * them, and what is read afterwards is as they left it.
 */
const LOCK_STATE = `perform from holdfast.workflow_state
          where workflow = new.workflow and name = new.status for key share;`;

const ARRIVALS = `
create function holdfast.item_fits() returns trigger language plpgsql as $$
declare wanted text; above holdfast.item;
begin
  if ${COPYING} then return new; end if;
  ${LOCK_STATE}
  if not exists (select from holdfast.workflow_type
                  where workflow = new.workflow and name = new.type and is_declared = 1) then
    ${fail(words.type)}
  end if;
  if new.revision <> 1 or new.audit_seq <> 1 or new.action not in ('start', 'import') or not exists (
      select from holdfast.workflow_state
       where workflow = new.workflow and name = new.status and (is_initial = 1 or new.action = 'import')) then
    ${fail(words.initial)}
  end if;
  select parent into wanted from holdfast.workflow where name = new.workflow;
  if new.parent_id is null then
    if wanted <> new.workflow then ${fail(words.orphan)} end if;
    return new;
  end if;
  select * into above from holdfast.item where id = new.parent_id;
  if not found then ${fail(words.parent)} end if;
  if above.workflow is distinct from wanted then ${fail(words.family)} end if;
  if above.root_id <> new.root_id or above.depth + 1 <> new.depth then ${fail(words.place)} end if;
  if exists (select from holdfast.workflow_state
              where workflow = above.workflow and name = above.status and is_final = 1)
      and not (new.action = 'import' and exists (
        select from holdfast.workflow_state where workflow = new.workflow and name = new.status and is_final = 1)) then
    ${fail(words.ended)}
  end if;
  if above.updated_at < new.updated_at then ${fail(words.behind)} end if;
  return new;
end $$;

create trigger item_fits before insert on holdfast.item for each row
execute function holdfast.item_fits();

create function holdfast.item_is_told() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' and ${COPYING} then return null; end if;
  if tg_op = 'INSERT' then
    ${audit("holdfast.item_audit", { status: "null", hash: `'${NO_HASH}'` })}
  else
    ${audit("holdfast.item_audit", { status: "old.status", hash: "old.audit_hash" })}
  end if;
  return null;
end $$;

create trigger item_is_started after insert on holdfast.item for each row
execute function holdfast.item_is_told();

create function holdfast.item_is_counted() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' and ${COPYING} then return null; end if;
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
`;

const CHANGES = `
create trigger item_stays before update on holdfast.item for each row
when (${kept("new")} is distinct from ${kept("old")})
execute function holdfast.refuse('${words.keeps}');

create trigger item_counts before update on holdfast.item for each row
when (new.revision <> old.revision + 1 or new.updated_at < old.updated_at)
execute function holdfast.refuse('${words.revision}');

create trigger item_is_audited before update on holdfast.item for each row
when (new.audit_seq not in (old.audit_seq, old.audit_seq + 1)
      or new.audit_seq = old.audit_seq and ${audited("new")} is distinct from ${audited("old")})
execute function holdfast.refuse('${words.audited}');

create function holdfast.item_moves() returns trigger language plpgsql as $$
begin
  if new.action = 'update' then
    if new.status <> old.status then ${fail(words.move)} end if;
    if new.entered_at <> old.entered_at then ${fail(words.stay)} end if;
    return new;
  end if;
  ${LOCK_STATE}
  if new.action <> 'move' or not exists (
      select from holdfast.workflow_move
       where workflow = new.workflow and from_state = old.status and to_state = new.status and name = new.move) then
    ${fail(words.move)}
  end if;
  if new.entered_at <> new.updated_at or new.entered_at <= old.entered_at then ${fail(words.stay)} end if;
  return new;
end $$;

create trigger item_moves before update on holdfast.item for each row
when (new.audit_seq <> old.audit_seq)
execute function holdfast.item_moves();

create function holdfast.item_follows() returns trigger language plpgsql as $$
begin
  if exists (select from holdfast.item where id = new.parent_id and updated_at < new.updated_at) then
    ${fail(words.behind)}
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
`;

const ENDS = `
create function holdfast.item_is_let_go() returns trigger language plpgsql as $$
begin
  if not exists (
      select from holdfast.item i
        join holdfast.workflow_state s on s.workflow = i.workflow and s.name = i.status
        join holdfast.item top on top.id = i.root_id
        join holdfast.workflow w on w.name = top.workflow
       where i.id = new.item_id and s.is_final = 1 and w.keep_ms is not null) then
    ${fail(words.living)}
  end if;
  return new;
end $$;

create trigger item_is_let_go before insert on holdfast.item_pruning for each row
execute function holdfast.item_is_let_go();

create function holdfast.item_is_kept() returns trigger language plpgsql as $$
begin
  if not exists (select from holdfast.item_pruning where item_id = old.id) then ${fail(words.retention)} end if;
  return old;
end $$;

create trigger item_is_kept before delete on holdfast.item for each row
execute function holdfast.item_is_kept();

create trigger item_is_discounted after delete on holdfast.item for each row
when (old.parent_id is not null)
execute function holdfast.item_is_counted();

create trigger item_is_not_emptied before truncate on holdfast.item
execute function holdfast.refuse('${words.retention}');

create function holdfast.item_audit_is_kept() returns trigger language plpgsql as $$
begin
  if not exists (select from holdfast.item_pruning where item_id = old.item_id) then ${fail(words.retention)} end if;
  return old;
end $$;

create trigger item_audit_is_kept before delete on holdfast.item_audit for each row
execute function holdfast.item_audit_is_kept();

create trigger item_audit_is_not_emptied before truncate on holdfast.item_audit
execute function holdfast.refuse('${words.retention}');

create trigger item_audit_stays before update on holdfast.item_audit for each row
execute function holdfast.refuse('${words.written}');

create function holdfast.item_audit_is_told() returns trigger language plpgsql as $$
begin
  if exists (select from holdfast.item_audit where item_id = new.item_id and seq = new.seq)
      or not ${COPYING} and not exists (select from holdfast.item
                      where id = new.item_id and audit_seq = new.seq and audit_hash = new.hash
                        and status = new.new_status and revision = new.revision) then
    ${fail(words.told)}
  end if;
  return new;
end $$;

create trigger item_audit_is_told before insert on holdfast.item_audit for each row
execute function holdfast.item_audit_is_told();
`;

export const WORKFLOW_TABLES = DECLARATIONS + ITEMS + ARRIVALS + CHANGES + ENDS;
