/** All workers of the database, as their rows tell: how long they have run, what they did, which builds they are. */
import type { Drifts, WorkerMetrics } from "../queue/workers.ts";
import { boundedSum } from "./bounded.ts";
import type { MetricText } from "./metric-text.ts";

/** Names of workers that are told apart, and builds of one name. */
export const WORKER_NAMES_MAX = 100;
export const BUILDS_MAX = 20;

const MS_PER_S = 1_000;

export function writeFleet(
  text: MetricText,
  metrics: readonly WorkerMetrics[],
  { workers, enqueuers }: Drifts,
): void {
  for (const one of metrics.slice(0, WORKER_NAMES_MAX)) {
    const worker = one.type;
    const drift = workers.find(({ type }) => type === worker);
    const seconds = (ms: number): number => ms / MS_PER_S;
    text.add("holdfast_fleet_uptime_least_seconds", seconds(one.uptimeMs.least), { worker });
    text.add("holdfast_fleet_uptime_most_seconds", seconds(one.uptimeMs.most), { worker });
    text.add("holdfast_fleet_jobs_done", one.done.all, { worker });
    text.add("holdfast_fleet_jobs_done_most", one.done.most, { worker });
    text.add("holdfast_fleet_starts", one.startsPerDay, { worker });
    text.add("holdfast_fleet_heartbeat_gap_seconds", seconds(one.gapMsMax), { worker });
    text.add("holdfast_fleet_drift_builds", drift?.versions.length ?? 0, { worker });
    writeBuilds(text, one);
  }
  text.add("holdfast_enqueuing_builds_without_worker", enqueuers.length);
}

function writeBuilds(text: MetricText, { type: worker, versions }: WorkerMetrics): void {
  const running = versions.map(({ version, running: count }) => [version, count] as const);
  for (const [build, count] of boundedSum(BUILDS_MAX, running)) {
    text.add("holdfast_fleet_workers", count, { worker, build });
  }
  for (const { version: build, rolloutMs } of versions.slice(0, BUILDS_MAX)) {
    text.add("holdfast_fleet_rollout_seconds", rolloutMs / MS_PER_S, { worker, build });
  }
}
