/**
 * Statements as text, with the values in place.
 *
 * The hot statements have hundreds of rows each, and several are sent in one packet: the server parses one long text
 * faster than it answers many short ones.
 */
import type { Row } from "../engine.ts";
import type { Parameter, SqlValue, Statement } from "../sql.ts";

/** Rows or ids in one statement. Range plans of thousands of points exceed the optimizer's memory. */
const ROWS_PER_STATEMENT = 500;

/** The maximum length of one statement in UTF-16 units, unless a single row is longer. */
const UNITS_PER_STATEMENT = 512 * 1024;

/** Text that is SQL, not a value. */
export class RawSql {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export const nothing = new RawSql("");

/** Replaces every `?` of the text, in turn, by one of the values. */
export function fill(text: string, ...values: readonly (SqlValue | RawSql)[]): string {
  const [first = "", ...rest] = text.split("?");
  return rest.reduce((done, part, index) => {
    const value = values[index] ?? null;
    return done + (value instanceof RawSql ? value.text : literal(value)) + part;
  }, first);
}

/** A statement of the shared SQL. */
export function filled({ text, values }: Statement): string {
  return fill(text, ...values.map((value) => (isList(value) ? list(value) : value)));
}

function isList(value: Parameter): value is readonly string[] {
  return Array.isArray(value);
}

export function literal(value: SqlValue): string {
  if (value === null) return "null";
  return typeof value === "number" ? String(value) : quote(value);
}

/**
 * Only these two characters are special with our session settings: utf8mb4, and no NO_BACKSLASH_ESCAPES. Most texts have
 * neither, and checking that is much cheaper than a regular expression that replaces nothing.
 */
function quote(text: string): string {
  const special = text.includes("'") || text.includes("\\");
  return `'${special ? text.replaceAll(SPECIAL, ESCAPED) : text}'`;
}

const SPECIAL = /['\\]/g;

const ESCAPED = String.raw`\$&`;

/** `'a','b'`, for an IN. */
export function list(values: readonly string[]): RawSql {
  return new RawSql(values.map(quote).join(","));
}

/** A JSON array as a literal, for JSON_TABLE. */
export function jsonList(values: readonly string[]): RawSql {
  return new RawSql(quote(JSON.stringify(values)));
}

/** Groups that fit into one statement. */
export function* inGroups<T>(all: readonly T[]): Generator<T[]> {
  for (let at = 0; at < all.length; at += ROWS_PER_STATEMENT) {
    yield all.slice(at, at + ROWS_PER_STATEMENT);
  }
}

/** Insert statements for rows with the same columns. */
export function insertRows(table: string, rows: readonly Row[]): string[] {
  const columns = Object.keys(rows[0] ?? {});
  const names = columns.map((column) => `"${column}"`).join(", ");
  const head = `insert into holdfast_${table} (${names}) values ?`;
  const tuples = rows.map((row) => tuple(columns.map((column) => row[column] ?? null)));
  return [...insertions(head, tuples)];
}

export function tuple(values: readonly SqlValue[]): string {
  return `(${values.map(literal).join(",")})`;
}

/** Insert statements for all rows, each row written as `(…)`. */
export function* insertions(head: string, rows: Iterable<string>): Generator<string> {
  let gathered: string[] = [];
  let units = 0;
  for (const row of rows) {
    const full = gathered.length === ROWS_PER_STATEMENT || units + row.length > UNITS_PER_STATEMENT;
    if (full && gathered.length > 0) {
      yield fill(head, new RawSql(gathered.join(",")));
      gathered = [];
      units = 0;
    }
    gathered.push(row);
    units += row.length;
  }
  if (gathered.length > 0) yield fill(head, new RawSql(gathered.join(",")));
}
