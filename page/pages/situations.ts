/** What the page draws of queues beside the verdict of the server. */
import type { OverviewQueue } from "../api.gen.ts";

/** The oldest pending job of a queue is late after this. */
const LATE_MS = 60_000;

export function isLate({ oldestPendingAt, counts }: OverviewQueue, now: number): boolean {
  return counts.pending > 0 && oldestPendingAt !== null && now - oldestPendingAt > LATE_MS;
}

/** Queues that one action paused have the same instant. */
export function pausedTogether(queues: readonly OverviewQueue[]): readonly OverviewQueue[] {
  const some = queues.filter((queue) => queue.paused !== null);
  const groups = [...Map.groupBy(some, (queue) => queue.paused?.at).values()];
  return groups.filter((group) => group.length > 1 || queues.length === 1).flat();
}
