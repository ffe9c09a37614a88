/** Ids beside others: what a list needs to know how short it may show them. */
import type { Engine } from "./engine.ts";
import { Sql, sql } from "./sql.ts";

const TABLES = { job: sql`holdfast.job`, item: sql`holdfast.item` };

export type IdTable = keyof typeof TABLES;

/** So many ids are asked about in one statement. */
const NEIGHBOURS_BATCH = 50;

/** The ids directly before and after each of these, each found at its place in the primary key. */
export async function neighbours(
  engine: Engine,
  of: IdTable,
  ids: readonly string[],
): Promise<string[]> {
  const found = new Set<string>();
  for (let start = 0; start < ids.length; start += NEIGHBOURS_BATCH) {
    const batch = ids.slice(start, start + NEIGHBOURS_BATCH);
    const looks = batch.flatMap((id) => [
      sql`select id from (select id from ${TABLES[of]} where id < ${id} order by id desc limit 1) b`,
      sql`select id from (select id from ${TABLES[of]} where id > ${id} order by id limit 1) a`,
    ]);
    for (const { id } of await engine.all<{ id: string }>(unionOf(looks))) found.add(id);
  }
  return [...found];
}

function unionOf(queries: readonly Sql[]): Sql {
  return new Sql(["", ...queries.slice(1).map(() => " union all "), ""], queries);
}
