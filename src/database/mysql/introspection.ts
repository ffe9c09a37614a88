/** The parts of the schema of a MySQL or MariaDB database. */
import { StoreRefusedError } from "../../core/errors.ts";
import type { Engine, Introspection } from "../engine.ts";
import { absentByJoin, afterByColumn, bare, lanesByGroup } from "../introspection.ts";
import { sql } from "../sql.ts";

export const introspection: Introspection = {
  absent: absentByJoin,
  after: afterByColumn,
  lanes: lanesByGroup,
  catalogue,
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
    throw new StoreRefusedError({
      problem: "the user cannot see triggers. Grant it the TRIGGER privilege.",
    });
  }
  return parts.map(({ kind, owner, name }) => {
    if (owner === "") return `${kind} ${bare(name)}`;
    if (name === "PRIMARY") return `primary key of ${bare(owner)}`;
    return `${kind} ${bare(owner)}.${bare(name)}`;
  });
}

/** The server hides triggers from users who may not create any. */
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
