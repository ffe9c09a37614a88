/** Sends statements in a user transaction, and recognises a library by its shape. */
import { InvalidArgumentError } from "../../core/errors.ts";

export type Database = "sqlite" | "postgres" | "mysql";

export interface Asked {
  readonly rows: unknown[];
  /** How many rows the statement returned or changed. */
  readonly count: number;
}

/** Sends one statement. */
export type Ask = (text: string, values: readonly unknown[]) => Promise<Asked>;

export interface Wanted {
  readonly database: Database;
  /** Options that override how the user has set up the driver to read values. */
  readonly reading: object;
  /** The library of the transaction, if it is not the driver. */
  readonly library?: string;
}

/** Null: not of this library. Throws, with advice, for an object of the library that is no transaction. */
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

/** Most often, a call inside the transaction was not awaited. */
export function over(library: string): InvalidArgumentError {
  return give(
    `this transaction of ${library} has ended. Await within(tx).enqueue(…) inside its function.`,
  );
}

export function give(problem: string): InvalidArgumentError {
  return new InvalidArgumentError({ field: "tx", problem });
}

/** Whether a statement of ours returns rows. On MySQL only a select does, and values in the text could match the rest. */
export function givesRows(text: string, database: Database): boolean {
  if (/^\s*select\b/i.test(text)) return true;
  return database !== "mysql" && /\breturning\b/i.test(text);
}

/** Converts the BigInts of some libraries to numbers. */
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

/** Rows as JSON text, which passes unchanged through libraries that convert values or rename columns. */
export function askingJson(text: string): string {
  return `
    with holdfast_row as (${text})
    select row_to_json(holdfast_row)::text as json
      from holdfast_row`;
}

export function rowsIn(texts: readonly unknown[]): unknown[] {
  return texts.map((text) => JSON.parse(text as string) as unknown);
}
