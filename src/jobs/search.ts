/**
 * Search of jobs, newest first, in slices: each slice is a range of ids in the order of an index, and the conditions are
 * compared within it. So a search without matches costs no more than one with many, and says how far it looked.
 *
 * One call takes as many slices as fit into its time; the next call continues where it ended.
 */
import { firstIdAt, idRange } from "../core/id.ts";
import { home, type Status } from "../core/job.ts";
import { ALERT_QUEUE, versionsOf } from "../core/name.ts";
import { type Engine, TABLES } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { sleep } from "../core/runtime.ts";
import { newestIds, summaries, taggedIds } from "./list.ts";
import type { JobSummary, ListFilter } from "./store.ts";

/** How many jobs a search looks at, over all its calls. */
export const LOOK_MAX = 100_000;

/** A call takes no new slice after this long. */
const TIME_MS = 30;

/** Slices grow while they are quick. */
const SLICE_FIRST = 500;
const SLICE_MAX = 10_000;
const SLICE_MS = 8;

/** Jobs of a key or a tag that are compared at once. */
const NAMED_PAGE = 500;

/** Jobs whose inputs are read to be shown and compared at once: each may have 256 KiB. */
const SHOWN_PAGE = 50;

/** Workers of one build. */
const WORKERS_MAX = 500;

export interface SearchFilter {
  readonly status?: Status | undefined;
  readonly queue?: string | undefined;
  /** A name without a version matches all versions. */
  readonly task?: string | undefined;
  readonly key?: string | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly prefix?: string | undefined;
  /** It ran or runs on this worker … */
  readonly worker?: string | undefined;
  /** … or on one of this build. */
  readonly build?: string | undefined;
  /** When it was enqueued. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** Part of the text of an error, as it is stored. */
  readonly error?: string | undefined;
  /** Part of the text of the input, as it is stored. */
  readonly payload?: string | undefined;
  /** Whether an input, as it is stored, matches: what is hidden must not be compared in the database. */
  readonly shows?: ((payload: string) => boolean) | undefined;
  readonly before?: string | undefined;
  readonly limit: number;
  /** How many jobs to look at, at most. */
  readonly look: number;
}

export interface Found {
  readonly ids: readonly string[];
  /** How many jobs were looked at. */
  readonly looked: number;
  /** Where the next call continues; null: there are no more. */
  readonly next: string | null;
}

export async function search(engine: Engine, filter: SearchFilter): Promise<Found> {
  const { since, until, before, prefix } = filter;
  const range = prefix === undefined ? { from: undefined, to: undefined } : idRange(prefix);
  if (range === null) return NOTHING;
  const workers = await workersOf(engine, filter);
  if (workers?.length === 0) return NOTHING;
  const low = later(range.from, since === undefined ? undefined : firstIdAt(since));
  const high = earlier(before, until === undefined ? undefined : firstIdAt(until));
  const bounds = { low, high, most: range.to };
  const wanted = { ...filter, workers };
  return filter.key !== undefined || (filter.tags ?? []).length > 0
    ? searchNamed(engine, wanted, bounds)
    : searchSlices(engine, wanted, bounds);
}

const NOTHING: Found = { ids: [], looked: 0, next: null };

interface Wanted extends SearchFilter {
  /** It ran or runs on one of these; null: on any. */
  readonly workers: readonly string[] | null;
}

/** Ids are at least `low`, below `high`, and at most `most`. */
interface Bounds {
  readonly low: string | undefined;
  readonly high: string | undefined;
  readonly most: string | undefined;
}

async function workersOf(
  engine: Engine,
  { worker, build }: SearchFilter,
): Promise<string[] | null> {
  if (worker !== undefined) return [worker];
  if (build === undefined) return null;
  const rows = await engine.all<{ id: string }>(sql`
    select id from holdfast.worker where version = ${build} order by started_at desc limit ${WORKERS_MAX}`);
  return rows.map(({ id }) => id);
}

