/**
 * The scratch database of a run, as the kit sees it: plain SQL over its own connections. It is a new database on the
 * user's server, or a new file; other databases there are not touched.
 */
import type { Table } from "./check/history.ts";
import type { FaultKind } from "./plan.ts";
import { LEDGER } from "./tasks.ts";

export type Row = Record<string, string | number | null>;

export interface Database extends AsyncDisposable {
  /** "PostgreSQL 15.4" */
  readonly label: string;
  readonly url: string;
  /** Precedes the names of the product's tables. */
  readonly prefix: string;
  /** Faults that this database supports, besides those of processes. */
  readonly faults: readonly FaultKind[];
  query(text: string): Promise<Row[]>;
  /** Creates the ledger and the witness, whose triggers record every change of a row in these tables. */
  watch(tables: readonly Watched[]): Promise<void>;
  /** Ends one of the product's connections. False: it has none now. */
  cut(whom: number): Promise<boolean>;
  /** Repeatedly keeps all other connections from writing, for this long. */
  storm(ms: number): Promise<void>;
}

export interface Watched {
  readonly table: Table;
  /** Its name in statements. */
  readonly name: string;
}

export const WITNESS = "verify_witness";

export function watchedTables(prefix: string): Watched[] {
  const own = ["ready", "waiting", "lease", "finished", "step", "report"] as const;
  return [
    ...own.map((table) => ({ table, name: prefix + table })),
    { table: "ledger", name: LEDGER },
  ];
}

export const LEDGER_TABLE = `create table ${LEDGER} (job_id char(36) not null, epoch int not null)`;

/** A row as a JSON object, for databases whose triggers must name the columns. */
export function jsonOf(row: "old" | "new", columns: readonly string[]): string {
  return `json_object(${columns.map((column) => `'${column}', ${row}.${column}`).join(", ")})`;
}

export const triggerTimes = [
  { time: "insert", was: false, became: true },
  { time: "update", was: true, became: true },
  { time: "delete", was: true, became: false },
] as const;
