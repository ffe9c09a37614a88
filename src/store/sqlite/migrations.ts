/**
 * The tables on SQLite.
 *
 * `job` keeps its rowid: wide rows are appended, and a bulk insert is three times faster than into a tree ordered
 * by id. The state tables are narrow trees ordered by the key they are read by.
 */
import { finalStatuses, home, statuses, type Status } from "../../core/job.ts";
import type { Migration, MigrationDialect } from "../engine.ts";
import { jobViews, workers, type ViewDialect } from "../views.ts";
import { ACCESS_TABLES } from "./access.ts";
import { ALERT_TABLES } from "./alerts.ts";
import { AUDIT_CHAIN } from "./audit.ts";
import { COPY_RULES, COPY_TABLE } from "./copy.ts";
import { FIGURE_TABLES } from "./figures.ts";
import { JOURNAL_TABLES } from "./journal.ts";
import { LOCK_TABLES } from "./locks.ts";
import { REPORT_TABLE } from "./reports.ts";
import { TRACE_TABLE } from "./traces.ts";
import { ENQUEUER_TABLE, UNREGISTERED_TABLE, WORKER_TABLES } from "./workers.ts";
import { WORKFLOW_TABLES } from "./workflows.ts";

/** Spelt with `or`: for a list of three or more, `in` builds a little table at every insert. */
const isOneOf = (column: string, words: readonly string[]): string =>
  words.map((word) => `${column} = '${word}'`).join(" or ");

const waitingStatuses = statuses.filter((status: Status) => home[status] === "waiting");

const TRAVELLER = `
  id            text    not null,
  queue         text    not null,
  task          text    not null,
  rank          integer not null,
  job_key       text,
  epoch         integer not null check (epoch >= 0),
  attempts      integer not null check (attempts between 0 and max_attempts and attempts <= epoch),
  crashes       integer not null check (crashes between 0 and epoch),
  max_attempts  integer not null check (max_attempts >= 1),`;

const TABLES = `
create table holdfast_job (
  id            text    not null unique check (length(id) = 36),
  queue         text    not null check (length(queue) between 1 and 128),
  task          text    not null check (length(task) between 1 and 128),
  payload       text    not null,
  rank          integer not null,
  max_attempts  integer not null check (max_attempts >= 1),
  job_key       text,
  enqueued_at   integer not null check (enqueued_at > 0)
) strict;
create index holdfast_job_by_key on holdfast_job (job_key, id) where job_key is not null;

create table holdfast_ready (${TRAVELLER}
  ready_at      integer not null check (ready_at > 0),
  check (attempts < max_attempts),
  primary key (queue, rank, ready_at, id)
) strict, without rowid;
create unique index holdfast_ready_id on holdfast_ready (id);

create table holdfast_waiting (${TRAVELLER}
  status        text    not null check (${isOneOf("status", waitingStatuses)}),
  due_at        integer check (due_at is not null or status = 'waiting'),
  check (attempts < max_attempts),
  primary key (id)
) strict, without rowid;
create index holdfast_waiting_due on holdfast_waiting (due_at) where due_at is not null;

create table holdfast_lease (${TRAVELLER}
  locked_by     text    not null check (length(locked_by) > 0),
  locked_until  integer not null check (locked_until > 0),
  claimed_at    integer not null,
  heartbeat_at  integer not null,
  cancel_requested_at integer,
  claim_id      integer,
  check (attempts >= 1),
  primary key (id)
) strict, without rowid;

create table holdfast_finished (${TRAVELLER}
  status        text    not null check (${isOneOf("status", finalStatuses)}),
  worker        text,
  started_at    integer,
  finished_at   integer not null,
  result        text,
  error         text,
  check (status <> 'done' or attempts >= 1),
  primary key (id)
) strict, without rowid;
create index holdfast_finished_at on holdfast_finished (status, finished_at);
create index holdfast_finished_failed on holdfast_finished (status, id) where status = 'failed';
create index holdfast_finished_cancelled on holdfast_finished (status, id) where status = 'cancelled';

create table holdfast_attempt (
  job_id        text    not null,
  epoch         integer not null check (epoch >= 1),
  attempt       integer not null check (attempt between 0 and epoch),
  worker        text    not null,
  outcome       text    not null
                check (outcome in ('retry', 'suspended', 'released', 'crashed', 'failed', 'cancelled')),
  started_at    integer not null,
  ended_at      integer not null,
  error         text,
  primary key (job_id, epoch)
) strict, without rowid;

create table holdfast_job_key (
  task          text    not null,
  job_key       text    not null,
  job_id        text    not null unique,
  primary key (task, job_key)
) strict, without rowid;
`;

