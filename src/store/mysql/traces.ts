/** The table of the traces that jobs belong to, on MySQL and MariaDB. Few jobs have one, so it is not a column of theirs. */
import { ID } from "./spelling.ts";

export const TRACE_TABLE = `
create table if not exists holdfast_job_trace (
  job_id        ${ID} not null,
  traceparent   varchar(255) not null,
  tracestate    varchar(512),
  check (traceparent <> ''),
  primary key (job_id)
);
`;
