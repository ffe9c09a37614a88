/** The state of jobs: a job has one row in `job` and one row in exactly one state table. */
import { subjects } from "../audit/entry.ts";
import { asking, type Check, deleting, type Look, type Offender } from "../database/check.ts";
import { isId } from "../core/id.ts";
import { type Engine, TABLES } from "../database/engine.ts";
import { absentByJoin } from "../database/dialect.ts";
import { sql, type Sql } from "../database/sql.ts";

const JOB = sql`holdfast.job`;

export function aboutJob(id: string, detail: string, sinceAt: number | null = null): Offender {
  return { subject: subjects.job(id), detail, sinceAt };
}

const { ready, waiting, lease, finished } = TABLES;

export const placeChecks: readonly Check[] = [
  {
    name: "job-in-two-tables",
    severity: "critical",
    problem: "Jobs are in two states at once: they may run twice, or again after they have ended.",
    remedy:
      "Stop the workers, compare both rows, and delete the one that does not match the job's attempts (holdfast job <id>).",
    cost: "full",
    find: asking<{ id: string; one: string; other: string }>(
      // Starts from the tables that stay small however many jobs have finished.
      (_engine, { limit }) => sql`
        select id, one, other
          from (select r.id, 'pending' as one, 'waiting' as other
                  from holdfast.ready r
                 where exists (select 1 from holdfast.waiting w where w.id = r.id)
                 union all
                select r.id, 'pending', 'finished'
                  from holdfast.ready r
                 where exists (select 1 from holdfast.finished f where f.id = r.id)
                 union all
                select w.id, 'waiting', 'finished'
                  from holdfast.waiting w
                 where exists (select 1 from holdfast.finished f where f.id = w.id)) twice
         limit ${limit}`,
      ({ id, one, other }) => aboutJob(id, `is ${one} and ${other}`),
    ),
  },
  {
    name: "job-nowhere",
    severity: "critical",
    problem: "Jobs have no state, so they never run.",
    remedy: "Rows were deleted manually. Enqueue the jobs again from their rows in `job`.",
    cost: "full",
    find: asking<{ id: string }>(
      ({ dialect }, { limit }) => dialect.absent(JOB, [finished, ready, waiting, lease], limit),
      ({ id }) => aboutJob(id, "is in none of ready, waiting, lease and finished"),
    ),
  },
  {
    name: "state-without-job",
    severity: "critical",
    problem: "State rows belong to jobs that do not exist, so their task and input are unknown.",
    remedy: "Rows of `job` were deleted manually. Delete these state rows too.",
    cost: "full",
    find: asking<{ id: string; place: string }>(withoutJob, ({ id, place }) =>
      aboutJob(id, `has a row in ${place} but none in job`),
    ),
  },
];

/** Live jobs are few compared to all jobs, so each is looked up. */
function withoutJob({ dialect }: Engine, { limit }: Look): Sql {
  const strays = (table: Sql): Sql => absentByJoin(table, [JOB], limit);
  return sql`
    select id, 'ready' as place from (${strays(ready)}) pending
     union all
    select id, 'waiting' from (${strays(waiting)}) later
     union all
    select id, 'lease' from (${strays(lease)}) held
     union all
    select id, 'finished' from (${dialect.absent(finished, [JOB], limit)}) ended
     limit ${limit}`;
}

// Rows of a job that outlived it, or are missing: keys, steps, attempts, reports, traces.

interface KeyRow {
  id: string;
  task: string;
  key: string;
}

const keyOf = ({ task, key }: KeyRow): string => `key '${key}' of ${task}`;

