/** The parts of the schema of a PostgreSQL database. */
import { firstIdAt } from "../../core/id.ts";
import { type Engine, type Dialect, readNow, type Transaction } from "../engine.ts";
import { absentByJoin, afterByRow, lanesByRecursion, partialIndexes } from "../dialect.ts";
import { sql } from "../sql.ts";
import { codeOf } from "./errors.ts";
import { OURS } from "./search-path.ts";

export const dialect: Dialect = {
  absent: absentByJoin,
  after: afterByRow,
  lanes: lanesByRecursion,
  catalogue,
  sparse: partialIndexes,
};

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

// The partitions of `job` and `finished`: one per week, by the time in the id.
//
// Partitions are created ahead of time; jobs whose id fits none are in the default partition. A partition is dropped as a
// whole when all its jobs have finished longer ago than any status is kept, so no rows have to be deleted and vacuumed.
// Jobs of statuses that are kept for less time are deleted in batches before.

export const WEEK_MS = 7 * 24 * 3_600_000;

/** Weeks created ahead, in case no worker runs for a while. */
const AHEAD = 1;

interface Week {
  /** The first day, such as 20261112: the suffix of its two tables. */
  readonly name: string;
  readonly from: string;
  readonly to: string;
}

/** The week of an instant. Weeks begin on a Thursday, as the Unix epoch did. */
function weekAt(instant: number): Week {
  const start = Math.floor(instant / WEEK_MS) * WEEK_MS;
  const day = new Date(start).toISOString().slice(0, 10).replaceAll("-", "");
  return { name: day, from: firstIdAt(start), to: firstIdAt(start + WEEK_MS) };
}

export function partitionsFrom(now: number): Week[] {
  return Array.from({ length: AHEAD + 1 }, (_, weeks) => weekAt(now + weeks * WEEK_MS));
}

function addWeek({ name, from, to }: Week): string {
  const tables = ["job", "finished"].map(
    (table) => `
create table if not exists holdfast.${table}_${name}
partition of holdfast.${table} for values from ('${from}') to ('${to}');`,
  );
  return tables.join("\n");
}

/** The names of the existing weeks. */
export const LIST = `
select substr(c.relname, 5) as name
  from pg_catalog.pg_inherits i
  join pg_catalog.pg_class c on c.oid = i.inhrelid
 where i.inhparent = to_regclass($1)
   and c.relname ~ '^job_[0-9]{8}$'
 order by c.relname`;

/** Whether all jobs of a week finished before an instant, and no unfinished job may still read their results. */
export const isOver = (name: string): string => `
select not exists (select from holdfast.finished_${name} where finished_at >= $1)
   and not exists (select
                     from holdfast.job_${name} j
                    where not exists (select from holdfast.finished_${name} f where f.id = j.id))
   and not exists (select
                     from holdfast.job_after a
                     join holdfast.job_${name} j on j.id = a.on_id
                    where not exists (select from holdfast.finished f where f.id = a.job_id)) as over`;

/** Tables that are not partitioned. */
const DEPENDENTS = [
  "attempt",
  "step",
  "report",
  "kept_key",
  "job_trace",
  "job_tag",
  "flow_job",
  "job_after",
  "job_revision",
  "rerun",
  "rerun_step",
];

export function dropWeek(name: string): string {
  const deletes = DEPENDENTS.map(
    (table) => `
delete from holdfast.${table} d
 using holdfast.job_${name} j
 where j.id = d.job_id;`,
  );
  return `${deletes.join("")}
drop table holdfast.job_${name}, holdfast.finished_${name};`;
}

export const LOCK = "lock table holdfast.job, holdfast.finished in access exclusive mode";

/** When a week ends, by its name. */
export function endOf(name: string): number {
  return Date.parse(`${name.slice(0, 4)}-${name.slice(4, 6)}-${name.slice(6)}`) + WEEK_MS;
}

/** Creates the tables of this week and those ahead. */
export async function addPartitions(engine: Engine, tx: Transaction): Promise<void> {
  for (const week of partitionsFrom(await readNow(engine, tx))) {
    await tx.script("savepoint block");
    try {
      await tx.script(addWeek(week));
      await tx.script("release savepoint block");
    } catch (error) {
      // Because of a clock that was ahead, jobs of that week are in the default partition already. They stay there.
      if (codeOf(error) !== "23514") throw error;
      await tx.script("rollback to savepoint block");
    }
  }
}
