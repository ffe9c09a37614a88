/** What the page draws of queues beside the verdict of the server. */
import type { OverviewQueue } from "../api.gen.ts";

/** The oldest pending job of a queue is late after this. */
const LATE_MS = 60_000;

export function isLate({ oldestPendingAt, counts }: OverviewQueue, now: number): boolean {
  return counts.pending > 0 && oldestPendingAt !== null && now - oldestPendingAt > LATE_MS;
}

/** Those that "Resume everything" resumes: one that was paused by itself stays paused. */
export function pausedTogether(queues: readonly OverviewQueue[]): readonly OverviewQueue[] {
  return queues.filter(({ paused }) => paused?.isOfAll === true);
}
