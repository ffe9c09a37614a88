/**
 * Open runs: those whose job may not have ended. A run is closed when its job is found to have ended, and open again when an
 * operator retries the job.
 */
import type { Engine, Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";

/** The jobs of so many runs are looked at together, and so many times, to decide whether one has not ended. */
const OPEN_PAGE = 100;
const OPEN_PAGES_MAX = 1_000;

/** Runs that are kept of each schedule; those of the last day are kept in any case. */
const RUNS_KEPT = 1_000;
const RUNS_KEPT_MS = 86_400_000;

/**
 * Whether the job of any run has not ended. A run whose job has ended is closed and not looked at again, so a tick costs the
 * same however many runs there were.
 */
export async function hasLiveJob(tx: Transaction, engine: Engine, name: string): Promise<boolean> {
  for (let page = 0; page < OPEN_PAGES_MAX; page += 1) {
    const runs = await tx.all<{ job: string }>(sql`
      select job_id as job
        from holdfast.schedule_run
       where schedule = ${name}
         and is_open = 1
         and job_id is not null
       order by tick desc
       limit ${OPEN_PAGE}`);
    const jobs = runs.map(({ job }) => job);
    const ended = await endedOf(tx, engine, jobs);
    if (ended.length < jobs.length) return true;
    await closeRuns(tx, engine, name, ended);
    if (jobs.length < OPEN_PAGE) return false;
  }
  return true; // The next tick looks at the rest.
}

async function endedOf(
  from: Pick<Transaction, "all">,
  engine: Engine,
  jobs: readonly string[],
): Promise<readonly string[]> {
  if (jobs.length === 0) return [];
  const isOne = engine.among(sql`id`, jobs);
  // In one statement: a job that moves from one table to another is in exactly one of them.
  const rows = await from.all<{ id: string }>(sql`
    select id from holdfast.ready where ${isOne}
     union all select id from holdfast.waiting where ${isOne}
     union all select id from holdfast.lease where ${isOne}`);
  const live = new Set(rows.map(({ id }) => id));
  return jobs.filter((job) => !live.has(job));
}

async function closeRuns(
  tx: Pick<Transaction, "run">,
  engine: Engine,
  name: string,
  jobs: readonly string[],
): Promise<void> {
  if (jobs.length === 0) return;
  await tx.run(sql`
    update holdfast.schedule_run
       set is_open = 0
     where schedule = ${name}
       and ${engine.among(sql`job_id`, jobs)}`);
}

/**
 * Deletes old runs of a schedule whose jobs have ended. They are kept long enough that a clock set back does not repeat a
 * tick.
 */
export async function pruneRuns(engine: Engine, name: string): Promise<number> {
  const [oldest] = await engine.all<{ tick: number }>(sql`
    select tick
      from holdfast.schedule_run
     where schedule = ${name}
     order by tick desc
     limit 1 offset ${RUNS_KEPT}`);
  if (oldest === undefined) return 0;
  const isOld = sql`schedule = ${name} and tick <= ${oldest.tick} and tick < ${engine.now()} - ${RUNS_KEPT_MS}`;
  await closeOld(engine, name, isOld);
  return engine.run(sql`
    delete from holdfast.schedule_run
     where ${isOld}
       and (is_open = 0 or job_id is null)
       and outcome <> 'queued'`);
}

async function closeOld(engine: Engine, name: string, isOld: Sql): Promise<void> {
  let after = 0;
  for (let page = 0; page < OPEN_PAGES_MAX; page += 1) {
    const runs = await engine.all<{ job: string; tick: number }>(sql`
      select job_id as job, tick
        from holdfast.schedule_run
       where ${isOld}
         and tick > ${after}
         and is_open = 1
         and job_id is not null
       order by tick
       limit ${OPEN_PAGE}`);
    const jobs = runs.map(({ job }) => job);
    await closeRuns(engine, engine, name, await endedOf(engine, engine, jobs));
    if (runs.length < OPEN_PAGE) return;
    after = runs.at(-1)?.tick ?? 0;
  }
}
