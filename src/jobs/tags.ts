/** Tags: a few short words on a job, by which lists and bulk actions find it. Jobs without tags have no rows. */
import { InvalidArgumentError } from "../core/errors.ts";
import { checkLabel, TAG_LENGTH_MAX } from "../core/name.ts";
import { checkList } from "../core/options.ts";
import type { Engine, Row } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import type { NewJob } from "./store.ts";

/** Tags of one job, and tags of one filter. */
export const TAGS_MAX = 10;

/** Each once and in order, or throws InvalidArgumentError that names the field. */
export function checkTags(field: string, tags: readonly string[]): readonly string[] {
  const known = new Set(
    checkList(field, tags).map((tag, at) => checkLabel(`${field}[${at}]`, tag, TAG_LENGTH_MAX)),
  );
  if (known.size <= TAGS_MAX) return [...known].toSorted();
  const problem = `has ${known.size} tags; at most ${TAGS_MAX} are allowed.`;
  throw new InvalidArgumentError({ field, problem });
}

/** The rows of the jobs that have tags. */
export function tagRows(jobs: readonly Pick<NewJob, "id" | "tags">[]): Row[] {
  return jobs.flatMap(({ id, tags = [] }) => tags.map((tag) => ({ tag, job_id: id })));
}

/** The tags of these jobs, in order; a job without tags is missing. */
export async function tagsOf(
  engine: Engine,
  ids: readonly string[],
): Promise<Map<string, readonly string[]>> {
  if (ids.length === 0) return new Map();
  const rows = await engine.all<{ id: string; tag: string }>(sql`
    select job_id as id, tag
      from holdfast.job_tag
     where ${engine.among(sql`job_id`, ids)}`);
  const byJob = Map.groupBy(rows, ({ id }) => id);
  return new Map([...byJob].map(([id, of]) => [id, of.map(({ tag }) => tag).toSorted()]));
}

export interface TagPage {
  /** The job has all of these; there is at least one. */
  readonly tags: readonly string[];
  /** The ids lie in this range, if there is one. */
  readonly range?: { readonly from: string; readonly to: string } | undefined;
  readonly before?: string | null | undefined;
  readonly limit: number;
}

/** The newest jobs with all of these tags, read from the index of the first; the others are looked up. */
export async function taggedIds(engine: Engine, page: TagPage): Promise<string[]> {
  const [first = "", ...others] = page.tags;
  const { range, before = null } = page;
  let hasOthers = nothing;
  for (const tag of others) hasOthers = sql`${hasOthers} and ${hasTag(tag)}`;
  const rows = await engine.all<{ id: string }>(sql`
    select t.job_id as id
      from holdfast.job_tag t
     where t.tag = ${first}
           ${range === undefined ? nothing : sql`and t.job_id >= ${range.from} and t.job_id <= ${range.to}`}
           ${before === null ? nothing : sql`and t.job_id < ${before}`}
           ${hasOthers}
     order by t.job_id desc
     limit ${page.limit}`);
  return rows.map(({ id }) => id);
}

function hasTag(tag: string): Sql {
  return sql`exists (select 1 from holdfast.job_tag o where o.tag = ${tag} and o.job_id = t.job_id)`;
}
