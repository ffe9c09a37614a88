/**
 * The jobs that match a filter, newest first: for lists, counts and bulk actions.
 *
 * They are examined in slices. A slice is a range of ids in the order of an index, and the filter is compared within it: a
 * filter that nothing matches costs no more than one with many matches, and the walk says how far it looked. A slice is
 * compared in one statement over all tables that a job may pass through, so a job that moves meanwhile is not missed.
 */
import { decodeError, type ErrorRecord } from "../core/error-record.ts";
import { firstIdAt, idRange, isId } from "../core/id.ts";
import { home, type Status, statuses } from "../core/job.ts";
import { AFTER_RESERVED, RESERVED, versionsOf } from "../core/name.ts";
import { type Engine, TABLES } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import type { CheckedFilter } from "./filter.ts";
import { LANE_END } from "./rows.ts";

/** Slices grow while they are quick. */
const SLICE_FIRST = 500;
const SLICE_MAX = 10_000;
const SLICE_MS = 3;

/** Jobs of a key, a tag or a flow that are compared at once. */
const NAMED_SLICE = 500;

/** Jobs whose errors are read to be compared: each may have kilobytes. */
const ERRORS_SLICE = 500;

/** Jobs whose inputs are read to be shown and compared: each may have 256 KiB. */
const SHOWN_SLICE = 50;

/** Workers of one build. */
const WORKERS_MAX = 500;

export interface WalkOptions {
  /** Jobs before this id. */
  readonly before?: string | null | undefined;
  /** At most so many matches. */
  readonly limit: number;
  /** At most so many jobs are looked at. */
  readonly examine: number;
  /** No new slice begins after this long. */
  readonly forMs?: number;
  /** Whether an input, as it is stored, matches: what is hidden must not be compared in the database. */
  readonly shows?: ((payload: string) => boolean) | undefined;
  /** Whether the matches are needed with their errors. */
  readonly withErrors?: boolean;
  /** Only how many there are is wanted. */
  readonly isCount?: boolean;
}

export interface Match {
  readonly id: string;
  readonly status: Status;
  /** Only where it was read. */
  readonly error: ErrorRecord | null;
}

export interface Walked {
  /** Newest first; none, if they are only counted. */
  readonly matches: readonly Match[];
  readonly matched: number;
  /** How many jobs were looked at. */
  readonly examined: number;
  /** Where the walk continues; null: all jobs were looked at. */
  readonly next: string | null;
}

export async function walk(
  engine: Engine,
  filter: CheckedFilter,
  options: WalkOptions,
): Promise<Walked> {
  const { limit, examine, forMs = Number.POSITIVE_INFINITY } = options;
  const plan = await planOf(engine, filter, options);
  const walked = { matches: [] as Match[], matched: 0, examined: 0 };
  if (plan === null) return { ...walked, next: null };
  const { runtime } = engine;
  const startedAt = runtime.monotonic();
  let size = Math.min(SLICE_FIRST, plan.sliceMax);
  let { high } = plan;
  for (;;) {
    const sliceAt = runtime.monotonic();
    const slice = await sliceOf(engine, plan, high, Math.min(size, examine - walked.examined));
    const found = await matchesIn(engine, plan, slice, limit - walked.matched);
    walked.matches.push(...found.matches);
    walked.matched += found.matched;
    walked.examined += slice.examined ?? found.matched;
    if (walked.matched >= limit) return { ...walked, next: walked.matches.at(-1)?.id ?? null };
    if (slice.next === null) return { ...walked, next: null };
    high = slice.next;
    const now = runtime.monotonic();
    if (walked.examined >= examine || now - startedAt > forMs) return { ...walked, next: high };
    if (now - sliceAt < SLICE_MS) size = Math.min(plan.sliceMax, size * 2);
  }
}

