/** The tables of alerts on SQLite. One alert at most of a rule and subject is open: the index sees to it, whoever raises it. */
export const ALERT_TABLES = `
create table holdfast_alert (
  id            text    not null primary key check (length(id) = 36),
  rule          text    not null check (length(rule) between 1 and 128),
  subject       text    not null check (length(subject) <= 255),
  severity      text    not null check (severity in ('info', 'warning', 'critical')),
  status        text    not null check (status in ('pending', 'raised', 'resolved')),
  message       text    not null,
  facts         text    not null,
  change_id     text    not null check (length(change_id) = 36),
  since_at      integer not null,
  seen_at       integer not null,
  raised_at     integer check ((status = 'pending') = (raised_at is null)),
  resolved_at   integer check ((status = 'resolved') = (resolved_at is not null))
) strict, without rowid;
create unique index holdfast_alert_open on holdfast_alert (rule, subject) where status <> 'resolved';
create index holdfast_alert_status on holdfast_alert (status, id);
create index holdfast_alert_ended on holdfast_alert (resolved_at) where resolved_at is not null;

create table holdfast_alert_delivery (
  alert_id      text    not null,
  event         text    not null check (event in ('raised', 'resolved')),
  target        text    not null check (length(target) between 1 and 64),
  tries         integer not null check (tries >= 0),
  due_at        integer,
  delivered_at  integer,
  error         text,
  primary key (alert_id, event, target)
) strict, without rowid;
create index holdfast_alert_delivery_due on holdfast_alert_delivery (due_at) where due_at is not null;
`;
