/** Ended attempts, sorted by how the store settles them. */
import { LeaseLostError } from "../core/errors.ts";
import type { OutageReport, Outcome, Settlement } from "../core/job.ts";
import type { ClaimedJob, Settled } from "../jobs/store.ts";
import type { Attempt } from "./attempt.ts";

export interface Ended {
  readonly attempt: Attempt;
  readonly outcome: Outcome;
}

export function settlements(ended: readonly Ended[]): Settlement[] {
  return ended.map(({ attempt, outcome }) => {
    const { id, worker, epoch } = attempt.job;
    return { id, worker, epoch, outcome, claimed: attempt.job };
  });
}

/** Reports for attempts whose leases expired because the database did not answer. */
export function outageReports(ended: readonly Ended[]): OutageReport[] {
  return settlements(ended).map((settlement, index) => ({
    ...settlement,
    gaveUp: ended[index]?.attempt.error instanceof LeaseLostError,
  }));
}

/** The same for jobs that were claimed and not started. */
export function neverStarted(jobs: readonly ClaimedJob[]): OutageReport[] {
  return jobs.map((job) => {
    const { id, worker, epoch } = job;
    return { id, worker, epoch, outcome: { kind: "released" }, claimed: job, gaveUp: true };
  });
}

/** Pairs outcomes with the rows that the store accepted; null where the fence refused. */
export function pairUp(
  ended: readonly Ended[],
  settled: readonly Settled[],
): (Ended & { accepted: Settled | null })[] {
  const isInOrder = ended.every(({ attempt }, index) => settled[index]?.id === attempt.job.id);
  const rows = new Map(isInOrder ? [] : settled.map((row) => [row.id, row]));
  return ended.map(({ attempt, outcome }, index) => {
    const row = isInOrder ? settled[index] : rows.get(attempt.job.id);
    return { attempt, outcome, accepted: row?.epoch === attempt.job.epoch ? row : null };
  });
}

/** Attempts that completed their jobs in a user's transaction, those that met an outage, and the others. */
export type Partition = Readonly<Record<"completed" | "outages" | "plain", readonly Ended[]>>;

export function partition(ended: readonly Ended[]): Partition {
  const isPlain = ({ attempt }: Ended): boolean => !attempt.completed && !attempt.isOutage;
  if (ended.every(isPlain)) return { completed: [], outages: [], plain: ended };
  return {
    completed: ended.filter(({ attempt }) => attempt.completed),
    outages: ended.filter(({ attempt }) => attempt.isOutage && !attempt.completed),
    plain: ended.filter(isPlain),
  };
}
