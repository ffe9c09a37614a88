/** Lists alerts, and lets operators acknowledge and silence them. A Holdfast has it, so it loads neither the rules nor their delivery. */
import { anyOperator, operatorOptions, type OperatorOptions } from "../audit/entry.ts";
import { type Duration, toMs } from "../core/duration.ts";
import { HoldfastError } from "../core/errors.ts";
import { checkText, choice, idOf, optionsOf, whole } from "../core/options.ts";
import {
  type Alert,
  type AlertChange,
  type AlertFilter,
  alertOf,
  SILENCE_MS_MAX,
} from "./alert.ts";
import type { AlertCounts, AlertsStore } from "./store.ts";

/** Which alerts to list, and how many. */
export interface AlertsFilter {
  /** Raised alerts (the default), raised and pending ones, or all of the last 30 days. */
  readonly which?: AlertFilter["which"];
  /** Only alerts that follow the one with this id: the last of the previous page. */
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

/** No alert with the id is open: it was never raised here, or it is resolved. */
export class AlertNotFoundError extends HoldfastError {
  /** The id that was given. */
  readonly id: string;

  constructor({ id }: { id: string }) {
    super(
      "ALERT_NOT_FOUND",
      `There is no open alert ${id}: it was never raised here, or it is resolved. List open alerts with 'holdfast alerts'.`,
    );
    this.id = id;
  }
}

/** Lists alerts, and acknowledges or silences open ones: `holdfast.alerts`. */
export class AlertHistory {
  readonly #alerts: AlertsStore;
  readonly #newId: () => string;

  /** @internal Applications get it from a Holdfast. */
  constructor({ alerts }: { readonly alerts: AlertsStore }, newId: () => string) {
    this.#alerts = alerts;
    this.#newId = newId;
  }

  /** Open alerts: the worst first, then the oldest. With `all`: the newest first. */
  list(filter: AlertsFilter = {}): Promise<Alert[]> {
    return listAlerts(this.#alerts, filter);
  }

  /** How many alerts are open. */
  count(): Promise<AlertCounts> {
    return this.#alerts.count();
  }

  /** Webhooks are not notified again, until it is resolved. Throws AlertNotFoundError. */
  acknowledge(
    id: string,
    options: OperatorOptions = {},
    /** As of `jobs.retry`. */
    once?: string,
  ): Promise<Alert> {
    return this.#change(id, { kind: "acknowledge" }, options, once);
  }

  /**
   * Webhooks are not notified for this long, at most 7 days; 0 ends a silence. An alert that still holds then comes back
   * by itself. A condition that comes and goes meanwhile stays silent. Throws AlertNotFoundError.
   */
  silence(
    id: string,
    time: Duration,
    options: OperatorOptions = {},
    /** As of `jobs.retry`. */
    once?: string,
  ): Promise<Alert> {
    const forMs = toMs("for", time, { max: SILENCE_MS_MAX });
    return this.#change(id, { kind: "silence", forMs }, options, once);
  }

  async #change(
    id: string,
    change: AlertChange,
    options: OperatorOptions,
    once: string | undefined,
  ): Promise<Alert> {
    const newId = once === undefined ? this.#newId : () => once;
    const operator = anyOperator(operatorOptions.read(options), newId);
    const isChanged = await this.#alerts.change(checkText("id", id), change, operator);
    const record = isChanged ? await this.#alerts.find(id) : null;
    if (record === null) throw new AlertNotFoundError({ id });
    return alertOf(record);
  }
}

/** Open alerts: the worst first, then the oldest. With `all`: the newest first. */
export async function listAlerts(alerts: AlertsStore, filter: AlertsFilter = {}): Promise<Alert[]> {
  const records = await alerts.list(listOptions.read(filter));
  return records.map(alertOf);
}
