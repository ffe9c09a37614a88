/**
 * All rules of alerts, in the order they are told in.
 *
 * A rule that cannot tell says so, and whatever it has raised stays as it is: that nobody counts any more does not mean that
 * nothing is wrong.
 */
import type { AlertRule } from "./alert-rule.ts";
import { alertSettings, type AlertOptions } from "./alert-settings.ts";
import { canaryRules } from "./canary-rules.ts";
import { figureRules } from "./figure-rules.ts";
import { findingRules } from "./finding-rules.ts";
import { lockRules } from "./lock-rules.ts";

export function alertRules(options: AlertOptions = {}): readonly AlertRule[] {
  const settings = alertSettings(options);
  return [
    ...findingRules(settings),
    ...figureRules(settings),
    ...lockRules(settings),
    ...canaryRules(settings),
  ];
}
