/**
 * The database that a run is made on, as the kit sees it: by plain SQL over connections of its own. One of its own on the
 * server that the user named, or a file of its own; what else is there is not touched.
 */
import { StoreUnavailableError } from "../core/errors.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { Table } from "./check/history.ts";
import type { FaultKind } from "./plan.ts";
import { LEDGER } from "./tasks.ts";

export type Row = Record<string, string | number | null>;

export interface Database extends AsyncDisposable {
  /** "PostgreSQL 15.4" */
  readonly label: string;
  readonly url: string;
  /** What stands before the names of the product's tables. */
  readonly prefix: string;
  /** What can be done to it, beside what can be done to processes. */
  readonly faults: readonly FaultKind[];
  query(text: string): Promise<Row[]>;
  /** Makes the witness: it sees every row of these tables come, change and go. */
  watch(tables: readonly Watched[]): Promise<void>;
  /** Ends one connection of the product's. False: there is none now. */
  cut(whom: number): Promise<boolean>;
  /** Keeps everybody else from writing, again and again for so long. */
  storm(ms: number): Promise<void>;
}

export interface Watched {
  readonly table: Table;
  /** As it is called in statements. */
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

/** Columns as a JSON object, for databases whose triggers have to name them. */
export function jsonOf(row: "old" | "new", columns: readonly string[]): string {
  return `json_object(${columns.map((column) => `'${column}', ${row}.${column}`).join(", ")})`;
}

export const triggerTimes = [
  { time: "insert", was: false, became: true },
  { time: "update", was: true, became: true },
  { time: "delete", was: true, became: false },
] as const;

/** Of a database that nobody else has. */
export function scratchName(): string {
  const digits = Math.trunc(systemRuntime.random() * 2 ** 32).toString(16);
  return `holdfast_verify_${process.pid}_${digits}`;
}

/** The same server, another database. */
export function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}

export function cannotCreate(error: unknown): StoreUnavailableError {
  const why = error instanceof Error ? error.message : String(error);
  return new StoreUnavailableError(
    {
      problem: `No database of the kit's own could be made: ${why}.`,
      remedy: "Name a user who may create databases; nothing else on the server is touched.",
    },
    error,
  );
}
