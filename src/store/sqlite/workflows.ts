/** The tables of workflows on SQLite. What they refuse is refused to everybody, also to hand-typed SQL. */
import { itemActions, ITEM_LEVELS_MAX } from "../../core/item.ts";
import { audit, audited, kept, words } from "../item-rules.ts";
import { NO_HASH } from "../trail.ts";
import { isOneOf } from "../worker-rules.ts";
import { COPYING } from "./copy.ts";

const DECLARATIONS = `
create table holdfast_workflow (
  name          text    not null primary key check (length(name) between 1 and 128),
  version       integer not null check (version >= 1),
  -- The workflow of the items that its items belong to; its own name: they may belong to one.
  parent        text,
  keep_ms       integer check (keep_ms >= 0),
  declared_at   integer not null,
  declaration   text    not null
) strict, without rowid;

create table holdfast_workflow_type (
  workflow      text    not null references holdfast_workflow (name),
  name          text    not null check (length(name) between 1 and 128),
  -- 0: ended items have it, and nobody is started with it any more.
  is_declared   integer not null check (is_declared in (0, 1)),
  primary key (workflow, name)
) strict, without rowid;

create table holdfast_workflow_state (
  workflow      text    not null references holdfast_workflow (name),
  name          text    not null check (length(name) between 1 and 128),
  is_initial    integer not null check (is_initial in (0, 1)),
  is_final      integer not null check (is_final in (0, 1)),
  primary key (workflow, name)
) strict, without rowid;

create table holdfast_workflow_move (
  workflow      text    not null,
  from_state    text    not null,
  to_state      text    not null,
  name          text    not null check (length(name) between 1 and 128),
  primary key (workflow, from_state, to_state, name),
  foreign key (workflow, from_state) references holdfast_workflow_state (workflow, name),
  foreign key (workflow, to_state) references holdfast_workflow_state (workflow, name)
) strict, without rowid;
`;

const ITEMS = `
create table holdfast_item (
  id            text    not null primary key,
  workflow      text    not null,
  type          text    not null,
  tenant        text    not null check (length(tenant) between 1 and 128),
  identifier    text    not null check (length(identifier) between 1 and 256),
  parent_id     text    references holdfast_item (id),
  root_id       text    not null,
  depth         integer not null check (depth between 0 and ${ITEM_LEVELS_MAX - 1}),
  status        text    not null,
  data          text    not null,
  revision      integer not null check (revision >= 1),
  created_at    integer not null,
  updated_at    integer not null,
  entered_at    integer not null,
  audit_seq     integer not null check (audit_seq >= 1),
  audit_hash    text    not null check (length(audit_hash) = 64),
  -- Its last change, from which the database writes the line in the audit.
  change_id     text    not null,
  actor         text    not null,
  action        text    not null check (${isOneOf("action", itemActions)}),
  move          text,
  reason        text,
  lock_wait_us  integer,
  trace_id      text,
  jobs          text    not null,
  data_hash     text    not null,
  check (parent_id <> id),
  check ((parent_id is null) = (root_id = id)),
  check ((parent_id is null) = (depth = 0)),
  check (created_at <= entered_at and entered_at <= updated_at),
  check ((action = 'move') = (move is not null)),
  foreign key (workflow, type) references holdfast_workflow_type (workflow, name),
  foreign key (workflow, status) references holdfast_workflow_state (workflow, name)
) strict;
create index holdfast_item_parent on holdfast_item (parent_id, status, updated_at);
create index holdfast_item_identifier on holdfast_item (identifier, tenant, status);
create index holdfast_item_status on holdfast_item (id, status);
create index holdfast_item_root on holdfast_item (root_id, depth);
-- Lists are newest first, that is, by id.
create index holdfast_item_children on holdfast_item (parent_id, id);
create index holdfast_item_list on holdfast_item (workflow, id);
create index holdfast_item_list_status on holdfast_item (workflow, status, id);
create index holdfast_item_list_tenant on holdfast_item (workflow, tenant, id);
create index holdfast_item_list_tenant_status on holdfast_item (workflow, tenant, status, id);
create index holdfast_item_over on holdfast_item (workflow, status, updated_at) where depth = 0;

create table holdfast_item_progress (
  item_id       text    not null,
  workflow      text    not null,
  status        text    not null,
  children      integer not null check (children >= 0),
  primary key (item_id, workflow, status)
) strict, without rowid;

create table holdfast_item_due (
  item_id       text    not null,
  reason        text    not null check (${isOneOf("reason", ["limit", "jobs"])}),
  workflow      text    not null,
  -- Since when the item is in the state that this is about.
  entered_at    integer not null,
  due_at        integer not null,
  primary key (item_id, reason)
) strict, without rowid;
create index holdfast_item_due_at on holdfast_item_due (workflow, due_at);

create table holdfast_item_job (
  job_id        text    not null primary key,
  item_id       text    not null,
  status        text
) strict, without rowid;
create index holdfast_item_job_item on holdfast_item_job (item_id);

create table holdfast_item_audit (
  item_id       text    not null,
  seq           integer not null check (seq >= 1),
  change_id     text    not null,
  at            integer not null,
  actor         text    not null,
  action        text    not null check (${isOneOf("action", itemActions)}),
  move          text,
  old_status    text,
  new_status    text    not null,
  revision      integer not null,
  reason        text,
  lock_wait_us  integer,
  trace_id      text,
  jobs          text    not null,
  data_hash     text    not null,
  previous_hash text    not null,
  hash          text    not null,
  primary key (item_id, seq)
) strict, without rowid;
create index holdfast_item_audit_change on holdfast_item_audit (change_id);

-- Items whose time is over, while they are deleted.
create table holdfast_item_pruning (item_id text not null primary key) strict, without rowid;
`;