interface Plan {
  readonly sources: readonly Source[];
  /** Ids are at least `low`, at most `most`, and below `high`. */
  readonly low: string | undefined;
  readonly most: string | undefined;
  readonly high: string | undefined;
  /** Nearly every row of the sources matches: one statement reads hardly more than a page. */
  readonly isPlain: boolean;
  /** The next jobs that an index has by name; null: the walk goes through all. */
  readonly named: ((high: string | undefined, limit: number) => Promise<readonly string[]>) | null;
  readonly sliceMax: number;
  /** What the database cannot compare. */
  readonly fits: ((row: Row) => boolean) | null;
  readonly isCount: boolean;
}

/** A table, or a part of it that has an index. */
interface Source {
  readonly table: keyof typeof TABLES;
  /** What its index has: only this exact text uses it. */
  readonly within: Sql;
  readonly status: Sql;
  /** The conditions of the filter. */
  readonly where: Sql;
  /** Further columns. */
  readonly reads: Sql;
}

interface Row {
  readonly id: string;
  readonly status: Status;
  readonly error?: string | null;
  readonly payload?: string | null;
}

/** Null: no job can match. */
async function planOf(
  engine: Engine,
  filter: CheckedFilter,
  { before, shows, withErrors = false, isCount = false }: WalkOptions,
): Promise<Plan | null> {
  const { id: ids = [], enqueuedSince, enqueuedUntil } = filter;
  const [only = ""] = ids;
  const range = ids.length !== 1 || isId(only) ? undefined : idRange(only);
  const workers = await workersOf(engine, filter);
  const wanted = statusesOf(filter);
  if (range === null || workers?.length === 0 || wanted.length === 0) return null;
  const fits = fitsOf(filter, shows);
  const isShown = shows !== undefined && filter.input !== undefined;
  const readsErrors = withErrors || filter.error !== undefined || filter.code !== undefined;
  const sources = sourcesOf(wanted, filter).map((part) => ({
    ...part,
    where: conditions(engine, part, { filter, wanted, workers, isShown }),
    reads: sql`
           ${readsErrors ? sql`, ${lastError(part)} as error` : nothing}
           ${isShown ? sql`, (select j.payload from holdfast.job j where j.id = p.id) as payload` : nothing}`,
  }));
  return {
    sources,
    low: last(range?.from, enqueuedSince === undefined ? undefined : firstIdAt(enqueuedSince)),
    most: range?.to,
    high: first(
      before ?? undefined,
      enqueuedUntil === undefined ? undefined : firstIdAt(enqueuedUntil),
    ),
    isPlain: fits === null && !isCount && isPlain(filter, wanted),
    named: namedBy(engine, filter),
    sliceMax: isShown ? SHOWN_SLICE : readsErrors ? ERRORS_SLICE : SLICE_MAX,
    fits,
    isCount,
  };
}

/** The fields that the order of the ids answers. */
const OF_IDS = new Set(["status", "enqueuedSince", "enqueuedUntil"]);

/** Ended jobs by status have an index, but not those that are done; of the waiting ones there are three kinds. */
function isPlain(filter: CheckedFilter, wanted: readonly Status[]): boolean {
  const isAll = wanted.length === statuses.length;
  if (!isAll && wanted.some((one) => one === "done" || home[one] === "waiting")) return false;
  return Object.keys(filter).every((name) => OF_IDS.has(name));
}

/** The wanted statuses that the other fields allow. */
function statusesOf(filter: CheckedFilter): readonly Status[] {
  const { status = statuses, endedSince, endedUntil, startedSince, startedUntil } = filter;
  const mustHaveEnded = endedSince !== undefined || endedUntil !== undefined;
  const mustHaveStarted = startedSince !== undefined || startedUntil !== undefined;
  return status.filter((one) => {
    const isEnded = home[one] === "finished";
    if (mustHaveEnded && !isEnded) return false;
    if (mustHaveStarted && !isEnded && one !== "processing") return false;
    return filter.kind === undefined || !isEnded || one === "failed";
  });
}

type Part = Pick<Source, "table" | "within" | "status">;

const ALL = sql`p.id is not null`;

/** Failed, cancelled and expired jobs are rare, so each of these has a partial index. */
const RARE: Readonly<Partial<Record<Status, Sql>>> = {
  failed: sql`p.status = 'failed'`,
  cancelled: sql`p.status = 'cancelled'`,
  expired: sql`p.status = 'expired'`,
};

