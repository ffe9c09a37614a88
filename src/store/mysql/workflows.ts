/** The tables of workflows on MySQL and MariaDB. What they refuse is refused to everybody, also to hand-typed SQL. */
import { itemActions, ITEM_LEVELS_MAX } from "../../core/item.ts";
import { isOneOf } from "../worker-rules.ts";
import { ID, KEY, NAME, refuse, trigger, WORD } from "./spelling.ts";

const HASH = "char(64) character set ascii collate ascii_bin";

const DECLARATIONS = `
create table if not exists holdfast_workflow (
  name          ${NAME} not null,
  version       int not null,
  parent        ${NAME},
  keep_ms       bigint,
  declared_at   bigint not null,
  declaration   mediumtext not null,
  check (name <> ''),
  check (version >= 1),
  check (keep_ms >= 0),
  primary key (name)
);

create table if not exists holdfast_workflow_type (
  workflow      ${NAME} not null,
  name          ${NAME} not null,
  check (name <> ''),
  primary key (workflow, name),
  foreign key (workflow) references holdfast_workflow (name)
);

create table if not exists holdfast_workflow_state (
  workflow      ${NAME} not null,
  name          ${NAME} not null,
  is_initial    int not null,
  is_final      int not null,
  check (name <> ''),
  check (is_initial in (0, 1)),
  check (is_final in (0, 1)),
  primary key (workflow, name),
  foreign key (workflow) references holdfast_workflow (name)
);

create table if not exists holdfast_workflow_move (
  workflow      ${NAME} not null,
  from_state    ${NAME} not null,
  to_state      ${NAME} not null,
  name          ${NAME} not null,
  check (name <> ''),
  primary key (workflow, from_state, to_state, name),
  foreign key (workflow, from_state) references holdfast_workflow_state (workflow, name),
  foreign key (workflow, to_state) references holdfast_workflow_state (workflow, name)
);
`;

const ITEMS = `
create table if not exists holdfast_item (
  id            ${ID} not null,
  workflow      ${NAME} not null,
  type          ${NAME} not null,
  tenant        ${NAME} not null,
  identifier    ${KEY} not null,
  parent_id     ${ID},
  root_id       ${ID} not null,
  depth         int not null,
  status        ${NAME} not null,
  data          mediumtext not null,
  revision      bigint not null,
  created_at    bigint not null,
  updated_at    bigint not null,
  entered_at    bigint not null,
  audit_seq     bigint not null,
  audit_hash    ${HASH} not null,
  check (tenant <> ''),
  check (identifier <> ''),
  check (depth between 0 and ${ITEM_LEVELS_MAX - 1}),
  check (revision >= 1),
  check (audit_seq >= 1),
  check (parent_id <> id),
  check ((parent_id is null) = (root_id = id)),
  check ((parent_id is null) = (depth = 0)),
  primary key (id),
  key by_parent (parent_id, status, updated_at),
  key by_identifier (identifier, tenant, status),
  key by_status (id, status),
  key by_list (workflow, status, id),
  key by_root (root_id, depth),
  foreign key (parent_id) references holdfast_item (id),
  foreign key (workflow, type) references holdfast_workflow_type (workflow, name),
  foreign key (workflow, status) references holdfast_workflow_state (workflow, name)
);

create table if not exists holdfast_item_progress (
  item_id       ${ID} not null,
  workflow      ${NAME} not null,
  status        ${NAME} not null,
  children      bigint not null,
  check (children >= 0),
  primary key (item_id, workflow, status)
);

create table if not exists holdfast_item_due (
  item_id       ${ID} not null,
  reason        ${WORD} not null,
  workflow      ${NAME} not null,
  due_at        bigint not null,
  check (${isOneOf("reason", ["limit", "jobs"])}),
  primary key (item_id, reason),
  key by_due (workflow, due_at)
);

create table if not exists holdfast_item_job (
  job_id        ${ID} not null,
  item_id       ${ID} not null,
  status        ${WORD},
  primary key (job_id),
  key by_item (item_id)
);

create table if not exists holdfast_item_audit (
  item_id       ${ID} not null,
  seq           bigint not null,
  change_id     ${ID} not null,
  at            bigint not null,
  actor         varchar(255) not null,
  action        ${WORD} not null,
  move          ${NAME},
  old_status    ${NAME},
  new_status    ${NAME} not null,
  revision      bigint not null,
  reason        text,
  lock_wait_us  bigint,
  trace_id      text,
  jobs          text not null,
  data_hash     ${HASH} not null,
  previous_hash ${HASH} not null,
  hash          ${HASH} not null,
  check (seq >= 1),
  check (${isOneOf("action", itemActions)}),
  primary key (item_id, seq),
  key by_change (change_id)
);

create table if not exists holdfast_item_pruning (
  item_id       ${ID} not null,
  primary key (item_id)
);
`;

const KEPT = refuse("items and their audit are deleted by their retention only");

const DISCOUNT = `update holdfast_item_progress set children = children - 1
     where item_id = old.parent_id and workflow = old.workflow and status = old.status;`;
