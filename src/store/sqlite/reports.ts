/** The table of reports on SQLite. */
import { reportKinds } from "../../core/report.ts";
import { sql, type Sql } from "../sql.ts";
import { isOneOf } from "../worker-rules.ts";

export const REPORT_TABLE = `
create table holdfast_report (
  job_id        text    not null,
  seq           integer not null check (seq >= 1),
  epoch         integer not null check (epoch >= 1),
  kind          text    not null check (${isOneOf("kind", reportKinds)}),
  name          text    check (length(name) between 1 and 128),
  at            integer not null,
  data          text,
  check ((kind = 'report') = (name is not null)),
  primary key (job_id, seq)
) strict, without rowid;

create trigger holdfast_report_is_written_once before update on holdfast_report
begin select raise(abort, 'holdfast: a report is written once and never updated'); end;
`;

export function reportRows(rows: string): Sql {
  return sql`(
    select value ->> 'seq' as seq, value ->> 'kind' as kind, value ->> 'name' as name,
           value ->> 'age' as age, value ->> 'data' as data
      from json_each(${rows})) r`;
}
