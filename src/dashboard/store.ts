/** What only the dashboard asks the database. */
import type { Status } from "../core/job.ts";
import type { Database } from "../database/database.ts";
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { type Mark, marksSince } from "../registry/marks.ts";
import { knownTasks, noteTasks, type TaskRecord } from "../registry/tasks.ts";
import { find, type Hit, names, type Names } from "./names.ts";
import type { Running } from "../queues/limits.ts";

/** Groups of running jobs; there are as many running jobs as slots. */
const RUNNING_MAX = 5_000;

/** The public methods of the class, for other implementations. */
export type DashboardStore = Pick<SqlDashboard, keyof SqlDashboard>;

export class SqlDashboard {
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#engine = db.engine;
  }

  /** What a job belongs to. */
  relations(id: string): Promise<Relations> {
    return relationsOf(this.#engine, id);
  }

  /** Task and status of these jobs. */
  brief(ids: readonly string[]): Promise<Related[]> {
    return brief(
      this.#engine,
      ids.map((id) => ({ id })),
    );
  }

  /** The builds of these workers, by id. */
  builds(workers: readonly string[]): Promise<Record<string, string>> {
    return buildsOf(this.#engine, workers);
  }

  /** Records the tasks of a worker. */
  noteTasks(tasks: readonly TaskRecord[], version: string): Promise<void> {
    return noteTasks(this.#engine, tasks, version);
  }

  tasks(): Promise<TaskRecord[]> {
    return knownTasks(this.#engine);
  }

  /** Running jobs by queue, task and lane. */
  running(): Promise<Running[]> {
    return this.#engine.all<Running>(sql`
      select queue, task, lane, count(*) as jobs
        from holdfast.lease
       group by queue, task, lane
       order by count(*) desc
       limit ${RUNNING_MAX}`);
  }

  /** Queues, tasks, tags and other names, a few hundred of each. */
  names(): Promise<Names> {
    return names(this.#engine);
  }

  /** What a pasted text is. */
  find(text: string, known: Names): Promise<Hit[]> {
    return find(this.#engine, text, known);
  }

  marks(from: number): Promise<Mark[]> {
    return marksSince(this.#engine, from);
  }
}

// What a job belongs to: the builds that ran it, its schedule, its item, and jobs that call each other.

/** Jobs that this one calls and waits for now, and jobs that wait for it. */
const CALLS_MAX = 100;

export interface Related {
  readonly id: string;
  readonly task: string;
  readonly status: Status;
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

async function relationsOf(engine: Engine, id: string): Promise<Relations> {
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
async function brief(engine: Engine, jobs: readonly { readonly id: string }[]): Promise<Related[]> {
  const ids = jobs.map(({ id }) => id);
  if (ids.length === 0) return [];
  return engine.all<Related>(sql`
    select id, task, status
      from holdfast.job_state
     where ${engine.among(sql`id`, ids)}
     order by id`);
}

/** The builds of these workers; one whose row was deleted is missing. */
async function buildsOf(
  engine: Engine,
  workers: readonly string[],
): Promise<Record<string, string>> {
  if (workers.length === 0) return {};
  const rows = await engine.all<{ id: string; version: string }>(sql`
    select id, version from holdfast.worker where ${engine.among(sql`id`, [...new Set(workers)])}`);
  return Object.fromEntries(rows.map(({ id, version }) => [id, version]));
}
