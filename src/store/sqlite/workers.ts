/** The tables of workers on SQLite. What they refuse is refused to everybody, also to hand-typed SQL. */
import { wishes, workerStates } from "../../core/worker-state.ts";
import { ILLEGAL_MOVE, isActive, isOneOf } from "../worker-rules.ts";
import { COPYING } from "./copy.ts";

/** Which builds enqueue jobs. */
export const ENQUEUER_TABLE = `
create table holdfast_enqueuer (
  version       text    not null primary key check (length(version) between 1 and 128),
  first_at      integer not null,
  last_at       integer not null
) strict, without rowid;
`;

/** Standbys, and programs that acquire leases: for people to see. */
export const UNREGISTERED_TABLE = `
create table holdfast_unregistered_worker (
  id            text    not null primary key check (length(id) between 1 and 255),
  kind          text    not null check (kind in ('standby', 'leases')),
  type          text,
  hostname      text,
  pid           integer,
  version       text,
  queues        text    not null,
  tasks         text,
  started_at    integer not null,
  heartbeat_at  integer not null
) strict, without rowid;
`;

export const WORKER_TABLES = `
create table holdfast_worker_type (
  name          text    not null primary key check (length(name) between 1 and 128),
  slots         integer check (slots between 1 and 1000),
  instance      integer not null default 0 check (instance >= 0)
) strict, without rowid;

create table holdfast_worker (
  id            text    not null primary key check (length(id) between 1 and 255),
  type          text    not null,
  slot          integer,
  instance      integer not null,
  status        text    not null check (${isOneOf("status", workerStates)}),
  reason        text,
  wish          text    not null default 'run' check (${isOneOf("wish", wishes)}),
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
  started_at    integer not null,
  heartbeat_at  integer not null,
  stale_ms      integer not null default 30000,
  hung_ms       integer not null default 60000,
  stopped_at    integer,
  beats         integer not null default 0,
  gap_ms_max    integer not null default 0,
  claimed       integer not null default 0,
  done          integer not null default 0,
  failed        integer not null default 0,
  retried       integer not null default 0,
  leases_lost   integer not null default 0,
  running       integer not null default 0,
  loop_delay_ms integer not null default 0,
  memory_bytes  integer not null default 0,
  check ((status = 'stopped') = (stopped_at is not null))
) strict, without rowid;
create unique index holdfast_worker_slot on holdfast_worker (type, slot) where ${isActive("status")};
create index holdfast_worker_alive on holdfast_worker (type) where status <> 'stopped';
create index holdfast_worker_ended on holdfast_worker (stopped_at) where status = 'stopped';

create trigger holdfast_worker_fits before insert on holdfast_worker
when ${isActive("new.status")}
begin
  select raise(abort, 'holdfast: a copy into this database is incomplete') where ${COPYING};
  select raise(abort, 'holdfast: this type of worker was never declared')
   where not exists (select 1 from holdfast_worker_type where name = new.type);
  select raise(abort, 'holdfast: an active worker of a limited type needs a slot within its limit')
    from holdfast_worker_type
   where name = new.type and slots is not null and (new.slot is null or new.slot not between 1 and slots);
  select raise(abort, 'holdfast: this type of worker has no slots')
    from holdfast_worker_type
   where name = new.type and slots is null and new.slot is not null;
end;

create trigger holdfast_worker_stays before update on holdfast_worker
when new.id <> old.id or new.type <> old.type or new.slot is not old.slot or new.instance <> old.instance
begin select raise(abort, 'holdfast: a row stays with its worker and its slot'); end;

create trigger holdfast_worker_moves before update of status on holdfast_worker
when ${ILLEGAL_MOVE}
begin select raise(abort, 'holdfast: a worker starts, runs, stops and is stopped, and never goes back'); end;

create trigger holdfast_worker_type_fits before update of slots on holdfast_worker_type
when exists (select 1 from holdfast_worker
              where type = new.name and ${isActive("status")}
                and (slot is null) <> (new.slots is null)
                 or type = new.name and ${isActive("status")} and slot > new.slots)
begin select raise(abort, 'holdfast: an active worker does not fit the new limit of its type'); end;

create trigger holdfast_worker_type_instance before update of instance on holdfast_worker_type
when new.instance < old.instance
begin select raise(abort, 'holdfast: an instance number never goes down'); end;

create trigger holdfast_worker_type_name before update of name on holdfast_worker_type
when new.name <> old.name
begin select raise(abort, 'holdfast: a type keeps its name'); end;

create trigger holdfast_worker_type_is_used before delete on holdfast_worker_type
when exists (select 1 from holdfast_worker where type = old.name and ${isActive("status")})
begin select raise(abort, 'holdfast: the type has active workers'); end;

create table holdfast_audit (
  id            text    not null primary key,
  at            integer not null,
  actor         text    not null,
  action        text    not null,
  subject       text    not null,
  detail        text
) strict, without rowid;
`;
