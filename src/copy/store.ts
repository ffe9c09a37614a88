/** The row about the copy that filled, or is filling, a database. */
import { HoldfastError } from "../core/errors.ts";
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";

export interface CopyRow {
  readonly source: string;
  readonly fingerprint: string;
  /** Null: the copy is incomplete. */
  readonly ended_at: number | null;
  readonly batches: number;
  readonly progress: string;
}

/** Null: the database was not filled by a copy. */
export async function copyRow(engine: Engine): Promise<CopyRow | null> {
  const [row] = await engine.all<CopyRow>(
    sql`select source, fingerprint, ended_at, batches, progress from holdfast.copy where id = 1`,
  );
  return row ?? null;
}

/** Throws CopyIncompleteError if a copy into this database has not ended. */
export async function refuseIncomplete(engine: Engine): Promise<void> {
  const row = await copyRow(engine);
  if (row?.ended_at === null) throw new CopyIncompleteError({ source: row.source });
}

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
class CopyIncompleteError extends HoldfastError {
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