export const orphanChecks: readonly Check[] = [
  {
    name: "key-orphaned",
    severity: "warning",
    problem:
      "Keys are held by jobs that have ended or do not exist, so no new job with these keys is accepted.",
    remedy: "Release the keys (--fix).",
    cost: "full",
    find: asking<KeyRow>(
      (_engine, { limit }) => orphanedKeys(limit),
      (row) => aboutJob(row.id, `holds ${keyOf(row)} but is not live`),
    ),
    fix: deleting<KeyRow>({
      find: orphanedKeys,
      remove: ({ id }) =>
        sql`delete from holdfast.job_key where job_id = ${id} and ${HOLDER_IS_NOT_ALIVE}`,
      subject: ({ id }) => subjects.job(id),
    }),
  },
  {
    name: "key-missing",
    severity: "warning",
    problem: "Live jobs do not hold their keys: another job with the same key would be accepted.",
    remedy:
      "Rows of `job_key` were deleted manually. Insert them again: the task without its version, the key, the job.",
    cost: "full",
    find: asking<KeyRow>(
      (_engine, { limit }) => sql`
        select id, task, job_key as "key"
          from (select r.id, r.task, r.job_key from holdfast.ready r where r.job_key is not null
                 union all
                select w.id, w.task, w.job_key from holdfast.waiting w where w.job_key is not null
                 union all
                select l.id, l.task, l.job_key from holdfast.lease l where l.job_key is not null) keyed
         where not exists (select 1 from holdfast.job_key k where k.job_id = keyed.id)
         limit ${limit}`,
      (row) => aboutJob(row.id, `is live but does not hold ${keyOf(row)}`),
    ),
  },
  {
    name: "kept-key-orphaned",
    severity: "info",
    problem: "Key retention rows belong to jobs that do not exist.",
    remedy: "Delete these rows (--fix).",
    cost: "full",
    ...orphanOf(sql`holdfast.kept_key`, sql`holdfast.kept_key.job_id`),
  },
  {
    name: "trace-orphaned",
    severity: "info",
    problem: "Traces belong to jobs that do not exist.",
    remedy: "Delete these rows (--fix).",
    cost: "full",
    ...orphanOf(sql`holdfast.job_trace`, sql`holdfast.job_trace.job_id`),
  },
  {
    name: "tag-orphaned",
    severity: "info",
    problem: "Tags belong to jobs that do not exist.",
    remedy: "Delete these rows (--fix).",
    cost: "full",
    ...orphanOf(sql`holdfast.job_tag`, sql`holdfast.job_tag.job_id`),
  },
  {
    name: "step-orphaned",
    severity: "warning",
    problem: "Steps belong to jobs that do not exist.",
    remedy: "Rows of `job` were deleted manually. Find out what the steps did, then delete them.",
    cost: "full",
    find: asking<{ id: string; steps: number; at: number }>(
      (_engine, { limit }) => sql`
        select s.job_id as id, count(*) as steps, min(s.begun_at) as at
          from holdfast.step s
         where not exists (select 1 from holdfast.job j where j.id = s.job_id)
         group by s.job_id
         limit ${limit}`,
      ({ id, steps, at }) => aboutJob(id, `does not exist but has ${steps} steps`, at),
    ),
  },
  {
    name: "history-orphaned",
    severity: "info",
    problem: "Attempts or reports belong to jobs that do not exist.",
    remedy: "Rows of `job` were deleted manually. Delete these rows too.",
    cost: "full",
    find: asking<{ id: string; what: string }>(
      (_engine, { limit }) => sql`
        select a.job_id as id, 'attempts' as what
          from holdfast.attempt a
         where not exists (select 1 from holdfast.job j where j.id = a.job_id)
         group by a.job_id
         union all
        select r.job_id, 'reports'
          from holdfast.report r
         where not exists (select 1 from holdfast.job j where j.id = r.job_id)
         group by r.job_id
         limit ${limit}`,
      ({ id, what }) => aboutJob(id, `does not exist but has ${what}`),
    ),
  },
];

const HOLDER = sql`holdfast.job_key.job_id`;

/** Without a table alias: not every database accepts one in a delete. */
const HOLDER_IS_NOT_ALIVE = sql`
           not exists (select 1 from holdfast.ready r where r.id = ${HOLDER})
       and not exists (select 1 from holdfast.waiting w where w.id = ${HOLDER})
       and not exists (select 1 from holdfast.lease l where l.id = ${HOLDER})`;

