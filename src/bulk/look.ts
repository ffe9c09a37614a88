/**
 * The jobs that a bulk action looks at, a page at a time.
 *
 * A page is bounded by how many jobs it examines, not by how many match, so a page without matches costs no more than a
 * full one. Jobs are examined newest first: a called job comes before its caller, and a job that changes its state in the
 * meantime is not examined twice by one walk.
 */
import { decodeError } from "../core/error-record.ts";
import type { Status } from "../core/job.ts";
import type { Engine } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { taggedIds } from "../jobs/list.ts";
import type { Looked, StoredFilter, TableWalk, Walk } from "./filter.ts";

/** The jobs before this id come next; null: the newest. */
export interface Position {
  readonly walk: Walk;
  readonly before: string | null;
}

export interface Page {
  /** All that were examined, newest first, whether the walk has them or not. */
  readonly examined: readonly string[];
  readonly jobs: readonly Looked[];
}

interface Row {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly status: Status;
  readonly at: number | null;
  readonly error: string | null;
}

/** No job has this id: a condition on the id lets every engine begin where the index does. */
const AFTER_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/**
 * The next jobs of a walk, at most `limit`, found in the order of an index. One statement looks into all tables of the walk:
 * between two statements, a job could pass from a table that was not looked at to one that was.
 */
export async function lookAt(
  engine: Engine,
  { walk, before }: Position,
  { limit, ...filter }: LookFilter & { readonly limit: number },
): Promise<Page> {
  const named = await namedIds(engine, before, { limit, ...filter });
  const workers = await workersOf(engine, filter);
  if (named?.length === 0 || workers?.length === 0) return { examined: [], jobs: [] };
  const isWanted =
    named !== null
      ? sql`and ${engine.among(sql`p.id`, named)}`
      : sql`and p.id < ${before ?? AFTER_ALL}`;
  const pages = tablesOf(walk).map(
    (table) => sql`
    select p.id, p.queue, p.task, ${columnsOf(table)}
      from ${tableOf(table)}
           ${isWanted}
     order by p.id desc
     limit ${limit}`,
  );
  const rows = await engine.all<Row>(together(pages, limit));
  const jobs = await withFacts(engine, await matching(engine, filter, workers, rows));
  return { examined: named ?? idsOf(rows), jobs };
}

/** The pages of several tables as one page. */
function together([first, ...others]: readonly Sql[], limit: number): Sql {
  if (first === undefined || others.length === 0) return first ?? nothing;
  const all = others.reduce(
    (some, page) => sql`${some} union all select * from (${page}) other`,
    sql`select * from (${first}) one`,
  );
  return sql`
    select p.id, p.queue, p.task, p.status, p.at, p.error
      from (${all}) p
     order by p.id desc
     limit ${limit}`;
}

type LookFilter = Pick<StoredFilter, "tags" | "ids" | "key" | "worker" | "build">;

/** The next jobs of those that an index has by name; null: the walk goes through all. */
async function namedIds(
  engine: Engine,
  before: string | null,
  { limit, tags = [], ids, key }: LookFilter & { readonly limit: number },
): Promise<readonly string[] | null> {
  if (ids !== undefined) {
    return ids.filter((id) => before === null || id < before).slice(0, limit);
  }
  if (tags.length > 0) return taggedIds(engine, { tags, before, limit });
  if (key === undefined) return null;
  const rows = await engine.all<{ id: string }>(sql`
    select p.id
      from holdfast.job p
     where p.job_key = ${key}
           ${before === null ? nothing : sql`and p.id < ${before}`}
     order by p.job_key desc, p.id desc
     limit ${limit}`);
  return idsOf(rows);
}

/** Workers of one build, the newest first. */
const WORKERS_MAX = 500;

/** The jobs ran or run on one of these; null: on any. */
async function workersOf(
  engine: Engine,
  { worker, build }: LookFilter,
): Promise<readonly string[] | null> {
  if (worker === undefined && build === undefined) return null;
  if (build === undefined) return [worker ?? ""];
  const rows = await engine.all<{ id: string }>(sql`
    select id from holdfast.worker where version = ${build} order by started_at desc limit ${WORKERS_MAX}`);
  return idsOf(rows).filter((id) => worker === undefined || id === worker);
}

/** What no index could decide is compared within the page. */
async function matching(
  engine: Engine,
  { tags = [], ids, key }: LookFilter,
  workers: readonly string[] | null,
  rows: readonly Row[],
): Promise<readonly Row[]> {
  let left = rows;
  if (ids !== undefined && tags.length > 0) left = await having(engine, tags, left);
  if (key !== undefined && (ids !== undefined || tags.length > 0)) {
    left = await keyed(engine, key, left);
  }
  return workers === null ? left : ranOn(engine, workers, left);
}

