/**
 * The tables on PostgreSQL, in a schema of their own.
 *
 * `job` and `finished` grow for ever, so they are partitioned by id (UUIDv7 = time) and let go a week at a time (see
 * blocks.ts); a default partition takes ids of clocks that were wrong. The hot tables stay small and are vacuumed eagerly:
 * every claim and every settlement leaves a dead row behind. Names compare as bytes, which is also the fastest order.
 */
import { finalStatuses, home, statuses, type Status } from "../../core/job.ts";
import type { Migration, MigrationDialect } from "../engine.ts";
import { jobViews, workers, type ViewDialect } from "../views.ts";
import { isOneOf } from "../worker-rules.ts";
import { ACCESS_TABLES } from "./access.ts";
import { ALERT_TABLES } from "./alerts.ts";
import { AUDIT_CHAIN } from "./audit.ts";
import { COPY_RULES, COPY_TABLE } from "./copy.ts";
import { FIGURE_TABLES } from "./figures.ts";
import { ENQUEUE, FUNCTIONS } from "./functions.ts";
import { JOURNAL_TABLES } from "./journal.ts";
import { LOCK_TABLES } from "./locks.ts";
import { REPORT_TABLE } from "./reports.ts";
import { TRACE_TABLE } from "./traces.ts";
import { ENQUEUER_TABLE, UNREGISTERED_TABLE, WORKER_TABLES } from "./workers.ts";
import { WORKFLOW_TABLES } from "./workflows.ts";

const waitingStatuses = statuses.filter((status: Status) => home[status] === "waiting");

const TRAVELLER = `
  id            uuid    not null,
  queue         text    collate "C" not null,
  task          text    collate "C" not null,
  rank          integer not null,
  job_key       text    collate "C",
  epoch         integer not null check (epoch >= 0),
  attempts      integer not null check (attempts between 0 and max_attempts and attempts <= epoch),
  crashes       integer not null check (crashes between 0 and epoch),
  max_attempts  integer not null check (max_attempts >= 1),`;

/** Dead rows of a hot table cost every claim that reads past them. */
const EAGER = `
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
  autovacuum_vacuum_cost_delay = 0`;

const TABLES = `
create table holdfast.job (
  id            uuid    not null,
  queue         text    collate "C" not null check (length(queue) between 1 and 128),
  task          text    collate "C" not null check (length(task) between 1 and 128),
  payload       text    not null,
  rank          integer not null,
  max_attempts  integer not null check (max_attempts >= 1),
  job_key       text    collate "C",
  enqueued_at   bigint  not null check (enqueued_at > 0),
  primary key (id)
) partition by range (id);
create table holdfast.job_default partition of holdfast.job default;
create index job_by_key on holdfast.job (job_key, id) where job_key is not null;

create table holdfast.ready (${TRAVELLER}
  ready_at      bigint  not null check (ready_at > 0),
  check (attempts < max_attempts),
  primary key (queue, rank, ready_at, id)
) with (${EAGER});
create unique index ready_id on holdfast.ready (id);

create table holdfast.waiting (${TRAVELLER}
  status        text    collate "C" not null check (${isOneOf("status", waitingStatuses)}),
  due_at        bigint  check (due_at is not null or status = 'waiting'),
  check (attempts < max_attempts),
  primary key (id)
) with (${EAGER});
create index waiting_due on holdfast.waiting (due_at) where due_at is not null;

create table holdfast.lease (${TRAVELLER}
  locked_by     text    collate "C" not null check (length(locked_by) > 0),
  locked_until  bigint  not null check (locked_until > 0),
  claimed_at    bigint  not null,
  heartbeat_at  bigint  not null,
  cancel_requested_at bigint,
  claim_id      bigint,
  check (attempts >= 1),
  primary key (id)
) with (${EAGER});
-- Leases are taken in the order in which they end, so a summary of blocks is enough to find those that ended; a tree
-- would cost every claim and every settlement a tenth.
create index lease_ends on holdfast.lease using brin (locked_until) with (pages_per_range = 16, autosummarize = on);

create table holdfast.finished (${TRAVELLER}
  status        text    collate "C" not null check (${isOneOf("status", finalStatuses)}),
  worker        text    collate "C",
  started_at    bigint,
  finished_at   bigint  not null,
  result        text,
  error         text,
  check (status <> 'done' or attempts >= 1),
  primary key (id)
) partition by range (id);
create table holdfast.finished_default partition of holdfast.finished default;
create index finished_at on holdfast.finished using brin (finished_at) with (autosummarize = on);
create index finished_failed on holdfast.finished (id) where status = 'failed';
create index finished_cancelled on holdfast.finished (id) where status = 'cancelled';

create table holdfast.attempt (
  job_id        uuid    not null,
  epoch         integer not null check (epoch >= 1),
  attempt       integer not null check (attempt between 0 and epoch),
  worker        text    collate "C" not null,
  outcome       text    collate "C" not null
                check (outcome in ('retry', 'suspended', 'released', 'crashed', 'failed', 'cancelled')),
  started_at    bigint  not null,
  ended_at      bigint  not null,
  error         text,
  primary key (job_id, epoch)
);

create table holdfast.job_key (
  task          text    collate "C" not null,
  job_key       text    collate "C" not null,
  job_id        uuid    not null unique,
  primary key (task, job_key)
) with (${EAGER});
`;

