/** What an examination must know of one database: how it spells what is asked of millions of rows, and what it alone can have. */
import type { Check } from "./checks/check.ts";
import type { Engine } from "./engine.ts";
import { Sql, sql, type SqlValue } from "./sql.ts";

export interface Anatomy {
  /** The first `limit` ids of a table that are in none of the others, in the way that is fastest for a million of them. */
  absent(from: Sql, others: readonly Sql[], limit: number): Sql;
  /** The condition that a row comes behind these values in the order of an index, in the way that uses the index. */
  after(columns: readonly string[], values: readonly SqlValue[]): Sql;
  /** What is there of what the migrations make, in the words of `partsOf`. */
  catalogue(engine: Engine): Promise<string[]>;
  /** Checks of this kind of database. */
  readonly checks: readonly Check[];
}

/** Looked up one by one, or joined in the order of the ids: servers find out by themselves what is faster. */
export function absentByJoin(from: Sql, others: readonly Sql[], limit: number): Sql {
  const none = others.map(
    (other): Sql => sql`not exists (select 1 from ${other} o where o.id = a.id)`,
  );
  return sql`
      select a.id from ${from} a where ${none.reduce((all, one) => sql`${all} and ${one}`)} limit ${limit}`;
}

/** As one comparison of whole rows. */
export function afterByRow(columns: readonly string[], values: readonly SqlValue[]): Sql {
  const names = new Sql([columns.map((column) => `"${column}"`).join(", ")], []);
  const marks = new Sql(["", ...values.slice(1).map(() => ", "), ""], values);
  return sql`(${names}) > (${marks})`;
}

/** Column by column, for optimizers that do not look into rows. */
export function afterByColumn(columns: readonly string[], values: readonly SqlValue[]): Sql {
  const steps = columns.map((_, depth) => {
    const same = columns.slice(0, depth).map((column, at) => compare(column, "=", values[at]));
    const next = compare(columns[depth] ?? "", ">", values[depth]);
    return [...same, next].reduce((all, one) => sql`${all} and ${one}`);
  });
  return sql`(${steps.reduce((all, one) => sql`${all} or ${one}`)})`;
}

function compare(column: string, how: "=" | ">", value: SqlValue | undefined): Sql {
  return sql`${new Sql([`"${column}" ${how} `], [])}${value ?? null}`;
}
