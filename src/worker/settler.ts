/**
 * Gathers outcomes until the next turn settles them.
 *
 * An outcome that could not be written stays here and is offered again: the store was away, and the fence decides
 * whether the job is still ours when it comes back.
 */
import type { Outcome, Settlement } from "../core/job.ts";
import type { ClaimedJob, Settled } from "../store/store.ts";
import type { Attempt } from "./attempt.ts";
import { BATCH_MAX } from "./claimer.ts";

export interface Ended {
  readonly attempt: Attempt;
  readonly outcome: Outcome;
}

export class Settler {
  #ended: Ended[] = [];

  get waiting(): number {
    return this.#ended.length;
  }

  /** Those whose leases are to be renewed. */
  jobs(): ClaimedJob[] {
    return this.#ended
      .filter(({ attempt }) => !attempt.completed)
      .map(({ attempt }) => attempt.job);
  }

  add(attempt: Attempt, outcome: Outcome): void {
    this.#ended.push({ attempt, outcome });
  }

  take(): Ended[] {
    return this.#ended.splice(0, BATCH_MAX);
  }

  putBack(ended: readonly Ended[]): void {
    this.#ended = [...ended, ...this.#ended];
  }
}

export function settlements(ended: readonly Ended[]): Settlement[] {
  return ended.map(({ attempt, outcome }) => {
    const { id, worker, epoch } = attempt.job;
    return { id, worker, epoch, outcome, claimed: attempt.job };
  });
}

/** Pairs what was offered with what the store accepted; null where the fence refused. */
export function pairUp(
  ended: readonly Ended[],
  settled: readonly Settled[],
): { attempt: Attempt; accepted: Settled | null }[] {
  const rows = new Map(settled.map((row) => [row.id, row]));
  return ended.map(({ attempt }) => {
    const row = rows.get(attempt.job.id);
    return { attempt, accepted: row?.epoch === attempt.job.epoch ? row : null };
  });
}

/** Those that completed their jobs in transactions of the user's, and the others. */
export function apart(ended: readonly Ended[]): {
  completed: readonly Ended[];
  plain: readonly Ended[];
} {
  if (!ended.some(({ attempt }) => attempt.completed)) return { completed: [], plain: ended };
  const completed = ended.filter(({ attempt }) => attempt.completed);
  return { completed, plain: ended.filter(({ attempt }) => !attempt.completed) };
}