/** For how long jobs keep their keys after their end; see ../keys.ts. */
const KEPT_KEY_TABLE = `
create table holdfast.kept_key (
  task          text    collate "C" not null,
  job_key       text    collate "C" not null,
  job_id        uuid    not null unique,
  keep_ms       bigint  not null check (keep_ms > 0),
  primary key (task, job_key)
);
`;

/** What no move of ours does, and no hand-typed SQL shall do either. */
const TRIGGERS = `
create function holdfast.refuse() returns trigger language plpgsql as $$
begin raise exception using errcode = '23514', message = 'holdfast: ' || tg_argv[0]; end $$;

-- Once for all rows of a statement, and by index whatever the planner believes: a trigger for each row was half the
-- cost of a bulk insert.
create function holdfast.stand_once() returns trigger language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  if exists (select from entered e join holdfast.finished f on f.id = e.id) then
    raise exception using errcode = '23514',
      message = 'holdfast: the job has finished; only a revival makes it pending again';
  end if;
  if exists (select from entered e join holdfast.lease l on l.id = e.id) then
    raise exception using errcode = '23514', message = 'holdfast: a worker holds the job';
  end if;
  return null;
end $$;

create trigger job_is_written_once before update on holdfast.job for each row
execute function holdfast.refuse('a job is written once and never updated');

create trigger finished_is_written_once before update on holdfast.finished for each row
execute function holdfast.refuse('a finished job is written once and never updated');

${["ready", "waiting", "lease"]
  .map(
    (table) => `
create trigger ${table}_epoch_never_falls before update on holdfast.${table} for each row
when (new.epoch < old.epoch)
execute function holdfast.refuse('an epoch never goes down');

create trigger ${table}_id_stays before update on holdfast.${table} for each row
when (new.id <> old.id)
execute function holdfast.refuse('a row stays with its job');`,
  )
  .join("\n")}

${["ready", "waiting"]
  .map(
    (table) => `
create trigger ${table}_stands_once after insert on holdfast.${table}
referencing new table as entered for each statement
execute function holdfast.stand_once();`,
  )
  .join("\n")}
`;

const dialect: ViewDialect = {
  instant: (column) => `to_timestamp(${column} / 1000.0)`,
  now: "(extract(epoch from clock_timestamp()) * 1000)::bigint",
  concat: (...parts) => parts.join(" || "),
};

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: "jobs",
    breaking: false,
    script: COPY_TABLE + TABLES + TRIGGERS + jobViews(dialect) + FUNCTIONS,
  },
  { version: 2, name: "workers", breaking: false, script: WORKER_TABLES + workers(dialect) },
  {
    version: 3,
    name: "versions",
    breaking: false,
    script: ENQUEUER_TABLE + UNREGISTERED_TABLE + ENQUEUE,
  },
  { version: 4, name: "steps and events", breaking: false, script: JOURNAL_TABLES },
  { version: 5, name: "reports", breaking: false, script: REPORT_TABLE },
  { version: 6, name: "kept keys", breaking: false, script: KEPT_KEY_TABLE + ENQUEUE },
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

export const MIGRATION_TABLE = `
create table if not exists holdfast.migration (
  version     integer primary key,
  name        text    not null,
  breaking    integer not null check (breaking in (0, 1)),
  applied_at  bigint  not null
);
`;

export function migrationDialect(schema: string): MigrationDialect {
  const named = (script: string): string => script.replaceAll("holdfast.", `"${schema}".`);
  return {
    head: `create schema if not exists "${schema}";\n${named(MIGRATION_TABLE)}`,
    now: dialect.now,
    named,
    forShell: (script) => script,
  };
}