function sourcesOf(wanted: readonly Status[], { kind }: CheckedFilter): Part[] {
  const parts: Part[] = [];
  if (wanted.includes("pending")) {
    parts.push({ table: "ready", within: ALL, status: sql`'pending'` });
  }
  if (wanted.some((one) => home[one] === "waiting")) {
    parts.push({ table: "waiting", within: ALL, status: sql`p.status` });
  }
  if (wanted.includes("processing")) {
    parts.push({ table: "lease", within: ALL, status: sql`'processing'` });
  }
  const ended = { table: "finished", status: sql`p.status` } as const;
  if (wanted.includes("done")) parts.push({ ...ended, within: ALL });
  else {
    for (const one of wanted) {
      const { [one]: rare } = RARE;
      if (rare === undefined) continue;
      const within = kind === undefined ? rare : sql`${rare} and p.error_kind = ${kind}`;
      parts.push({ ...ended, within });
    }
  }
  return parts;
}

// Slices.

interface Slice {
  readonly where: Sql;
  /** Null: those that match. */
  readonly examined: number | null;
  readonly next: string | null;
}

async function sliceOf(
  engine: Engine,
  plan: Plan,
  high: string | undefined,
  size: number,
): Promise<Slice> {
  if (plan.isPlain) return { where: between({ ...plan, high }), examined: null, next: null };
  if (plan.named !== null) {
    const limit = Math.min(size, NAMED_SLICE);
    const ids = await plan.named(high, limit);
    const where = sql`${engine.among(sql`p.id`, ids)} and ${between({ ...plan, high })}`;
    const next = ids.length < limit ? null : (ids.at(-1) ?? null);
    return { where, examined: ids.length, next };
  }
  const all = merged(
    plan.sources.map(
      ({ table, within }) => sql`
    select p.id
      from ${TABLES[table]} p
     where ${within}
       and ${between({ ...plan, high })}
     order by p.id desc
     limit ${size}`,
    ),
  );
  const [lowest] = await engine.all<{ id: string }>(sql`
    select p.id from (${all}) p order by p.id desc limit 1 offset ${size - 1}`);
  if (lowest !== undefined) {
    const { most } = plan;
    return { where: between({ low: lowest.id, most, high }), examined: size, next: lowest.id };
  }
  // Fewer are left.
  const [left] = await engine.all<{ n: number }>(sql`select count(*) as n from (${all}) p`);
  return { where: between({ ...plan, high }), examined: left?.n ?? 0, next: null };
}

/** No id is beyond these: a condition on the id lets every engine begin where the index does. */
const FIRST_ID = "00000000-0000-0000-0000-000000000000";
const AFTER_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff";

function between({ low, most, high }: Pick<Plan, "low" | "most" | "high">): Sql {
  return sql`p.id >= ${low ?? FIRST_ID} and p.id < ${high ?? AFTER_ALL}
       ${most === undefined ? nothing : sql`and p.id <= ${most}`}`;
}

/** The rows of several queries as one. */
function merged([one = nothing, ...others]: readonly Sql[]): Sql {
  if (others.length === 0) return one;
  return others.reduce(
    (some, query) => sql`${some} union all select * from (${query}) other`,
    sql`select * from (${one}) one`,
  );
}

async function matchesIn(
  engine: Engine,
  { sources, fits, isCount }: Plan,
  slice: Slice,
  limit: number,
): Promise<Pick<Walked, "matches" | "matched">> {
  if (slice.examined === 0) return { matches: [], matched: 0 };
  const isCounted = isCount && fits === null;
  const order = isCounted ? nothing : sql`order by p.id desc`;
  const most = isCounted || fits !== null ? nothing : sql`limit ${limit}`;
  const all = merged(
    sources.map(
      ({ table, within, status, where, reads }) => sql`
    select p.id, ${status} as status${isCounted ? nothing : reads}
      from ${TABLES[table]} p
     where ${within}
       and ${slice.where}
           ${where}
     ${order}
     ${most}`,
    ),
  );
  if (isCounted) {
    const [count] = await engine.all<{ n: number }>(sql`select count(*) as n from (${all}) p`);
    return { matches: [], matched: count?.n ?? 0 };
  }
  const rows = await engine.all<Row>(
    sources.length === 1 ? all : sql`select * from (${all}) p ${order} ${most}`,
  );
  const fitting = (fits === null ? rows : rows.filter(fits)).slice(0, limit);
  const matches = fitting.map(({ id, status, error }) => ({ id, status, error: recordOf(error) }));
  return { matches: isCount ? [] : matches, matched: fitting.length };
}

