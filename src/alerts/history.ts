/** Lists alerts. A Holdfast has it, so it loads neither the rules nor their delivery. */
import { choice, idOf, optionsOf, whole } from "../core/options.ts";
import { type Alert, type AlertFilter, alertOf } from "./alert.ts";
import type { AlertsStore } from "./store.ts";

/** Which alerts to list, and how many. */
export interface AlertsFilter {
  /** Raised alerts (the default), raised and pending ones, or all that were ever raised. */
  readonly which?: AlertFilter["which"];
  /** Only alerts older than the one with this id: the last of the previous page. */
  readonly before?: string;
  /** The most alerts of the page. Default 50, at most 1,000. */
  readonly limit?: number;
}

export const LIMIT_DEFAULT = 50;

const listOptions = optionsOf<AlertsFilter>()({
  which: choice(["raised", "open", "all"], "raised"),
  before: idOf("an alert"),
  limit: whole(1, 1_000, LIMIT_DEFAULT),
});

/** Lists raised and resolved alerts: `holdfast.alerts`. */
export class AlertHistory {
  readonly #alerts: AlertsStore;

  /** @internal Applications get it from a Holdfast. */
  constructor({ alerts }: { readonly alerts: AlertsStore }) {
    this.#alerts = alerts;
  }

  /** The newest first. */
  list(filter: AlertsFilter = {}): Promise<Alert[]> {
    return listAlerts(this.#alerts, filter);
  }
}

/** The newest first. */
export async function listAlerts(alerts: AlertsStore, filter: AlertsFilter = {}): Promise<Alert[]> {
  const records = await alerts.list(listOptions.read(filter));
  return records.map(alertOf);
}
