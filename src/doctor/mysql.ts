/** What can be wrong with a MySQL or MariaDB server that holds jobs. */
import { formatMs } from "../core/duration.ts";
import { asking, type Check } from "../database/check.ts";
import { sql } from "../database/sql.ts";
import { pushDown } from "./schema-checks.ts";

/** A busy server has some thousands; from here on every read looks through old versions of rows. */
const HISTORY_MAX = 1_000_000;

const OPEN_MS_MAX = 5 * 60_000;

export const checks: readonly Check[] = [
  pushDown,
  oldTransaction({ openMsMax: OPEN_MS_MAX }),
  historyList({ most: HISTORY_MAX }),
];

export function oldTransaction({ openMsMax }: { readonly openMsMax: number }): Check {
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
