/** The parts of the schema of an SQLite file. */
import type { Engine, Introspection } from "../engine.ts";
import { afterByRow, bare, lanesByRecursion, partialIndexes } from "../introspection.ts";
import { sql, type Sql } from "../sql.ts";

export const introspection: Introspection = {
  /** A merge of both tables in the order of their ids; looking up each id would take three times as long. */
  absent(from, others, limit) {
    const first: Sql = sql`select id from ${from}`;
    const minus = others.reduce((all, other) => sql`${all} except select id from ${other}`, first);
    return sql`${minus} order by id limit ${limit}`;
  },
  after: afterByRow,
  lanes: lanesByRecursion,
  catalogue,
  sparse: partialIndexes,
};

async function catalogue(engine: Engine): Promise<string[]> {
  const things = await engine.all<{ type: string; name: string }>(sql`
    select type, name from sqlite_schema where name like 'holdfast@_%' escape '@'`);
  const columns = await engine.all<{ owner: string; name: string; place: number }>(sql`
    select t.name as owner, c.name, c.pk as place
      from sqlite_schema t
      join pragma_table_xinfo(t.name) c
     where t.type = 'table'
       and t.name like 'holdfast@_%' escape '@'`);
  const unique = await engine.all<{ owner: string; name: string }>(sql`
    select t.name as owner, c.name
      from sqlite_schema t
      join pragma_index_list(t.name) i
      join pragma_index_info(i.name) c
     where t.type = 'table'
       and t.name like 'holdfast@_%' escape '@'
       and i.origin = 'u'`);
  return [
    ...things.map(({ type, name }) => `${type} ${bare(name)}`),
    ...columns.map(({ owner, name }) => `column ${bare(owner)}.${name}`),
    ...columns.filter(({ place }) => place > 0).map(({ owner }) => `primary key of ${bare(owner)}`),
    ...unique.map(({ owner, name }) => `unique ${bare(owner)}.${name}`),
  ];
}
