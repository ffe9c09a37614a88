/** The table of reports on MySQL and MariaDB. */
import { reportKinds } from "../../core/report.ts";
import { sql, type Sql } from "../sql.ts";
import { isOneOf } from "../worker-rules.ts";
import { ID, NAME, refuse, trigger, WORD } from "./spelling.ts";

export const REPORT_TABLE = `
create table if not exists holdfast_report (
  job_id        ${ID} not null,
  seq           int not null,
  epoch         int not null,
  kind          ${WORD} not null,
  name          ${NAME},
  at            bigint not null,
  data          longtext,
  check (seq >= 1),
  check (epoch >= 1),
  check (${isOneOf("kind", reportKinds)}),
  check (name <> ''),
  check ((kind = 'report') = (name is not null)),
  primary key (job_id, seq)
);
`;

export const REPORT_TRIGGERS = trigger(
  "report_is_written_once",
  "before update",
  "report",
  refuse("a report is written once and never updated"),
);

export function reportRows(rows: string): Sql {
  return sql`json_table(${rows}, '$[*]' columns (
      seq int path '$.seq' error on error,
      kind varchar(16) path '$.kind' error on error,
      name varchar(128) character set utf8mb4 path '$.name' error on error,
      age bigint path '$.age' error on error,
      data longtext character set utf8mb4 path '$.data' error on error)) r`;
}
