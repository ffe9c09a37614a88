/** Jobs that wait: for their time, for an event, for another job, or for a worker that can run them. */
import { subjects } from "../../core/audit.ts";
import type { Engine } from "../engine.ts";
import { wake } from "../events.ts";
import { promoteDue } from "../jobs.ts";
import { queuesOf, readNow } from "../moving.ts";
import { sql, type Sql } from "../sql.ts";
import { stranded } from "../stranded.ts";
import { asking, deleting, type Check, type Fixing, type Mended } from "./check.ts";

/** Upkeep promotes what is due within a second. */
const OVERDUE_MS = 60_000;
/** Workers may be about to start. */
const STRANDED_MS = 60_000;

interface WaitRow {
  id: string;
  name: string;
  key: string;
}

const named = ({ name, key }: WaitRow): string =>
  name === "@job" ? `the end of job ${key}` : `event ${name} '${key}'`;

export const waitChecks: readonly Check[] = [
  {
    name: "job-overdue",
    severity: "warning",
    problem: "Jobs are due and nobody makes them pending: no worker does its upkeep.",
    remedy: "Start a worker: each does the upkeep for all. Or make them pending now (--fix).",
    cost: "quick",
    find: asking<{ id: string; status: string; at: number }>(
      (engine, { limit }) => overdue(engine, limit),
      ({ id, status, at }) => ({
        subject: subjects.job(id),
        detail: `is ${status} and was due`,
        sinceAt: at,
      }),
    ),
    fix: promoteNow,
  },
  {
    name: "waiting-for-nothing",
    severity: "critical",
    problem:
      "Jobs wait for nothing: no time, no event, no job, no doubt. They would wait for ever.",
    remedy:
      "Cancel and retry them (holdfast cancel <id>, holdfast retry <id>): what their steps have done is kept.",
    cost: "full",
    find: asking<{ id: string; task: string }>(
      (_engine, { limit }) => sql`
        select w.id, w.task
          from holdfast.waiting w
         where w.status = 'waiting'
           and w.due_at is null
           and not exists (select 1 from holdfast.wait e where e.job_id = w.id)
           and not exists (select 1 from holdfast.step s where s.job_id = w.id and s.status = 'doubt')
         limit ${limit}`,
      ({ id, task }) => ({
        subject: subjects.job(id),
        detail: `(${task}) is waiting, and not for anything`,
        sinceAt: null,
      }),
    ),
  },
  {
    name: "wait-unheard",
    severity: "critical",
    problem: "Jobs wait for what has happened already: somebody was not told.",
    remedy: "Let them go on (--fix).",
    cost: "full",
    find: asking<WaitRow & { at: number }>(
      (_engine, { limit }) => unheard(limit),
      (row) => ({
        subject: subjects.job(row.id),
        detail: `waits for ${named(row)}, which was said`,
        sinceAt: row.at,
      }),
    ),
    fix: tellThem,
  },
  {
    name: "wait-of-nobody",
    severity: "warning",
    problem: "There are notes of what jobs wait for that do not wait.",
    remedy: "Delete the notes (--fix).",
    cost: "full",
    find: asking<WaitRow>(
      (_engine, { limit }) => ofNobody(limit),
      (row) => ({
        subject: subjects.job(row.id),
        detail: `does not wait, and yet is noted to wait for ${named(row)}`,
        sinceAt: null,
      }),
    ),
    fix: deleting<WaitRow>({
      find: (_engine, limit) => ofNobody(limit),
      remove: (_engine, { id, name, key }) => sql`
        delete from holdfast.wait
         where job_id = ${id} and name = ${name} and event_key = ${key}
           and ${DOES_NOT_WAIT}`,
      subject: ({ id }) => subjects.job(id),
    }),
  },
  {
    name: "job-stranded",
    severity: "warning",
    problem: "Jobs are pending that no live worker can run.",
    remedy: "Start a worker of that queue that knows that task, in that version.",
    cost: "quick",
    find: async (engine, { limit }) => {
      const [clock] = await engine.all<{ now: number }>(sql`select ${engine.now()} as now`);
      return (await stranded(engine))
        .filter(({ waitedMs }) => waitedMs > STRANDED_MS)
        .slice(0, limit)
        .map(({ queue, task, jobs, waitedMs }) => ({
          subject: `queue ${queue}`,
          detail: `has ${jobs} pending ${jobs === 1 ? "job" : "jobs"} of ${task}, which nobody there runs`,
          sinceAt: Number(clock?.now) - waitedMs,
        }));
    },
  },
];

/** Without a name of its own for the table: not every database knows one in a delete. */
const DOES_NOT_WAIT = sql`not exists (
            select 1 from holdfast.waiting w where w.id = holdfast.wait.job_id and w.status = 'waiting')`;

function ofNobody(limit: number): Sql {
  return sql`
    select job_id as id, name, event_key as "key" from holdfast.wait where ${DOES_NOT_WAIT} limit ${limit}`;
}

function unheard(limit: number): Sql {
  return sql`
    select e.job_id as id, e.name, e.event_key as "key", said.emitted_at as at
      from holdfast.wait e
      join holdfast.event said on said.name = e.name and said.event_key = e.event_key
     where said.emitted_at is not null
     limit ${limit}`;
}

/** As if it were said just now: whoever is woken has stopped waiting. */
function tellThem(engine: Engine, { limit, sign }: Fixing): Promise<Mended> {
  return engine.transaction(async (tx) => {
    const rows = await tx.all<WaitRow>(unheard(limit));
    const of = rows.map(({ name, key }) => ({ event: name, key }));
    const woken = await wake(engine, tx, { of, now: await readNow(engine, tx) });
    const told = woken.map(({ id }) => subjects.job(id));
    await sign(tx, told);
    return { subjects: told, queues: queuesOf(woken) };
  });
}

/** The verb that upkeep uses has a transaction of its own, so the line follows in the next. */
async function promoteNow(engine: Engine, { limit, sign }: Fixing): Promise<Mended> {
  const before = await engine.all<{ id: string }>(overdue(engine, limit));
  const { queues } = await promoteDue(engine, limit);
  const after = await engine.all<{ id: string }>(overdue(engine, limit));
  const left = new Set(after.map(({ id }) => id));
  const promoted = before.filter(({ id }) => !left.has(id)).map(({ id }) => subjects.job(id));
  await engine.transaction((tx) => sign(tx, promoted));
  return { subjects: promoted, queues };
}

function overdue(engine: Engine, limit: number): Sql {
  return sql`
    select id, status, due_at as at
      from holdfast.waiting
     where due_at < ${engine.now()} - ${OVERDUE_MS}
     order by due_at
     limit ${limit}`;
}
