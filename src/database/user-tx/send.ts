/** How a transaction of the user's is asked, and how a library is known by its shape: none of them is imported. */
import { InvalidArgumentError } from "../../core/errors.ts";

export type Database = "sqlite" | "postgres" | "mysql";

/** `count` is how many rows a statement concerned. */
export interface Asked {
  readonly rows: unknown[];
  readonly count: number;
}

/** Sends one statement. */
export type Ask = (text: string, values: readonly unknown[]) => Promise<Asked>;

export interface Wanted {
  readonly database: Database;
  /** What a driver is told about reading values, where the user may have told theirs something else. */
  readonly reading: object;
  /** The library whose transaction it is, where it is not the driver's own. */
  readonly library?: string;
}

/** Null: it is none of this library's. What is, and is no transaction, is refused with what to give instead. */
export type Library = (tx: Shape, wanted: Wanted) => Ask | null;

export type Shape = Readonly<Record<string, unknown>>;

export function isShape(value: unknown): value is Shape {
  return (typeof value === "object" || typeof value === "function") && value !== null;
}

/** Whether it has all of these methods. */
export function can(target: unknown, ...methods: readonly string[]): target is Shape {
  return isShape(target) && methods.every((method) => typeof target[method] === "function");
}

export function call(target: Shape, method: string, ...args: readonly unknown[]): unknown {
  const callable = target[method] as (...given: readonly unknown[]) => unknown;
  return Reflect.apply(callable, target, args);
}

/** What is said when a library's transaction has ended: most often a call inside it was not awaited. */
export function over(library: string): InvalidArgumentError {
  return give(
    `this transaction of ${library} is over. Await within(tx).enqueue(…) inside its function.`,
  );
}

export function give(problem: string): InvalidArgumentError {
  return new InvalidArgumentError({ field: "tx", problem });
}

/**
 * Whether a statement of ours answers with rows. On MySQL values stand in the text, and may say anything; but there nothing
 * answers except a select.
 */
export function givesRows(text: string, database: Database): boolean {
  if (/^\s*select\b/i.test(text)) return true;
  return database !== "mysql" && /\breturning\b/i.test(text);
}

/** Rows as our own drivers give them: some libraries give integers as BigInt. */
export function withNumbers(rows: readonly unknown[]): unknown[] {
  return rows.map((row) =>
    Object.fromEntries(
      Object.entries(row as object).map(([column, value]: [string, unknown]) => [
        column,
        typeof value === "bigint" ? Number(value) : value,
      ]),
    ),
  );
}

// Rows of PostgreSQL as JSON, one text each.
//
// Where a library reads values and renames columns in its own way or the user's, and cannot be told otherwise for one
// statement, text passes through as it is.

export function askingJson(text: string): string {
  return `
    with holdfast_row as (${text})
    select row_to_json(holdfast_row)::text as json
      from holdfast_row`;
}

export function rowsIn(texts: readonly unknown[]): unknown[] {
  return texts.map((text) => JSON.parse(text as string) as unknown);
}
