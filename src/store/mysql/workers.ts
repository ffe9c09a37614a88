/** The tables of workers on MySQL and MariaDB. What they refuse is refused to everybody, also to hand-typed SQL. */
import { wishes, workerStates } from "../../core/worker-state.ts";
import { ILLEGAL_MOVE, isActive, isOneOf } from "../worker-rules.ts";
import { ID, NAME, refuse, trigger, WORD, WORKER } from "./spelling.ts";
import { COPYING } from "./copy.ts";

/** There is no index over some rows here: those of others have no slot in the column that the index sees. */
const ACTIVE_SLOT = `case when ${isActive("status")} then slot end`;

/** Which builds enqueue jobs. */
export const ENQUEUER_TABLE = `
create table if not exists holdfast_enqueuer (
  version       ${NAME} not null,
  first_at      bigint not null,
  last_at       bigint not null,
  check (version <> ''),
  primary key (version)
);
`;

/** Standbys, and programs that acquire leases: for people to see. */
export const UNREGISTERED_TABLE = `
create table if not exists holdfast_unregistered_worker (
  id            ${WORKER} not null,
  kind          ${WORD} not null,
  type          ${NAME},
  hostname      varchar(255),
  pid           int,
  version       varchar(255),
  queues        text not null,
  tasks         mediumtext,
  started_at    bigint not null,
  heartbeat_at  bigint not null,
  check (id <> ''),
  check (kind in ('standby', 'leases')),
  primary key (id)
);
`;

export const WORKER_TABLES = `
create table if not exists holdfast_worker_type (
  name          ${NAME} not null,
  slots         int,
  instance      bigint not null default 0,
  check (name <> ''),
  check (slots between 1 and 1000),
  check (instance >= 0),
  primary key (name)
);

create table if not exists holdfast_worker (
  id            ${WORKER} not null,
  type          ${NAME} not null,
  slot          int,
  instance      bigint not null,
  status        ${WORD} not null,
  reason        text,
  wish          ${WORD} not null default 'run',
  hostname      varchar(255) not null,
  pid           int not null,
  host_boot     varchar(255),
  process_start varchar(64),
  version       varchar(255) not null,
  node_version  varchar(64) not null,
  platform      varchar(32) not null,
  arch          varchar(32) not null,
  queues        text not null,
  tasks         mediumtext not null,
  concurrency   int not null,
  started_at    bigint not null,
  heartbeat_at  bigint not null,
  stale_ms      bigint not null default 30000,
  hung_ms       bigint not null default 60000,
  stopped_at    bigint,
  beats         bigint not null default 0,
  gap_ms_max    bigint not null default 0,
  claimed       bigint not null default 0,
  done          bigint not null default 0,
  failed        bigint not null default 0,
  retried       bigint not null default 0,
  leases_lost   bigint not null default 0,
  running       int not null default 0,
  loop_delay_ms bigint not null default 0,
  memory_bytes  bigint not null default 0,
  active_slot   int as (${ACTIVE_SLOT}) stored,
  check (id <> ''),
  check (${isOneOf("status", workerStates)}),
  check (${isOneOf("wish", wishes)}),
  check ((status = 'stopped') = (stopped_at is not null)),
  primary key (id),
  unique by_slot (type, active_slot),
  key by_state (status, type),
  key by_end (status, stopped_at)
);

create table if not exists holdfast_audit (
  id            ${ID} not null,
  at            bigint not null,
  actor         varchar(255) not null,
  action        varchar(64) not null,
  subject       varchar(255) not null,
  detail        text,
  primary key (id)
);
`;

export const WORKER_TRIGGERS = [
  trigger(
    "worker_fits",
    "before insert",
    "worker",
    `declare declared int default 0;
  declare most int;
  if ${isActive("new.status")} then
    if ${COPYING} then ${refuse("a copy into this database is incomplete")} end if;
    select count(*), max(slots) into declared, most from holdfast_worker_type where name = new.type;
    if declared = 0 then ${refuse("this type of worker was never declared")} end if;
    if most is not null and (new.slot is null or new.slot not between 1 and most) then
      ${refuse("an active worker of a limited type needs a slot within its limit")}
    end if;
    if most is null and new.slot is not null then ${refuse("this type of worker has no slots")} end if;
  end if;`,
  ),
  trigger(
    "worker_stays",
    "before update",
    "worker",
    `if new.id <> old.id or new.type <> old.type or not (new.slot <=> old.slot) or new.instance <> old.instance then
    ${refuse("a row stays with its worker and its slot")}
  end if;
  if ${ILLEGAL_MOVE} then
    ${refuse("a worker starts, runs, stops and is stopped, and never goes back")}
  end if;`,
  ),
  trigger(
    "worker_type_fits",
    "before update",
    "worker_type",
    `if new.name <> old.name or new.instance < old.instance then
    ${refuse("a type keeps its name, and its instance number never goes down")}
  end if;
  if not (new.slots <=> old.slots) and exists (
      select 1 from holdfast_worker
       where type = old.name and ${isActive("status")}
         and ((slot is null) <> (new.slots is null) or slot > new.slots)) then
    ${refuse("an active worker does not fit the new limit of its type")}
  end if;`,
  ),
  trigger(
    "worker_type_is_used",
    "before delete",
    "worker_type",
    `if exists (select 1 from holdfast_worker where type = old.name and ${isActive("status")}) then
    ${refuse("the type has active workers")}
  end if;`,
  ),
].join("");
