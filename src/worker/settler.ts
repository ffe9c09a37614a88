/**
 * Gathers outcomes until the next turn settles them.
 *
 * An outcome that could not be written stays here and is offered again: the store was away, and the fence decides
 * whether the job is still ours when it comes back.
 */
import { LeaseLost } from "../core/errors.ts";
import type { OutageReport, Outcome, Settlement } from "../core/job.ts";
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

/** What is reported of attempts whose leases ended because the database did not answer. */
export function outageReports(ended: readonly Ended[]): OutageReport[] {
  return settlements(ended).map((settlement, index) => {
    const wasGivenUp = ended[index]?.attempt.error instanceof LeaseLost;
    return { ...settlement, gaveUp: wasGivenUp };
  });
}

/** The same of jobs that were claimed and not started. */
export function neverStarted(jobs: readonly ClaimedJob[]): OutageReport[] {
  return jobs.map((job) => {
    const { id, worker, epoch } = job;
    return { id, worker, epoch, outcome: { kind: "released" }, claimed: job, gaveUp: true };
  });
}

/** Pairs what was offered with what the store accepted; null where the fence refused. */
export function pairUp(
  ended: readonly Ended[],
  settled: readonly Settled[],
): (Ended & { accepted: Settled | null })[] {
  const rows = new Map(settled.map((row) => [row.id, row]));
  return ended.map(({ attempt, outcome }) => {
    const row = rows.get(attempt.job.id);
    return { attempt, outcome, accepted: row?.epoch === attempt.job.epoch ? row : null };
  });
}

/** Those that completed their jobs in transactions of the user's, those that met an outage, and the others. */
export function apart(ended: readonly Ended[]): {
  completed: readonly Ended[];
  outages: readonly Ended[];
  plain: readonly Ended[];
} {
  const isPlain = ({ attempt }: Ended): boolean => !attempt.completed && !attempt.isOutage;
  if (ended.every(isPlain)) return { completed: [], outages: [], plain: ended };
  return {
    completed: ended.filter(({ attempt }) => attempt.completed),
    outages: ended.filter(({ attempt }) => attempt.isOutage && !attempt.completed),
    plain: ended.filter(isPlain),
  };
}
