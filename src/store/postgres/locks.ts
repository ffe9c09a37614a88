/** The tables of locks on PostgreSQL. Their rows change all the time and are few: there is room beside each for its next state. */
const RESTLESS = `
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0.2, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0`;

export const LOCK_TABLES = `
create table holdfast.lock (
  name          text    collate "C" not null primary key check (length(name) between 1 and 255),
  token         bigint  not null check (token >= 1),
  holder        text    collate "C",
  owner         text    not null,
  trace         text,
  acquired_at   bigint  not null,
  expires_at    bigint  not null,
  next_holder   text    collate "C",
  next_until    bigint,
  check ((next_holder is null) = (next_until is null))
) with (${RESTLESS});

create trigger lock_token_never_falls before update on holdfast.lock for each row
when (new.token < old.token)
execute function holdfast.refuse('the token of a lock never goes down');

create trigger lock_name_stays before update on holdfast.lock for each row
when (new.name <> old.name)
execute function holdfast.refuse('a row stays with its lock');

create table holdfast.lock_stat (
  minute        bigint  not null check (minute % 60000 = 0),
  type          text    collate "C" not null check (length(type) between 1 and 255),
  source        text    collate "C" not null,
  acquisitions  bigint  not null check (acquisitions >= 0),
  timeouts      bigint  not null check (timeouts >= 0),
  wait_ms_sum   bigint  not null check (wait_ms_sum >= 0),
  held_ms_max   bigint  not null check (held_ms_max >= 0),
  waits         text    not null,
  primary key (minute, type, source)
) with (fillfactor = 70);
`;
