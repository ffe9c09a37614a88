/** Alerts about locks: callers that gave up waiting, and locks that most callers wait long for. */
import { formatMs } from "../core/duration.ts";
import type { LockFigures } from "../queue/lock-stats.ts";
import type { AlertRule, Trouble } from "./alert-rule.ts";
import type { AlertSettings } from "./alert-settings.ts";
import { LOCKS_OBSERVED_MS } from "./observation.ts";

const WINDOW = formatMs(LOCKS_OBSERVED_MS);

/** A few acquisitions say little about the others. */
const ACQUISITIONS_MIN = 20;
/** An alert that was raised because of a wait stays until the wait is below this share of its limit. */
const KEPT_SHARE = 0.8;

export function lockRules(settings: AlertSettings): readonly AlertRule[] {
  return [lockTimeouts(settings), lockContention(settings)];
}

const lockTimeouts = ({ lockTimeouts: most }: AlertSettings): AlertRule => ({
  name: "lock-timeouts",
  severity: "warning",
  holdMs: 0,
  when: `${most} or more callers did not get a lock of a type in time within ${WINDOW}`,
  find: ({ observation: { locks } }, raised) =>
    byType(locks, ({ type, timeouts, acquisitions }) => {
      if (timeouts < (raised.has(type) ? 1 : most)) return null;
      const message = `${timeouts} of ${timeouts + acquisitions} requests for locks of type ${type} timed out within ${WINDOW}.`;
      return { message, facts: { timeouts, acquisitions, windowMs: LOCKS_OBSERVED_MS } };
    }),
});

const lockContention = ({ lockWait }: AlertSettings): AlertRule => ({
  name: "lock-contention",
  severity: "warning",
  holdMs: 0,
  when: `one in twenty acquisitions of a type of lock waited for more than ${formatMs(lockWait)} within ${WINDOW}`,
  find: ({ observation: { locks } }, raised) =>
    byType(locks, ({ type, acquisitions, waitMs }) => {
      const limitMs = raised.has(type) ? lockWait * KEPT_SHARE : lockWait;
      if (waitMs === null || acquisitions < ACQUISITIONS_MIN || waitMs.p95 <= limitMs) return null;
      const message = `Locks of type ${type} are contended: one acquisition in twenty waited for more than ${formatMs(waitMs.p95)}.`;
      return { message, facts: { p95Ms: waitMs.p95, p99Ms: waitMs.p99, acquisitions } };
    }),
});

/** Null: the statistics of locks could not be read this time. */
function byType(
  locks: readonly LockFigures[] | null | undefined,
  judge: (figures: LockFigures) => Pick<Trouble, "message" | "facts"> | null,
): Trouble[] | null {
  if (locks === null || locks === undefined) return null;
  return locks.flatMap((figures) => {
    const trouble = judge(figures);
    return trouble === null ? [] : [{ subject: figures.type, ...trouble }];
  });
}
