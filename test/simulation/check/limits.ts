/** Limits hold at every commit, whatever crashed: I12. Every tick of the schedule has one job: I13. */
import { GOVERNED, type Limits, TICKER } from "../plan.ts";
import type { Change } from "../witness.ts";
import type { Evidence, Findings } from "./evidence.ts";

export function checkLimits(
  { changes, history, settings, coverage }: Evidence,
  findings: Findings,
) {
  const { limits } = settings;
  if (limits === null) return;
  const asked = history.calls.flatMap((call) => (call.f === "enqueue" ? call.jobs : []));
  const lanes = new Map(asked.map(({ id, lane }) => [id, lane]));
  const running = new Map<string, string | null>();
  const starts: number[] = [];
  for (const change of changes) {
    if (change.queue !== GOVERNED) continue;
    const lane = lanes.get(change.id) ?? null;
    if (change.op !== "delete" && change.lane !== lane && change.tbl !== "finished") {
      const problem = `${change.id} of lane ${lane} stood in ${change.tbl} with lane ${change.lane}`;
      findings.add("I12 limits", problem);
    }
    if (change.tbl !== "lease") continue;
    if (change.op === "delete") running.delete(change.id);
    if (change.op !== "insert") continue;
    running.set(change.id, lane);
    starts.push(change.claimed_at ?? 0);
    if (running.size === limits.concurrency) coverage.hit("limit: a queue is full");
    checkCounts(change, { limits, running }, findings);
  }
  if (limits.rate !== null) checkRate(starts, limits.rate, findings);
}

function checkCounts(
  { id, at, claimed_at: claimedAt }: Change,
  { limits, running }: { limits: Limits; running: ReadonlyMap<string, string | null> },
  findings: Findings,
): void {
  const { concurrency, laneConcurrency } = limits;
  const lane = running.get(id);
  const ofLane = [...running.values()].filter((one) => one === lane).length;
  findings.expect(
    running.size <= concurrency && ofLane <= laneConcurrency,
    "I12 limits",
    () =>
      `${id} is one of ${running.size} of ${concurrency}, ${ofLane} of ${laneConcurrency} of ${lane}`,
  );
  findings.expect(
    claimedAt === at,
    "I12 limits",
    () => `${id} was claimed at ${claimedAt}, and it was ${at}`,
  );
}

/** In any time W at most `burst + W / T` starts. */
function checkRate(
  starts: readonly number[],
  { count, periodMs, burst }: NonNullable<Limits["rate"]>,
  findings: Findings,
): void {
  const cost = periodMs / count;
  starts.forEach((from, first) => {
    starts.slice(first).forEach((to, more) => {
      findings.expect(
        more + 1 <= burst + (to - from) / cost,
        "I12 limits",
        () => `${more + 1} jobs started in ${to - from} ms`,
      );
    });
  });
}

export function checkTicks({ tables, history, settings }: Evidence, findings: Findings): void {
  if (settings.limits === null) return;
  const { task, everyMs } = TICKER;
  const jobs = tables.job.filter((job) => job.task === task).map(({ id }) => id);
  const told = tables.schedule_run.map(({ job_id: id }) => id ?? "none");
  findings.expect(
    jobs.toSorted().join() === told.toSorted().join(),
    "I13 ticks",
    () => `the ticks have the jobs ${told.join(", ")}, and there are ${jobs.join(", ")}`,
  );
  const ticks = tables.schedule_run.map(({ tick }) => tick);
  // The schedule was not paused when the faults never end: what is there has no gap.
  const from = history.ticks?.from ?? ticks[0] ?? 0;
  const until = untilOf(history.ticks) ?? ticks.at(-1) ?? -1;
  const expected: number[] = [];
  for (let tick = from; tick <= until; tick += everyMs) expected.push(tick);
  findings.expect(
    ticks.join() === expected.join(),
    "I13 ticks",
    () => `handled were ${ticks.join(", ")}, expected ${expected.join(", ")}`,
  );
}

/** The pause comes after the ticks that were due. One that became due meanwhile is owed. */
function untilOf(ticks: Evidence["history"]["ticks"]): number | null {
  if (ticks === null) return null;
  const last = Math.floor(ticks.pausedAt / TICKER.everyMs) * TICKER.everyMs;
  return ticks.until === last - TICKER.everyMs ? ticks.until : last;
}
