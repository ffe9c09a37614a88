/**
 * The tables of figures on SQLite: how many jobs stand where, and how many came and ended in every minute, so that nobody who
 * wants to know has to count rows.
 */
export const FIGURE_TABLES = `
create table holdfast_census (
  id            integer not null primary key check (id = 1),
  begun_at      integer not null,
  counted_at    integer not null,
  took_ms       integer not null check (took_ms >= 0),
  folded_until  integer not null check (folded_until % 60000 = 0)
) strict;
insert into holdfast_census (id, begun_at, counted_at, took_ms, folded_until) values (1, 0, 0, 0, 0);

create table holdfast_depth (
  queue         text    not null,
  status        text    not null,
  jobs          integer not null check (jobs >= 0),
  oldest_at     integer,
  primary key (queue, status)
) strict, without rowid;

create table holdfast_rollup (
  minute        integer not null check (minute % 60000 = 0),
  queue         text    not null,
  arrived       integer not null check (arrived >= 0),
  done          integer not null check (done >= 0),
  failed        integer not null check (failed >= 0),
  cancelled     integer not null check (cancelled >= 0),
  run_ms_sum    integer not null check (run_ms_sum >= 0),
  run_ms_max    integer not null check (run_ms_max >= 0),
  primary key (minute, queue)
) strict, without rowid;
`;
