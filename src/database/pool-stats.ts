/** The load that this process puts on its database, and the database's condition. Cheap enough to read often. */

export interface Load {
  /** Empty if there is only one connection. */
  readonly pools: readonly PoolUse[];
  readonly transactions: Tally;
}

export interface PoolUse {
  readonly name: string;
  readonly busy: number;
  readonly idle: number;
  /** Callers that wait for a connection. */
  readonly waiting: number;
}

/** Transactions that did not succeed at once. */
export interface Tally {
  rolledBack: number;
  /** Run again: the database asked for it, was locked, or was lost before anything was written. */
  repeated: number;
}

export interface Condition {
  /** How long the oldest transaction of this database has been open; null: none is. */
  readonly oldestTransactionMs: number | null;
  /** The tables that change most. */
  readonly tables: readonly TableCondition[];
}

export interface TableCondition {
  readonly table: string;
  readonly live: number;
  /** Deleted rows that are not cleaned up yet. */
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