async function searchSlices(engine: Engine, wanted: Wanted, bounds: Bounds): Promise<Found> {
  const { limit, look } = wanted;
  const startedAt = engine.runtime.monotonic();
  const ids: string[] = [];
  let { high } = bounds;
  let looked = 0;
  const most = wanted.shows === undefined ? SLICE_MAX : SHOWN_PAGE;
  let size = Math.min(SLICE_FIRST, most);
  for (;;) {
    const sliceAt = engine.runtime.monotonic();
    size = Math.min(size, look - looked);
    const slice = await sliceOf(engine, wanted, { ...bounds, high }, size);
    const found = await matches(engine, wanted, slice, limit - ids.length);
    ids.push(...found);
    looked += slice.size;
    if (ids.length >= limit) return { ids, looked, next: ids.at(-1) ?? null };
    if (slice.next === null) return { ids, looked, next: null };
    high = slice.next;
    const now = engine.runtime.monotonic();
    if (looked >= look || now - startedAt > TIME_MS) return { ids, looked, next: high };
    if (now - sliceAt < SLICE_MS) size = Math.min(most, size * 2);
  }
}

interface Slice extends Bounds {
  /** How many jobs are in it. */
  readonly size: number;
  /** Where the next slice begins; null: this is the last. */
  readonly next: string | null;
}

/** The next jobs below `high`: only their ids are read, in the order of an index. */
async function sliceOf(
  engine: Engine,
  { status }: Wanted,
  bounds: Bounds,
  size: number,
): Promise<Slice> {
  const rows = await engine.all<{ id: string }>(sql`
    select p.id
      from ${tableOf(status)} p
     where ${isOf(status)}
           ${within(bounds)}
     order by p.id desc
     limit 1 offset ${size - 1}`);
  const low = rows[0]?.id;
  if (low !== undefined) return { ...bounds, low, size, next: low };
  // Fewer are left. How many does not matter for what follows, and is at most the slice.
  const [left] = await engine.all<{ n: number }>(sql`
    select count(*) as n
      from (select p.id from ${tableOf(status)} p where ${isOf(status)} ${within(bounds)} limit ${size}) c`);
  return { ...bounds, size: left?.n ?? 0, next: null };
}

function tableOf(status: Status | undefined): Sql {
  return status === undefined ? sql`holdfast.job` : TABLES[home[status]];
}

/** Each of these three has a partial index, which only these exact texts use. Of the others most rows match. */
function isOf(status: Status | undefined): Sql {
  switch (status) {
    case "failed":
      return sql`p.status = 'failed'`;
    case "cancelled":
      return sql`p.status = 'cancelled'`;
    case "expired":
      return sql`p.status = 'expired'`;
    default:
      return sql`p.id is not null`;
  }
}

function within({ low, high, most }: Bounds): Sql {
  return sql`
           ${low === undefined ? nothing : sql`and p.id >= ${low}`}
           ${high === undefined ? nothing : sql`and p.id < ${high}`}
           ${most === undefined ? nothing : sql`and p.id <= ${most}`}`;
}

async function matches(
  engine: Engine,
  wanted: Wanted,
  slice: Bounds,
  limit: number,
): Promise<string[]> {
  const { status, shows } = wanted;
  const rows = await engine.all<Match>(sql`
    select p.id${payloadOf(wanted)}
      from ${tableOf(status)} p
     where ${isOf(status)}
           ${within(slice)}
           ${conditions(engine, wanted)}
     order by p.id desc
     limit ${shows === undefined ? limit : SHOWN_PAGE}`);
  return shown(wanted, rows).slice(0, limit);
}

interface Match {
  readonly id: string;
  /** Only where it is compared here. */
  readonly payload?: string;
}

function payloadOf({ shows }: Wanted): Sql {
  if (shows === undefined) return nothing;
  return sql`, (select j.payload from holdfast.job j where j.id = p.id) as payload`;
}

/** The ids of those that match as they are shown. */
function shown({ shows }: Wanted, rows: readonly Match[]): string[] {
  const matching = rows.filter(({ payload }) => shows === undefined || shows(payload ?? "null"));
  return matching.map(({ id }) => id);
}

