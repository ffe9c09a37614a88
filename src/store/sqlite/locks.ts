/** The tables of locks on SQLite. */
export const LOCK_TABLES = `
create table holdfast_lock (
  name          text    not null primary key check (length(name) between 1 and 255),
  token         integer not null check (token >= 1),
  holder        text,
  owner         text    not null,
  trace         text,
  acquired_at   integer not null,
  expires_at    integer not null,
  next_holder   text,
  next_until    integer,
  check ((next_holder is null) = (next_until is null))
) strict, without rowid;

create trigger holdfast_lock_token_never_falls before update of token on holdfast_lock
when new.token < old.token
begin select raise(abort, 'holdfast: the token of a lock never goes down'); end;

create trigger holdfast_lock_name_stays before update of name on holdfast_lock
when new.name <> old.name
begin select raise(abort, 'holdfast: a row stays with its lock'); end;

create table holdfast_lock_stat (
  minute        integer not null check (minute % 60000 = 0),
  type          text    not null check (length(type) between 1 and 255),
  source        text    not null,
  acquisitions  integer not null check (acquisitions >= 0),
  timeouts      integer not null check (timeouts >= 0),
  wait_ms_sum   integer not null check (wait_ms_sum >= 0),
  held_ms_max   integer not null check (held_ms_max >= 0),
  waits         text    not null,
  primary key (minute, type, source)
) strict, without rowid;
`;
