/** Holds everything that a run left behind against what is promised. */
import { checkEffects, countEffects, type Effects } from "./effects.ts";
import type { History, Violation } from "./history.ts";
import { type Accepted, checkAttempts, checkJobs } from "./jobs.ts";
import { Positions } from "./positions.ts";
import { checkRecovery, type Recovery } from "./recovery.ts";

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly jobs: number;
  readonly accepted: Accepted;
  /** How often jobs were claimed. */
  readonly attempts: number;
  /** How many of these ended because the lease did. */
  readonly crashed: number;
  readonly effects: Effects;
  readonly byStatus: Readonly<Record<string, number>>;
  readonly edges: Readonly<Record<string, number>>;
  /** Rows that the witness wrote. */
  readonly witnessed: number;
  /** Writes that came too late, and were refused. */
  readonly refused: number;
  readonly recovery: Recovery;
  /** With 95 % confidence a job is lost or doubled less often than this: the rule of three. */
  readonly bound: number;
}

export async function judge(history: History): Promise<Verdict> {
  const positions = new Positions();
  for await (const row of history.witnessed) positions.see(row);
  positions.end();
  const { violations: lost, accepted } = checkJobs(history);
  const { violations: late, recovery } = checkRecovery(history, positions);
  const jobs = history.rows.jobs.length;
  return {
    violations: [
      ...lost,
      ...positions.violations,
      ...checkAttempts(history, positions),
      ...checkEffects(history, positions),
      ...late,
    ],
    jobs,
    accepted,
    attempts: positions.claims.length,
    crashed: history.rows.attempts.filter(({ outcome }) => outcome === "crashed").length,
    effects: countEffects(history),
    byStatus: countBy(history.rows.finished.map(({ status }) => status)),
    edges: Object.fromEntries(positions.edges),
    witnessed: positions.seen,
    refused: countRefused(history),
    recovery,
    bound: 3 / Math.max(1, jobs),
  };
}

function countRefused({ said }: History): number {
  return said.reduce((sum, one) => {
    if (one.f === "refused") return sum + 1;
    return one.f === "stale" ? sum + one.count : sum;
  }, 0);
}

function countBy(values: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}
