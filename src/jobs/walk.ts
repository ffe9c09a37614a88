/**
 * The jobs that match a filter, newest first: for lists, counts and bulk actions. The newest are those enqueued last; a list of
 * failed, cancelled or expired jobs can begin with those that ended last.
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
import { areWhole, candidatesOf, type Named, wordsIn, workersOf } from "./candidates.ts";
import { BY_END, BY_ID, endAt, type Line, type Order, type Positioned, RARE } from "./order.ts";
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

export interface WalkOptions {
  readonly order?: Order | undefined;
  /** Jobs before this position in the order. */
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
    if (walked.matched >= limit) return { ...walked, next: found.last };
    if (slice.next === null) return { ...walked, next: null };
    high = slice.next;
    const now = runtime.monotonic();
    if (walked.examined >= examine || now - startedAt > forMs) return { ...walked, next: high };
    if (now - sliceAt < SLICE_MS) size = Math.min(plan.sliceMax, size * 2);
  }
}

interface Plan {
  readonly sources: readonly Source[];
  readonly line: Line;
  /** Positions are at least `low`, and below `high`. */
  readonly low: string | undefined;
  readonly high: string | undefined;
  /** Of a range of ids, also its end. */
  readonly most: Sql;
  /** Nearly every row of the sources matches: one statement reads hardly more than a page. */
  readonly isPlain: boolean;
  /** The next jobs that an index has by name; null: the walk goes through all. */
  readonly named: Named | null;
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

interface Row extends Positioned {
  readonly status: Status;
  readonly error?: string | null;
  readonly payload?: string | null;
}

/** Null: no job can match. */
async function planOf(
  engine: Engine,
  filter: CheckedFilter,
  { before, order = "enqueued", shows, withErrors = false, isCount = false }: WalkOptions,
): Promise<Plan | null> {
  const { id: ids = [], enqueuedSince, enqueuedUntil, endedSince, endedUntil } = filter;
  const isEnded = order === "ended";
  const [only = ""] = ids;
  const range = ids.length !== 1 || isId(only) ? undefined : idRange(only);
  const workers = await workersOf(engine, filter);
  const wanted = statusesOf(filter);
  if (range === null || workers?.length === 0 || wanted.length === 0) return null;
  const fits = fitsOf(filter, shows);
  const isShown = shows !== undefined && filter.input !== undefined;
  const readsErrors = withErrors || filter.error !== undefined || filter.code !== undefined;
  const low = last(range?.from, enqueuedSince === undefined ? undefined : firstIdAt(enqueuedSince));
  const high = enqueuedUntil === undefined ? undefined : firstIdAt(enqueuedUntil);
  const within = isEnded ? sql`and ${BY_ID.within(low, high)}` : nothing;
  // The index of a kind has the order of the ids: for another, all of it would be sorted.
  const kind = isEnded ? undefined : filter.kind;
  const sources = sourcesOf(wanted, kind).map((part) => ({
    ...part,
    where: sql`${within} ${conditions(engine, part, { filter, wanted, workers, isShown, isEnded })}`,
    reads: sql`
           ${readsErrors ? sql`, ${lastError(part)} as error` : nothing}
           ${isShown ? sql`, (select j.payload from holdfast.job j where j.id = p.id) as payload` : nothing}`,
  }));
  return {
    sources,
    ...(isEnded
      ? { line: BY_END, low: endAt(endedSince), high: before ?? endAt(endedUntil) }
      : { line: BY_ID, low, high: first(before ?? undefined, high) }),
    most: range === undefined ? nothing : sql`and p.id <= ${range.to}`,
    isPlain: fits === null && !isCount && isPlain(filter, wanted),
    named: isEnded ? null : await candidatesOf(engine, filter, wanted),
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

function sourcesOf(wanted: readonly Status[], kind: string | undefined): Part[] {
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
  const { line, low, most } = plan;
  const rest = sql`${line.within(low, high)} ${most}`;
  if (plan.isPlain) return { where: rest, examined: null, next: null };
  if (plan.named !== null) {
    const limit = Math.min(size, NAMED_SLICE);
    const ids = await plan.named(high, limit);
    const where = sql`${engine.among(sql`p.id`, ids)} and ${rest}`;
    const next = ids.length < limit ? null : (ids.at(-1) ?? null);
    return { where, examined: ids.length, next };
  }
  const all = merged(
    plan.sources.map(
      ({ table, within }) => sql`
    select p.id ${line.columns}
      from ${TABLES[table]} p
     where ${within}
       and ${rest}
     order by ${line.by}
     limit ${size}`,
    ),
  );
  const [lowest] = await engine.all<Row>(sql`
    select p.id ${line.columns} from (${all}) p order by ${line.by} limit 1 offset ${size - 1}`);
  if (lowest !== undefined) {
    const next = line.positionOf(lowest);
    return { where: sql`${line.within(next, high)} ${most}`, examined: size, next };
  }
  // Fewer are left.
  const [left] = await engine.all<{ n: number }>(sql`select count(*) as n from (${all}) p`);
  return { where: rest, examined: left?.n ?? 0, next: null };
}

/** The rows of several queries as one. */
function merged([one = nothing, ...others]: readonly Sql[]): Sql {
  if (others.length === 0) return one;
  return others.reduce(
    (some, query) => sql`${some} union all select * from (${query}) other`,
    sql`select * from (${one}) one`,
  );
}

interface Found extends Pick<Walked, "matches" | "matched"> {
  /** The position of the last match, unless matches are only counted. */
  readonly last: string | null;
}

async function matchesIn(
  engine: Engine,
  { sources, line, fits, isCount }: Plan,
  slice: Slice,
  limit: number,
): Promise<Found> {
  if (slice.examined === 0) return { matches: [], matched: 0, last: null };
  const isCounted = isCount && fits === null;
  const order = isCounted ? nothing : sql`order by ${line.by}`;
  const most = isCounted || fits !== null ? nothing : sql`limit ${limit}`;
  const all = merged(
    sources.map(
      ({ table, within, status, where, reads }) => sql`
    select p.id, ${status} as status${isCounted ? nothing : sql`${line.columns} ${reads}`}
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
    return { matches: [], matched: count?.n ?? 0, last: null };
  }
  const rows = await engine.all<Row>(
    sources.length === 1 ? all : sql`select * from (${all}) p ${order} ${most}`,
  );
  const fitting = (fits === null ? rows : rows.filter(fits)).slice(0, limit);
  const matches = fitting.map(({ id, status, error }) => ({ id, status, error: recordOf(error) }));
  const end = fitting.at(-1);
  const position = end === undefined ? null : line.positionOf(end);
  return { matches: isCount ? [] : matches, matched: fitting.length, last: position };
}

function recordOf(error: string | null | undefined): ErrorRecord | null {
  return error === null || error === undefined ? null : decodeError(error);
}

// Conditions within a slice. `coalesce` keeps the planner from other indexes: the range of ids is the way.

interface Compared {
  readonly filter: CheckedFilter;
  readonly wanted: readonly Status[];
  readonly workers: readonly string[] | null;
  readonly isShown: boolean;
  /** In the order of the ends. */
  readonly isEnded: boolean;
}

function conditions(
  engine: Engine,
  { table }: Part,
  { filter, wanted, workers, isShown, isEnded }: Compared,
): Sql {
  const { queue, task, key, keyPrefix, tag = [], lane, flow, schedule, kind, input } = filter;
  const { startedSince, startedUntil, endedSince, endedUntil, id = [] } = filter;
  const isGeneral = id.length === 0 && [queue, task, key, kind].every((one) => one === undefined);
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
    kind !== undefined && isEnded && sql`coalesce(p.error_kind, '') = ${kind}`,
    isEnded && areWhole(id) && engine.among(sql`p.id`, id),
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
