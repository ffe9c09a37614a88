/** The tables of workflows on MySQL and MariaDB. What they refuse is refused to everybody, also to hand-typed SQL. */
import { itemActions, ITEM_LEVELS_MAX } from "../../core/item.ts";
import { audit, audited, kept, words } from "../item-rules.ts";
import { NO_HASH } from "../trail.ts";
import { isOneOf } from "../worker-rules.ts";
import { COPYING } from "./copy.ts";
import { HASH, ID, KEY, NAME, refuse, trigger, WORD } from "./spelling.ts";

const ACTOR = "varchar(255)";

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
  is_declared   int not null,
  check (name <> ''),
  check (is_declared in (0, 1)),
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
  change_id     ${ID} not null,
  actor         ${ACTOR} not null,
  action        ${WORD} not null,
  move          ${NAME},
  reason        text,
  lock_wait_us  bigint,
  trace_id      text,
  jobs          text not null,
  data_hash     ${HASH} not null,
  check (tenant <> ''),
  check (identifier <> ''),
  check (depth between 0 and ${ITEM_LEVELS_MAX - 1}),
  check (revision >= 1),
  check (audit_seq >= 1),
  check (length(audit_hash) = 64),
  check (${isOneOf("action", itemActions)}),
  check (parent_id <> id),
  check ((parent_id is null) = (root_id = id)),
  check ((parent_id is null) = (depth = 0)),
  check (created_at <= entered_at and entered_at <= updated_at),
  check ((action = 'move') = (move is not null)),
  primary key (id),
  key by_parent (parent_id, status, updated_at),
  key by_identifier (identifier, tenant, status),
  key by_status (id, status),
  key by_root (root_id, depth),
  key children (parent_id, id),
  key list (workflow, id),
  key list_status (workflow, status, id),
  key list_tenant (workflow, tenant, id),
  key list_tenant_status (workflow, tenant, status, id),
  key list_over (depth, workflow, status, updated_at),
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
  entered_at    bigint not null,
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
  actor         ${ACTOR} not null,
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

const DISCOUNT = `update holdfast_item_progress set children = children - 1
     where item_id = old.parent_id and workflow = old.workflow and status = old.status;`;
const COUNT = `insert into holdfast_item_progress (item_id, workflow, status, children)
    values (new.parent_id, new.workflow, new.status, 1)
        on duplicate key update children = children + 1;`;

/**
 * How many rows there are, as they are now: a transaction that repeats its reads would go by what was there when it began.
 * Whoever changes the declaration has its row locked, and we wait for them.
 */
const count = (rows: string): string =>
  `select count(*) into found from ${rows} lock in share mode;`;

const none = (rows: string, why: string): string =>
  `${count(rows)}
  if found = 0 then ${refuse(why)} end if;`;

const any = (rows: string, why: string): string =>
  `${count(rows)}
  if found > 0 then ${refuse(why)} end if;`;

const WORKFLOW = "holdfast_workflow where name = new.workflow";
const PARENT = "holdfast_item above where above.id = new.parent_id";

export const WORKFLOW_TABLES = DECLARATIONS + ITEMS;

const ARRIVALS = [
  trigger(
    "item_fits",
    "before insert",
    "item",
    `declare found int default 0;
  if not ${COPYING} then
  ${count(WORKFLOW)}
  ${none(
    `holdfast_workflow_type where workflow = new.workflow and name = new.type and is_declared = 1`,
    words.type,
  )}
  ${none(
    `holdfast_workflow_state where workflow = new.workflow and name = new.status
       and (is_initial = 1 or new.action = 'import')`,
    words.initial,
  )}
  if new.revision <> 1 or new.audit_seq <> 1 or new.action not in ('start', 'import') then ${refuse(words.initial)} end if;
  if new.parent_id is null then
    ${any(`${WORKFLOW} and parent <> name`, words.orphan)}
  else
    ${none(PARENT, words.parent)}
    ${none(
      `holdfast_item above join holdfast_workflow w on w.name = new.workflow and w.parent = above.workflow
       where above.id = new.parent_id`,
      words.family,
    )}
    ${none(`${PARENT} and above.root_id = new.root_id and above.depth + 1 = new.depth`, words.place)}
    ${any(
      `holdfast_item above
       join holdfast_workflow_state s on s.workflow = above.workflow and s.name = above.status
       where above.id = new.parent_id and s.is_final = 1
         and not (new.action = 'import' and exists (
           select 1 from holdfast_workflow_state e
            where e.workflow = new.workflow and e.name = new.status and e.is_final = 1))`,
      words.ended,
    )}
    ${any(`${PARENT} and above.updated_at < new.updated_at`, words.behind)}
  end if;
  end if;`,
  ),
  trigger(
    "item_is_started",
    "after insert",
    "item",
    `if not ${COPYING} then
    ${audit("holdfast_item_audit", { status: "null", hash: `'${NO_HASH}'` })}
    if new.parent_id is not null then
      ${COUNT}
    end if;
  end if;`,
  ),
];