const refuse = (why: string): string => `raise(abort, 'holdfast: ${why}')`;

/** Foreign keys are checked here only by connections that ask for it, so a trigger says the same again. */
const ARRIVALS = `
create trigger holdfast_item_fits before insert on holdfast_item
begin
  -- To replace a row is to delete it, and here no trigger would hear of that.
  select ${refuse(words.retention)}
   where exists (select 1 from holdfast_item where id = new.id);
  select ${refuse(words.type)}
   where not ${COPYING}
     and not exists (select 1 from holdfast_workflow_type
                      where workflow = new.workflow and name = new.type and is_declared = 1);
  select ${refuse(words.initial)}
   where not ${COPYING}
     and (new.revision <> 1 or new.audit_seq <> 1 or new.action not in ('start', 'import')
          or not exists (select 1 from holdfast_workflow_state
                          where workflow = new.workflow and name = new.status
                            and (is_initial = 1 or new.action = 'import')));
end;

create trigger holdfast_item_needs_parent before insert on holdfast_item
when new.parent_id is null and not ${COPYING}
begin
  select ${refuse(words.orphan)}
    from holdfast_workflow where name = new.workflow and parent <> name;
end;

create trigger holdfast_item_fits_parent before insert on holdfast_item
when new.parent_id is not null and not ${COPYING}
begin
  select ${refuse(words.parent)}
   where not exists (select 1 from holdfast_item where id = new.parent_id);
  select ${refuse(words.family)}
    from holdfast_item above, holdfast_workflow w
   where above.id = new.parent_id and w.name = new.workflow and above.workflow is not w.parent;
  select ${refuse(words.place)}
    from holdfast_item above
   where above.id = new.parent_id and (above.root_id <> new.root_id or above.depth + 1 <> new.depth);
  select ${refuse(words.ended)}
    from holdfast_item above
    join holdfast_workflow_state s on s.workflow = above.workflow and s.name = above.status
   where above.id = new.parent_id and s.is_final = 1
     and not (new.action = 'import' and exists (
       select 1 from holdfast_workflow_state e
        where e.workflow = new.workflow and e.name = new.status and e.is_final = 1));
  select ${refuse(words.behind)}
    from holdfast_item above
   where above.id = new.parent_id and above.updated_at < new.updated_at;
end;

create trigger holdfast_item_is_started after insert on holdfast_item
when not ${COPYING}
begin
  ${audit("holdfast_item_audit", { status: "null", hash: `'${NO_HASH}'` })}
end;

create trigger holdfast_item_is_counted after insert on holdfast_item
when new.parent_id is not null and not ${COPYING}
begin
  insert into holdfast_item_progress (item_id, workflow, status, children)
  values (new.parent_id, new.workflow, new.status, 1)
      on conflict (item_id, workflow, status) do update set children = children + 1;
end;
`;

