/** The table of reports on PostgreSQL. */
import { reportKinds } from "../../core/report.ts";
import { sql, type Sql } from "../sql.ts";
import { isOneOf } from "../worker-rules.ts";

export const REPORT_TABLE = `
create table holdfast.report (
  job_id        uuid    not null,
  seq           integer not null check (seq >= 1),
  epoch         integer not null check (epoch >= 1),
  kind          text    collate "C" not null check (${isOneOf("kind", reportKinds)}),
  name          text    collate "C" check (length(name) between 1 and 128),
  at            bigint  not null,
  data          text,
  check ((kind = 'report') = (name is not null)),
  primary key (job_id, seq)
);

create trigger report_is_written_once before update on holdfast.report for each row
execute function holdfast.refuse('a report is written once and never updated');
`;

export function reportRows(rows: string): Sql {
  return sql`json_to_recordset(${rows}::json) as r (seq integer, kind text, name text, age bigint, data text)`;
}
