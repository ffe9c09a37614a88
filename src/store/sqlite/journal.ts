/** The tables of steps and events on SQLite. */
import { stepKinds, stepStates } from "../../core/step.ts";
import { isOneOf } from "../worker-rules.ts";

export const JOURNAL_TABLES = `
create table holdfast_step (
  job_id        text    not null,
  name          text    not null check (length(name) between 1 and 128),
  occurrence    integer not null check (occurrence >= 1),
  place         integer not null check (place >= 0),
  kind          text    not null check (${isOneOf("kind", stepKinds)}),
  status        text    not null check (${isOneOf("status", stepStates)}),
  epoch         integer not null check (epoch >= 1),
  begun_at      integer not null,
  ended_at      integer,
  result        text,
  check ((status = 'begun') = (ended_at is null)),
  primary key (job_id, name, occurrence)
) strict, without rowid;
create index holdfast_step_doubt on holdfast_step (begun_at) where status = 'doubt';

create trigger holdfast_step_stays before update on holdfast_step
when old.status = 'done' or new.epoch < old.epoch
begin select raise(abort, 'holdfast: a step that is done stays as it is, and an epoch never goes down'); end;

create table holdfast_event (
  name          text    not null,
  event_key     text    not null,
  awaited       integer not null default 0,
  payload       text,
  emitted_at    integer,
  primary key (name, event_key)
) strict, without rowid;

create trigger holdfast_event_is_said_once before update on holdfast_event
when old.name <> '@job' and old.emitted_at is not null and (new.payload is not old.payload or new.emitted_at is not old.emitted_at)
begin select raise(abort, 'holdfast: what an event said stands'); end;

create index holdfast_event_said on holdfast_event (emitted_at) where emitted_at is not null;

create table holdfast_wait (
  job_id        text    not null,
  name          text    not null,
  event_key     text    not null,
  primary key (job_id, name, event_key)
) strict, without rowid;
create index holdfast_wait_event on holdfast_wait (name, event_key);
`;
