/** What can be wrong with the database that holds jobs, on each engine. */
import { statSync } from "node:fs";
import { formatMs } from "../core/duration.ts";
import { StoreRefusedError } from "../core/errors.ts";
import { asking, type Check, type Offender } from "../database/check.ts";
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { pushDown } from "./schema-checks.ts";

// PostgreSQL: dead rows that are not cleaned up, and what prevents the cleanup.

/** The hot tables are vacuumed after every ten thousand dead rows. */
const DEAD_MAX = 100_000;

const OPEN_MS_MAX = 5 * 60_000;

/** Our tables, found by one that always exists: the engine replaces its quoted name for each schema. */
const IS_OURS = sql`c.relnamespace = (
             select m.relnamespace from pg_catalog.pg_class m where m.oid = to_regclass('holdfast.migration'))`;

export const postgresChecks: readonly Check[] = [
  pushDown,
  deadRows({ most: DEAD_MAX }),
  {
    name: "autovacuum-off",
    severity: "warning",
    problem: "Autovacuum is off: dead rows accumulate, and claims become slower with every job.",
    remedy: "Set autovacuum = on (postgresql.conf), and autovacuum_enabled = on for the tables.",
    cost: "full",
    find: asking<{ subject: string; detail: string }>(
      (_engine, { limit }) => sql`
        select 'server' as subject, 'autovacuum is off' as detail
         where current_setting('autovacuum') = 'off'
         union all
        select 'table ' || c.relname, 'autovacuum is off for it'
          from pg_catalog.pg_class c
         where ${IS_OURS}
           and c.relkind = 'r'
           and 'autovacuum_enabled=false' = any(c.reloptions)
         limit ${limit}`,
      ({ subject, detail }) => ({ subject, detail, sinceAt: null }),
    ),
  },
  oldPostgresTransaction({ openMsMax: OPEN_MS_MAX }),
  preparedTransaction({ openMsMax: OPEN_MS_MAX }),
  {
    name: "replication-slot",
    severity: "warning",
    problem:
      "Unused replication slots prevent the cleanup of dead rows and of the write-ahead log.",
    remedy:
      "Start the consumers that use them, or drop them: select pg_drop_replication_slot('<name>').",
    cost: "quick",
    find: asking<{ name: string; kind: string; age: number }>(
      (_engine, { limit }) => sql`
        select slot_name as name, slot_type as kind, greatest(age(xmin), age(catalog_xmin)) as age
          from pg_catalog.pg_replication_slots
         where not active
           and (xmin is not null or catalog_xmin is not null)
         order by slot_name
         limit ${limit}`,
      ({ name, kind, age }) => ({
        subject: `slot ${name}`,
        detail: `(${kind}) is unused and holds back ${age} transactions`,
        sinceAt: null,
      }),
    ),
  },
];

export function deadRows({ most }: { readonly most: number }): Check {
  return {
    name: "dead-rows",
    severity: "warning",
    problem: "Tables have more dead rows than live ones, which slows down claims.",
    remedy: "See old-transaction and autovacuum-off for the cause. Then: vacuum <table>.",
    cost: "quick",
    find: asking<{ name: string; dead: number; live: number; at: number | null }>(
      (_engine, { limit }) => sql`
        select c.relname as name, s.n_dead_tup as dead, s.n_live_tup as live,
               (extract(epoch from greatest(s.last_autovacuum, s.last_vacuum)) * 1000)::bigint as at
          from pg_catalog.pg_stat_user_tables s
          join pg_catalog.pg_class c on c.oid = s.relid
         where ${IS_OURS}
           and s.n_dead_tup > ${most}
           and s.n_dead_tup > s.n_live_tup
         order by s.n_dead_tup desc
         limit ${limit}`,
      ({ name, dead, live, at }) => ({
        subject: `table ${name}`,
        detail: `has ${dead} dead rows and ${live} live ones`,
        sinceAt: at,
      }),
    ),
  };
}

