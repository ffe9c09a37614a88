/** How rows are removed on PostgreSQL, so that whoever gets a row is the only one who does. */
import type { Taking } from "../engine.ts";
import { nothing, sql, type Sql } from "../sql.ts";

const TABLES = {
  ready: sql`holdfast.ready`,
  waiting: sql`holdfast.waiting`,
  lease: sql`holdfast.lease`,
  finished: sql`holdfast.finished`,
};

/**
 * Rows that SKIP LOCKED took are found again by where they stand; `finished` is several tables, where that says nothing,
 * but its rows never change. Otherwise the condition stands in the DELETE and is asked again under the row's lock.
 */
export function take({ table, where, orderBy, limit, skipLocked }: Taking): Sql {
  const from = TABLES[table];
  if (skipLocked !== true) return sql`delete from ${from} where ${where} returning *`;
  const mark = table === "finished" ? sql`id` : sql`ctid`;
  return sql`
    delete from ${from}
     where ${mark} = any(array(select ${mark}
                                 from ${from}
                                where ${where}
                                ${orderBy === undefined ? nothing : sql`order by ${orderBy}`}
                                ${limit === undefined ? nothing : sql`limit ${limit}`}
                                  for update skip locked))
    returning *`;
}
