/** The tables of steps and events on MySQL and MariaDB. */
import { stepKinds, stepStates } from "../../core/step.ts";
import { isOneOf } from "../worker-rules.ts";
import { ID, KEY, NAME, refuse, trigger, WORD } from "./spelling.ts";

export const JOURNAL_TABLES = `
create table if not exists holdfast_step (
  job_id        ${ID} not null,
  name          ${NAME} not null,
  occurrence    int not null,
  place         int not null,
  kind          ${WORD} not null,
  status        ${WORD} not null,
  epoch         int not null,
  begun_at      bigint not null,
  ended_at      bigint,
  result        longtext,
  check (name <> ''),
  check (occurrence >= 1),
  check (place >= 0),
  check (${isOneOf("kind", stepKinds)}),
  check (${isOneOf("status", stepStates)}),
  check (epoch >= 1),
  check ((status = 'begun') = (ended_at is null)),
  primary key (job_id, name, occurrence),
  key by_state (status, begun_at)
);

create table if not exists holdfast_event (
  name          ${NAME} not null,
  event_key     ${KEY} not null,
  awaited       int not null default 0,
  payload       longtext,
  emitted_at    bigint,
  primary key (name, event_key),
  key by_time (emitted_at)
);

create table if not exists holdfast_wait (
  job_id        ${ID} not null,
  name          ${NAME} not null,
  event_key     ${KEY} not null,
  primary key (job_id, name, event_key),
  key by_event (name, event_key)
);
`;

export const JOURNAL_TRIGGERS = [
  trigger(
    "step_stays",
    "before update",
    "step",
    `if old.status = 'done' or new.epoch < old.epoch then
    ${refuse("a step that is done stays as it is, and an epoch never goes down")}
  end if;`,
  ),
  trigger(
    "event_is_said_once",
    "before update",
    "event",
    `if old.name <> '@job' and old.emitted_at is not null
      and not (new.payload <=> old.payload and new.emitted_at <=> old.emitted_at) then
    ${refuse("what an event said stands")}
  end if;`,
  ),
].join("");
