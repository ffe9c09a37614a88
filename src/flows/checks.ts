/** Checks of jobs that wait for other jobs. */
import { subjects } from "../audit/entry.ts";
import { asking, type Check, deleting, type FixedRows, type Fixing } from "../database/check.ts";
import { type Engine, readNow } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { JobHooks, MoveContext } from "../jobs/hooks.ts";
import { moveWithHooks } from "../jobs/settle.ts";
import { repair, releaseEnded } from "./release.ts";

/** The end of a job releases the jobs that wait for it, or maintenance does within seconds. */
const UNHEARD_MS = 60_000;

interface WaitRow {
  id: string;
  on: string;
}

interface CountRow {
  id: string;
  missing: number;
  waits: number;
}

const miscounted = (limit: number): Sql => sql`
  select id, missing, waits
    from (select w.id, w.missing, (select count(*) from holdfast.dep d where d.job_id = w.id) as waits
            from holdfast.waiting w
           where w.missing > 0) counted
   where missing <> waits
   limit ${limit}`;

/** Without a table alias: not every database accepts one in a delete. */
const DOES_NOT_WAIT = sql`not exists (
  select 1 from holdfast.waiting w where w.id = holdfast.dep.job_id and w.missing > 0)`;

const orphaned = (limit: number): Sql => sql`
  select job_id as id, on_id as "on" from holdfast.dep where ${DOES_NOT_WAIT} limit ${limit}`;

const unheard = (engine: Engine, limit: number): Sql => sql`
  select d.job_id as id, d.on_id as "on", f.finished_at as at
    from holdfast.dep d
    join holdfast.finished f on f.id = d.on_id
   where f.finished_at < ${engine.now()} - ${UNHEARD_MS}
   limit ${limit}`;

export function flowChecks(hooks: readonly JobHooks[]): readonly Check[] {
  return [
    {
      name: "dependency-miscounted",
      severity: "critical",
      problem:
        "The number of jobs that a job waits for differs from its recorded dependencies: it waits forever, or starts too early.",
      remedy:
        "Correct the numbers, and release jobs that wait for nothing (--fix). Workers do this too.",
      cost: "full",
      find: asking<CountRow>(
        (_engine, { limit }) => miscounted(limit),
        ({ id, missing, waits }) => ({
          subject: subjects.job(id),
          detail: `waits for ${missing} jobs, but has ${waits} dependencies`,
          sinceAt: null,
        }),
      ),
      fix: countAgain,
    },
    {
      name: "dependency-unheard",
      severity: "critical",
      problem: "Jobs wait for jobs that have already ended: they were not released.",
      remedy: "Release them (--fix). A worker does this within minutes; check that one is running.",
      cost: "full",
      find: asking<WaitRow & { at: number }>(
        (engine, { limit }) => unheard(engine, limit),
        ({ id, on, at }) => ({
          subject: subjects.job(id),
          detail: `waits for job ${on}, which has ended`,
          sinceAt: at,
        }),
      ),
      fix: (engine, fixing) => releaseThem({ engine, hooks }, fixing),
    },
    {
      name: "dependency-orphaned",
      severity: "warning",
      problem: "Dependency rows belong to jobs that are not waiting.",
      remedy: "Delete these rows (--fix).",
      cost: "full",
      find: asking<WaitRow>(
        (_engine, { limit }) => orphaned(limit),
        ({ id, on }) => ({
          subject: subjects.job(id),
          detail: `is not waiting but has a dependency row for job ${on}`,
          sinceAt: null,
        }),
      ),
      fix: deleting<WaitRow>({
        find: orphaned,
        remove: ({ id, on }) => sql`
          delete from holdfast.dep where job_id = ${id} and on_id = ${on} and ${DOES_NOT_WAIT}`,
        subject: ({ id }) => subjects.job(id),
      }),
    },
  ];
}

function countAgain(engine: Engine, { limit, sign }: Fixing): Promise<FixedRows> {
  return engine.transaction(async (tx) => {
    const ids = (await tx.all<CountRow>(miscounted(limit))).map(({ id }) => id);
    const { repaired, queues } = await repair(engine, tx, { ids, now: await readNow(engine, tx) });
    const jobs = repaired.map(subjects.job);
    await sign(tx, jobs);
    return { subjects: jobs, queues };
  });
}

function releaseThem(context: MoveContext, { limit, sign }: Fixing): Promise<FixedRows> {
  const { engine } = context;
  return engine.transaction(async (tx) => {
    const rows = await tx.all<WaitRow>(unheard(engine, limit));
    const ids = [...new Set(rows.map(({ on }) => on))].toSorted();
    const now = await readNow(engine, tx);
    const { released } = await releaseEnded(engine, tx, { ids, now });
    const ended = released.ended.map((row) => ({ table: "finished", row }) as const);
    const queues = await moveWithHooks(context, tx, ended);
    const jobs = [...new Set(rows.map(({ id }) => subjects.job(id)))];
    await sign(tx, jobs);
    return { subjects: jobs, queues: [...released.queues, ...queues] };
  });
}
