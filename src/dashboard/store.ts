/** What only the dashboard asks the database. */
import type { Database } from "../database/database.ts";
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { type JobSummary, summaryOf } from "../jobs/jobs.ts";
import { summaries } from "../jobs/list.ts";
import type { OperatorEntry } from "../audit/operator.ts";
import type { Status } from "../core/job.ts";
import { type Mark, marksSince } from "../registry/marks.ts";
import { knownTasks, noteTasks, type TaskRecord } from "../registry/tasks.ts";
import { find, type Hit, names, type Names } from "./names.ts";
import { brief, buildsOf, type Related, type Relations, relationsOf } from "./relations.ts";
import { runNow } from "./run-now.ts";
import { search, type SearchFilter } from "./search.ts";

/** Groups of running jobs; there are as many running jobs as slots. */
const RUNNING_MAX = 5_000;

export interface Running {
  readonly queue: string;
  readonly task: string;
  readonly lane: string | null;
  readonly jobs: number;
}

export interface SearchPage {
  readonly jobs: readonly JobSummary[];
  /** How many jobs were looked at. */
  readonly looked: number;
  /** Where the next call continues; null: there are no more. */
  readonly next: string | null;
}

/** The public methods of the class, for other implementations. */
export type DashboardStore = Pick<SqlDashboard, keyof SqlDashboard>;

export class SqlDashboard {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  /** Makes a job due that is scheduled or waits for its next attempt. Returns its status before. */
  runNow(id: string, by: OperatorEntry): Promise<Status> {
    return runNow(this.#db, id, by);
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

  /** The jobs with these ids, newest first; ids of no job are left out. */
  async jobs(ids: readonly string[]): Promise<JobSummary[]> {
    return (await summaries(this.#engine, ids)).map(summaryOf);
  }

  async search(filter: SearchFilter): Promise<SearchPage> {
    const { ids, looked, next } = await search(this.#engine, filter);
    return { jobs: await this.jobs(ids), looked, next };
  }

  /** The inputs of these jobs as they are stored, by id. */
  async payloads(ids: readonly string[]): Promise<Map<string, string>> {
    if (ids.length === 0) return new Map();
    const rows = await this.#engine.all<{ id: string; payload: string }>(
      sql`select id, payload from holdfast.job where ${this.#engine.among(sql`id`, ids)}`,
    );
    return new Map(rows.map(({ id, payload }) => [id, payload]));
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
