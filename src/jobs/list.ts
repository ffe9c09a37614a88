/** Reads of jobs: paged by keys, and without payloads unless for a single job. */
import { type Fence, type Status, statuses, traceId } from "../core/job.ts";
import { isReserved } from "../core/name.ts";
import { sleep } from "../core/runtime.ts";
import type { Engine } from "../database/engine.ts";
import { nothing, sql, Sql } from "../database/sql.ts";
import type { CheckedFilter } from "./filter.ts";
import type {
  AttemptRecord,
  EndedRecord,
  FinishedRecord,
  JobRecord,
  JobSummary,
  LeaseFilter,
  LeaseRecord,
  NewcomerRecord,
  QueueStats,
} from "./store.ts";
import { walk, type WalkOptions } from "./walk.ts";

const SUMMARY = sql`
       s.id, s.queue, s.task, s.status, -s.rank as priority, s.job_key as "key", s.lane, s.epoch, s.attempts,
       s.max_attempts as "maxAttempts", s.crashes, s.enqueued_at as "enqueuedAt", s.due_at as "dueAt",
       s.locked_by as "lockedBy", s.locked_until as "lockedUntil", s.claimed_at as "claimedAt",
       s.heartbeat_at as "heartbeatAt", s.trace_id as "traceId", s.finished_at as "finishedAt",
       coalesce(s.error, (select a.error
                            from holdfast.attempt a
                           where a.job_id = s.id
                             and a.error is not null
                           order by a.epoch desc
                           limit 1)) as "lastError",
       case when s.status = 'waiting'
            then (select min(d.name) from holdfast.step d where d.job_id = s.id and d.status = 'doubt')
        end as "inDoubt"`;

export async function find(engine: Engine, id: string): Promise<JobRecord | null> {
  const [row] = await engine.all<Omit<JobRecord, "tags">>(sql`
    select ${SUMMARY}, j.payload, s.result, s.cancel_requested_at as "cancelRequestedAt"
      from holdfast.job_state s
      join holdfast.job j on j.id = s.id
     where s.id = ${id}`);
  return row === undefined ? null : ((await withTags(engine, [row]))[0] ?? null);
}

async function withTags<Job extends { readonly id: string }>(
  engine: Engine,
  jobs: readonly Job[],
): Promise<(Job & { readonly tags: readonly string[] })[]> {
  const tags = await tagsOf(engine, idsOf(jobs));
  return jobs.map((job) => ({ ...job, tags: tags.get(job.id) ?? [] }));
}

function idsOf(jobs: readonly { readonly id: string }[]): string[] {
  return jobs.map(({ id }) => id);
}

/** A job with more attempts shows the newest. */
export const HISTORY_MAX = 1_000;

export interface AttemptsPage {
  /** Only attempts before this epoch. */
  readonly before?: number;
  readonly limit?: number;
}

/**
 * The newest, oldest first. The parts of the view `attempts`, each for one job: not every engine pushes the condition into a
 * view.
 */
export async function attempts(
  engine: Engine,
  id: string,
  { before, limit = HISTORY_MAX }: AttemptsPage = {},
): Promise<AttemptRecord[]> {
  const isEarlier = before === undefined ? nothing : sql`and epoch < ${before}`;
  const newest = await engine.all<AttemptRecord>(sql`
    select epoch, attempt, worker, outcome, started_at as "startedAt", ended_at as "endedAt", error
      from holdfast.attempt
     where job_id = ${id}
           ${isEarlier}
     union all
    select epoch, attempt, worker, status, started_at, finished_at, error
      from holdfast.rerun
     where job_id = ${id}
       and status = 'done'
       and worker is not null
           ${isEarlier}
     union all
    select epoch, attempts, worker, status, started_at, finished_at, error
      from holdfast.finished
     where id = ${id}
       and worker is not null
           ${isEarlier}
     union all
    select epoch, attempts, locked_by, 'running', claimed_at, null, null
      from holdfast.lease
     where id = ${id}
           ${isEarlier}
     order by epoch desc
     limit ${limit}`);
  return newest.toReversed();
}

/** How often a task has snoozed this job. Reads the history of the one job. */
export async function snoozes(engine: Engine, id: string): Promise<number> {
  const [row] = await engine.all<{ snoozes: number }>(sql`
    select count(*) as snoozes
      from holdfast.attempt
     where job_id = ${id} and outcome = 'suspended' and error like '%"code":"SNOOZED"%'`);
  return row?.snoozes ?? 0;
}

