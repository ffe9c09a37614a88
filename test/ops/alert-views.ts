/** What monitors could have seen. */
import type { Finding, Offender, Severity } from "../../src/database/check.ts";
import type { CanaryReport } from "../../src/monitoring/canary.ts";
import type { MinuteStats } from "../../src/stats/spans.ts";
import type { QueueDepth } from "../../src/stats/counts.ts";

export const MINUTE_MS = 60_000;

export function finding(
  check: string,
  offenders: readonly Offender[],
  severity: Severity = "warning",
): Finding {
  const problem = "Something is wrong.";
  return { check, severity, problem, remedy: "Fix it.", fixable: false, offenders, more: false };
}

export function offender(subject: string, sinceAt: number | null = null): Offender {
  return { subject, detail: "it is not as it should be", sinceAt };
}

export function depth(
  queue: string,
  { pending, oldestPendingAt = null }: { pending: number; oldestPendingAt?: number | null },
): QueueDepth {
  const none = {
    scheduled: 0,
    processing: 0,
    waiting: 0,
    retry: 0,
    done: 0,
    failed: 0,
    cancelled: 0,
    expired: 0,
  };
  return { queue, counts: { ...none, pending }, oldestPendingAt };
}

/** The last full minutes, the last of them last. */
export function minutes(
  now: number,
  figures: readonly Partial<MinuteStats>[],
  queue = "mail",
): MinuteStats[] {
  const none = {
    arrived: 0,
    done: 0,
    failed: 0,
    cancelled: 0,
    expired: 0,
    runMsSum: 0,
    runMsMax: 0,
  };
  const thisMinute = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  return figures.map((some, index) => ({
    ...none,
    queue,
    minute: thisMinute - (figures.length - index) * MINUTE_MS,
    ...some,
  }));
}

export function canary(
  queue: string,
  sentAt: number,
  pickupMs: number | null = null,
): CanaryReport {
  return { queue, sentAt, pickupMs, doneMs: pickupMs };
}
