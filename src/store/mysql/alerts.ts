/** The tables of alerts on MySQL and MariaDB. One alert at most of a rule and subject is open: the index sees to it. */
import { ID, NAME, WORD } from "./spelling.ts";

export const ALERT_TABLES = `
create table if not exists holdfast_alert (
  id            ${ID} not null,
  rule          ${NAME} not null,
  subject       varchar(255) not null,
  severity      ${WORD} not null,
  status        ${WORD} not null,
  message       text not null,
  facts         mediumtext not null,
  change_id     ${ID} not null,
  since_at      bigint not null,
  seen_at       bigint not null,
  raised_at     bigint,
  resolved_at   bigint,
  open_rule     ${NAME} as (case when status <> 'resolved' then rule end) stored,
  check (rule <> ''),
  check (severity in ('info', 'warning', 'critical')),
  check (status in ('pending', 'raised', 'resolved')),
  check ((status = 'pending') = (raised_at is null)),
  check ((status = 'resolved') = (resolved_at is not null)),
  primary key (id),
  unique key holdfast_alert_open (open_rule, subject),
  key holdfast_alert_status (status, id),
  key holdfast_alert_ended (resolved_at)
);

create table if not exists holdfast_alert_delivery (
  alert_id      ${ID} not null,
  event         ${WORD} not null,
  target        varchar(64) not null,
  tries         int not null,
  due_at        bigint,
  delivered_at  bigint,
  error         text,
  check (event in ('raised', 'resolved')),
  check (tries >= 0),
  primary key (alert_id, event, target),
  key holdfast_alert_delivery_due (due_at)
);
`;