async function keyed(engine: Engine, key: string, rows: readonly Row[]): Promise<readonly Row[]> {
  if (rows.length === 0) return rows;
  const found = await engine.all<{ id: string }>(sql`
    select id from holdfast.job where ${engine.among(sql`id`, idsOf(rows))} and job_key = ${key}`);
  return onlyOf(rows, found);
}

function onlyOf(rows: readonly Row[], found: readonly { readonly id: string }[]): Row[] {
  const known = new Set(idsOf(found));
  return rows.filter(({ id }) => known.has(id));
}

async function ranOn(
  engine: Engine,
  workers: readonly string[],
  rows: readonly Row[],
): Promise<readonly Row[]> {
  if (rows.length === 0) return rows;
  const ids = idsOf(rows);
  const found = await engine.all<{ id: string }>(sql`
    select job_id as id
      from holdfast.attempt
     where ${engine.among(sql`job_id`, ids)}
       and ${engine.among(sql`worker`, workers)}
     union all
    select id
      from holdfast.lease
     where ${engine.among(sql`id`, ids)}
       and ${engine.among(sql`locked_by`, workers)}
     union all
    select id
      from holdfast.finished
     where ${engine.among(sql`id`, ids)}
       and ${engine.among(sql`worker`, workers)}`);
  return onlyOf(rows, found);
}

/** Of jobs that are named, those that have the tags too. */
async function having(
  engine: Engine,
  tags: readonly string[],
  rows: readonly Row[],
): Promise<Row[]> {
  const found = await Promise.all(
    rows.map(({ id }) => taggedIds(engine, { tags, range: { from: id, to: id }, limit: 1 })),
  );
  return rows.filter((_, index) => found[index]?.length === 1);
}

async function withFacts(engine: Engine, rows: readonly Row[]): Promise<Looked[]> {
  const enqueued = await enqueuedAt(engine, idsOf(rows.filter((row) => row.at === null)));
  const errors = await lastErrors(engine, idsOf(rows.filter((row) => row.error === null)));
  return rows.map(({ error: own, ...row }) => {
    const error = own ?? errors.get(row.id) ?? null;
    return {
      ...row,
      at: row.at ?? enqueued.get(row.id) ?? 0,
      error: error === null ? null : decodeError(error),
    };
  });
}

function tablesOf(walk: Walk): readonly TableWalk[] {
  switch (walk) {
    case "unfinished":
      return ["waiting", "pending", "processing"];
    case "unclaimed":
    case "returned":
      return ["waiting", "pending"];
    default:
      return [walk];
  }
}

function tableOf(walk: TableWalk): Sql {
  switch (walk) {
    // Each of these three has a partial index, which only these exact texts use.
    case "failed":
      return sql`holdfast.finished p where p.status = 'failed'`;
    case "cancelled":
      return sql`holdfast.finished p where p.status = 'cancelled'`;
    case "expired":
      return sql`holdfast.finished p where p.status = 'expired'`;
    case "waiting":
      return sql`holdfast.waiting p where p.id is not null`;
    case "pending":
      return sql`holdfast.ready p where p.id is not null`;
    case "processing":
      return sql`holdfast.lease p where p.id is not null`;
    default:
      // Read in the order of the ids: the index on status and time would sort all of them.
      return sql`holdfast.finished p where coalesce(p.status, '') = ${walk}`;
  }
}

function columnsOf(walk: TableWalk): Sql {
  switch (walk) {
    case "waiting":
      return sql`p.status, null as at, null as error`;
    case "pending":
      return sql`'pending' as status, null as at, null as error`;
    case "processing":
      return sql`'processing' as status, null as at, null as error`;
    default:
      return sql`p.status, p.finished_at as at, p.error`;
  }
}

function idsOf(rows: readonly { readonly id: string }[]): string[] {
  return rows.map(({ id }) => id);
}

async function enqueuedAt(engine: Engine, ids: readonly string[]): Promise<Map<string, number>> {
  if (ids.length === 0) return new Map();
  const rows = await engine.all<{ id: string; at: number }>(
    sql`select id, enqueued_at as at from holdfast.job where ${engine.among(sql`id`, ids)}`,
  );
  return new Map(rows.map(({ id, at }) => [id, at]));
}

async function lastErrors(engine: Engine, ids: readonly string[]): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await engine.all<{ id: string; error: string }>(sql`
    select job_id as id, error
      from holdfast.attempt
     where ${engine.among(sql`job_id`, ids)}
       and error is not null
     order by job_id, epoch`);
  // The last error of each job replaces the others.
  return new Map(rows.map(({ id, error }) => [id, error]));
}