const CHANGES = `
create trigger holdfast_item_stays before update on holdfast_item
when ${kept("new")} is not ${kept("old")}
begin select ${refuse(words.keeps)}; end;

create trigger holdfast_item_counts before update on holdfast_item
when new.revision <> old.revision + 1 or new.updated_at < old.updated_at
begin select ${refuse(words.revision)}; end;

create trigger holdfast_item_is_audited before update on holdfast_item
when new.audit_seq not in (old.audit_seq, old.audit_seq + 1)
  or new.audit_seq = old.audit_seq and ${audited("new")} is not ${audited("old")}
begin select ${refuse(words.audited)}; end;

create trigger holdfast_item_moves before update on holdfast_item
when new.audit_seq <> old.audit_seq
begin
  select ${refuse(words.move)}
   where new.action in ('start', 'import') or new.action = 'update' and new.status <> old.status
      or new.action = 'move' and not exists (
         select 1 from holdfast_workflow_move
          where workflow = new.workflow and from_state = old.status and to_state = new.status and name = new.move);
  select ${refuse(words.stay)}
   where new.action = 'update' and new.entered_at <> old.entered_at
      or new.action = 'move' and (new.entered_at <> new.updated_at or new.entered_at <= old.entered_at);
end;

create trigger holdfast_item_follows before update on holdfast_item
when new.parent_id is not null and exists (
  select 1 from holdfast_item above where above.id = new.parent_id and above.updated_at < new.updated_at)
begin select ${refuse(words.behind)}; end;

create trigger holdfast_item_is_told after update on holdfast_item
when new.audit_seq <> old.audit_seq
begin
  ${audit("holdfast_item_audit", { status: "old.status", hash: "old.audit_hash" })}
end;

create trigger holdfast_item_is_recounted after update of status on holdfast_item
when new.parent_id is not null and new.status <> old.status
begin
  update holdfast_item_progress set children = children - 1
   where item_id = old.parent_id and workflow = old.workflow and status = old.status;
  insert into holdfast_item_progress (item_id, workflow, status, children)
  values (new.parent_id, new.workflow, new.status, 1)
      on conflict (item_id, workflow, status) do update set children = children + 1;
end;
`;

const ENDS = `
create trigger holdfast_item_is_let_go before insert on holdfast_item_pruning
begin
  select ${refuse(words.living)}
   where not exists (
     select 1
       from holdfast_item i
       join holdfast_workflow_state s on s.workflow = i.workflow and s.name = i.status
       join holdfast_item top on top.id = i.root_id
       join holdfast_workflow w on w.name = top.workflow
      where i.id = new.item_id and s.is_final = 1 and w.keep_ms is not null);
end;

create trigger holdfast_item_is_kept before delete on holdfast_item
when not exists (select 1 from holdfast_item_pruning where item_id = old.id)
begin select ${refuse(words.retention)}; end;

create trigger holdfast_item_is_discounted after delete on holdfast_item
when old.parent_id is not null
begin
  update holdfast_item_progress set children = children - 1
   where item_id = old.parent_id and workflow = old.workflow and status = old.status;
end;

create trigger holdfast_item_audit_is_kept before delete on holdfast_item_audit
when not exists (select 1 from holdfast_item_pruning where item_id = old.item_id)
begin select ${refuse(words.retention)}; end;

create trigger holdfast_item_audit_stays before update on holdfast_item_audit
begin select ${refuse(words.written)}; end;

create trigger holdfast_item_audit_is_told before insert on holdfast_item_audit
begin
  select ${refuse(words.told)}
   where exists (select 1 from holdfast_item_audit where item_id = new.item_id and seq = new.seq)
      or not ${COPYING} and not exists (select 1 from holdfast_item
                      where id = new.item_id and audit_seq = new.seq and audit_hash = new.hash
                        and status = new.new_status and revision = new.revision);
end;
`;

export const WORKFLOW_TABLES = DECLARATIONS + ITEMS + ARRIVALS + CHANGES + ENDS;
