/** What this process asks of its database, and how the database bears it: cheap enough to be looked at often. */

export interface Load {
  /** None where there is but one connection. */
  readonly pools: readonly PoolUse[];
  readonly transactions: Tally;
}

export interface PoolUse {
  readonly name: string;
  readonly busy: number;
  readonly idle: number;
  /** Those who wait for a connection. */
  readonly waiting: number;
}

/** What became of transactions that did not succeed at once. */
export interface Tally {
  rolledBack: number;
  /** Run again: the database asked for it, was locked, or was lost before anything was written. */
  repeated: number;
}

export interface Condition {
  /** For how long the oldest transaction of this database has been open; null: none is. */
  readonly oldestTransactionMs: number | null;
  /** Of the tables that change most. */
  readonly tables: readonly TableCondition[];
}

export interface TableCondition {
  readonly table: string;
  readonly live: number;
  /** Rows that are gone and not cleaned up yet. */
  readonly dead: number;
}

export function newTally(): Tally {
  return { rolledBack: 0, repeated: 0 };
}

export function sumOf(tallies: readonly Tally[]): Tally {
  const sum = (of: (tally: Tally) => number): number =>
    tallies.reduce((all, tally) => all + of(tally), 0);
  return { rolledBack: sum((one) => one.rolledBack), repeated: sum((one) => one.repeated) };
}
