/** The parts of the schema of a MySQL or MariaDB database, and queries that are particular to it. */
import { StoreRefusedError } from "../../core/errors.ts";
import type { Engine, Dialect, LaneQuery, SparseIndexes, Transaction } from "../engine.ts";
import { absentByJoin, afterByColumn, bare } from "../dialect.ts";
import { Sql, sql } from "../sql.ts";

/** InnoDB has no partial indexes: see "Sparse indexes" in its first migration. */
const sparse: SparseIndexes = {
  leases: {
    from: sql`holdfast.lane_lease e force index (primary)
         straight_join holdfast.lease l force index (primary) on l.id = e.id and l.epoch = e.epoch`,
    queue: sql`e.queue`,
    lane: sql`e.lane`,
  },
  deadlines: sql`holdfast.deadline`,
  late: (now) => sql`start_by <= ${now}
         and id in (select d.id from holdfast.deadline d force index (by_start) where d.start_by <= ${now})`,
  enterLeases,
  forgetDeadlines,
  forgetLeases,
};

export const dialect: Dialect = {
  absent: absentByJoin,
  after: afterByColumn,
  lanes: lanesByMinimum,
  catalogue,
  sparse,
};

/** In read committed, a select that feeds an insert locks nothing. */
async function enterLeases(tx: Transaction, queues: readonly string[]): Promise<void> {
  await tx.run(sql`
    insert ignore into holdfast.lane_lease (queue, lane, id, epoch)
    select l.queue, l.lane, l.id, l.epoch
      from holdfast.lease l
     where l.queue in (${queues})
       and l.lane is not null
       and not exists (select 1
                         from holdfast.lane_lease e
                        where e.queue = l.queue and e.lane = l.lane and e.id = l.id and e.epoch = l.epoch)`);
}

/**
 * Checked again under the lock of the entry. A job that becomes pending again locks its entry before it writes its row: the
 * delete waits for it and sees the row, or the job waits for the delete and writes a new entry.
 */
async function forgetDeadlines(engine: Engine, limit: number): Promise<void> {
  const isGone = sql`(r.id is null or r.start_by is null)`;
  const rows = await engine.all<{ id: string }>(sql`
    select d.id
      from holdfast.deadline d force index (by_start)
      left join holdfast.ready r force index (by_id) on r.id = d.id
     where d.start_by <= ${engine.now()}
       and ${isGone}
     order by d.start_by
     limit ${limit}`);
  if (rows.length === 0) return;
  await engine.run(sql`
    delete d
      from holdfast.deadline d force index (primary)
      left join holdfast.ready r force index (by_id) on r.id = d.id
     where d.id in (${rows.map(({ id }) => id)})
       and ${isGone}`);
}

/** Without locks on leases: an epoch never comes again, so an entry that has no lease stays without one. */
async function forgetLeases(engine: Engine, limit: number): Promise<number> {
  const rows = await engine.all<{ queue: string; lane: string; id: string; epoch: number }>(sql`
    select e.queue, e.lane, e.id, e.epoch
      from holdfast.lane_lease e
      left join holdfast.lease l on l.id = e.id and l.epoch = e.epoch
     where l.id is null
     limit ${limit}`);
  if (rows.length === 0) return 0;
  const entries = rows
    .map(({ queue, lane, id, epoch }) => sql`(${queue}, ${lane}, ${id}, ${epoch})`)
    .reduce((all, one) => sql`${all}, ${one}`);
  return engine.run(sql`
    delete from holdfast.lane_lease where (queue, lane, id, epoch) in (${entries})`);
}

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
