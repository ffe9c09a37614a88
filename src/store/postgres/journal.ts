/** The tables of steps and events on PostgreSQL. */
import { stepKinds, stepStates } from "../../core/step.ts";
import { isOneOf } from "../worker-rules.ts";

export const JOURNAL_TABLES = `
create table holdfast.step (
  job_id        uuid    not null,
  name          text    collate "C" not null check (length(name) between 1 and 128),
  occurrence    integer not null check (occurrence >= 1),
  place         integer not null check (place >= 0),
  kind          text    collate "C" not null check (${isOneOf("kind", stepKinds)}),
  status        text    collate "C" not null check (${isOneOf("status", stepStates)}),
  epoch         integer not null check (epoch >= 1),
  begun_at      bigint  not null,
  ended_at      bigint,
  result        text,
  check ((status = 'begun') = (ended_at is null)),
  primary key (job_id, name, occurrence)
);
create index step_doubt on holdfast.step (begun_at) where status = 'doubt';

create trigger step_stays before update on holdfast.step for each row
when (old.status = 'done' or new.epoch < old.epoch)
execute function holdfast.refuse('a step that is done stays as it is, and an epoch never goes down');

create table holdfast.event (
  name          text    collate "C" not null,
  event_key     text    collate "C" not null,
  awaited       integer not null default 0,
  payload       text,
  emitted_at    bigint,
  primary key (name, event_key)
);

create trigger event_is_said_once before update on holdfast.event for each row
when (old.name <> '@job' and old.emitted_at is not null
      and (new.payload is distinct from old.payload or new.emitted_at is distinct from old.emitted_at))
execute function holdfast.refuse('what an event said stands');

create index event_said on holdfast.event (emitted_at) where emitted_at is not null;

create table holdfast.wait (
  job_id        uuid    not null,
  name          text    collate "C" not null,
  event_key     text    collate "C" not null,
  primary key (job_id, name, event_key)
);
create index wait_event on holdfast.wait (name, event_key);
`;