export async function findFinished(
  engine: Engine,
  ids: readonly string[],
): Promise<FinishedRecord[]> {
  if (ids.length === 0) return [];
  return engine.all<FinishedRecord>(sql`
    select id, task, status, attempts, result, error
      from holdfast.finished
     where ${engine.among(sql`id`, ids)}`);
}

/** The jobs with these ids. */
async function summaries(engine: Engine, ids: readonly string[]): Promise<JobSummary[]> {
  if (ids.length === 0) return [];
  const jobs = await engine.all<Omit<JobSummary, "tags">>(sql`
    select ${SUMMARY}
      from holdfast.job_state s
     where ${engine.among(sql`s.id`, ids)}`);
  return withTags(engine, jobs);
}

export interface JobPage {
  readonly jobs: readonly JobSummary[];
  /** How many jobs were looked at. */
  readonly examined: number;
  /** Where the next page begins; null: there is none. A page may be short, or empty, and have a next. */
  readonly next: string | null;
}

/** A call takes no new slice after this long. */
const CALL_MS = 8;

/** How many jobs one request looks at. */
export const EXAMINE_MAX = 100_000;

/** One page, in bounded time. */
export async function listPage(
  engine: Engine,
  filter: CheckedFilter,
  options: Pick<WalkOptions, "order" | "before" | "limit" | "shows"> & {
    readonly examine?: number;
  },
): Promise<JobPage> {
  const how = { examine: EXAMINE_MAX, ...options, forMs: CALL_MS };
  const { matches, examined, next } = await walk(engine, filter, how);
  const ids = idsOf(matches);
  const jobs = new Map((await summaries(engine, ids)).map((job) => [job.id, job]));
  return { jobs: ids.flatMap((id) => jobs.get(id) ?? []), examined, next };
}

/** No database has this many slices. */
const CALLS_MAX = 100_000;

/** A whole page, in as many calls as it takes. The rest of the process runs between them: SQLite is in its thread. */
export async function listAll(
  engine: Engine,
  filter: CheckedFilter,
  { before, limit }: Pick<WalkOptions, "before" | "limit">,
): Promise<JobSummary[]> {
  const found: JobSummary[] = [];
  let rest = before;
  for (let calls = 0; calls < CALLS_MAX; calls += 1) {
    const asked = { before: rest, limit: limit - found.length };
    const { jobs, next } = await listPage(engine, filter, asked);
    found.push(...jobs);
    if (next === null || found.length >= limit) break;
    rest = next;
    await sleep(engine.runtime, 0);
  }
  return found;
}

export interface JobCount {
  readonly count: number;
  readonly examined: number;
  /** Where a count that is not complete would go on; null: it is complete. */
  readonly next: string | null;
}

/** How many jobs match, among at most so many. */
export async function countJobs(
  engine: Engine,
  filter: CheckedFilter,
  { examine, ...options }: Pick<WalkOptions, "before" | "examine" | "shows">,
): Promise<JobCount> {
  let [count, examined] = [0, 0];
  let { before } = options;
  for (let calls = 0; calls < CALLS_MAX; calls += 1) {
    const how = { ...options, before, examine: examine - examined, forMs: CALL_MS };
    const all = { limit: Number.MAX_SAFE_INTEGER, isCount: true };
    const walked = await walk(engine, filter, { ...how, ...all });
    count += walked.matched;
    examined += walked.examined;
    before = walked.next;
    if (before === null || examined >= examine) break;
    await sleep(engine.runtime, 0);
  }
  return { count, examined, next: before ?? null };
}

export async function leases(engine: Engine, filter: LeaseFilter): Promise<LeaseRecord[]> {
  const ended =
    filter.state === "expired"
      ? sql`locked_until < ${engine.now()}`
      : sql`locked_until >= ${engine.now()}`;
  const rows = await engine.all<Omit<LeaseRecord, "traceId">>(sql`
    select id, locked_by as worker, epoch, queue, task, attempts as attempt, claimed_at as "claimedAt",
           heartbeat_at as "heartbeatAt", locked_until as "lockedUntil",
           cancel_requested_at as "cancelRequestedAt"
      from holdfast.lease
     where ${ended}
           ${filter.worker === undefined ? nothing : sql`and locked_by = ${filter.worker}`}
           ${filter.after === undefined ? nothing : sql`and id > ${filter.after}`}
     order by id
     limit ${filter.limit}`);
  return rows.map((row) => ({ ...row, traceId: traceId(row) }));
}

