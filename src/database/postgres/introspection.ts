/** The parts of the schema of a PostgreSQL database. */
import type { Engine, Introspection } from "../engine.ts";
import { absentByJoin, afterByRow, lanesByRecursion, partialIndexes } from "../introspection.ts";
import { sql } from "../sql.ts";

export const introspection: Introspection = {
  absent: absentByJoin,
  after: afterByRow,
  lanes: lanesByRecursion,
  catalogue,
  sparse: partialIndexes,
};

/** The schema of a table that always exists: the compiler replaces the name in the quotes. */
const OURS = sql`(select c.relnamespace from pg_catalog.pg_class c where c.oid = to_regclass('holdfast.migration'))`;

async function catalogue(engine: Engine): Promise<string[]> {
  const rows = await engine.all<{ part: string }>(sql`
    select case c.relkind when 'v' then 'view ' when 'i' then 'index ' when 'I' then 'index ' else 'table ' end
           || c.relname as part
      from pg_catalog.pg_class c
      left join pg_catalog.pg_index x on x.indexrelid = c.oid
     where c.relnamespace = ${OURS}
       and c.relkind in ('r', 'p', 'v', 'i', 'I')
       and coalesce(x.indisvalid, true)
     union all
    select 'column ' || c.relname || '.' || a.attname
      from pg_catalog.pg_class c
      join pg_catalog.pg_attribute a on a.attrelid = c.oid
     where c.relnamespace = ${OURS}
       and c.relkind in ('r', 'p')
       and a.attnum > 0
       and not a.attisdropped
     union all
    select case k.contype when 'p' then 'primary key of ' || c.relname else 'unique ' || c.relname || '.' || a.attname end
      from pg_catalog.pg_class c
      join pg_catalog.pg_constraint k on k.conrelid = c.oid
      join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = k.conkey[1]
     where c.relnamespace = ${OURS}
       and k.contype in ('p', 'u')
     union all
    select 'trigger ' || t.tgname
      from pg_catalog.pg_class c
      join pg_catalog.pg_trigger t on t.tgrelid = c.oid
     where c.relnamespace = ${OURS}
       and not t.tgisinternal
       and t.tgparentid = 0
       and t.tgenabled <> 'D'
     union all
    select 'function ' || p.proname from pg_catalog.pg_proc p where p.pronamespace = ${OURS}`);
  return rows.map(({ part }) => part);
}
