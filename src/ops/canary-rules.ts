/** Alerts about canaries. Where none is sent, nothing can be told about any. */
import { formatMs } from "../core/duration.ts";
import type { AlertRule, AlertView, Trouble } from "./alert-rule.ts";
import type { AlertSettings } from "./alert-settings.ts";
import type { CanaryReport } from "./observation.ts";

export function canaryRules(settings: AlertSettings): readonly AlertRule[] {
  return [canaryLate(settings), canaryLost(settings)];
}

const canaryLate = ({ canaryLate: mostMs }: AlertSettings): AlertRule => ({
  name: "canary-late",
  severity: "warning",
  holdMs: 0,
  when: `a canary was not picked up within ${formatMs(mostMs)}`,
  find: (view) =>
    byCanary(view, ({ queue, pickupMs }, waitedMs) => {
      if (waitedMs <= mostMs) return null;
      const waits = pickupMs === null ? "has waited" : "waited";
      return `The canary of queue ${queue} ${waits} for ${formatMs(waitedMs)} to be picked up.`;
    }),
});

const canaryLost = ({ canaryLost: mostMs }: AlertSettings): AlertRule => ({
  name: "canary-lost",
  severity: "critical",
  holdMs: 0,
  when: `a canary has not been picked up at all for ${formatMs(mostMs)}`,
  find: (view) =>
    byCanary(view, ({ queue, pickupMs }, waitedMs) =>
      pickupMs !== null || waitedMs <= mostMs
        ? null
        : `Nobody has picked up the canary of queue ${queue} for ${formatMs(waitedMs)}.`,
    ),
});

function byCanary(
  { observation: { canaries }, now }: AlertView,
  judge: (canary: CanaryReport, waitedMs: number) => string | null,
): Trouble[] | null {
  if (canaries.length === 0) return null;
  return canaries.flatMap((canary) => {
    const waitedMs = canary.pickupMs ?? now - canary.sentAt;
    const message = judge(canary, waitedMs);
    return message === null ? [] : [{ subject: canary.queue, message, facts: { waitedMs } }];
  });
}