export function cancelRequests(engine: Engine, worker: string): Promise<Fence[]> {
  return engine.all<Fence>(sql`
    select id, locked_by as worker, epoch
      from holdfast.lease
     where locked_by = ${worker}
       and cancel_requested_at is not null`);
}

export interface Count {
  readonly queue: string;
  readonly status: Status;
  readonly n: number;
  readonly oldest: number | null;
}

/** One statement sees one instant, so a moving job is counted once. */
const LIVE = sql`
    select queue, 'pending' as status, count(*) as n, min(ready_at) as oldest
      from holdfast.ready
     group by queue
     union all
    select queue, status, count(*), null from holdfast.waiting group by queue, status
     union all
    select queue, 'processing', count(*), null from holdfast.lease group by queue`;

export function countLive(engine: Engine): Promise<Count[]> {
  return engine.all<Count>(LIVE);
}

export async function stats(engine: Engine): Promise<QueueStats[]> {
  return byQueue(
    await engine.all<Count>(sql`
    ${LIVE}
     union all
    select queue, status, count(*), null from holdfast.finished group by queue, status`),
  );
}

/** Sorted by queue, without Holdfast's internal queues. */
export function byQueue(counts: readonly Count[]): QueueStats[] {
  const queues = new Map<string, QueueStats>();
  for (const row of counts) {
    if (!isReserved(row.queue)) queues.set(row.queue, counted(queues.get(row.queue), row));
  }
  return [...queues.values()].toSorted((a, b) => (a.queue < b.queue ? -1 : 1));
}

function counted(before: QueueStats | undefined, row: Count): QueueStats {
  const none = Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>;
  return {
    queue: row.queue,
    counts: { ...(before?.counts ?? none), [row.status]: row.n },
    oldestPendingAt: row.oldest ?? before?.oldestPendingAt ?? null,
  };
}

export async function hasPending(engine: Engine, queue: string): Promise<boolean> {
  const rows = await engine.all(sql`select id from holdfast.ready where queue = ${queue} limit 1`);
  return rows.length > 0;
}

const ID_TABLES = { job: sql`holdfast.job`, item: sql`holdfast.item` };

/** Ids in one statement. */
const NEIGHBOURS_BATCH = 50;

/** The ids directly before and after each of these in the primary key: they decide how short a list may show an id. */
export async function neighbours(
  engine: Engine,
  of: keyof typeof ID_TABLES,
  ids: readonly string[],
): Promise<string[]> {
  const found = new Set<string>();
  for (let start = 0; start < ids.length; start += NEIGHBOURS_BATCH) {
    const batch = ids.slice(start, start + NEIGHBOURS_BATCH);
    const looks = batch.flatMap((id) => [
      sql`select id from (select id from ${ID_TABLES[of]} where id < ${id} order by id desc limit 1) b`,
      sql`select id from (select id from ${ID_TABLES[of]} where id > ${id} order by id limit 1) a`,
    ]);
    const union = new Sql(["", ...looks.slice(1).map(() => " union all "), ""], looks);
    for (const { id } of await engine.all<{ id: string }>(union)) found.add(id);
  }
  return [...found];
}

// Feed queries: read in the order of an index, so that a look costs only as much as there is to report.

export function jobsAfter(
  engine: Engine,
  { after, limit }: { after: string; limit: number },
): Promise<NewcomerRecord[]> {
  return engine.all<NewcomerRecord>(sql`
    select id, queue, task, enqueued_at as "enqueuedAt"
      from holdfast.job
     where id > ${after}
     order by id
     limit ${limit}`);
}

/** Names all statuses because the index, where there is one, begins with them. */
export function endedSince(
  engine: Engine,
  { at, limit }: { at: number; limit: number },
): Promise<EndedRecord[]> {
  return engine.all<EndedRecord>(sql`
    select id, queue, task, status, epoch, attempts, worker, finished_at as "finishedAt"
      from holdfast.finished
     where status in ('done', 'failed', 'cancelled', 'expired')
       and finished_at >= ${at}
     order by finished_at, id
     limit ${limit}`);
}

/** The tags of these jobs, in order; a job without tags is missing. */
async function tagsOf(
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
