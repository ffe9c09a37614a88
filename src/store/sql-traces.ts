/** The verb about traces: they are written with their jobs, and read by whoever runs these. */
import { SqlAlerts } from "./sql-alerts.ts";
import { traces, type JobTrace, type Traces } from "./traces.ts";

export class SqlTraces extends SqlAlerts implements Traces {
  traces(ids: readonly string[]): Promise<JobTrace[]> {
    return traces(this.engine, ids);
  }
}