function orphanedKeys(limit: number): Sql {
  return sql`
    select job_id as id, task, job_key as "key"
      from holdfast.job_key
     where ${HOLDER_IS_NOT_ALIVE}
     limit ${limit}`;
}

/** Rows of a table whose job does not exist. */
function orphanOf(table: Sql, job: Sql): Pick<Check, "find" | "fix"> {
  const isOrphan = sql`not exists (select 1 from holdfast.job j where j.id = ${job})`;
  const found = (limit: number): Sql =>
    sql`select job_id as id from ${table} where ${isOrphan} limit ${limit}`;
  return {
    find: asking<{ id: string }>(
      (_engine, { limit }) => found(limit),
      ({ id }) => aboutJob(id, "does not exist"),
    ),
    fix: deleting<{ id: string }>({
      find: found,
      remove: ({ id }) => sql`delete from ${table} where job_id = ${id} and ${isOrphan}`,
      subject: ({ id }) => subjects.job(id),
    }),
  };
}

// The format of ids, and whether the traces of audit lines belong to the owners of the jobs.

/** How many of the newest rows are read, except in a deep check. */
const HISTORY_MAX = 10_000;

const EVERYTHING = 1_000_000_000;

const LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/** How many audit lines, of items and of operators each, are compared with the attempts. */
const LINES_MAX = 1_000;

