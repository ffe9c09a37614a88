/** What an examination must know of one database: how it spells what is asked of millions of rows, and what it alone can have. */
import type { Check } from "./checks/check.ts";
import type { Engine } from "./engine.ts";
import { sql, type Sql } from "./sql.ts";

export interface Anatomy {
  /** The first `limit` ids of a table that are in none of the others, in the way that is fastest for a million of them. */
  absent(from: Sql, others: readonly Sql[], limit: number): Sql;
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
