/**
 * The tables of a copy, in the order in which they are written: a row is written after the rows that its foreign keys and
 * triggers need. Their columns are read from the migrations, so a new column needs no change here; a test compares the
 * tables with those that the migrations create.
 */
import { createHash } from "node:crypto";
import { ITEM_LEVELS_MAX } from "../core/item.ts";
import type { Engine, Row } from "../database/engine.ts";
import { partsOf } from "../database/dialect.ts";
import { sql, Sql, type SqlValue } from "../database/sql.ts";

export interface CopiedTable {
  readonly name: string;
  /** A unique key with an index: pages are read in its order. */
  readonly key: readonly string[];
  /** Conditions whose rows are copied one after the other. Default: one slice with all rows. */
  readonly slices?: readonly Sql[];
  /** The table has one row, which the migration inserted and the copy updates. */
  readonly single?: (row: Row) => Row;
  /** Changes a row for the target. Default: no change. */
  readonly adapt?: (row: Row) => Row;
}

/** An item is copied after its parent. */
const LEVELS = Array.from({ length: ITEM_LEVELS_MAX }, (_, depth) => sql`depth = ${depth}`);

export const COPIED_TABLES: readonly CopiedTable[] = [
  { name: "job", key: ["id"] },
  { name: "job_trace", key: ["job_id"] },
  { name: "job_tag", key: ["tag", "job_id"] },
  { name: "queue", key: ["name"] },
  { name: "queue_rule", key: ["queue", "kind", "name"] },
  { name: "gate", key: ["queue", "kind", "name"] },
  { name: "ready", key: ["id"] },
  { name: "waiting", key: ["id"] },
  { name: "lease", key: ["id"] },
  { name: "finished", key: ["id"] },
  { name: "attempt", key: ["job_id", "epoch"] },
  { name: "job_key", key: ["job_id"] },
  { name: "kept_key", key: ["job_id"] },
  { name: "job_revision", key: ["job_id", "revision"] },
  { name: "rerun", key: ["job_id", "run"] },
  { name: "rerun_step", key: ["job_id", "run", "name", "occurrence"] },
  { name: "pacing", key: ["kind", "task", "pace_key"] },
  { name: "bulk_action", key: ["id"] },
  { name: "step", key: ["job_id", "name", "occurrence"] },
  { name: "event", key: ["name", "event_key"] },
  { name: "wait", key: ["job_id", "name", "event_key"] },
  { name: "flow", key: ["id"] },
  { name: "flow_job", key: ["job_id"] },
  { name: "job_after", key: ["job_id", "position"] },
  { name: "dep", key: ["job_id", "on_id"] },
  { name: "flow_gate", key: ["id"], single: (row) => row },
  { name: "report", key: ["job_id", "seq"] },
  { name: "workflow", key: ["name"] },
  { name: "workflow_type", key: ["workflow", "name"] },
  { name: "workflow_state", key: ["workflow", "name"] },
  { name: "workflow_move", key: ["workflow", "from_state", "to_state", "name"] },
  { name: "item", key: ["id"], slices: LEVELS },
  { name: "item_progress", key: ["item_id", "workflow", "status"] },
  { name: "item_due", key: ["item_id", "reason"] },
  { name: "item_job", key: ["job_id"] },
  { name: "item_audit", key: ["item_id", "seq"] },
  { name: "item_pruning", key: ["item_id"] },
  // The head starts where the audit was pruned; each line that follows moves it.
  {
    name: "audit_head",
    key: ["id"],
    single: (row) => ({ ...row, seq: row["pruned_seq"] ?? 0, hash: row["pruned_hash"] ?? "" }),
  },
  { name: "audit", key: ["seq"] },
  { name: "lock", key: ["name"] },
  { name: "lock_stat", key: ["minute", "type", "source"] },
  { name: "enqueuer", key: ["version"] },
  { name: "unregistered_worker", key: ["id"] },
  { name: "worker_type", key: ["name"] },
  { name: "worker", key: ["id"], adapt: asStopped },
  { name: "counts", key: ["id"], single: (row) => row },
  { name: "depth", key: ["queue", "status"] },
  { name: "minute_total", key: ["minute", "queue"] },
  { name: "span_total", key: ["step_ms", "queue", "at"] },
  { name: "task_stat", key: ["task", "hour", "source"] },
  { name: "task_total", key: ["hour", "task", "build"] },
  { name: "lock_span", key: ["at", "type"] },
  { name: "build", key: ["version"] },
  { name: "task", key: ["name"] },
  { name: "error_kind", key: ["id"] },
  { name: "error_hour", key: ["kind_id", "hour", "build"] },
  { name: "error_minute", key: ["minute", "kind_id", "build"] },
  { name: "alert", key: ["id"] },
  { name: "schedule", key: ["name"] },
  { name: "schedule_run", key: ["schedule", "tick", "is_manual"] },
  { name: "token", key: ["id"] },
  { name: "request", key: ["principal", "request_key"] },
];

/** Tables that are not copied: the target's migrations, the row of the copy itself, and what lasts for minutes or hours. */
export const OWN_TABLES = ["migration", "copy", "session", "pickup_stat", "lock_wait"] as const;

/** Tables of MySQL alone. A trigger fills the first as jobs are written, the first maintenance the second. */
export const INDEX_TABLES = ["deadline", "lane_lease"] as const;

