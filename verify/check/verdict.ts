/** Compares everything that a run left behind with the promises. */
import { checkEffects, countBy, countEffects, type Effects } from "./effects.ts";
import { type Accepted, checkAttempts, checkJobs, checkTicks, FlowsCheck } from "./jobs.ts";
import type { History, Violation } from "./history.ts";
import { type Governed, LimitsCheck } from "./limits.ts";
import { Positions } from "./positions.ts";
import { checkRecovery, type Recovery } from "./recovery.ts";

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly jobs: number;
  readonly accepted: Accepted;
  /** How often jobs were claimed. */
  readonly attempts: number;
  /** How many of these ended because their lease expired. */
  readonly crashed: number;
  readonly effects: Effects;
  readonly byStatus: Readonly<Record<string, number>>;
  readonly edges: Readonly<Record<string, number>>;
  /** Rows that the witness wrote. */
  readonly witnessed: number;
  /** Late writes that the database refused. */
  readonly refused: number;
  readonly recovery: Recovery;
  /** What ran under limits. */
  readonly governed: Governed;
  /** How many flows there were, and how many ticks of the schedule. */
  readonly flows: number;
  readonly ticks: number;
  /** With 95 % confidence, the share of lost or doubled jobs is below this: the rule of three. */
  readonly bound: number;
}

export async function judge(history: History): Promise<Verdict> {
  const positions = new Positions();
  const limits = new LimitsCheck(history);
  const flows = new FlowsCheck(history);
  const watchers = [positions, limits, flows];
  for await (const row of history.witnessed) for (const watcher of watchers) watcher.see(row);
  for (const watcher of watchers) watcher.end();
  const { violations: lost, accepted } = checkJobs(history);
  const { violations: late, recovery } = checkRecovery(history, positions);
  const jobs = history.rows.jobs.length;
  return {
    violations: [
      ...lost,
      ...watchers.flatMap(({ violations }) => violations),
      ...checkAttempts(history, positions),
      ...checkEffects(history, positions),
      ...checkTicks(history),
      ...late,
    ],
    jobs,
    accepted,
    attempts: positions.claims.length,
    crashed: history.rows.attempts.filter(({ outcome }) => outcome === "crashed").length,
    effects: countEffects(history),
    byStatus: Object.fromEntries(countBy(history.rows.finished.map(({ status }) => status))),
    edges: Object.fromEntries(positions.edges),
    witnessed: positions.seen,
    refused: countRefused(history),
    recovery,
    governed: limits.governed,
    flows: flows.flows,
    ticks: history.rows.ticks.length,
    bound: 3 / Math.max(1, jobs),
  };
}

function countRefused({ said }: History): number {
  return said.reduce((sum, one) => {
    if (one.f === "refused") return sum + 1;
    return one.f === "stale" ? sum + one.count : sum;
  }, 0);
}
