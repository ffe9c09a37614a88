/** The verb about traces: they are written with their jobs, and read by whoever runs these. */
import { SqlFigures } from "./sql-figures.ts";
import { traces, type JobTrace, type Traces } from "./traces.ts";

export class SqlTraces extends SqlFigures implements Traces {
  traces(ids: readonly string[]): Promise<JobTrace[]> {
    return traces(this.engine, ids);
  }
}
