/** Inputs that an operator changed: the row of the job has the newest, and `job_revision` the earlier ones. */
import { sha256 } from "../audit/entry.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";

/** Changes of the input of one job. */
export const REVISIONS_MAX = 1_000;

export interface Revision {
  /** From 1: the input that the job was enqueued with. */
  readonly revision: number;
  readonly payload: string;
  /** Until when it was the input of the job. */
  readonly changedAt: number;
}

/** The inputs that the job had before, oldest first. */
export function revisions(engine: Engine, id: string): Promise<Revision[]> {
  return engine.all<Revision>(sql`
    select revision, payload, changed_at as "changedAt"
      from holdfast.job_revision
     where job_id = ${id}
     order by revision
     limit ${REVISIONS_MAX}`);
}

/** In the transaction that moves the job. Returns a sentence for the audit, which proves both inputs by their hashes. */
export async function changeInput(
  tx: Transaction,
  { id, payload, now }: { readonly id: string; readonly payload: string; readonly now: number },
): Promise<string> {
  const [row] = await tx.all<{ payload: string; last: number | null }>(sql`
    select j.payload,
           (select max(v.revision) from holdfast.job_revision v where v.job_id = j.id) as last
      from holdfast.job j
     where j.id = ${id}`);
  const { payload: before, last } = row as { payload: string; last: number | null };
  const revision = (last ?? 0) + 1;
  if (before === payload) return "input unchanged";
  await tx.insert("job_revision", [{ job_id: id, revision, payload: before, changed_at: now }]);
  await tx.run(sql`update holdfast.job set payload = ${payload} where id = ${id}`);
  return `input ${revision} to ${revision + 1}, sha256 ${sha256(before)} to ${sha256(payload)}`;
}
