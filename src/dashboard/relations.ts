/** What a job belongs to: the builds that ran it, its schedule, its item, and jobs that call each other. */
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";

/** Jobs that this one calls and waits for now, and jobs that wait for it. */
const CALLS_MAX = 100;

export interface Related {
  readonly id: string;
  readonly task: string;
  readonly status: string;
}

export interface Relations {
  /** The instant by which it must start; null: any. */
  readonly startBy: number | null;
  readonly schedule: string | null;
  readonly item: {
    readonly id: string;
    readonly workflow: string;
    readonly identifier: string | null;
    readonly status: string;
  } | null;
  /** Jobs it called and waits for now. */
  readonly called: readonly Related[];
  /** Jobs that called it and wait for it. */
  readonly callers: readonly Related[];
}

export async function relationsOf(engine: Engine, id: string): Promise<Relations> {
  const [[state], [run], [item], called, callers] = await Promise.all([
    engine.all<{ startBy: number | null }>(
      sql`select start_by as "startBy" from holdfast.job_state where id = ${id}`,
    ),
    engine.all<{ schedule: string }>(
      sql`select schedule from holdfast.schedule_run where job_id = ${id} limit 1`,
    ),
    engine.all<NonNullable<Relations["item"]>>(sql`
      select i.id, i.workflow, i.identifier, i.status
        from holdfast.item_job j
        join holdfast.item i on i.id = j.item_id
       where j.job_id = ${id}`),
    engine.all<{ id: string }>(sql`
      select event_key as id from holdfast.wait where job_id = ${id} and name = '@job' limit ${CALLS_MAX}`),
    engine.all<{ id: string }>(sql`
      select job_id as id from holdfast.wait where name = '@job' and event_key = ${id} limit ${CALLS_MAX}`),
  ]);
  return {
    startBy: state?.startBy ?? null,
    schedule: run?.schedule ?? null,
    item: item ?? null,
    called: await brief(engine, called),
    callers: await brief(engine, callers),
  };
}

/** Task and status of these jobs. */
export async function brief(
  engine: Engine,
  jobs: readonly { readonly id: string }[],
): Promise<Related[]> {
  const ids = jobs.map(({ id }) => id);
  if (ids.length === 0) return [];
  return engine.all<Related>(sql`
    select id, task, status
      from holdfast.job_state
     where ${engine.among(sql`id`, ids)}
     order by id`);
}

/** The builds of these workers; one whose row was deleted is missing. */
export async function buildsOf(
  engine: Engine,
  workers: readonly string[],
): Promise<Record<string, string>> {
  if (workers.length === 0) return {};
  const rows = await engine.all<{ id: string; version: string }>(sql`
    select id, version from holdfast.worker where ${engine.among(sql`id`, [...new Set(workers)])}`);
  return Object.fromEntries(rows.map(({ id, version }) => [id, version]));
}
