/** The tables of locks on MySQL and MariaDB. */
import { LOCK_KEY_LENGTH_MAX } from "../../core/lock.ts";
import { ID, refuse, trigger } from "./spelling.ts";

const LOCK = `varchar(${LOCK_KEY_LENGTH_MAX})`;

export const LOCK_TABLES = `
create table if not exists holdfast_lock (
  name          ${LOCK} not null,
  token         bigint not null,
  holder        ${ID},
  owner         varchar(255) not null,
  trace         varchar(255),
  acquired_at   bigint not null,
  expires_at    bigint not null,
  next_holder   ${ID},
  next_until    bigint,
  check (name <> ''),
  check (token >= 1),
  check ((next_holder is null) = (next_until is null)),
  primary key (name)
);

create table if not exists holdfast_lock_stat (
  minute        bigint not null,
  type          ${LOCK} not null,
  source        ${ID} not null,
  acquisitions  bigint not null,
  timeouts      bigint not null,
  wait_ms_sum   bigint not null,
  held_ms_max   bigint not null,
  waits         text not null,
  check (minute % 60000 = 0),
  check (type <> ''),
  check (acquisitions >= 0 and timeouts >= 0 and wait_ms_sum >= 0 and held_ms_max >= 0),
  primary key (minute, type, source)
);
`;

export const LOCK_TRIGGERS = trigger(
  "lock_stays",
  "before update",
  "lock",
  `if new.name <> old.name then ${refuse("a row stays with its lock")} end if;
  if new.token < old.token then ${refuse("the token of a lock never goes down")} end if;`,
);
