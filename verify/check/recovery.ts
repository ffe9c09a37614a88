/** After the faults all jobs end soon: I14, I15; and no live worker loses a job before its lease ends: I4. */
import type { Dated, History, Said, Violation } from "./history.ts";
import type { Positions } from "./positions.ts";

/** The database's clock and ours, on one host, differ by less than this. */
const CLOCKS_MS = 500;

export interface Recovery {
  /** From kill -9 until other workers could claim the job. */
  readonly afterKill: Spans;
  /** From the database's return until the next claim. */
  readonly afterRestart: Spans;
}

/** In milliseconds. */
export interface Spans {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
}

export function checkRecovery(
  history: History,
  positions: Positions,
): { violations: Violation[]; recovery: Recovery } {
  const { limits, drainedMs, isCutShort } = history;
  const deaths = gatherDeaths(history.said);
  const recovery = {
    afterKill: spansOf(afterKill(positions, deaths)),
    afterRestart: spansOf(afterRestart(history.said, positions.claims)),
  };
  const violations: Violation[] = [
    ...checkEarly(history, positions, deaths),
    ...checkEnds(history.said),
  ];
  const judge = (invariant: string, sentence: string, ms: number | null, limit: number): void => {
    if (ms === null || ms > limit)
      violations.push({ invariant, sentence: `${sentence} ${ms ?? "never"} ms, allowed ${limit}` });
  };
  const { p99: afterKillMs } = recovery.afterKill;
  const { p99: afterRestartMs } = recovery.afterRestart;
  // How soon something happens is judged only where the machine kept up.
  if (isCutShort) return { violations, recovery };
  judge("I14", "all jobs ended after the last fault in", drainedMs, limits.drain);
  judge("I15", "jobs of killed workers were free after (p99)", afterKillMs, limits.recover);
  judge("I15", "after a restart a job was claimed after (p99)", afterRestartMs, limits.reconnect);
  return { violations, recovery };
}

/** When each worker was killed, by its id. */
export function gatherDeaths(said: readonly Dated<Said>[]): Map<string, number> {
  const hellos = said.filter((one) => one.f === "hello");
  const workers = Map.groupBy(hellos, (hello) => hello.process);
  const deaths = new Map<string, number>();
  for (const one of said) {
    if (one.f !== "fault" || one.kind !== "kill") continue;
    for (const { worker } of workers.get(one.worker ?? "") ?? []) deaths.set(worker, one.at);
  }
  return deaths;
}

function afterKill(positions: Positions, deaths: ReadonlyMap<string, number>): number[] {
  const spans: number[] = [];
  for (const [, holdings] of positions.all())
    for (const { worker, claimedAt, leftAt } of holdings) {
      const diedAt = deaths.get(worker);
      if (diedAt === undefined || leftAt === null) continue;
      if (claimedAt < diedAt && leftAt > diedAt) spans.push(leftAt - diedAt);
    }
  return spans;
}

function afterRestart(said: readonly Dated<Said>[], claims: readonly number[]): number[] {
  const sorted = claims.toSorted((a, b) => a - b);
  return said.flatMap((one) => {
    if (one.f !== "fault" || one.kind !== "back") return [];
    const next = sorted.find((at) => at >= one.at);
    return next === undefined ? [] : [next - one.at];
  });
}

/** No outage of the database or the network ends a worker process. */
function* checkEnds(said: readonly Dated<Said>[]): Iterable<Violation> {
  for (const one of said)
    if (one.f === "ended")
      yield { invariant: "I15", sentence: `${one.worker} ended by itself: ${one.how}` };
}

/** A lease is taken from a worker when it has expired, or when the worker is known to be dead. */
function* checkEarly(
  { rows }: History,
  positions: Positions,
  deaths: ReadonlyMap<string, number>,
): Iterable<Violation> {
  for (const { job, epoch, worker, outcome } of rows.attempts) {
    if (outcome !== "crashed") continue;
    const holding = positions.holdings(job)[epoch - 1];
    if (holding?.leftAt === undefined || holding.leftAt === null) continue;
    const diedAt = deaths.get(worker) ?? Number.POSITIVE_INFINITY;
    if (holding.leftAt >= diedAt - CLOCKS_MS) continue;
    const early = holding.lockedUntil - holding.leftAt;
    if (early > 0)
      yield { invariant: "I4", job, sentence: `was taken from ${worker} ${early} ms too early` };
  }
}

function spansOf(spans: readonly number[]): Spans {
  const sorted = spans.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.ceil(sorted.length * share) - 1] ?? 0;
  return { count: sorted.length, p50: at(0.5), p99: at(0.99) };
}