/** For how long jobs keep their keys after their end; see ../keys.ts. */
const KEPT_KEY_TABLE = `
create table holdfast_kept_key (
  task          text    not null,
  job_key       text    not null,
  job_id        text    not null unique,
  keep_ms       integer not null check (keep_ms > 0),
  primary key (task, job_key)
) strict, without rowid;
`;

/** What no move of ours does, and no hand-typed SQL shall do either. */
const TRIGGERS = `
create trigger holdfast_job_is_written_once before update on holdfast_job
begin select raise(abort, 'holdfast: a job is written once and never updated'); end;

create trigger holdfast_finished_is_written_once before update on holdfast_finished
begin select raise(abort, 'holdfast: a finished job is written once and never updated'); end;

${["ready", "waiting", "lease"]
  .map(
    (table) => `
create trigger holdfast_${table}_epoch_never_falls before update of epoch on holdfast_${table}
when new.epoch < old.epoch
begin select raise(abort, 'holdfast: an epoch never goes down'); end;`,
  )
  .join("\n")}

${["ready", "waiting", "lease"]
  .map(
    (table) => `
create trigger holdfast_${table}_id_stays before update of id on holdfast_${table}
begin select raise(abort, 'holdfast: a row stays with its job'); end;`,
  )
  .join("\n")}

${["ready", "waiting"]
  .map(
    (table) => `
create trigger holdfast_${table}_not_finished before insert on holdfast_${table}
when exists (select 1 from holdfast_finished where id = new.id)
begin select raise(abort, 'holdfast: the job has finished; only a revival makes it pending again'); end;

create trigger holdfast_${table}_not_claimed before insert on holdfast_${table}
when exists (select 1 from holdfast_lease where id = new.id)
begin select raise(abort, 'holdfast: a worker holds the job'); end;`,
  )
  .join("\n")}
`;

/** Also for shells that are older than the SQLite of Node: it is read with what they know. */
const dialect: ViewDialect = {
  instant: (column) => `strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / 1000.0, 'unixepoch')`,
  now: "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
  concat: (...parts) => parts.join(" || "),
};

const inEngine = (views: string): string => views.replaceAll("holdfast.", "holdfast_");

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: "jobs",
    breaking: false,
    script: COPY_TABLE + TABLES + TRIGGERS + inEngine(jobViews(dialect)),
  },
  {
    version: 2,
    name: "workers",
    breaking: false,
    script: WORKER_TABLES + inEngine(workers(dialect)),
  },
  { version: 3, name: "versions", breaking: false, script: ENQUEUER_TABLE + UNREGISTERED_TABLE },
  { version: 4, name: "steps and events", breaking: false, script: JOURNAL_TABLES },
  { version: 5, name: "reports", breaking: false, script: REPORT_TABLE },
  { version: 6, name: "kept keys", breaking: false, script: KEPT_KEY_TABLE },
  { version: 7, name: "workflows", breaking: false, script: WORKFLOW_TABLES },
  { version: 8, name: "locks", breaking: false, script: LOCK_TABLES },
  { version: 9, name: "audit", breaking: false, script: AUDIT_CHAIN },
  {
    version: 10,
    name: "service",
    breaking: false,
    script: FIGURE_TABLES + ALERT_TABLES + ACCESS_TABLES + TRACE_TABLE + COPY_RULES,
  },
];

export const migrationDialect: MigrationDialect = {
  head: `
create table if not exists holdfast_migration (
  version     integer primary key,
  name        text    not null,
  breaking    integer not null check (breaking in (0, 1)),
  applied_at  integer not null
);
`,
  now: dialect.now,
  named: inEngine,
  forShell: (script) => script,
};
