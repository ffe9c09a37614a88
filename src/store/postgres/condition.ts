/** What PostgreSQL says about itself: rows that wait for vacuum, and the transaction that keeps vacuum from them. */
import type { Engine } from "../engine.ts";
import type { Condition, TableCondition } from "../load.ts";
import { sql } from "../sql.ts";

/** Those whose rows come and go with every job. */
const HOT_TABLES = ["ready", "lease", "waiting", "job_key", "wait", "worker", "lock"];

type Row = { [name in keyof TableCondition]: TableCondition[name] | null } & {
  readonly oldest: number | null;
};

export async function condition(engine: Engine, schema: string): Promise<Condition> {
  const rows = await engine.all<Row>(sql`
    select t.relname as "table", t.n_live_tup as live, t.n_dead_tup as dead,
           (select (extract(epoch from clock_timestamp() - min(a.xact_start)) * 1000)::bigint
              from pg_catalog.pg_stat_activity a
             where a.datname = current_database() and a.pid <> pg_backend_pid()) as oldest
      from pg_catalog.pg_stat_user_tables t
     where t.schemaname = ${schema}
       and t.relname = any(${HOT_TABLES})
     order by t.relname`);
  return {
    oldestTransactionMs: rows[0]?.oldest ?? null,
    tables: rows.map(({ table, live, dead }) => ({
      table: String(table),
      live: Number(live),
      dead: Number(dead),
    })),
  };
}
