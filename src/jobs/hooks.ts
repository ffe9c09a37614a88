/**
 * What features do when a job moves. They register in app/store.ts, so this folder imports none of them.
 *
 * Hooks run in the order of registration, which is the order of locks: the event of a job's end, items, waiting jobs.
 */
import { StoreBusyError } from "../core/errors.ts";
import type { Wait } from "../core/job.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import type { Sql } from "../database/sql.ts";
import type { FinishedRow, JobColumns } from "./rows.ts";
import type { Claiming, CycleResult, GovernedTurn, NewJob } from "./store.ts";

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
  /** After `ended`: jobs that wait for these ends become pending, or end in turn. */
  release?(engine: Engine, tx: Transaction, ends: Ends): Promise<Released>;
  /** Where new jobs begin that wait for others or belong to a flow. Jobs that it does not return begin as usual. */
  place?(engine: Engine, tx: Transaction, news: News): Promise<ReadonlyMap<string, Placement>>;
  /** A finished job is pending again. */
  reopened?(tx: Transaction, id: string): Promise<void>;
  /** The same for a job that may wait for others. Null: it must not be reopened now; only a job that follows another. */
  reopenMember?(engine: Engine, tx: Transaction, reopening: Reopening): Promise<Reopened | null>;
  /** Background work of the feature, as a column of `Upcoming`: in how many milliseconds there is some. */
  upcoming?(engine: Engine): Sql;
  /** A condition of finished jobs that are not pruned yet. */
  readonly keepsFinished?: Sql;
  /** Before jobs are pruned: deletes rows that belong to no job and are older than any job is kept. */
  beforePrune?(engine: Engine, tx: Transaction, olderThanMs: number): Promise<void>;
  pruned?(engine: Engine, tx: Transaction, ids: readonly string[]): Promise<void>;
}

/** Claims from queues that have limits, lanes or a pause. The feature limits/ provides it. */
export interface ClaimRules {
  /** How to claim from queues with rules; null: none of these queues is known to have any. */
  turnFor(claiming: Claiming): RuledTurn | null;
  /** Remembers what a committed cycle found. `governed` of the result: queues that got rules, or lost them. */
  after(cycle: CycleResult, ruled: RuledTurn | null): CycleResult;
  /**
   * Before jobs with lanes are enqueued: from then on, claims look for lanes in these queues. In a transaction of its own,
   * so that no enqueue waits for another; with SQLite, which has one writer, in the given one.
   */
  useLanes(queues: readonly string[], tx?: Transaction): Promise<void>;
}

export interface RuledTurn {
  readonly turn: GovernedTurn;
  /** The claim from the other queues. */
  readonly plain: Claiming;
}

/** One cycle. If other claims keep the gates of the queues with rules, the outcomes and the other queues do not wait for them. */
export async function underRules(
  rules: ClaimRules,
  claiming: Claiming | null,
  cycle: (claim: Claiming | null, turn?: GovernedTurn) => Promise<CycleResult>,
): Promise<CycleResult> {
  const ruled = claiming === null ? null : rules.turnFor(claiming);
  try {
    return rules.after(await cycle(ruled?.plain ?? claiming, ruled?.turn), ruled);
  } catch (error) {
    if (ruled === null || !(error instanceof StoreBusyError)) throw error;
    const others = await cycle(ruled.plain.queues.length === 0 ? null : ruled.plain);
    return rules.after({ ...others, lookInMs: 0 }, null);
  }
}

export interface MoveContext {
  readonly engine: Engine;
  readonly hooks: readonly JobHooks[];
  /** The transaction is the user's, and may read an older snapshot. */
  readonly isUsers?: boolean;
}

export interface Ends {
  readonly jobs: readonly Pick<FinishedRow, "id" | "status">[];
  readonly now: number;
  /** 0: the jobs ended by themselves. Each round ends jobs because of the round before. */
  readonly round: number;
  readonly isUsers: boolean;
}

export interface Released {
  /** The queues with new pending jobs. */
  readonly queues: readonly string[];
  /** Jobs that end because a job they waited for failed or was cancelled. */
  readonly ended: readonly FinishedRow[];
}

export interface News {
  readonly jobs: readonly NewJob[];
  /** The jobs that hold the keys of jobs that were not added, by the ids of those. */
  readonly holders: ReadonlyMap<string, string>;
}

export type Placement =
  /** It waits for the ends of so many jobs. */
  | { readonly missing: number }
  /** It ends at once: a job that it should wait for has failed or was cancelled. */
  | { readonly status: "failed" | "cancelled"; readonly error: string };

export interface Reopening {
  readonly id: string;
  readonly now: number;
  /** The job is reopened because the job that ended it was. */
  readonly follows: boolean;
}

export interface Reopened {
  /** It waits for the ends of so many jobs. */
  readonly missing: number;
  /** Jobs that ended because of it, to be reopened too. */
  readonly followers: readonly string[];
}