const COUNT = `insert into holdfast_item_progress (item_id, workflow, status, children)
    values (new.parent_id, new.workflow, new.status, 1)
        on duplicate key update children = children + 1;`;

export const WORKFLOW_TABLES = DECLARATIONS + ITEMS;

export const WORKFLOW_TRIGGERS = [
  trigger(
    "item_fits",
    "before insert",
    "item",
    `declare wanted varchar(128);
  declare found int default 0;
  declare above_workflow varchar(128);
  declare above_status varchar(128);
  declare above_root char(36);
  declare above_depth int;
  declare above_updated bigint;
  if not exists (select 1 from holdfast_workflow_state
                  where workflow = new.workflow and name = new.status and is_initial = 1) then
    ${refuse("an item begins in the initial state of its workflow")}
  end if;
  select parent into wanted from holdfast_workflow where name = new.workflow;
  if new.parent_id is null and wanted is not null and wanted <> new.workflow then
    ${refuse("an item of this workflow needs a parent")}
  end if;
  if new.parent_id is not null then
    select count(*), max(workflow), max(status), max(root_id), max(depth), max(updated_at)
      into found, above_workflow, above_status, above_root, above_depth, above_updated
      from holdfast_item where id = new.parent_id;
    if found = 0 then ${refuse("there is no such parent")} end if;
    if not (above_workflow <=> wanted) then
      ${refuse("the parent is of another workflow than declared")}
    end if;
    if above_root <> new.root_id or above_depth + 1 <> new.depth then
      ${refuse("an item stands below its parent")}
    end if;
    if exists (select 1 from holdfast_workflow_state
                where workflow = above_workflow and name = above_status and is_final = 1) then
      ${refuse("the parent has ended")}
    end if;
    if above_updated < new.updated_at then ${refuse("a parent is never behind its children")} end if;
  end if;`,
  ),
  trigger(
    "item_stays",
    "before update",
    "item",
    `if new.id <> old.id or new.workflow <> old.workflow or new.type <> old.type or new.tenant <> old.tenant
      or new.identifier <> old.identifier or not (new.parent_id <=> old.parent_id)
      or new.root_id <> old.root_id or new.depth <> old.depth or new.created_at <> old.created_at then
    ${refuse("an item keeps its workflow, type, tenant, identifier and parent")}
  end if;
  if new.status <> old.status and not exists (
      select 1 from holdfast_workflow_move
       where workflow = new.workflow and from_state = old.status and to_state = new.status) then
    ${refuse("the workflow declares no such move")}
  end if;
  if new.parent_id is not null and exists (
      select 1 from holdfast_item where id = new.parent_id and updated_at < new.updated_at) then
    ${refuse("a parent is never behind its children")}
  end if;
  if new.revision <> old.revision + 1 or new.updated_at < old.updated_at then
    ${refuse("a revision goes up by one with every change, and time does not go back")}
  end if;
  if new.audit_seq not in (old.audit_seq, old.audit_seq + 1)
      or (new.audit_seq = old.audit_seq) <> (new.audit_hash = old.audit_hash)
      or (new.status <> old.status or new.data <> old.data) and new.audit_seq = old.audit_seq then
    ${refuse("every change of an item leaves one line in its audit")}
  end if;`,
  ),
  trigger(
    "item_is_counted",
    "after insert",
    "item",
    `if new.parent_id is not null then
    ${COUNT}
  end if;`,
  ),
  trigger(
    "item_is_recounted",
    "after update",
    "item",
    `if new.parent_id is not null and new.status <> old.status then
    ${DISCOUNT}
    ${COUNT}
  end if;`,
  ),
  trigger(
    "item_is_discounted",
    "after delete",
    "item",
    `if old.parent_id is not null then
    ${DISCOUNT}
  end if;`,
  ),
  trigger(
    "item_is_kept",
    "before delete",
    "item",
    `if not exists (select 1 from holdfast_item_pruning where item_id = old.id) then
    ${KEPT}
  end if;`,
  ),
  trigger(
    "item_audit_is_kept",
    "before delete",
    "item_audit",
    `if not exists (select 1 from holdfast_item_pruning where item_id = old.item_id) then
    ${KEPT}
  end if;`,
  ),
  trigger(
    "item_audit_stays",
    "before update",
    "item_audit",
    refuse("what is in the audit stays as it is"),
  ),
  trigger(
    "item_audit_follows",
    "before insert",
    "item_audit",
    `if not exists (select 1 from holdfast_item
                  where id = new.item_id and audit_seq = new.seq and audit_hash = new.hash
                    and status = new.new_status and revision = new.revision) then
    ${refuse("a line of the audit is written with the change that it tells of")}
  end if;
  if new.seq > 1 and not exists (
      select 1 from holdfast_item_audit
       where item_id = new.item_id and seq = new.seq - 1 and hash = new.previous_hash) then
    ${refuse("a line of the audit follows the one before")}
  end if;`,
  ),
].join("");