const CHANGES = [
  trigger(
    "item_stays",
    "before update",
    "item",
    `declare found int default 0;
  if not (${kept("new")} <=> ${kept("old")}) then ${refuse(words.keeps)} end if;
  if new.revision <> old.revision + 1 or new.updated_at < old.updated_at then
    ${refuse(words.revision)}
  end if;
  if new.audit_seq not in (old.audit_seq, old.audit_seq + 1)
      or new.audit_seq = old.audit_seq and not (${audited("new")} <=> ${audited("old")}) then
    ${refuse(words.audited)}
  end if;
  if new.audit_seq <> old.audit_seq and new.action = 'update' then
    if new.status <> old.status then ${refuse(words.move)} end if;
    if new.entered_at <> old.entered_at then ${refuse(words.stay)} end if;
  elseif new.audit_seq <> old.audit_seq then
    ${count(WORKFLOW)}
    ${none(
      `holdfast_workflow_move where workflow = new.workflow and from_state = old.status and to_state = new.status
         and name = new.move and new.action = 'move'`,
      words.move,
    )}
    if new.entered_at <> new.updated_at or new.entered_at <= old.entered_at then ${refuse(words.stay)} end if;
  end if;
  if new.parent_id is not null then
    ${any(`${PARENT} and above.updated_at < new.updated_at`, words.behind)}
  end if;`,
  ),
  trigger(
    "item_is_told",
    "after update",
    "item",
    `if new.audit_seq <> old.audit_seq then
    ${audit("holdfast_item_audit", { status: "old.status", hash: "old.audit_hash" })}
  end if;
  if new.parent_id is not null and new.status <> old.status then
    ${DISCOUNT}
    ${COUNT}
  end if;`,
  ),
];

const ENDS = [
  trigger(
    "item_is_let_go",
    "before insert",
    "item_pruning",
    `declare found int default 0;
  ${none(
    `holdfast_item i
     join holdfast_workflow_state s on s.workflow = i.workflow and s.name = i.status
     join holdfast_item top on top.id = i.root_id
     join holdfast_workflow w on w.name = top.workflow
     where i.id = new.item_id and s.is_final = 1 and w.keep_ms is not null`,
    words.living,
  )}`,
  ),
  trigger(
    "item_is_kept",
    "before delete",
    "item",
    `if not exists (select 1 from holdfast_item_pruning where item_id = old.id) then
    ${refuse(words.retention)}
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
    "item_audit_is_kept",
    "before delete",
    "item_audit",
    `if not exists (select 1 from holdfast_item_pruning where item_id = old.item_id) then
    ${refuse(words.retention)}
  end if;`,
  ),
  trigger("item_audit_stays", "before update", "item_audit", refuse(words.written)),
  trigger(
    "item_audit_is_told",
    "before insert",
    "item_audit",
    `if exists (select 1 from holdfast_item_audit where item_id = new.item_id and seq = new.seq)
      or not ${COPYING} and not exists (select 1 from holdfast_item
                      where id = new.item_id and audit_seq = new.seq and audit_hash = new.hash
                        and status = new.new_status and revision = new.revision) then
    ${refuse(words.told)}
  end if;`,
  ),
];

export const WORKFLOW_TRIGGERS = [...ARRIVALS, ...CHANGES, ...ENDS].join("");
