/** What an examination must know of MySQL and MariaDB. */
import { formatMs } from "../../core/duration.ts";
import { StoreRefused } from "../../core/errors.ts";
import { absentByJoin, afterByColumn, type Anatomy } from "../anatomy.ts";
import { asking, type Check } from "../checks/check.ts";
import { pushDown } from "../checks/push.ts";
import type { Engine } from "../engine.ts";
import { bare } from "../schema-parts.ts";
import { sql } from "../sql.ts";

/** A busy server has some thousands; from here on every read looks through old versions of rows. */
const HISTORY_MAX = 1_000_000;
const OPEN_MS_MAX = 5 * 60_000;

export const anatomy: Anatomy = {
  absent: absentByJoin,
  after: afterByColumn,
  catalogue,
  checks: [
    pushDown,
    oldTransaction({ openMsMax: OPEN_MS_MAX }),
    historyList({ most: HISTORY_MAX }),
  ],
};

const OURS = "holdfast\\_%";

async function catalogue(engine: Engine): Promise<string[]> {
  const parts = await engine.all<{ kind: string; owner: string; name: string }>(sql`
    select case table_type when 'VIEW' then 'view' else 'table' end as kind, '' as owner, table_name as name
      from information_schema.tables
     where table_schema = database() and table_name like ${OURS}
     union all
    select 'column', table_name, column_name
      from information_schema.columns
     where table_schema = database() and table_name like ${OURS}
     union all
    select distinct 'index', table_name, index_name
      from information_schema.statistics
     where table_schema = database() and table_name like ${OURS}
     union all
    select 'trigger', '', trigger_name
      from information_schema.triggers
     where trigger_schema = database() and trigger_name like ${OURS}`);
  if (!(await seesTriggers(engine)) && !parts.some(({ kind }) => kind === "trigger")) {
    throw new StoreRefused({ problem: "triggers cannot be seen. Grant TRIGGER to see them." });
  }
  return parts.map(({ kind, owner, name }) => {
    if (owner === "") return `${kind} ${bare(name)}`;
    if (name === "PRIMARY") return `primary key of ${bare(owner)}`;
    return `${kind} ${bare(owner)}.${bare(name)}`;
  });
}

/** Triggers are hidden from those who may not make any: whoever sees none has seen nothing. */
async function seesTriggers(engine: Engine): Promise<boolean> {
  const [may] = await engine.all(sql`
    select privilege_type from information_schema.user_privileges where privilege_type = 'TRIGGER'
     union all
    select privilege_type
      from information_schema.schema_privileges
     where privilege_type = 'TRIGGER' and database() like table_schema
     limit 1`);
  return may !== undefined;
}

export function oldTransaction({ openMsMax }: { readonly openMsMax: number }): Check {
  return {
    name: "old-transaction",
    severity: "warning",
    problem: "Transactions are open for so long that old versions of rows cannot be cleaned up.",
    remedy: "See what they do, and end them: kill <session>.",
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
        detail: `of ${user ?? "?"} is in a transaction for ${formatMs(openMs)} (${state})`,
        sinceAt: at,
      }),
    ),
  };
}

export function historyList({ most }: { readonly most: number }): Check {
  return {
    name: "history-list",
    severity: "warning",
    problem:
      "The server keeps more old versions of rows than it can clean up: every read looks through them.",
    remedy:
      "See old-transaction for what keeps them. If nothing does, give the server more purge threads, or less to do.",
    cost: "quick",
    find: asking<{ count: number }>(
      () => sql`
        select "count" as "count"
          from information_schema.innodb_metrics
         where name = 'trx_rseg_history_len'
           and "count" > ${most}`,
      ({ count }) => ({
        subject: "server",
        detail: `keeps ${count} old versions of rows; ${most} are usual at most`,
        sinceAt: null,
      }),
    ),
  };
}
