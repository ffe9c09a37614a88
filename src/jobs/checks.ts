/** The state of jobs: a job has one row in `job` and one row in exactly one state table. */
import { subjects } from "../audit/entry.ts";
import type { Offender } from "../core/finding.ts";
import { asking, type Check, deleting, type Look } from "../database/check.ts";
import { type Engine, TABLES } from "../database/engine.ts";
import { absentByJoin } from "../database/introspection.ts";
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
      ({ introspection }, { limit }) =>
        introspection.absent(JOB, [finished, ready, waiting, lease], limit),
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
function withoutJob({ introspection }: Engine, { limit }: Look): Sql {
  const strays = (table: Sql): Sql => absentByJoin(table, [JOB], limit);
  return sql`
    select id, 'ready' as place from (${strays(ready)}) pending
     union all
    select id, 'waiting' from (${strays(waiting)}) later
     union all
    select id, 'lease' from (${strays(lease)}) held
     union all
    select id, 'finished' from (${introspection.absent(finished, [JOB], limit)}) ended
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