function recordOf(error: string | null | undefined): ErrorRecord | null {
  return error === null || error === undefined ? null : decodeError(error);
}

// The jobs of an index. The index of a key, a tag or a flow has them in the order of their ids.

function namedBy(engine: Engine, filter: CheckedFilter): Plan["named"] {
  const { id: ids = [], key, tag: [tag] = [], flow } = filter;
  if (ids.length > 1 || isId(ids[0] ?? "")) {
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

/** The workers of which one ran the job; null: any. */
async function workersOf(
  engine: Engine,
  { worker, build }: CheckedFilter,
): Promise<readonly string[] | null> {
  if (build === undefined) return worker === undefined ? null : [worker];
  const rows = await engine.all<{ id: string }>(sql`
    select id from holdfast.worker where version = ${build} order by started_at desc limit ${WORKERS_MAX}`);
  return rows.map(({ id }) => id).filter((id) => worker === undefined || id === worker);
}

// Conditions within a slice. `coalesce` keeps the planner from other indexes: the range of ids is the way.

interface Compared {
  readonly filter: CheckedFilter;
  readonly wanted: readonly Status[];
  readonly workers: readonly string[] | null;
  readonly isShown: boolean;
}

function conditions(
  engine: Engine,
  { table }: Part,
  { filter, wanted, workers, isShown }: Compared,
): Sql {
  const { queue, task, key, keyPrefix, tag = [], lane, flow, schedule, kind, input } = filter;
  const { startedSince, startedUntil, endedSince, endedUntil, id } = filter;
  const isGeneral = [queue, task, key, kind, id].every((one) => one === undefined);
  const started = table === "lease" ? sql`p.claimed_at` : sql`p.started_at`;
  const isPart = statuses.some((one) => home[one] === table && !wanted.includes(one));
  const all: (Sql | false)[] = [
    isPart && sql`coalesce(p.status, '') in (${wordsIn(wanted)})`,
    queue !== undefined && sql`coalesce(p.queue, '') = ${queue}`,
    isGeneral && sql`(p.queue < ${RESERVED} or p.queue >= ${AFTER_RESERVED})`,
    task !== undefined && taskIs(task),
    key !== undefined && has(sql`holdfast.job j where j.id = p.id and j.job_key = ${key}`),
    keyPrefix !== undefined && beginsWith(keyPrefix),
    lane !== undefined && laneIs(table, lane),
    kind !== undefined && table !== "finished" && sql`${LAST_KIND} = ${kind}`,
    flow !== undefined &&
      has(sql`holdfast.flow_job o where o.job_id = p.id and o.flow_id = ${flow}`),
    schedule !== undefined &&
      has(sql`holdfast.schedule_run o where o.job_id = p.id and o.schedule = ${schedule}`),
    input !== undefined && !isShown && hasInput(engine, input),
    workers !== null && ranOn(engine, table, workers),
    startedSince !== undefined && sql`coalesce(${started}, -1) >= ${startedSince}`,
    startedUntil !== undefined && sql`${started} < ${startedUntil}`,
    endedSince !== undefined && sql`coalesce(p.finished_at, 0) >= ${endedSince}`,
    endedUntil !== undefined && sql`coalesce(p.finished_at, 0) < ${endedUntil}`,
    ...tag.map((one) => has(sql`holdfast.job_tag o where o.tag = ${one} and o.job_id = p.id`)),
  ];
  return all.reduce((some: Sql, one) => (one === false ? some : sql`${some} and ${one}`), nothing);
}

function wordsIn([one = "", ...others]: readonly string[]): Sql {
  return others.reduce((some, word) => sql`${some}, ${word}`, sql`${one}`);
}

/** Looked up for each job of the slice: of `exists`, a planner makes a join that may read all jobs of a key or a tag. */
function has(rows: Sql): Sql {
  return sql`(select count(*) from ${rows}) > 0`;
}

/** As databases count characters. */
function lengthOf(text: string): number {
  return Array.from(text).length;
}

/** The keys of the state tables are those that a job holds. */
function beginsWith(prefix: string): Sql {
  const begin = sql`substr(j.job_key, 1, ${lengthOf(prefix)})`;
  return has(sql`holdfast.job j where j.id = p.id and ${begin} = ${prefix}`);
}

function taskIs(task: string): Sql {
  const versions = versionsOf(task);
  if (versions === null) return sql`p.task = ${task}`;
  return sql`(p.task = ${task} or p.task > ${versions.after} and p.task < ${versions.before})`;
}

/** A pending job has the name of its task after its lane, if the task has a limit of its own. */
function laneIs(table: Source["table"], lane: string): Sql {
  if (table !== "ready") return sql`coalesce(p.lane, '') = ${lane}`;
  const begin = lane + LANE_END;
  return sql`(coalesce(p.lane, '') = ${lane} or substr(p.lane, 1, ${lengthOf(begin)}) = ${begin})`;
}

/** Bytes are compared, after the database has folded capital letters. No character has a meaning of its own. */
function hasInput(engine: Engine, input: string): Sql {
  const [text, part] = [sql`lower(j.payload)`, sql`lower(${engine.typed(storedInput(input))})`];
  const at =
    engine.kind === "postgres" ? sql`strpos(${text}, ${part})` : sql`instr(${text}, ${part})`;
  return has(sql`holdfast.job j where j.id = p.id and ${at} > 0`);
}

/** Inputs are stored as JSON, in which line breaks are escaped. A text with quotes is a part of JSON already. */
export function storedInput(given: string): string {
  return given.includes('"') ? given : JSON.stringify(given).slice(1, -1);
}

function ranOn(engine: Engine, table: Source["table"], workers: readonly string[]): Sql {
  // Not `exists`: MySQL would join it, and read all attempts first where there are few.
  const earlier = sql`
            (select 1
               from holdfast.attempt a
              where a.job_id = p.id
                and ${engine.among(sql`a.worker`, workers)}
              limit 1) is not null`;
  if (table === "finished") return sql`(${engine.among(sql`p.worker`, workers)} or ${earlier})`;
  if (table === "lease") return sql`(${engine.among(sql`p.locked_by`, workers)} or ${earlier})`;
  return earlier;
}

function lastError({ table }: Part): Sql {
  return table === "finished" ? sql`coalesce(p.error, ${ATTEMPT_ERROR})` : ATTEMPT_ERROR;
}

const ATTEMPT_ERROR = sql`
           (select a.error
              from holdfast.attempt a
             where a.job_id = p.id
               and a.error is not null
             order by a.epoch desc
             limit 1)`;

const LAST_KIND = sql`
           (select a.error_kind
              from holdfast.attempt a
             where a.job_id = p.id
               and a.error_kind is not null
             order by a.epoch desc
             limit 1)`;

// What is compared here: `lower()` of some databases knows only the letters A to Z, and JSON has other texts beside.

function fitsOf({ error, code, input }: CheckedFilter, shows: WalkOptions["shows"]): Plan["fits"] {
  const part = error?.toLowerCase();
  const isShown = input === undefined ? undefined : shows;
  if (part === undefined && code === undefined && isShown === undefined) return null;
  return ({ error: stored, payload }) => {
    if (isShown !== undefined && !isShown(payload ?? "null")) return false;
    if (part === undefined && code === undefined) return true;
    const record = recordOf(stored);
    if (record === null) return false;
    const { name, message } = record;
    if (code !== undefined && record.code !== code && name !== code) return false;
    return part === undefined || `${name}: ${message}`.toLowerCase().includes(part);
  };
}

function last(a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a > b ? a : b;
}

function first(a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a < b ? a : b;
}
