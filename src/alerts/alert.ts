/** What a rule of alerts is: a condition, how bad it is, and for how long it has to hold. */
import type { Severity } from "../core/finding.ts";
import { NAME_LENGTH_MAX } from "../core/name.ts";
import type { Observation } from "../monitoring/observation.ts";

export interface AlertRule {
  readonly name: string;
  readonly severity: Severity;
  /** How long the condition has to hold; 0: it is raised at once. */
  readonly holdMs: number;
  /** For people: when it is raised. */
  readonly when: string;
  /** What is wrong. Null: it cannot tell. `raised` are the subjects that it has raised, and that are not resolved. */
  readonly find: (view: AlertView, raised: ReadonlySet<string>) => readonly Trouble[] | null;
}

/** What rules are given. */
export interface AlertView {
  readonly observation: Observation;
  /** By the clock of the database, as what stands in it. */
  readonly now: number;
  /** The queues that live workers take jobs from. Null: there are too many workers to tell. */
  readonly worked: ReadonlySet<string> | null;
}

export interface Trouble {
  readonly subject: string;
  readonly message: string;
  readonly facts: AlertFacts;
  /** Where they are others than the rule's. */
  readonly rule?: string;
  readonly severity?: Severity;
  readonly holdMs?: number;
  /** Since when, where that is known. */
  readonly sinceAt?: number | null;
}

// Alerts: what a rule found wrong, from when it was first seen until it is over.

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

/** How often a delivery is tried, within about an hour. */
export const DELIVERY_ATTEMPTS_MAX = 12;

const DELIVERY_TASK = "holdfast.alert:";

/** Each target has a task of its own, so that a process claims only deliveries to the targets that it knows. */
export function deliveryTask(target: string): string {
  return DELIVERY_TASK + target;
}

export function targetOf(task: string): string {
  return task.slice(DELIVERY_TASK.length);
}

/** At most one live job of a task has a key: no target gets two deliveries of one event. */
export function deliveryKey({ alert, event }: DeliveryInput): string {
  return `${alert}.${event}`;
}

/** The input of a delivery. The job holds no address, no secret and no text of the alert. */
export interface DeliveryInput {
  readonly alert: string;
  readonly event: AlertEvent;
}

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

// What a rule found, in a shape that every database takes: texts of bounded length, and without what some refuse.

const SUBJECT_LENGTH_MAX = 255;

const MESSAGE_LENGTH_MAX = 1_000;

const FACTS_MAX = 20;

const FACT_LENGTH_MAX = 500;

const LIST_MAX = 20;

export function asSighted(rule: AlertRule, trouble: Trouble): Omit<Sighting, "id" | "targets"> {
  return {
    rule: clip(trouble.rule ?? rule.name, NAME_LENGTH_MAX),
    subject: clip(trouble.subject, SUBJECT_LENGTH_MAX),
    severity: trouble.severity ?? rule.severity,
    message: clip(trouble.message, MESSAGE_LENGTH_MAX),
    facts: JSON.stringify(capped(trouble.facts)),
    holdMs: trouble.holdMs ?? rule.holdMs,
    sinceAt: trouble.sinceAt ?? null,
  };
}

/** On one line, and without blanks at its ends: to some databases they do not count. */
function clip(text: string, lengthMax: number): string {
  const line = text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").trim();
  const short = line.length > lengthMax ? `${line.slice(0, lengthMax - 1).trimEnd()}…` : line;
  return short.toWellFormed();
}

function capped(facts: AlertFacts): AlertFacts {
  const entries = Object.entries(facts).slice(0, FACTS_MAX);
  return Object.fromEntries(entries.map(([name, value]) => [name, cappedValue(value)]));
}

function cappedValue(value: AlertFacts[string]): AlertFacts[string] {
  if (typeof value === "string") return clip(value, FACT_LENGTH_MAX);
  if (typeof value !== "object" || value === null) return value;
  return value.slice(0, LIST_MAX).map((one) => clip(one, FACT_LENGTH_MAX));
}

// The contract about alerts: what is open and since when.
//
// Any number of monitors see the same conditions at once. A unique index allows one open alert of a rule and subject. One
// monitor makes each change of its status, and enqueues a delivery for each target in the same transaction: a job of the
// reserved queue. So an alert is raised once and resolved once, and no target is forgotten.

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

export function alertOf(record: AlertRecord): Alert {
  return { ...record, facts: factsOf(record.facts) };
}

/** Somebody may have written to the row by hand. */
function factsOf(text: string): AlertFacts {
  try {
    const facts: unknown = JSON.parse(text);
    return typeof facts === "object" && facts !== null ? (facts as AlertFacts) : {};
  } catch {
    return {};
  }
}
