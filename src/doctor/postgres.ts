/** What can be wrong with a PostgreSQL that holds jobs: dead rows that are not cleaned up, and what prevents the cleanup. */
import { formatMs } from "../core/duration.ts";
import { StoreRefusedError } from "../core/errors.ts";
import { asking, type Check, type Offender } from "../database/check.ts";
import type { Engine } from "../database/engine.ts";
import {
  type ForeignTable,
  foreignTables,
  nameOf,
  OURS,
  REMEDY,
  schemaFirst,
} from "../database/postgres/search-path.ts";
import { sql } from "../database/sql.ts";
import { pushDown } from "./schema-checks.ts";

/** The hot tables are vacuumed after every ten thousand dead rows. */
const DEAD_MAX = 100_000;

const OPEN_MS_MAX = 5 * 60_000;

const IS_OURS = sql`c.relnamespace = ${OURS}`;

export const checks: readonly Check[] = [
  pushDown,
  {
    name: "schema-before-public",
    severity: "warning",
    problem:
      "The schema of Holdfast comes first in the search_path, so the application's tables are created in it or hidden by it.",
    remedy: REMEDY,
    cost: "quick",
    find: asking<{ user: string; schema: string }>(
      () => schemaFirst,
      ({ user, schema }) => ({
        subject: `user ${user}`,
        detail: `looks for tables in schema '${schema}' first`,
        sinceAt: null,
      }),
    ),
  },
  {
    name: "foreign-table",
    severity: "warning",
    problem: "The schema of Holdfast contains tables that no migration created.",
    remedy: REMEDY,
    cost: "quick",
    find: asking<ForeignTable>(
      (engine, { limit }) => foreignTables(engine, limit),
      (table) => ({
        subject: `table ${nameOf(table)}`,
        detail: "is not a table of Holdfast",
        sinceAt: null,
      }),
    ),
  },
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
  oldTransaction({ openMsMax: OPEN_MS_MAX }),
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

export function oldTransaction({ openMsMax }: { readonly openMsMax: number }): Check {
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
