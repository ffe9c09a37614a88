/** The tables of workers on PostgreSQL. What they refuse is refused to everybody, also to hand-typed SQL. */
import { wishes, workerStates } from "../../core/worker-state.ts";
import { ILLEGAL_MOVE, isActive, isOneOf } from "../worker-rules.ts";
import { COPYING } from "./copy.ts";

/** Which builds enqueue jobs. */
export const ENQUEUER_TABLE = `
create table holdfast.enqueuer (
  version       text    collate "C" not null primary key check (length(version) between 1 and 128),
  first_at      bigint  not null,
  last_at       bigint  not null
);
`;

/** Standbys, and programs that acquire leases: for people to see. */
export const UNREGISTERED_TABLE = `
create table holdfast.unregistered_worker (
  id            text    collate "C" not null primary key check (length(id) between 1 and 255),
  kind          text    collate "C" not null check (kind in ('standby', 'leases')),
  type          text    collate "C",
  hostname      text,
  pid           integer,
  version       text,
  queues        text    not null,
  tasks         text,
  started_at    bigint  not null,
  heartbeat_at  bigint  not null
);
`;

export const WORKER_TABLES = `
create table holdfast.worker_type (
  name          text    collate "C" not null primary key check (length(name) between 1 and 128),
  slots         integer check (slots between 1 and 1000),
  instance      bigint  not null default 0 check (instance >= 0)
);

create table holdfast.worker (
  id            text    collate "C" not null primary key check (length(id) between 1 and 255),
  type          text    collate "C" not null,
  slot          integer,
  instance      bigint  not null,
  status        text    collate "C" not null check (${isOneOf("status", workerStates)}),
  reason        text,
  wish          text    collate "C" not null default 'run' check (${isOneOf("wish", wishes)}),
  hostname      text    not null,
  pid           integer not null,
  host_boot     text,
  process_start text,
  version       text    not null,
  node_version  text    not null,
  platform      text    not null,
  arch          text    not null,
  queues        text    not null,
  tasks         text    not null,
  concurrency   integer not null,
  started_at    bigint  not null,
  heartbeat_at  bigint  not null,
  stale_ms      bigint  not null default 30000,
  hung_ms       bigint  not null default 60000,
  stopped_at    bigint,
  beats         bigint  not null default 0,
  gap_ms_max    bigint  not null default 0,
  claimed       bigint  not null default 0,
  done          bigint  not null default 0,
  failed        bigint  not null default 0,
  retried       bigint  not null default 0,
  leases_lost   bigint  not null default 0,
  running       integer not null default 0,
  loop_delay_ms bigint  not null default 0,
  memory_bytes  bigint  not null default 0,
  check ((status = 'stopped') = (stopped_at is not null))
) with (fillfactor = 50);
create unique index worker_slot on holdfast.worker (type, slot) where ${isActive("status")};
create index worker_alive on holdfast.worker (type) where status <> 'stopped';
create index worker_ended on holdfast.worker (stopped_at) where status = 'stopped';

create function holdfast.worker_fits() returns trigger language plpgsql as $$
declare most integer;
begin
  if ${COPYING} then
    raise exception using errcode = '23514', message = 'holdfast: a copy into this database is incomplete';
  end if;
  -- Shared with others who start, but not with somebody who changes the limit at this moment.
  select slots into most from holdfast.worker_type where name = new.type for key share;
  if not found then
    raise exception using errcode = '23514', message = 'holdfast: this type of worker was never declared';
  end if;
  if most is not null and (new.slot is null or new.slot not between 1 and most) then
    raise exception using errcode = '23514',
      message = 'holdfast: an active worker of a limited type needs a slot within its limit';
  end if;
  if most is null and new.slot is not null then
    raise exception using errcode = '23514', message = 'holdfast: this type of worker has no slots';
  end if;
  return new;
end $$;

create function holdfast.worker_type_fits() returns trigger language plpgsql as $$
begin
  if exists (select from holdfast.worker
              where type = old.name and ${isActive("status")}
                and (tg_op = 'DELETE' or (slot is null) <> (new.slots is null) or slot > new.slots)) then
    raise exception using errcode = '23514',
      message = 'holdfast: an active worker does not fit the new limit of its type';
  end if;
  return case when tg_op = 'DELETE' then old else new end;
end $$;

create trigger worker_fits before insert on holdfast.worker for each row
when (${isActive("new.status")})
execute function holdfast.worker_fits();

create trigger worker_stays before update on holdfast.worker for each row
when (new.id <> old.id or new.type <> old.type or new.slot is distinct from old.slot or new.instance <> old.instance)
execute function holdfast.refuse('a row stays with its worker and its slot');

create trigger worker_moves before update of status on holdfast.worker for each row
when (${ILLEGAL_MOVE})
execute function holdfast.refuse('a worker starts, runs, stops and is stopped, and never goes back');

create trigger worker_type_fits before update of slots on holdfast.worker_type for each row
when (new.slots is distinct from old.slots)
execute function holdfast.worker_type_fits();

create trigger worker_type_is_used before delete on holdfast.worker_type for each row
execute function holdfast.worker_type_fits();

create trigger worker_type_stays before update on holdfast.worker_type for each row
when (new.name <> old.name or new.instance < old.instance)
execute function holdfast.refuse('a type keeps its name, and its instance number never goes down');

create table holdfast.audit (
  id            uuid    not null primary key,
  at            bigint  not null,
  actor         text    not null,
  action        text    collate "C" not null,
  subject       text    collate "C" not null,
  detail        text
);
`;