export function oldPostgresTransaction({ openMsMax }: { readonly openMsMax: number }): Check {
  const ask = asking<{
    pid: number;
    user: string;
    application: string;
    state: string;
    at: number;
    openMs: number;
  }>(
    (_engine, { limit }) => sql`
      select pid, coalesce(usename, '?') as user, coalesce(application_name, '') as application,
             coalesce(state, '?') as state,
             (extract(epoch from xact_start) * 1000)::bigint as at,
             (extract(epoch from clock_timestamp() - xact_start) * 1000)::bigint as "openMs"
        from pg_catalog.pg_stat_activity
       where datname = current_database()
         and backend_type = 'client backend'
         and pid <> pg_backend_pid()
         and xact_start < clock_timestamp() - ${openMsMax}::double precision * interval '1 millisecond'
       order by xact_start
       limit ${limit}`,
    ({ pid, user, application, state, at, openMs }) => ({
      subject: `session ${pid}`,
      detail: `of ${user} (${application === "" ? "no name" : application}) is ${state} and has been in a transaction for ${formatMs(openMs)}`,
      sinceAt: at,
    }),
  );
  return {
    name: "old-transaction",
    severity: "warning",
    problem: "Transactions have been open for so long that dead rows cannot be cleaned up.",
    remedy: "Find out what they are doing, then end them: select pg_terminate_backend(<session>).",
    cost: "quick",
    find: async (engine, look) => {
      const found = await ask(engine, look);
      return found.length > 0 ? found : unlessBlind(engine);
    },
  };
}

/** A user without the privilege to see other sessions has found nothing, which means nothing. */
async function unlessBlind(engine: Engine): Promise<Offender[]> {
  const [row] = await engine.all<{ sees: boolean }>(
    sql`select pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees`,
  );
  if (row?.sees === true) return [];
  const problem = "the user sees only its own sessions. Grant it the role pg_read_all_stats.";
  throw new StoreRefusedError({ problem });
}

export function preparedTransaction({ openMsMax }: { readonly openMsMax: number }): Check {
  return {
    name: "prepared-transaction",
    severity: "warning",
    problem:
      "Prepared transactions were never committed: they hold their locks and prevent cleanup of dead rows.",
    remedy: "Commit them or roll them back: rollback prepared '<name>'.",
    cost: "quick",
    find: asking<{ name: string; owner: string; at: number }>(
      (_engine, { limit }) => sql`
        select gid as name, owner, (extract(epoch from prepared) * 1000)::bigint as at
          from pg_catalog.pg_prepared_xacts
         where database = current_database()
           and prepared < clock_timestamp() - ${openMsMax}::double precision * interval '1 millisecond'
         order by prepared
         limit ${limit}`,
      ({ name, owner, at }) => ({
        subject: `prepared transaction ${name}`,
        detail: `was prepared by ${owner}`,
        sinceAt: at,
      }),
    ),
  };
}

// What can be wrong with a MySQL or MariaDB server that holds jobs.

/** A busy server has some thousands; from here on every read looks through old versions of rows. */
const HISTORY_MAX = 1_000_000;

export const mysqlChecks: readonly Check[] = [
  pushDown,
  oldMysqlTransaction({ openMsMax: OPEN_MS_MAX }),
  historyList({ most: HISTORY_MAX }),
];

export function oldMysqlTransaction({ openMsMax }: { readonly openMsMax: number }): Check {
  return {
    name: "old-transaction",
    severity: "warning",
    problem: "Transactions have been open for so long that old row versions cannot be purged.",
    remedy: "Find out what they are doing, then end them: kill <session>.",
    cost: "quick",
    find: asking<{ id: number; user: string | null; state: string; at: number; openMs: number }>(
      (_engine, { limit }) => sql`
        select t.trx_mysql_thread_id as id, p.user as "user", lower(coalesce(p.command, t.trx_state)) as state,
               cast(unix_timestamp(t.trx_started) * 1000 as signed) as at,
               1000 * timestampdiff(second, t.trx_started, now()) as "openMs"
          from information_schema.innodb_trx t
          left join information_schema.processlist p on p.id = t.trx_mysql_thread_id
         where t.trx_mysql_thread_id <> connection_id()
           and 1000 * timestampdiff(second, t.trx_started, now()) >= ${openMsMax}
         order by t.trx_started
         limit ${limit}`,
      ({ id, user, state, at, openMs }) => ({
        subject: `session ${id}`,
        detail: `of ${user ?? "?"} has been in a transaction for ${formatMs(openMs)} (${state})`,
        sinceAt: at,
      }),
    ),
  };
}

