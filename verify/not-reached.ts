/** What a run did not get to before its time was over: on a slow machine it does less, and says so. */
import type { Verdict } from "./check/verdict.ts";
import { countFaults, type FaultCounts, type Plan } from "./plan.ts";

/** A run that ends on time waits for the remaining jobs no longer than this. */
export const DRAIN_MS_MAX = 45_000;

export interface Drained {
  /** How long the remaining jobs took after the last fault; null: they did not all end. */
  readonly ms: number | null;
  /** How long they may take. */
  readonly limitMs: number;
  /** They were still ending when the time was over. */
  readonly isCutShort: boolean;
}

export function notReached({
  plan,
  done,
  verdict: { accepted, jobs, byStatus },
  drained,
}: {
  readonly plan: Plan;
  readonly done: FaultCounts;
  readonly verdict: Pick<Verdict, "accepted" | "jobs" | "byStatus">;
  readonly drained: Drained;
}): string[] {
  if (!plan.isOnTime) return [];
  const notes: string[] = [];
  const enqueued = accepted.ok + accepted.unknown;
  if (enqueued < plan.jobs)
    notes.push(`the machine was slow: ${enqueued} of ${plan.jobs} planned jobs were enqueued`);
  const [met, planned] = [sum(done), sum(countFaults(plan))];
  if (met < planned)
    notes.push(`the machine was slow: ${met} of ${planned} planned faults were injected`);
  if (drained.isCutShort)
    notes.push(
      `${jobs - sum(byStatus)} jobs had not ended ${DRAIN_MS_MAX / 1_000} s after the last fault, while others were ` +
        "still ending; whether they would end was not checked",
    );
  return notes;
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((all, one) => all + one, 0);
}
