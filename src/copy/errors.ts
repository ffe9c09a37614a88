/** What goes wrong when a database is copied into another one. */
import { HoldfastError } from "../core/errors.ts";

/** The copy cannot begin, or go on. Nothing of the target was changed. */
export class CopyRefusedError extends HoldfastError {
  /** One sentence each. */
  readonly reasons: readonly string[];

  constructor(facts: { reasons: readonly string[]; remedy: string }) {
    super("COPY_REFUSED", `${facts.reasons.join(" ")} ${facts.remedy}`);
    this.reasons = facts.reasons;
  }
}

/** The database is the target of a copy that has not ended: it holds a part of the jobs only. */
export class CopyIncompleteError extends HoldfastError {
  readonly source: string;

  constructor(facts: { source: string }) {
    super(
      "STORE_COPY_INCOMPLETE",
      `The copy of ${facts.source} into this database is incomplete. ` +
        `Run the same 'holdfast copy' again to finish it, or use another database.`,
    );
    this.source = facts.source;
  }
}

/** What one table holds on both sides, where it is not the same. */
export interface TableMismatch {
  readonly table: string;
  readonly sourceRows: number;
  readonly targetRows: number;
}

/** Everything was copied, and the target does not hold what the source holds. */
export class CopyMismatchError extends HoldfastError {
  readonly tables: readonly TableMismatch[];

  constructor(facts: { tables: readonly TableMismatch[] }) {
    const told = facts.tables.map(({ table, sourceRows, targetRows }) =>
      sourceRows === targetRows
        ? `${table} (${sourceRows} rows each, other content)`
        : `${table} (${sourceRows} rows in the source, ${targetRows} in the target)`,
    );
    super(
      "COPY_MISMATCH",
      `The target differs from the source: ${told.join(", ")}. A process wrote to one of them during the copy. ` +
        `Stop every process that uses them, create an empty target and copy again.`,
    );
    this.tables = facts.tables;
  }
}
