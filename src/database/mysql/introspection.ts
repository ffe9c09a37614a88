/** The parts of the schema of a MySQL or MariaDB database. */
import { StoreRefusedError } from "../../core/errors.ts";
import type { Engine, Introspection, LaneQuery } from "../engine.ts";
import { absentByJoin, afterByColumn, bare } from "../introspection.ts";
import { Sql, sql } from "../sql.ts";

export const introspection: Introspection = {
  absent: absentByJoin,
  after: afterByColumn,
  lanes: lanesByMinimum,
  catalogue,
};

const FIRST_LANE = `
  select min(lane) into @holdfast_lane
    from holdfast_ready force index (primary)
   where queue = ?
     and lane >= ?`;

const NEXT_LANE = `
  select min(lane) into @holdfast_lane
    from holdfast_ready force index (primary)
   where queue = ?
     and lane > ?`;

/**
 * The server finds a minimum with one look into the index, but only if the bounds are constants, as those of a prepared
 * statement are. A recursive query, a group and a comparison with a variable all read every job of every lane.
 */
function lanesByMinimum(queue: string, after: string | null, limit: number): LaneQuery {
  const names = Array.from({ length: limit }, (_, at) => new Sql([`@holdfast_lane_${at}`], []));
  const next = names.flatMap((name, at) => [
    ...(at === 0 ? [] : [sql`execute holdfast_next_lane using @holdfast_queue, @holdfast_lane`]),
    sql`set ${name} = @holdfast_lane`,
  ]);
  const steps = [
    sql`set @holdfast_queue = ${queue}, @holdfast_lane = ${after ?? ""}`,
    sql`prepare holdfast_first_lane from ${after === null ? FIRST_LANE : NEXT_LANE}`,
    sql`prepare holdfast_next_lane from ${NEXT_LANE}`,
    sql`execute holdfast_first_lane using @holdfast_queue, @holdfast_lane`,
    ...next,
  ];
  const all = names.map((name) => sql`select ${name} as lane`);
  const union = all.reduce((before, one) => sql`${before} union all ${one}`);
  return { steps, rows: sql`select lane from (${union}) ring where lane is not null` };
}

const OURS = "holdfast\\_%";

/** Only `event_object_schema` narrows the search: by `trigger_schema`, MariaDB opens the tables of every database. */
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
     where event_object_schema = database() and trigger_name like ${OURS}`);
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