const TRACE = /^(?<worker>.+)-(?<job>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(?<attempt>\d+)$/;

export const formatChecks: readonly Check[] = [
  {
    name: "job-id-format",
    severity: "info",
    problem:
      "Jobs have ids that are not UUIDv7: they are listed out of order and, on PostgreSQL, stored in a separate partition.",
    remedy: "Let the library generate ids, or generate lower-case UUIDv7 ids.",
    cost: "full",
    find: async (engine, look) => {
      const found: string[] = [];
      for await (const ids of pagesOfIds(engine, look)) {
        found.push(...ids.filter((id) => !isId(id)));
        if (found.length >= look.limit) break;
      }
      return found.slice(0, look.limit).map((id) => aboutJob(id, "has an id that is not a UUIDv7"));
    },
  },
  {
    name: "worker-id-format",
    severity: "info",
    problem:
      "Jobs are or were owned by workers whose ids are not <name>-<uuid>: two starts of the same worker cannot be distinguished.",
    remedy:
      "Give a worker a new id at every start. With --since <date>, rows older than that date are skipped.",
    cost: "full",
    find: asking<{ worker: string; place: string; at: number }>(
      oddOwners,
      ({ worker, place, at }) => ({
        subject: subjects.worker(worker),
        detail: `${place}, but its id is not <name>-<uuid>`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "trace-of-another-owner",
    severity: "warning",
    problem: "Audit lines carry traces of attempts that another worker made, or that do not exist.",
    remedy:
      "They were written manually, or with another attempt's trace. Run holdfast audit verify. With --since <date>, lines older than that date are skipped.",
    cost: "full",
    find: strangeTraces,
  },
];

/** Only the newest: ids start with a time, so malformed ids sort last. */
async function* pagesOfIds(engine: Engine, { deep }: Look): AsyncGenerator<string[]> {
  let before: string | null = LAST_ID;
  do {
    const rows: { id: string }[] = await engine.all<{ id: string }>(sql`
      select id from holdfast.job where id < ${before} order by id desc limit ${HISTORY_MAX}`);
    yield rows.map(({ id }) => id);
    before = rows.length === HISTORY_MAX ? (rows.at(-1)?.id ?? null) : null;
    if (!deep) return;
  } while (before !== null);
}

function oddOwners(_engine: Engine, { limit, deep, sinceAt }: Look): Sql {
  const most = deep ? EVERYTHING : HISTORY_MAX;
  return sql`
    select worker, min(place) as place, max(at) as at
      from (select id as worker, 'is a worker' as place, started_at as at
              from holdfast.worker
             union all
            select locked_by, 'holds a job', claimed_at
              from holdfast.lease
             union all
            select worker, 'made an attempt', started_at
              from (select worker, started_at from holdfast.attempt order by job_id desc limit ${most}) a
             union all
            select worker, 'made an attempt', started_at
              from (select worker, started_at from holdfast.finished order by id desc limit ${most}) f) owners
     where worker not like '%-________-____-____-____-____________'
       and at >= ${sinceAt ?? 0}
     group by worker
     limit ${limit}`;
}

interface Line {
  readonly subject: string;
  readonly at: number;
  readonly worker: string;
  readonly job: string;
  readonly attempt: number;
}

/** By job, the workers of each attempt. A released attempt is repeated under the same number. */
type Owners = Map<string, Map<number, string[]>>;

async function strangeTraces(engine: Engine, { limit, sinceAt }: Look): Promise<Offender[]> {
  const lines = await tracedLines(engine, sinceAt ?? 0);
  const jobs = [...new Set(lines.map(({ job }) => job))];
  const owners: Owners = new Map();
  for (let from = 0; from < jobs.length; from += LINES_MAX) {
    await readOwners(engine, jobs.slice(from, from + LINES_MAX), owners);
  }
  return lines.flatMap((line) => strangeness(line, owners)).slice(0, limit);
}

/** The owners of a pruned job are unknown. */
function strangeness({ subject, at, worker, job, attempt }: Line, owners: Owners): Offender[] {
  const attempts = owners.get(job);
  if (attempts === undefined) return [];
  const makers = attempts.get(attempt) ?? [];
  if (makers.includes(worker)) return [];
  const whose = makers.length === 0 ? "which does not exist" : `which ${makers.join(" and ")} made`;
  const detail = `names ${worker} for attempt ${attempt} of job ${job}, ${whose}`;
  return [{ subject, detail, sinceAt: at }];
}

async function tracedLines(engine: Engine, sinceAt: number): Promise<Line[]> {
  const rows = await engine.all<{
    item: string | null;
    seq: number;
    at: number;
    trace: string;
  }>(sql`
    select item, seq, at, trace
      from (select item_id as item, seq, at, trace_id as trace
              from holdfast.item_audit
             order by change_id desc
             limit ${LINES_MAX}) i
     where trace is not null
       and at >= ${sinceAt}
     union all
    select null, seq, at, trace
      from (select seq, at, trace_id as trace from holdfast.audit order by seq desc limit ${LINES_MAX}) o
     where trace is not null
       and at >= ${sinceAt}`);
  return rows.flatMap(({ item, seq, at, trace }) => {
    const parts = TRACE.exec(trace)?.groups;
    if (parts === undefined) return [];
    const { worker = "", job = "", attempt = "" } = parts;
    const subject = item === null ? `line ${seq} of operators` : `line ${seq} of item ${item}`;
    return [{ subject, at, worker, job, attempt: Number(attempt) }];
  });
}

/** Adds the existing jobs and the workers of their attempts. */
async function readOwners(engine: Engine, jobs: readonly string[], owners: Owners): Promise<void> {
  const rows = await engine.all<{ id: string; attempt: number; worker: string | null }>(sql`
    select id, 0 as attempt, null as worker from holdfast.job where ${engine.among(sql`id`, jobs)}
     union all
    select job_id, attempt, worker from holdfast.attempt where ${engine.among(sql`job_id`, jobs)}
     union all
    select id, attempts, worker from holdfast.finished where ${engine.among(sql`id`, jobs)}
     union all
    select id, attempts, locked_by from holdfast.lease where ${engine.among(sql`id`, jobs)}`);
  for (const { id, attempt, worker } of rows) {
    const attempts = owners.get(id) ?? new Map<number, string[]>();
    owners.set(id, attempts);
    if (worker !== null) attempts.set(attempt, [...(attempts.get(attempt) ?? []), worker]);
  }
}
