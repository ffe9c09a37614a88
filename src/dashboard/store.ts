/** What only the dashboard asks the database. */
import type { Database } from "../database/database.ts";
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { type JobSummary, summaryOf } from "../jobs/jobs.ts";
import { summaries } from "../jobs/list.ts";
import { type Mark, marksSince } from "../registry/marks.ts";
import { find, type Hit, names, type Names } from "./names.ts";
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
  readonly #engine: Engine;

  constructor({ engine }: Database) {
    this.#engine = engine;
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
