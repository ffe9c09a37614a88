/** The rows of a table on either side of a copy: read page by page, and summed up to compare both sides. */
import { createHash } from "node:crypto";
import type { Engine, Row } from "../database/engine.ts";
import { Sql, sql, type SqlValue } from "../database/sql.ts";
import type { CopiedTable } from "./tables.ts";

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
  const after = at.after === null ? sql`1 = 1` : engine.introspection.after(table.key, at.after);
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
