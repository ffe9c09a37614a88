/** Jobs that an index has by what a filter names, so that the walk need not go through all. */
import { isId } from "../core/id.ts";
import type { Status } from "../core/job.ts";
import type { Engine } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { CheckedFilter } from "./filter.ts";
import { AFTER_ALL } from "./order.ts";

/** The next ids below one, newest first. */
export type Named = (high: string | undefined, limit: number) => Promise<readonly string[]>;

/** Workers of one build. */
const WORKERS_MAX = 500;

// The index of a key, a tag or a flow has its jobs in the order of their ids.

/** Whole ids, not the beginning of one. */
export function areWhole(ids: readonly string[]): boolean {
  return ids.length > 1 || isId(ids[0] ?? "");
}

/** The jobs with what the filter names; null: it names nothing that an index has. */
export async function candidatesOf(
  engine: Engine,
  filter: CheckedFilter,
  wanted: readonly Status[],
): Promise<Named | null> {
  return namedBy(engine, filter) ?? fewBy(engine, filter, wanted);
}

function namedBy(engine: Engine, filter: CheckedFilter): Named | null {
  const { id: ids = [], key, tag: [tag] = [], flow } = filter;
  if (areWhole(ids)) {
    return async (high, limit) =>
      ids.filter((id) => high === undefined || id < high).slice(0, limit);
  }
  const from =
    key !== undefined
      ? sql`select p.id from holdfast.job p where p.job_key = ${key} and p.id`
      : tag !== undefined
        ? sql`select p.job_id as id from holdfast.job_tag p where p.tag = ${tag} and p.job_id`
        : flow !== undefined
          ? sql`select p.job_id as id from holdfast.flow_job p where p.flow_id = ${flow} and p.job_id`
          : null;
  if (from === null) return null;
  const by = key === undefined ? sql`p.job_id` : sql`p.id`;
  return async (high, limit) => {
    const rows = await engine.all<{ id: string }>(sql`
    ${from} < ${high ?? AFTER_ALL} order by ${by} desc limit ${limit}`);
    return rows.map(({ id }) => id);
  };
}

/** So many jobs an index may find in an order of its own: they are sorted here. */
const FEW_MAX = 5_000;

/** An end is looked up within so long: of more, a planner may think that it is quicker to read the jobs by their ids. */
const ENDED_WITHIN_MS = 10 * 60_000;

/** The jobs of a range of an index that is not in the order of the ids; null: there is none, or they are many. */
async function fewBy(
  engine: Engine,
  { keyPrefix, endedSince, endedUntil }: CheckedFilter,
  wanted: readonly Status[],
): Promise<Named | null> {
  const isShort =
    endedSince !== undefined &&
    endedUntil !== undefined &&
    endedUntil - endedSince <= ENDED_WITHIN_MS;
  const few =
    keyPrefix !== undefined
      ? sql`
    select j.id from holdfast.job j where ${keysOf(keyPrefix)} order by j.job_key, j.id limit ${FEW_MAX + 1}`
      : isShort
        ? sql`
    select p.id
      from holdfast.finished p
     where p.status in (${wordsIn(wanted)})
       and p.finished_at >= ${endedSince}
       and p.finished_at < ${endedUntil}
     limit ${FEW_MAX + 1}`
        : null;
  if (few === null) return null;
  const rows = await engine.all<{ id: string }>(few);
  if (rows.length > FEW_MAX) return null;
  const ids = rows
    .map(({ id }) => id)
    .toSorted()
    .toReversed();
  return async (high, limit) => ids.filter((id) => high === undefined || id < high).slice(0, limit);
}

/** Keys are compared by their bytes, of which these are the last. */
const LAST_CHARACTER = "\u{10FFFF}";

/** The range of the keys that begin with this. */
export function keysOf(prefix: string): Sql {
  return sql`j.job_key >= ${prefix} and j.job_key < ${prefix + LAST_CHARACTER}`;
}

/** The workers of which one ran the job; null: any. */
export async function workersOf(
  engine: Engine,
  { worker, build }: CheckedFilter,
): Promise<readonly string[] | null> {
  if (build === undefined) return worker === undefined ? null : [worker];
  const rows = await engine.all<{ id: string }>(sql`
    select id from holdfast.worker where version = ${build} order by started_at desc limit ${WORKERS_MAX}`);
  return rows.map(({ id }) => id).filter((id) => worker === undefined || id === worker);
}

export function wordsIn([one = "", ...others]: readonly string[]): Sql {
  return others.reduce((some, word) => sql`${some}, ${word}`, sql`${one}`);
}
