/**
 * Which trace a job belongs to. Few jobs have one, so it stands in a table of its own, written with the job and deleted with
 * it; a job without one never touches it.
 */
import type { TraceContext } from "../core/trace.ts";
import type { Engine, Row } from "./engine.ts";
import { sql } from "./sql.ts";
import type { NewJob } from "./store.ts";

export interface Traces {
  /** The traces of those of these jobs that have one, in no order. */
  traces(ids: readonly string[]): Promise<JobTrace[]>;
}

export interface JobTrace extends TraceContext {
  readonly id: string;
}

export async function traces(engine: Engine, ids: readonly string[]): Promise<JobTrace[]> {
  const real = ids.filter((id) => engine.mayBeId(id));
  if (real.length === 0) return [];
  return engine.all<JobTrace>(sql`
    select job_id as id, traceparent, tracestate
      from holdfast.job_trace
     where ${engine.among(sql`job_id`, real)}`);
}

/** The rows of those that have one. */
export function traceRows(jobs: readonly NewJob[]): Row[] {
  return jobs.flatMap(({ id, trace }) => {
    if (trace === undefined) return [];
    const { traceparent, tracestate } = trace;
    return [{ job_id: id, traceparent, tracestate }];
  });
}
