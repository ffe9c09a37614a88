/**
 * The contract about alerts: what is open, since when, and who still has to be told.
 *
 * Any number of monitors see the same conditions at once. One alert at most of a rule and subject is open, by a unique index;
 * every change of its status is made by one of them, who also writes who is to be told, in the same transaction. So an
 * alert is raised once and resolved once, and no target is forgotten.
 */
import type { Alert, AlertEvent } from "../core/alert.ts";
import type { Severity } from "../core/finding.ts";

export interface AlertRows {
  /** Says that a condition holds. */
  noteAlert(sighting: Sighting): Promise<Noted>;
  /** Says that a condition does not hold any more. Null: it is left as it is. */
  clearAlert(clearing: Clearing): Promise<Cleared | null>;
  /** All that are pending or raised, and what time it is. */
  openAlerts(limit: number): Promise<OpenAlerts>;
  /** Those that were noticed last first. */
  alerts(filter: AlertFilter): Promise<AlertRecord[]>;
  /** Deletes those resolved longer ago than this. Returns how many; call again when it is `limit`. */
  pruneAlerts(chore: { forMs: number; limit: number }): Promise<number>;

  /**
   * Takes what is due for these targets, and keeps it from others for `holdMs`. It counts as tried. That an alert is
   * resolved is not told before it was told, or given up, that it was raised.
   */
  takeDeliveries(wanted: WantedDeliveries): Promise<Delivery[]>;
  /** Says what became of one that was taken. */
  settleDelivery(delivery: Delivery, outcome: DeliveryOutcome): Promise<void>;
}

export interface Sighting {
  /** Made by the caller: the alert's if there is none yet, and the name of whatever change is made. */
  readonly id: string;
  readonly rule: string;
  readonly subject: string;
  readonly severity: Severity;
  readonly message: string;
  /** As JSON. */
  readonly facts: string;
  /** How long it has to hold before it is raised. */
  readonly holdMs: number;
  /** Since when it has held, where that is known; null: from now on. */
  readonly sinceAt: number | null;
  /** Who is told when it is raised. */
  readonly targets: readonly string[];
}

/** Pending from now on; raised by this very call; or seen again, whatever its status. */
export interface Noted {
  readonly change: "pending" | "raised" | "seen";
  readonly id: string;
}

export interface Clearing {
  readonly alert: string;
  /** Made by the caller: the name of the change. */
  readonly id: string;
  /** When it was last seen, as the caller knows it: a pending one that was seen since is left alone. */
  readonly seenAt: number;
  /** A raised one is left alone until nobody has seen it for this long. */
  readonly quietMs: number;
  /** Who is told when it is resolved. */
  readonly targets: readonly string[];
}

/** It was pending and is gone; or it was raised, and resolved by this very call. */
export type Cleared = "dropped" | "resolved";

/** As it stands in the row: its facts as JSON. */
export type AlertRecord = Omit<Alert, "facts"> & { readonly facts: string };

export interface OpenAlerts {
  readonly now: number;
  readonly alerts: readonly AlertRecord[];
}

export interface AlertFilter {
  /** Raised ones alone, those with the pending, or those that were ever raised. */
  readonly which: "raised" | "open" | "all";
  /** Only those that were noticed before the one with this id. */
  readonly before?: string;
  readonly limit: number;
}

export interface WantedDeliveries {
  readonly targets: readonly string[];
  readonly holdMs: number;
  readonly limit: number;
}

export interface DeliveryKey {
  readonly alert: string;
  readonly event: AlertEvent;
  readonly target: string;
}

export interface Delivery extends DeliveryKey {
  /** This one included. */
  readonly tries: number;
  /** As it stands now. */
  readonly record: AlertRecord;
}

export type DeliveryOutcome = { readonly kind: "delivered" } | DeliveryFailed;

export interface DeliveryFailed {
  readonly kind: "failed";
  /** In a few words, without secrets. */
  readonly error: string;
  /** Null: it is given up. */
  readonly retryInMs: number | null;
}
