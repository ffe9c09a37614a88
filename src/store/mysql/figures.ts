/**
 * The tables of figures on MySQL and MariaDB: how many jobs stand where, and how many came and ended in every minute, so that
 * nobody who wants to know has to count rows.
 */
import { NAME, WORD } from "./spelling.ts";

export const FIGURE_TABLES = `
create table if not exists holdfast_census (
  id            int not null,
  begun_at      bigint not null,
  counted_at    bigint not null,
  took_ms       bigint not null,
  folded_until  bigint not null,
  check (id = 1),
  check (took_ms >= 0),
  check (folded_until % 60000 = 0),
  primary key (id)
);
insert ignore into holdfast_census (id, begun_at, counted_at, took_ms, folded_until) values (1, 0, 0, 0, 0);

create table if not exists holdfast_depth (
  queue         ${NAME} not null,
  status        ${WORD} not null,
  jobs          bigint not null,
  oldest_at     bigint,
  check (jobs >= 0),
  primary key (queue, status)
);

create table if not exists holdfast_rollup (
  minute        bigint not null,
  queue         ${NAME} not null,
  arrived       bigint not null,
  done          bigint not null,
  failed        bigint not null,
  cancelled     bigint not null,
  run_ms_sum    bigint not null,
  run_ms_max    bigint not null,
  check (minute % 60000 = 0),
  check (arrived >= 0 and done >= 0 and failed >= 0 and cancelled >= 0 and run_ms_sum >= 0 and run_ms_max >= 0),
  primary key (minute, queue)
);
`;
