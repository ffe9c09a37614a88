/** Reads of jobs: paged by keys, and without payloads unless for a single job. */
import { InvalidArgumentError } from "../core/errors.ts";
import { idRange } from "../core/id.ts";
import { type Fence, home, type Status, statuses, traceId } from "../core/job.ts";
import { ALERT_QUEUE, checkLabel, isReserved, TAG_LENGTH_MAX, versionsOf } from "../core/name.ts";
import { checkList } from "../core/options.ts";
import { type Engine, TABLES } from "../database/engine.ts";
import { nothing, sql, Sql } from "../database/sql.ts";
import type {
  AttemptRecord,
  EndedRecord,
  FinishedRecord,
  JobRecord,
  JobSummary,
  LeaseFilter,
  LeaseRecord,
  ListFilter,
  NewcomerRecord,
  QueueStats,
} from "./store.ts";

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
const HISTORY_MAX = 1_000;

/** The parts of the view `attempts`, each for one job: not every engine pushes the condition into a view. */
export async function attempts(engine: Engine, id: string): Promise<AttemptRecord[]> {
  const newest = await engine.all<AttemptRecord>(sql`
    select epoch, attempt, worker, outcome, started_at as "startedAt", ended_at as "endedAt", error
      from holdfast.attempt
     where job_id = ${id}
     union all
    select epoch, attempt, worker, status, started_at, finished_at, error
      from holdfast.rerun
     where job_id = ${id}
       and status = 'done'
       and worker is not null
     union all
    select epoch, attempts, worker, status, started_at, finished_at, error
      from holdfast.finished
     where id = ${id}
       and worker is not null
     union all
    select epoch, attempts, locked_by, 'running', claimed_at, null, null
      from holdfast.lease
     where id = ${id}
     order by epoch desc
     limit ${HISTORY_MAX}`);
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

/** A name without a version matches all versions. */
export function isOfTask(task: string, wanted: string): boolean {
  const versions = versionsOf(wanted);
  return task === wanted || (versions !== null && task > versions.after && task < versions.before);
}

/** The jobs with these ids, newest first. */
export async function summaries(engine: Engine, ids: readonly string[]): Promise<JobSummary[]> {
  if (ids.length === 0) return [];
  const jobs = await engine.all<Omit<JobSummary, "tags">>(sql`
    select ${SUMMARY}
      from holdfast.job_state s
     where ${engine.among(sql`s.id`, ids)}
     order by s.id desc`);
  return withTags(engine, jobs);
}

/**
 * The ids of a page that needs no search, from the one table that holds the status (or `job` for all); the jobs are then read by
 * id. Two statements, because a server that plans before it knows the limit would join all jobs first.
 */
export async function newestIds(engine: Engine, filter: ListFilter): Promise<string[]> {
  const { status, prefix, before, limit } = filter;
  const range = prefix === undefined ? undefined : idRange(prefix);
  if (range === null) return [];
  const rows = await engine.all<{ id: string }>(sql`
    select p.id
      from ${status === undefined ? sql`holdfast.job` : TABLES[home[status]]} p
     where ${statusIs(status)}
           ${prefix === undefined ? sql`and coalesce(p.queue, '') <> ${ALERT_QUEUE}` : nothing}
           ${range === undefined ? nothing : sql`and p.id >= ${range.from} and p.id <= ${range.to}`}
           ${before === undefined ? nothing : sql`and p.id < ${before}`}
     order by p.id desc
     limit ${limit}`);
  return rows.map(({ id }) => id);
}

/** Failed, cancelled and expired jobs are rare, so each kind has a partial index, which only these exact texts use. */
function statusIs(status: Status | undefined): Sql {
  switch (status) {
    case "failed":
      return sql`p.status = 'failed'`;
    case "cancelled":
      return sql`p.status = 'cancelled'`;
    case "expired":
      return sql`p.status = 'expired'`;
    default:
      return sql`1 = 1`;
  }
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

// Tags: a few short words on a job, by which lists and bulk actions find it. Jobs without tags have no rows.

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
