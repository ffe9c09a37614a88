/** Starts a job now that would start later: one that is scheduled, or waits for its next attempt. */
import { subjects } from "../audit/entry.ts";
import type { OperatorEntry } from "../audit/operator.ts";
import { actOrLookUp, noteAction } from "../audit/store.ts";
import { IllegalMoveError, JobNotFoundError } from "../core/errors.ts";
import type { Status } from "../core/job.ts";
import type { Database } from "../database/database.ts";
import type { Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";

/** Jobs in these states start at a time. A sleeping job waits because its task says so. */
export const EARLY: readonly Status[] = ["scheduled", "retry"];

/** The job becomes due; a worker's maintenance makes it pending, as always. Returns its status before. */
export async function runNow(db: Database, id: string, by: OperatorEntry): Promise<Status> {
  const { engine } = db;
  const act = (): Promise<Status> =>
    engine.transaction(async (tx) => {
      const [row] = await tx.all<{ status: Status }>(
        sql`select status from holdfast.waiting where id = ${id} ${engine.lockRows()}`,
      );
      if (row === undefined || !EARLY.includes(row.status)) throw await refusal(tx, id);
      await tx.run(sql`
        update holdfast.waiting
           set due_at = ${engine.now()}
         where id = ${id}
           and due_at > ${engine.now()}`);
      const subject = subjects.job(id);
      await noteAction(engine, tx, by, {
        action: "job.run-now",
        subject,
        oldStatus: row.status,
        newStatus: "pending",
      });
      return row.status;
    });
  const status = await actOrLookUp(db, by, act, async ({ oldStatus }) => oldStatus as Status);
  db.announce({ kind: "waiting", inMs: 0 });
  return status;
}

async function refusal(tx: Transaction, id: string): Promise<Error> {
  const [job] = await tx.all<{ status: Status }>(
    sql`select status from holdfast.job_state where id = ${id}`,
  );
  if (job === undefined) return new JobNotFoundError({ id });
  return new IllegalMoveError({ id, move: "run now", status: job.status });
}
