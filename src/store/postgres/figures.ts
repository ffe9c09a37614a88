/**
 * The tables of figures on PostgreSQL: how many jobs stand where, and how many came and ended in every minute, so that nobody
 * who wants to know has to count rows.
 */
export const FIGURE_TABLES = `
create table holdfast.census (
  id            integer not null primary key check (id = 1),
  begun_at      bigint  not null,
  counted_at    bigint  not null,
  took_ms       bigint  not null check (took_ms >= 0),
  folded_until  bigint  not null check (folded_until % 60000 = 0)
) with (fillfactor = 50);
insert into holdfast.census (id, begun_at, counted_at, took_ms, folded_until) values (1, 0, 0, 0, 0);

create table holdfast.depth (
  queue         text    collate "C" not null,
  status        text    collate "C" not null,
  jobs          bigint  not null check (jobs >= 0),
  oldest_at     bigint,
  primary key (queue, status)
) with (fillfactor = 50);

create table holdfast.rollup (
  minute        bigint  not null check (minute % 60000 = 0),
  queue         text    collate "C" not null,
  arrived       bigint  not null check (arrived >= 0),
  done          bigint  not null check (done >= 0),
  failed        bigint  not null check (failed >= 0),
  cancelled     bigint  not null check (cancelled >= 0),
  run_ms_sum    bigint  not null check (run_ms_sum >= 0),
  run_ms_max    bigint  not null check (run_ms_max >= 0),
  primary key (minute, queue)
);
`;
