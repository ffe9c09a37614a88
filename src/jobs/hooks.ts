/**
 * What features do when a job moves. They register in app/hooks.ts, so this folder imports none of them.
 *
 * Hooks run in the order of registration, which is the order of locks: the event of a job's end, items, waiting jobs.
 */
import type { Wait } from "../core/job.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import type { FinishedRow, JobColumns } from "./rows.ts";

/** All but `beforeWait` run inside the transaction of the move. */
export interface JobHooks {
  /** Declares the events a job will wait for, in a separate transaction: a row must exist before it can be locked. */
  beforeWait?(engine: Engine, waits: readonly Wait[]): Promise<void>;
  /** "ready": an event that the job would wait for has been emitted already. */
  waiting?(tx: Transaction, job: JobColumns, waits: readonly Wait[]): Promise<"waiting" | "ready">;
  /** The jobs continue, or end, without the events they waited for. */
  stoppedWaiting?(engine: Engine, tx: Transaction, ids: readonly string[]): Promise<void>;
  /** Only for called jobs, which the id marks. Returns the queues with new pending jobs. */
  ended?(
    engine: Engine,
    tx: Transaction,
    end: { readonly jobs: readonly FinishedRow[]; readonly now: number },
  ): Promise<readonly string[]>;
  /** A finished job is pending again. */
  revived?(tx: Transaction, id: string): Promise<void>;
  /** Before jobs are pruned: deletes rows that belong to no job and are older than any job is kept. */
  beforePrune?(engine: Engine, tx: Transaction, olderThanMs: number): Promise<void>;
  pruned?(engine: Engine, tx: Transaction, ids: readonly string[]): Promise<void>;
}

export interface MoveContext {
  readonly engine: Engine;
  readonly hooks: readonly JobHooks[];
}
