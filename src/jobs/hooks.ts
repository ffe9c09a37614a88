/**
 * What features do when a job moves. They register where the store is composed, so this folder imports none of them.
 *
 * Hooks run in the order of registration, which is an order of locks: the event of a job's end, items, jobs that wait.
 */
import type { Wait } from "../core/job.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import type { FinishedRow, JobColumns } from "./rows.ts";

/** All but `beforeWait` run inside the transaction of the move. */
export interface JobHooks {
  /** Declares what a job is about to wait for, in a transaction of its own: a row must exist before it can be locked. */
  beforeWait?(engine: Engine, waits: readonly Wait[]): Promise<void>;
  /** "ready": what the job would wait for is there already. */
  waiting?(tx: Transaction, job: JobColumns, waits: readonly Wait[]): Promise<"waiting" | "ready">;
  /** The jobs go on, or end, without what they waited for. */
  stoppedWaiting?(engine: Engine, tx: Transaction, ids: readonly string[]): Promise<void>;
  /** Only jobs whose id says that their end concerns others. Returns the queues with new pending jobs. */
  ended?(
    engine: Engine,
    tx: Transaction,
    end: { readonly jobs: readonly FinishedRow[]; readonly now: number },
  ): Promise<readonly string[]>;
  /** A job that had ended is pending again. */
  revived?(tx: Transaction, id: string): Promise<void>;
  /** Before jobs are pruned: deletes rows that belong to no job and are older than any job is kept. */
  beforePrune?(engine: Engine, tx: Transaction, olderThanMs: number): Promise<void>;
  pruned?(engine: Engine, tx: Transaction, ids: readonly string[]): Promise<void>;
}

/** What a move of a job needs, unless the job concerns no other. */
export interface MoveContext {
  readonly engine: Engine;
  readonly hooks: readonly JobHooks[];
}
