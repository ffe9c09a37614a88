/** The table of the traces that jobs belong to, on SQLite. Few jobs have one, so it is not a column of theirs. */
export const TRACE_TABLE = `
create table holdfast_job_trace (
  job_id        text    not null primary key,
  traceparent   text    not null check (length(traceparent) between 1 and 255),
  tracestate    text
) strict, without rowid;
`;