export function historyList({ most }: { readonly most: number }): Check {
  return {
    name: "history-list",
    severity: "warning",
    problem: "The server keeps more old row versions than it can purge, so reads become slower.",
    remedy:
      "See old-transaction for the cause. If there is none, raise innodb_purge_threads or reduce the load.",
    cost: "quick",
    find: asking<{ count: number }>(
      () => sql`
        select "count" as "count"
          from information_schema.innodb_metrics
         where name = 'trx_rseg_history_len'
           and "count" > ${most}`,
      ({ count }) => ({
        subject: "server",
        detail: `keeps ${count} old row versions; at most ${most} are normal`,
        sinceAt: null,
      }),
    ),
  };
}

// What can be wrong with a SQLite file.

const MEBIBYTE = 2 ** 20;

/** A checkpoint cuts the log to a quarter of this (journal_size_limit). */
const WAL_BYTES_MAX = 256 * MEBIBYTE;

export const sqliteChecks: readonly Check[] = [
  walFile({ bytesMax: WAL_BYTES_MAX }),
  permissions(),
  integrity(),
];

export function walFile({ bytesMax }: { readonly bytesMax: number }): Check {
  return {
    name: "wal-file",
    severity: "warning",
    problem:
      "The write-ahead log is far too large: a long read transaction prevents its truncation.",
    remedy: "End the process that keeps a transaction open. The next checkpoint truncates the log.",
    cost: "quick",
    find: async (engine) => {
      const path = pathOf(engine);
      if (path === null) return [];
      const bytes = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
      if (bytes <= bytesMax) return [];
      const detail = `has ${Math.ceil(bytes / MEBIBYTE)} MiB; at most ${Math.ceil(bytesMax / MEBIBYTE)} are normal`;
      return [{ subject: `file ${path}-wal`, detail, sinceAt: null }];
    },
  };
}

/** The permissions of users other than the owner. */
const OTHERS = 0o077;

function permissions(): Check {
  return {
    name: "file-permissions",
    severity: "warning",
    problem: "Other users of this machine can read or change the database files.",
    remedy:
      "Run 'chmod 600' on each. If several users share the file, put it in a directory that only they can enter.",
    cost: "quick",
    find: async (engine, { limit }) => {
      const path = pathOf(engine);
      if (path === null || process.platform === "win32") return [];
      return ["", "-wal", "-shm"].flatMap((ending) => openToOthers(path + ending)).slice(0, limit);
    },
  };
}

function openToOthers(path: string): Offender[] {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
  if ((mode & OTHERS) === 0) return [];
  const detail = `has mode ${(mode & 0o777).toString(8).padStart(4, "0")}`;
  return [{ subject: `file ${path}`, detail, sinceAt: null }];
}

/** Null: it is in memory. */
function pathOf({ address }: Engine): string | null {
  const { path } = (address?.options ?? {}) as { path?: string };
  return path ?? null;
}

function integrity(): Check {
  return {
    name: "file-integrity",
    severity: "critical",
    problem: "The file is damaged, or contains rows that violate its own constraints.",
    remedy:
      "Stop all processes, keep a copy, and restore the file from a backup (or use `.recover` in the sqlite3 shell).",
    cost: "deep",
    find: async (engine, look) => {
      const results = await asking<{ result: string }>(
        () => sql`select quick_check as result from pragma_quick_check`,
        ({ result }) => ({ subject: "file", detail: result, sinceAt: null }),
      )(engine, look);
      return results.filter(({ detail }) => detail !== "ok").slice(0, look.limit);
    },
  };
}
