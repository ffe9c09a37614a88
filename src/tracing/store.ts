/** The traces of jobs. Few jobs have one, so they have their own table. A row is written and deleted with its job. */
import type { Database } from "../database/database.ts";
import type { Engine, Row } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { TraceContext } from "./trace.ts";

/** The public methods of the class, for other implementations. */
export type TracesStore = Pick<SqlTraces, keyof SqlTraces>;

export class SqlTraces {
  readonly #engine: Engine;

  constructor({ engine }: Database) {
    this.#engine = engine;
  }

  /** The traces of these jobs, as far as they have one, in no order. */
  async list(ids: readonly string[]): Promise<JobTrace[]> {
    const real = ids.filter((id) => this.#engine.mayBeId(id));
    if (real.length === 0) return [];
    return this.#engine.all<JobTrace>(sql`
      select job_id as id, traceparent, tracestate
        from holdfast.job_trace
       where ${this.#engine.among(sql`job_id`, real)}`);
  }
}

interface JobTrace extends TraceContext {
  readonly id: string;
}

/** The rows of the jobs that have a trace. */
export function traceRows(
  jobs: readonly { readonly id: string; readonly trace?: TraceContext }[],
): Row[] {
  return jobs.flatMap(({ id, trace }) => {
    if (trace === undefined) return [];
    const { traceparent, tracestate } = trace;
    return [{ job_id: id, traceparent, tracestate }];
  });
}
