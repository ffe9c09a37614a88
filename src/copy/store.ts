/** The row about the copy that filled, or is filling, a database. */
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { CopyIncompleteError } from "./errors.ts";

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
