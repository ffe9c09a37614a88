/** The tables of alerts on PostgreSQL. One alert at most of a rule and subject is open: the index sees to it, whoever raises it. */
export const ALERT_TABLES = `
create table holdfast.alert (
  id            uuid    not null primary key,
  rule          text    collate "C" not null check (length(rule) between 1 and 128),
  subject       text    collate "C" not null check (length(subject) <= 255),
  severity      text    collate "C" not null check (severity in ('info', 'warning', 'critical')),
  status        text    collate "C" not null check (status in ('pending', 'raised', 'resolved')),
  message       text    not null,
  facts         text    not null,
  change_id     uuid    not null,
  since_at      bigint  not null,
  seen_at       bigint  not null,
  raised_at     bigint  check ((status = 'pending') = (raised_at is null)),
  resolved_at   bigint  check ((status = 'resolved') = (resolved_at is not null))
);
create unique index alert_open on holdfast.alert (rule, subject) where status <> 'resolved';
create index alert_status on holdfast.alert (status, id);
create index alert_ended on holdfast.alert (resolved_at) where resolved_at is not null;

create table holdfast.alert_delivery (
  alert_id      uuid    not null,
  event         text    collate "C" not null check (event in ('raised', 'resolved')),
  target        text    collate "C" not null check (length(target) between 1 and 64),
  tries         integer not null check (tries >= 0),
  due_at        bigint,
  delivered_at  bigint,
  error         text,
  primary key (alert_id, event, target)
);
create index alert_delivery_due on holdfast.alert_delivery (due_at) where due_at is not null;
`;
