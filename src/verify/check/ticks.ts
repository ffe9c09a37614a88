/** Every tick of a schedule has exactly one job, and every job of it has a tick: I13. */
import type { History, Violation } from "./history.ts";

export function checkTicks({ rows, schedule }: Pick<History, "rows" | "schedule">): Violation[] {
  if (schedule === null) return [];
  const { task, everyMs, from, until } = schedule;
  const violations: Violation[] = [];
  const violate = (sentence: string, job?: string): void =>
    void violations.push({ invariant: "I13", sentence, ...(job === undefined ? {} : { job }) });
  const byTick = Map.groupBy(rows.ticks, ({ tick }) => tick);
  for (let tick = from; tick <= until; tick += everyMs) {
    const runs = byTick.get(tick) ?? [];
    byTick.delete(tick);
    if (runs.length !== 1) violate(`tick ${tick} was handled ${runs.length} times`);
  }
  for (const tick of byTick.keys()) violate(`tick ${tick} is none of the schedule`);
  const jobs = rows.jobs.filter((job) => job.task === task).map(({ id }) => id);
  const byJob = Map.groupBy(rows.ticks, ({ job }) => job);
  for (const id of jobs) {
    const ticks = (byJob.get(id) ?? []).map(({ tick }) => tick);
    if (ticks.length !== 1) violate(`is the job of ${ticks.length} ticks`, id);
  }
  const known = new Set<string | null>(jobs);
  for (const { tick, job } of rows.ticks) if (!known.has(job)) violate(`tick ${tick} has no job`);
  return violations;
}