/** `coalesce` keeps the planner from other indexes: the range of ids is the way. */
function conditions(engine: Engine, wanted: Wanted): Sql {
  const { status, queue, task, key, error, payload, workers } = wanted;
  const isGeneral = [queue, task, key, wanted.prefix].every((one) => one === undefined);
  const hasStatus = status === "done" || (status !== undefined && home[status] === "waiting");
  return sql`
           ${hasStatus ? sql`and coalesce(p.status, '') = ${status}` : nothing}
           ${queue === undefined ? nothing : sql`and coalesce(p.queue, '') = ${queue}`}
           ${isGeneral ? sql`and coalesce(p.queue, '') <> ${ALERT_QUEUE}` : nothing}
           ${task === undefined ? nothing : taskIs(task)}
           ${payload === undefined ? nothing : hasPayload(engine, status, payload)}
           ${error === undefined ? nothing : hasError(engine, status, error)}
           ${workers === null ? nothing : ranOn(engine, status, workers)}`;
}

function taskIs(task: string): Sql {
  const versions = versionsOf(task);
  if (versions === null) return sql`and p.task = ${task}`;
  return sql`and (p.task = ${task} or p.task > ${versions.after} and p.task < ${versions.before})`;
}

/** Compares bytes: case matters, and no character has a meaning of its own. */
function contains(engine: Engine, column: Sql, text: string): Sql {
  return engine.kind === "postgres"
    ? sql`strpos(${column}, ${text}) > 0`
    : sql`instr(${column}, ${text}) > 0`;
}

function hasPayload(engine: Engine, status: Status | undefined, text: string): Sql {
  if (status === undefined) return sql`and ${contains(engine, sql`p.payload`, text)}`;
  return sql`
       and exists (select 1 from holdfast.job j where j.id = p.id and ${contains(engine, sql`j.payload`, text)})`;
}

function isEnded(status: Status | undefined): boolean {
  return status !== undefined && home[status] === "finished";
}

function hasError(engine: Engine, status: Status | undefined, text: string): Sql {
  const inAttempt = sql`
            exists (select 1
                      from holdfast.attempt a
                     where a.job_id = p.id
                       and ${contains(engine, sql`a.error`, text)})`;
  if (isEnded(status)) {
    return sql`and (${contains(engine, sql`p.error`, text)} or ${inAttempt})`;
  }
  if (status !== undefined) return sql`and ${inAttempt}`;
  return sql`
       and (${inAttempt}
            or exists (select 1
                         from holdfast.finished f
                        where f.id = p.id
                          and ${contains(engine, sql`f.error`, text)}))`;
}

function ranOn(engine: Engine, status: Status | undefined, workers: readonly string[]): Sql {
  const inAttempt = sql`
            exists (select 1
                      from holdfast.attempt a
                     where a.job_id = p.id
                       and ${engine.among(sql`a.worker`, workers)})`;
  if (isEnded(status)) return sql`and (${engine.among(sql`p.worker`, workers)} or ${inAttempt})`;
  if (status === "processing") {
    return sql`and (${engine.among(sql`p.locked_by`, workers)} or ${inAttempt})`;
  }
  if (status !== undefined) return sql`and ${inAttempt}`;
  return sql`
       and (${inAttempt}
            or exists (select 1
                         from holdfast.finished f
                        where f.id = p.id
                          and ${engine.among(sql`f.worker`, workers)})
            or exists (select 1
                         from holdfast.lease l
                        where l.id = p.id
                          and ${engine.among(sql`l.locked_by`, workers)}))`;
}

