/** Errors of copying a database. */
import { HoldfastError } from "../core/errors.ts";

/** The copy cannot start or continue. The target was not changed. */
export class CopyRefusedError extends HoldfastError {
  /** One sentence each. */
  readonly reasons: readonly string[];

  constructor(facts: { reasons: readonly string[]; remedy: string }) {
    super("COPY_REFUSED", `${facts.reasons.join(" ")} ${facts.remedy}`);
    this.reasons = facts.reasons;
  }
}

/** The database is the target of a copy that has not ended, and has only a part of the jobs. */
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

/** A table that differs. */
export interface TableMismatch {
  readonly table: string;
  readonly sourceRows: number;
  readonly targetRows: number;
}

/** Everything was copied, but the target differs from the source. */
export class CopyMismatchError extends HoldfastError {
  readonly tables: readonly TableMismatch[];

  constructor(facts: { tables: readonly TableMismatch[] }) {
    const tables = facts.tables.map(({ table, sourceRows, targetRows }) =>
      sourceRows === targetRows
        ? `${table} (${sourceRows} rows each, with different content)`
        : `${table} (${sourceRows} rows in the source, ${targetRows} in the target)`,
    );
    super(
      "COPY_MISMATCH",
      `The target differs from the source: ${tables.join(", ")}. A process wrote to one of them during the copy. ` +
        `Stop every process that uses them, create an empty target and copy again.`,
    );
    this.tables = facts.tables;
  }
}
