/**
 * The partitions of `job` and `finished`: one a week, by the time in the id.
 *
 * A week is made ahead of its time; jobs whose id belongs to no week that was made stand in the default partition. A week
 * is dropped as a whole when all its jobs finished longer ago than anybody keeps them: no row has to be deleted and no
 * dead row cleaned up. Whatever is kept longer than the rest is deleted in batches like everywhere else.
 */
import { firstIdAt } from "../../core/id.ts";
import { type Engine, readNow, type Transaction } from "../engine.ts";
import { codeOf } from "./errors.ts";

export const WEEK_MS = 7 * 24 * 3_600_000;

/** Weeks made ahead, so that nobody misses them while no worker runs. */
const AHEAD = 1;

export interface Block {
  /** What its two tables' names end in: the day it begins, such as 20261112. */
  readonly name: string;
  readonly from: string;
  readonly to: string;
}

/** The week an instant is in. Weeks begin on a Thursday, as time did. */
export function blockAt(instant: number): Block {
  const start = Math.floor(instant / WEEK_MS) * WEEK_MS;
  const day = new Date(start).toISOString().slice(0, 10).replaceAll("-", "");
  return { name: day, from: firstIdAt(start), to: firstIdAt(start + WEEK_MS) };
}

export function partitionsFrom(now: number): Block[] {
  return Array.from({ length: AHEAD + 1 }, (_, weeks) => blockAt(now + weeks * WEEK_MS));
}

export function addBlock({ name, from, to }: Block): string {
  return ["job", "finished"]
    .map(
      (table) => `
create table if not exists holdfast.${table}_${name}
partition of holdfast.${table} for values from ('${from}') to ('${to}');`,
    )
    .join("\n");
}

/** The names of the weeks that there are tables for. */
export const LIST = `
select substr(c.relname, 5) as name
  from pg_catalog.pg_inherits i
  join pg_catalog.pg_class c on c.oid = i.inhrelid
 where i.inhparent = to_regclass($1)
   and c.relname ~ '^job_[0-9]{8}$'
 order by c.relname`;

/** Whether a week's jobs have all finished before an instant. */
export const isOver = (name: string): string => `
select not exists (select from holdfast.finished_${name} where finished_at >= $1)
   and not exists (select
                     from holdfast.job_${name} j
                    where not exists (select from holdfast.finished_${name} f where f.id = j.id)) as over`;

export const dropBlock = (name: string): string => `
delete from holdfast.attempt a
 using holdfast.job_${name} j
 where j.id = a.job_id;
delete from holdfast.step s
 using holdfast.job_${name} j
 where j.id = s.job_id;
delete from holdfast.report r
 using holdfast.job_${name} j
 where j.id = r.job_id;
delete from holdfast.kept_key k
 using holdfast.job_${name} j
 where j.id = k.job_id;
delete from holdfast.job_trace t
 using holdfast.job_${name} j
 where j.id = t.job_id;
drop table holdfast.job_${name}, holdfast.finished_${name};`;

export const LOCK = "lock table holdfast.job, holdfast.finished in access exclusive mode";

/** When the week is over that a table is named after. */
export function endOf(name: string): number {
  return Date.parse(`${name.slice(0, 4)}-${name.slice(4, 6)}-${name.slice(6)}`) + WEEK_MS;
}

/** Makes the tables of the weeks to come. */
export async function addPartitions(engine: Engine, tx: Transaction): Promise<void> {
  for (const block of partitionsFrom(await readNow(engine, tx))) {
    await tx.script("savepoint block");
    try {
      await tx.script(addBlock(block));
      await tx.script("release savepoint block");
    } catch (error) {
      // Jobs of that week stand in the default partition already, because of a clock that was ahead. They stay there.
      if (codeOf(error) !== "23514") throw error;
      await tx.script("rollback to savepoint block");
    }
  }
}
