/** The tables of workflows on SQLite. What they refuse is refused to everybody, also to hand-typed SQL. */
import { itemActions, ITEM_LEVELS_MAX } from "../../core/item.ts";
import { isOneOf } from "../worker-rules.ts";

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
  audit_hash    text    not null,
  check (parent_id <> id),
  check ((parent_id is null) = (root_id = id)),
  check ((parent_id is null) = (depth = 0)),
  foreign key (workflow, type) references holdfast_workflow_type (workflow, name),
  foreign key (workflow, status) references holdfast_workflow_state (workflow, name)
) strict;
create index holdfast_item_parent on holdfast_item (parent_id, status, updated_at);
create index holdfast_item_identifier on holdfast_item (identifier, tenant, status);
create index holdfast_item_status on holdfast_item (id, status);
create index holdfast_item_list on holdfast_item (workflow, status, id);
create index holdfast_item_root on holdfast_item (root_id, depth);

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

/** Foreign keys are checked here only by connections that ask for it, so a trigger says the same again. */
const RULES = `
create trigger holdfast_item_fits before insert on holdfast_item
begin
  select raise(abort, 'holdfast: the workflow declares no such type')
   where not exists (select 1 from holdfast_workflow_type where workflow = new.workflow and name = new.type);
  select raise(abort, 'holdfast: an item begins in the initial state of its workflow')
   where not exists (select 1 from holdfast_workflow_state
                      where workflow = new.workflow and name = new.status and is_initial = 1);
end;

create trigger holdfast_item_needs_parent before insert on holdfast_item
when new.parent_id is null
begin
  select raise(abort, 'holdfast: an item of this workflow needs a parent')
    from holdfast_workflow where name = new.workflow and parent <> name;
end;

create trigger holdfast_item_fits_parent before insert on holdfast_item
when new.parent_id is not null
begin
  select raise(abort, 'holdfast: there is no such parent')
   where not exists (select 1 from holdfast_item where id = new.parent_id);
  select raise(abort, 'holdfast: the parent is of another workflow than declared')
    from holdfast_item above, holdfast_workflow w
   where above.id = new.parent_id and w.name = new.workflow and above.workflow is not w.parent;
  select raise(abort, 'holdfast: an item stands below its parent')
    from holdfast_item above
   where above.id = new.parent_id and (above.root_id <> new.root_id or above.depth + 1 <> new.depth);
  select raise(abort, 'holdfast: the parent has ended')
    from holdfast_item above
    join holdfast_workflow_state s on s.workflow = above.workflow and s.name = above.status
   where above.id = new.parent_id and s.is_final = 1;
  select raise(abort, 'holdfast: a parent is never behind its children')
    from holdfast_item above
   where above.id = new.parent_id and above.updated_at < new.updated_at;
end;

create trigger holdfast_item_moves before update of status on holdfast_item
when new.status <> old.status and not exists (
  select 1 from holdfast_workflow_move
   where workflow = new.workflow and from_state = old.status and to_state = new.status)
begin select raise(abort, 'holdfast: the workflow declares no such move'); end;

create trigger holdfast_item_follows before update on holdfast_item
when new.parent_id is not null and exists (
  select 1 from holdfast_item above where above.id = new.parent_id and above.updated_at < new.updated_at)
begin select raise(abort, 'holdfast: a parent is never behind its children'); end;

create trigger holdfast_item_stays before update on holdfast_item
when new.id <> old.id or new.workflow <> old.workflow or new.type <> old.type or new.tenant <> old.tenant
  or new.identifier <> old.identifier or new.parent_id is not old.parent_id
  or new.root_id <> old.root_id or new.depth <> old.depth or new.created_at <> old.created_at
begin select raise(abort, 'holdfast: an item keeps its workflow, type, tenant, identifier and parent'); end;

create trigger holdfast_item_counts before update on holdfast_item
when new.revision <> old.revision + 1 or new.updated_at < old.updated_at
begin select raise(abort, 'holdfast: a revision goes up by one with every change, and time does not go back'); end;

create trigger holdfast_item_is_audited before update on holdfast_item
when new.audit_seq not in (old.audit_seq, old.audit_seq + 1)
  or (new.audit_seq = old.audit_seq) <> (new.audit_hash = old.audit_hash)
  or (new.status <> old.status or new.data <> old.data) and new.audit_seq = old.audit_seq
begin select raise(abort, 'holdfast: every change of an item leaves one line in its audit'); end;

create trigger holdfast_item_is_counted after insert on holdfast_item
when new.parent_id is not null
begin
  insert into holdfast_item_progress (item_id, workflow, status, children)
  values (new.parent_id, new.workflow, new.status, 1)
      on conflict (item_id, workflow, status) do update set children = children + 1;
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

create trigger holdfast_item_is_discounted after delete on holdfast_item
when old.parent_id is not null
begin
  update holdfast_item_progress set children = children - 1
   where item_id = old.parent_id and workflow = old.workflow and status = old.status;
end;

create trigger holdfast_item_is_kept before delete on holdfast_item
when not exists (select 1 from holdfast_item_pruning where item_id = old.id)
begin select raise(abort, 'holdfast: items and their audit are deleted by their retention only'); end;

create trigger holdfast_item_audit_is_kept before delete on holdfast_item_audit
when not exists (select 1 from holdfast_item_pruning where item_id = old.item_id)
begin select raise(abort, 'holdfast: items and their audit are deleted by their retention only'); end;

create trigger holdfast_item_audit_stays before update on holdfast_item_audit
begin select raise(abort, 'holdfast: what is in the audit stays as it is'); end;

create trigger holdfast_item_audit_follows before insert on holdfast_item_audit
begin
  select raise(abort, 'holdfast: a line of the audit is written with the change that it tells of')
   where not exists (select 1 from holdfast_item
                      where id = new.item_id and audit_seq = new.seq and audit_hash = new.hash
                        and status = new.new_status and revision = new.revision);
  select raise(abort, 'holdfast: a line of the audit follows the one before')
   where new.seq > 1
     and not exists (select 1 from holdfast_item_audit
                      where item_id = new.item_id and seq = new.seq - 1 and hash = new.previous_hash);
end;
`;

export const WORKFLOW_TABLES = DECLARATIONS + ITEMS + RULES;
