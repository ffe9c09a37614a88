/** The verb about traces: they are written with their jobs, and read by whoever runs these. */
import { SqlAccess } from "./sql-access.ts";
import { traces, type JobTrace, type Traces } from "./traces.ts";

export class SqlTraces extends SqlAccess implements Traces {
  traces(ids: readonly string[]): Promise<JobTrace[]> {
    return traces(this.engine, ids);
  }
}
