/** What belongs to a job and has outlived it, or is missing: keys, steps, attempts, reports, traces. */
import { subjects } from "../../core/audit.ts";
import { sql, type Sql } from "../sql.ts";
import { asking, deleting, type Check } from "./check.ts";

interface KeyRow {
  id: string;
  task: string;
  key: string;
}

const keyOf = ({ task, key }: KeyRow): string => `key '${key}' of ${task}`;

export const orphanChecks: readonly Check[] = [
  {
    name: "key-of-nobody",
    severity: "warning",
    problem:
      "Keys are held by jobs that have ended or are gone: no job with these keys is accepted.",
    remedy: "Let go of the keys (--fix).",
    cost: "full",
    find: asking<KeyRow>(
      (_engine, { limit }) => keysOfNobody(limit),
      (row) => ({
        subject: subjects.job(row.id),
        detail: `holds ${keyOf(row)} and is not alive`,
        sinceAt: null,
      }),
    ),
    fix: deleting<KeyRow>({
      find: (_engine, limit) => keysOfNobody(limit),
      remove: (_engine, { id }) =>
        sql`delete from holdfast.job_key where job_id = ${id} and ${HOLDER_IS_NOT_ALIVE}`,
      subject: ({ id }) => subjects.job(id),
    }),
  },
  {
    name: "key-missing",
    severity: "warning",
    problem: "Live jobs do not hold their keys: another job with the same key would be accepted.",
    remedy:
      "Somebody deleted rows of `job_key` by hand. Insert them again: the task without its version, the key, the job.",
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
      (row) => ({
        subject: subjects.job(row.id),
        detail: `is alive and does not hold ${keyOf(row)}`,
        sinceAt: null,
      }),
    ),
  },
  {
    name: "kept-key-of-nobody",
    severity: "info",
    problem: "It is noted for how long keys are kept by jobs that do not exist.",
    remedy: "Delete the notes (--fix).",
    cost: "full",
    ...orphanOf(sql`holdfast.kept_key`, sql`holdfast.kept_key.job_id`),
  },
  {
    name: "trace-of-nobody",
    severity: "info",
    problem: "Traces are kept of jobs that do not exist.",
    remedy: "Delete them (--fix).",
    cost: "full",
    ...orphanOf(sql`holdfast.job_trace`, sql`holdfast.job_trace.job_id`),
  },
  {
    name: "step-of-nobody",
    severity: "warning",
    problem: "There are steps of jobs that do not exist.",
    remedy: "Somebody deleted rows of `job` by hand. See what the steps did, then delete them.",
    cost: "full",
    find: asking<{ id: string; steps: number; at: number }>(
      (_engine, { limit }) => sql`
        select s.job_id as id, count(*) as steps, min(s.begun_at) as at
          from holdfast.step s
         where not exists (select 1 from holdfast.job j where j.id = s.job_id)
         group by s.job_id
         limit ${limit}`,
      ({ id, steps, at }) => ({
        subject: subjects.job(id),
        detail: `is gone and has left ${steps} steps`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "history-of-nobody",
    severity: "info",
    problem: "There are attempts or reports of jobs that do not exist.",
    remedy: "Somebody deleted rows of `job` by hand. Delete these, too.",
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
      ({ id, what }) => ({
        subject: subjects.job(id),
        detail: `is gone and has left ${what}`,
        sinceAt: null,
      }),
    ),
  },
];

const HOLDER = sql`holdfast.job_key.job_id`;

/** Without a name of its own for the table: not every database knows one in a delete. */
const HOLDER_IS_NOT_ALIVE = sql`
           not exists (select 1 from holdfast.ready r where r.id = ${HOLDER})
       and not exists (select 1 from holdfast.waiting w where w.id = ${HOLDER})
       and not exists (select 1 from holdfast.lease l where l.id = ${HOLDER})`;

function keysOfNobody(limit: number): Sql {
  return sql`
    select job_id as id, task, job_key as "key"
      from holdfast.job_key
     where ${HOLDER_IS_NOT_ALIVE}
     limit ${limit}`;
}

/** Rows of a table that are about jobs that do not exist. */
function orphanOf(table: Sql, job: Sql): Pick<Check, "find" | "fix"> {
  const isOrphan = sql`not exists (select 1 from holdfast.job j where j.id = ${job})`;
  const found = (limit: number): Sql =>
    sql`select job_id as id from ${table} where ${isOrphan} limit ${limit}`;
  return {
    find: asking<{ id: string }>(
      (_engine, { limit }) => found(limit),
      ({ id }) => ({ subject: subjects.job(id), detail: "is gone", sinceAt: null }),
    ),
    fix: deleting<{ id: string }>({
      find: (_engine, limit) => found(limit),
      remove: (_engine, { id }) => sql`delete from ${table} where job_id = ${id} and ${isOrphan}`,
      subject: ({ id }) => subjects.job(id),
    }),
  };
}