/** A copy starts when no worker is alive, so a worker that is not stopped by then died without a final write. */
function asStopped(row: Row): Row {
  if (row["status"] === "stopped") return row;
  return { ...row, status: "stopped", reason: "stale", stopped_at: row["heartbeat_at"] ?? 0 };
}

/** MySQL computes these, and refuses values for them. */
const GENERATED = new Set(["worker.active_slot", "alert.open_rule", "token.live_name"]);

/** The columns of each table that all these engines have, without computed ones. */
export function columnsOf(...engines: readonly Engine[]): Map<string, readonly string[]> {
  const sets = engines.map(({ migrations }) => new Set(partsOf(migrations)));
  const [first = new Set<string>()] = sets;
  const columns = [...first].flatMap((part) => {
    const [, table, column] = /^column (\w+)\.(\w+)$/.exec(part) ?? [];
    if (table === undefined || column === undefined) return [];
    const isWritten = !GENERATED.has(`${table}.${column}`) && sets.every((set) => set.has(part));
    return isWritten ? [{ table, column }] : [];
  });
  const byTable = Map.groupBy(columns, ({ table }) => table);
  return new Map([...byTable].map(([table, of]) => [table, of.map(({ column }) => column)]));
}

// The rows of a table on either side of a copy: read page by page, and summed up to compare both sides.

/** The longest page; pages of wide rows are shorter. */
const PAGE_ROWS_MAX = 500;

const PAGE_ROWS_FIRST = 50;

/** The intended size of a page, in UTF-16 units. */
const PAGE_UNITS = 1024 * 1024;

const SUMS = 2n ** 256n;

/** How far a table has been read. */
export interface Position {
  readonly slice: number;
  readonly after: readonly SqlValue[] | null;
}

interface Page {
  readonly rows: readonly Row[];
  /** The start of the next page; null: this is the last. */
  readonly next: Position | null;
}

export const FIRST: Position = { slice: 0, after: null };

interface Pages {
  readonly engine: Engine;
  readonly table: CopiedTable;
  readonly columns: readonly string[];
}

/** Reads a table from a position. */
export async function* pagesOf(pages: Pages, from: Position): AsyncGenerator<Page> {
  const { table } = pages;
  const slices = table.slices?.length ?? 1;
  let limit = PAGE_ROWS_FIRST;
  for (let at: Position | null = from; at !== null;) {
    const rows: Row[] = await pages.engine.all(pageQuery(pages, at, limit));
    const last = rows.at(-1);
    const next: Position | null =
      last !== undefined && rows.length === limit
        ? { slice: at.slice, after: table.key.map((column) => last[column] ?? null) }
        : at.slice + 1 < slices
          ? { slice: at.slice + 1, after: null }
          : null;
    yield { rows: table.adapt === undefined ? rows : rows.map(table.adapt), next };
    limit = nextLimit(limit, rows);
    at = next;
  }
}

function pageQuery({ engine, table, columns }: Pages, at: Position, limit: number): Sql {
  const slice = table.slices?.[at.slice] ?? sql`1 = 1`;
  const after = at.after === null ? sql`1 = 1` : engine.dialect.after(table.key, at.after);
  return sql`
    select ${names(columns)}
      from ${tableOf(table.name)}
     where ${slice}
       and ${after}
     order by ${names(table.key)}
     limit ${limit}`;
}

/** The next page has the intended size if its rows are like those of this one. */
function nextLimit(limit: number, rows: readonly Row[]): number {
  const sizes = rows
    .flatMap((row) => Object.values(row))
    .map((value) => (typeof value === "string" ? value.length : 8));
  const units = sizes.reduce((sum, size) => sum + size, 1);
  const fitting = Math.floor((rows.length * PAGE_UNITS) / units);
  return Math.max(1, Math.min(PAGE_ROWS_MAX, limit * 2, fitting));
}

/** The number of rows and the sum of their hashes, which does not depend on the order of an engine. */
export interface TableSum {
  readonly rows: number;
  readonly hash: string;
}

export async function sumOf(
  pages: Pages,
  seen: (rows: number) => void = () => {},
): Promise<TableSum> {
  let rows = 0;
  let sum = 0n;
  for await (const page of pagesOf(pages, FIRST)) {
    for (const row of page.rows) sum = (sum + hashOf(row, pages.columns)) % SUMS;
    rows += page.rows.length;
    seen(page.rows.length);
  }
  return { rows, hash: sum.toString(16).padStart(64, "0") };
}

function hashOf(row: Row, columns: readonly string[]): bigint {
  const text = JSON.stringify(columns.map((column) => row[column] ?? null));
  return BigInt(`0x${createHash("sha256").update(text).digest("hex")}`);
}

export async function countOf(engine: Engine, table: string): Promise<number> {
  const [row] = await engine.all<{ rows: number }>(
    sql`select count(*) as "rows" from ${tableOf(table)}`,
  );
  return row?.rows ?? 0;
}

export async function isEmpty(engine: Engine, table: string): Promise<boolean> {
  const rows = await engine.all(sql`select 1 as one from ${tableOf(table)} limit 1`);
  return rows.length === 0;
}

export function tableOf(name: string): Sql {
  return new Sql([`holdfast.${name}`], []);
}

/** In quotes, because some names are reserved words of an engine. */
export function names(columns: readonly string[]): Sql {
  return new Sql([columns.map((column) => `"${column}"`).join(", ")], []);
}
