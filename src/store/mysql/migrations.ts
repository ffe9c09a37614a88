/**
 * The tables on MySQL and MariaDB.
 *
 * Defining a table ends a transaction there, so a migration that was interrupted may have been applied in part: every
 * statement can be run again.
 */
import { finalStatuses, home, statuses, type Status } from "../../core/job.ts";
import type { Migration, MigrationDialect } from "../engine.ts";
import { jobViews, workers, type ViewDialect } from "../views.ts";
import { isOneOf } from "../worker-rules.ts";
import { ACCESS_TABLES } from "./access.ts";
import { ALERT_TABLES } from "./alerts.ts";
import { auditChain } from "./audit.ts";
import type { Flavour } from "./server.ts";
import { ID, KEY, NAME, refuse, trigger, WORD, WORKER } from "./spelling.ts";
import { COPY_RULES, COPY_TABLE } from "./copy.ts";
import { FIGURE_TABLES } from "./figures.ts";
import { JOURNAL_TABLES, JOURNAL_TRIGGERS } from "./journal.ts";
import { LOCK_TABLES, LOCK_TRIGGERS } from "./locks.ts";
import { REPORT_TABLE, REPORT_TRIGGERS } from "./reports.ts";
import { TRACE_TABLE } from "./traces.ts";
import { ENQUEUER_TABLE, UNREGISTERED_TABLE, WORKER_TABLES, WORKER_TRIGGERS } from "./workers.ts";
import { WORKFLOW_TABLES, WORKFLOW_TRIGGERS } from "./workflows.ts";

const waitingStatuses = statuses.filter((status: Status) => home[status] === "waiting");

const TRAVELLER = `
  id            ${ID} not null,
  queue         ${NAME} not null,
  task          ${NAME} not null,
  "rank"        int not null,
  job_key       ${KEY},
  epoch         int not null,
  attempts      int not null,
  crashes       int not null,
  max_attempts  int not null,
  check (epoch >= 0),
  check (attempts between 0 and max_attempts and attempts <= epoch),
  check (crashes between 0 and epoch),
  check (max_attempts >= 1),`;

const TABLES = `
create table if not exists holdfast_job (
  id            ${ID} not null,
  queue         ${NAME} not null,
  task          ${NAME} not null,
  payload       longtext not null,
  "rank"        int not null,
  max_attempts  int not null,
  job_key       ${KEY},
  enqueued_at   bigint not null,
  check (char_length(id) = 36),
  check (queue <> ''),
  check (task <> ''),
  check (max_attempts >= 1),
  check (enqueued_at > 0),
  primary key (id),
  key by_key (job_key, id)
);

create table if not exists holdfast_ready (${TRAVELLER}
  ready_at      bigint not null,
  check (ready_at > 0),
  check (attempts < max_attempts),
  primary key (queue, "rank", ready_at, id),
  unique by_id (id)
);

create table if not exists holdfast_waiting (${TRAVELLER}
  status        ${WORD} not null,
  due_at        bigint,
  check (${isOneOf("status", waitingStatuses)}),
  check (due_at is not null or status = 'waiting'),
  check (attempts < max_attempts),
  primary key (id),
  key by_due (due_at)
);

create table if not exists holdfast_lease (${TRAVELLER}
  locked_by     ${WORKER} not null,
  locked_until  bigint not null,
  claimed_at    bigint not null,
  heartbeat_at  bigint not null,
  cancel_requested_at bigint,
  claim_id      bigint,
  check (locked_by <> ''),
  check (locked_until > 0),
  check (attempts >= 1),
  primary key (id)
);

create table if not exists holdfast_finished (${TRAVELLER}
  status        ${WORD} not null,
  worker        ${WORKER},
  started_at    bigint,
  finished_at   bigint not null,
  result        longtext,
  error         longtext,
  check (${isOneOf("status", finalStatuses)}),
  check (status <> 'done' or attempts >= 1),
  primary key (id),
  key by_end (status, finished_at),
  key by_status (status, id)
);

create table if not exists holdfast_attempt (
  job_id        ${ID} not null,
  epoch         int not null,
  attempt       int not null,
  worker        ${WORKER} not null,
  outcome       ${WORD} not null,
  started_at    bigint not null,
  ended_at      bigint not null,
  error         longtext,
  check (epoch >= 1),
  check (attempt between 0 and epoch),
  check (${isOneOf("outcome", ["retry", "suspended", "released", "crashed", "failed", "cancelled"])}),
  primary key (job_id, epoch)
);

create table if not exists holdfast_job_key (
  task          ${NAME} not null,
  job_key       ${KEY} not null,
  job_id        ${ID} not null,
  primary key (task, job_key),
  unique by_job (job_id)
);
`;

/** For how long jobs keep their keys after their end; see ../keys.ts. */
const KEPT_KEY_TABLE = `
create table if not exists holdfast_kept_key (
  task          ${NAME} not null,
  job_key       ${KEY} not null,
  job_id        ${ID} not null,
  keep_ms       bigint not null,
  check (keep_ms > 0),
  primary key (task, job_key),
  unique by_job (job_id)
);
`;

