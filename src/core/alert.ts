/** Alerts: what a rule found wrong, from when it was first seen until it is over. */
import type { Severity } from "./finding.ts";

/**
 * - `pending`: a rule's condition holds, but not for long enough yet.
 * - `raised`: somebody should know.
 * - `resolved`: the condition has been gone for a while.
 */
export const alertStatuses = ["pending", "raised", "resolved"] as const;
export type AlertStatus = (typeof alertStatuses)[number];

/** What targets are told about. */
export const alertEvents = ["raised", "resolved"] as const;
export type AlertEvent = (typeof alertEvents)[number];

/** To so many addresses alerts are sent at most. */
export const WEBHOOKS_MAX = 10;

export interface Alert {
  readonly id: string;
  readonly rule: string;
  /** Of what: a queue, a worker, a check. Empty: of the whole. */
  readonly subject: string;
  readonly severity: Severity;
  readonly status: AlertStatus;
  /** One sentence, as it was last seen. */
  readonly message: string;
  readonly facts: AlertFacts;
  /** Since when the condition has held; all instants are the database's. */
  readonly sinceAt: number;
  /** When somebody last saw it. */
  readonly seenAt: number;
  readonly raisedAt: number | null;
  readonly resolvedAt: number | null;
}

export type AlertFacts = Readonly<
  Record<string, string | number | boolean | null | readonly string[]>
>;