/** The jobs of a key or of tags have an index: those are read, and compared. */
async function searchNamed(engine: Engine, wanted: Wanted, bounds: Bounds): Promise<Found> {
  const { limit, look } = wanted;
  const startedAt = engine.runtime.monotonic();
  const page = wanted.shows === undefined ? NAMED_PAGE : SHOWN_PAGE;
  const ids: string[] = [];
  let { high } = bounds;
  let looked = 0;
  for (;;) {
    const named = await namedIds(engine, wanted, { ...bounds, high }, page);
    const found = named.length === 0 ? [] : await matchesOf(engine, wanted, named);
    ids.push(...found.slice(0, limit - ids.length));
    looked += named.length;
    if (ids.length >= limit) return { ids, looked, next: ids.at(-1) ?? null };
    if (named.length < page) return { ids, looked, next: null };
    high = named.at(-1);
    const isLate = engine.runtime.monotonic() - startedAt > TIME_MS;
    if (looked >= look || isLate) return { ids, looked, next: high ?? null };
  }
}

async function namedIds(
  engine: Engine,
  wanted: Wanted,
  bounds: Bounds,
  limit: number,
): Promise<string[]> {
  const { key, tags = [] } = wanted;
  if (tags.length > 0) {
    const { low = firstIdAt(0), most = LAST_ID } = bounds;
    const range = { from: low, to: most };
    return taggedIds(engine, { tags, range, before: bounds.high ?? null, limit });
  }
  const rows = await engine.all<{ id: string }>(sql`
    select p.id
      from holdfast.job p
     where p.job_key = ${key ?? ""}
           ${within(bounds)}
     order by p.job_key desc, p.id desc
     limit ${limit}`);
  return rows.map(({ id }) => id);
}

const LAST_ID = "ffffffff-ffff-7fff-bfff-ffffffffffff";

async function matchesOf(
  engine: Engine,
  wanted: Wanted,
  named: readonly string[],
): Promise<string[]> {
  const { status, key, tags = [] } = wanted;
  // A key is compared where jobs of tags were read.
  const hasKey = key === undefined || tags.length === 0 ? nothing : sql`and p.job_key = ${key}`;
  const rows = await engine.all<Match>(sql`
    select p.id${payloadOf(wanted)}
      from ${tableOf(status)} p
     where ${isOf(status)}
       and ${engine.among(sql`p.id`, named)}
           ${hasKey}
           ${conditions(engine, wanted)}
     order by p.id desc`);
  return shown(wanted, rows);
}

function later(a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a > b ? a : b;
}

function earlier(a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a < b ? a : b;
}

// Lists of jobs are searches, too: a filter that nothing matches must not walk the whole table in one statement.

export interface JobPage {
  readonly jobs: readonly JobSummary[];
  /** Where the next page begins; null: there is none. A page may be short, or empty, and have a next. */
  readonly next: string | null;
}

/** One page, within the time of a search. */
export async function listPage(engine: Engine, filter: ListFilter): Promise<JobPage> {
  if (isOrdered(filter)) {
    const newest = await newestIds(engine, filter);
    const next = newest.length < filter.limit ? null : (newest.at(-1) ?? null);
    return { jobs: await summaries(engine, newest), next };
  }
  const { ids, next } = await search(engine, { ...filter, look: LOOK_MAX });
  return { jobs: await summaries(engine, ids), next };
}

/** Nearly every row of an index matches, so that one statement reads hardly more than the page. */
function isOrdered({ status, queue, task, key, tags = [] }: ListFilter): boolean {
  if (queue !== undefined || task !== undefined || key !== undefined || tags.length > 0)
    return false;
  return status !== "done" && (status === undefined || home[status] !== "waiting");
}

/** Each call looks at hundreds of jobs or more. */
const LIST_CALLS_MAX = 100_000;

/** A whole page, in as many calls as it takes. The rest of the process runs between them: SQLite is in its thread. */
export async function list(engine: Engine, filter: ListFilter): Promise<JobSummary[]> {
  const found: JobSummary[] = [];
  let rest = filter;
  for (let calls = 0; calls < LIST_CALLS_MAX; calls += 1) {
    const { jobs, next } = await listPage(engine, rest);
    found.push(...jobs);
    if (next === null || found.length >= filter.limit) break;
    rest = { ...filter, before: next, limit: filter.limit - found.length };
    await sleep(engine.runtime, 0);
  }
  return found;
}