const inEngine = (tables: string, { collation }: Flavour): string =>
  tables.replaceAll(
    "\n);",
    `\n) engine = InnoDB row_format = dynamic default character set utf8mb4 collate ${collation};`,
  );

const written = (table: string, words: string): string =>
  trigger(`${table}_is_written_once`, "before update", table, refuse(words));

const stays = (table: string): string =>
  trigger(
    `${table}_stays`,
    "before update",
    table,
    `if new.id <> old.id then ${refuse("a row stays with its job")} end if;
  if new.epoch < old.epoch then ${refuse("an epoch never goes down")} end if;`,
  );

/** A job that was never claimed is not looked up: that would nearly double what it costs to enqueue one. */
const enters = (table: string): string =>
  trigger(
    `${table}_enters`,
    "before insert",
    table,
    `if new.epoch > 0 then
    if exists (select 1 from holdfast_finished where id = new.id) then
      ${refuse("the job has finished; only a revival makes it pending again")}
    end if;
    if exists (select 1 from holdfast_lease where id = new.id) then
      ${refuse("a worker holds the job")}
    end if;
  end if;`,
  );

/** What no move of ours does, and no hand-typed SQL shall do either. */
const TRIGGERS = [
  written("job", "a job is written once and never updated"),
  written("finished", "a finished job is written once and never updated"),
  ...["ready", "waiting", "lease"].map(stays),
  ...["ready", "waiting"].map(enters),
].join("");

/** Times are in the time zone of the connection that reads. */
const dialect: ViewDialect = {
  instant: (column) => `cast(from_unixtime(${column} / 1000) as datetime(3))`,
  now: "cast(floor(unix_timestamp(now(3)) * 1000) as signed)",
  concat: (...parts) => `concat(${parts.join(", ")})`,
};

/** With the rights of the reader: the account that created them may be gone one day. */
const asViews = (views: string): string =>
  views
    .replaceAll("holdfast.", "holdfast_")
    .replaceAll("create view", "create or replace sql security invoker view");

export const migrationsFor = (flavour: Flavour): readonly Migration[] => [
  {
    version: 1,
    name: "jobs",
    breaking: false,
    script: inEngine(COPY_TABLE + TABLES, flavour) + TRIGGERS + asViews(jobViews(dialect)),
  },
  {
    version: 2,
    name: "workers",
    breaking: false,
    script: inEngine(WORKER_TABLES, flavour) + WORKER_TRIGGERS + asViews(workers(dialect)),
  },
  {
    version: 3,
    name: "versions",
    breaking: false,
    script: inEngine(ENQUEUER_TABLE + UNREGISTERED_TABLE, flavour),
  },
  {
    version: 4,
    name: "steps and events",
    breaking: false,
    script: inEngine(JOURNAL_TABLES, flavour) + JOURNAL_TRIGGERS,
  },
  {
    version: 5,
    name: "reports",
    breaking: false,
    script: inEngine(REPORT_TABLE, flavour) + REPORT_TRIGGERS,
  },
  { version: 6, name: "kept keys", breaking: false, script: inEngine(KEPT_KEY_TABLE, flavour) },
  {
    version: 7,
    name: "workflows",
    breaking: false,
    script: inEngine(WORKFLOW_TABLES, flavour) + WORKFLOW_TRIGGERS,
  },
  {
    version: 8,
    name: "locks",
    breaking: false,
    script: inEngine(LOCK_TABLES, flavour) + LOCK_TRIGGERS,
  },
  {
    version: 9,
    name: "audit",
    breaking: false,
    script: auditChain((tables) => inEngine(tables, flavour)),
  },
  {
    version: 10,
    name: "service",
    breaking: false,
    script:
      inEngine(FIGURE_TABLES + ALERT_TABLES + ACCESS_TABLES + TRACE_TABLE, flavour) + COPY_RULES,
  },
];

/** As the library's own sessions are: names in double quotes, texts that compare as bytes. */
const SESSION = `
set names utf8mb4 collate utf8mb4_bin;
set session sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'`;

export const MIGRATION_TABLE = `
create table if not exists holdfast_migration (
  version     int not null primary key,
  name        varchar(255) not null,
  breaking    int not null,
  applied_at  bigint not null,
  check (breaking in (0, 1))
) engine = InnoDB default character set utf8mb4`;

/** A shell ends a statement at the first semicolon, so triggers are written between other delimiters there. */
const TRIGGER = /^create trigger [^]*?\nend;$/gm;

export const migrationDialect: MigrationDialect = {
  head: `${SESSION};\n${MIGRATION_TABLE};\n`,
  now: dialect.now,
  named: (script) => script.replaceAll("holdfast.", "holdfast_"),
  forShell: (script) =>
    script.replaceAll(TRIGGER, (text) => `delimiter //\n${text.slice(0, -1)} //\ndelimiter ;`),
};
