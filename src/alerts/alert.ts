/** Alerts: what a rule found wrong, from when a monitor first saw it until it is over. */
import type { Severity } from "../database/check.ts";
import { NAME_LENGTH_MAX } from "../core/name.ts";
import type { Observation } from "../monitoring/monitor.ts";

/** When an alert is raised, and when it is resolved. */
export interface AlertRule {
  /** Identifies the rule, such as `pending-old`. */
  readonly name: string;
  /** How urgent its alerts are, unless a trouble says otherwise. */
  readonly severity: Severity;
  /** How long the condition must hold before the alert is raised. */
  readonly holdMs: number;
  /** For people: when it is raised. */
  readonly when: string;
  /** What is wrong. Null: it cannot tell. `raised` are the subjects whose alerts of this rule are raised now. */
  readonly find: (view: AlertView, raised: ReadonlySet<string>) => readonly Trouble[] | null;
}

/** The input of a rule. */
export interface AlertView {
  /** What the monitor saw. */
  readonly observation: Observation;
  /** By the database's clock. */
  readonly now: number;
  /** The queues that live workers take jobs from. Null: there are too many workers to tell. */
  readonly worked: ReadonlySet<string> | null;
}

/** A problem that a rule found. */
export interface Trouble {
  /** A queue, a worker or a check. Empty: the whole system. */
  readonly subject: string;
  /** One sentence for people. */
  readonly message: string;
  /** The numbers and names behind the message. */
  readonly facts: AlertFacts;
  /** Where these differ from the rule's. */
  readonly rule?: string;
  /** How urgent it is. Default: as the rule says. */
  readonly severity?: Severity;
  /** How long it must hold before it is raised. Default: as the rule says. */
  readonly holdMs?: number;
  /** Since when, if known. */
  readonly sinceAt?: number | null;
}

/**
 * - `pending`: a rule's condition holds, but not for long enough yet.
 * - `raised`: the condition has held for long enough.
 * - `resolved`: the condition has been gone for a while.
 */
export const alertStatuses = ["pending", "raised", "resolved"] as const;

/** Whether an alert is still raised. */
export type AlertStatus = (typeof alertStatuses)[number];

/** The changes that are delivered to targets. */
export const alertEvents = ["raised", "resolved"] as const;

/** Whether an alert was raised or resolved. */
export type AlertEvent = (typeof alertEvents)[number];

/** The attempts of a delivery, spread over about an hour. */
export const DELIVERY_ATTEMPTS_MAX = 12;

const DELIVERY_TASK = "holdfast.alert:";

/** Each target has its own task, so that a process claims only deliveries to the targets that it knows. */
export function deliveryTask(target: string): string {
  return DELIVERY_TASK + target;
}

export function targetOf(task: string): string {
  return task.slice(DELIVERY_TASK.length);
}

/** At most one live job of a task has a key: no target gets two deliveries of one event. */
export function deliveryKey({ alert, event, again }: DeliveryInput): string {
  return again === undefined ? `${alert}.${event}` : `${alert}.${event}.${again}`;
}

/** The keys of the deliveries that told of an alert, the first and the one after its last silence. */
export function raisedKeys({ id, notifiedAt }: Pick<Alert, "id" | "notifiedAt">): string[] {
  const told = { alert: id, event: "raised" } as const;
  const first = deliveryKey(told);
  return notifiedAt === null ? [first] : [first, deliveryKey({ ...told, again: notifiedAt })];
}

/** The input of a delivery. The job holds no address, no secret and no text of the alert. */
export interface DeliveryInput {
  readonly alert: string;
  readonly event: AlertEvent;
  /** When a silence ended and the targets are notified again. */
  readonly again?: number;
}

/** A problem that was raised, and perhaps resolved. */
export interface Alert {
  /** The same from the first sight of the condition to its end. */
  readonly id: string;
  /** The name of the rule, such as `pending-old`. */
  readonly rule: string;
  /** A queue, a worker or a check. Empty: the whole system. */
  readonly subject: string;
  /** How urgent it is. */
  readonly severity: Severity;
  /** `pending`: it has not held for long enough to be raised. */
  readonly status: AlertStatus;
  /** One sentence, updated whenever the condition is seen. */
  readonly message: string;
  /** The numbers and names behind the message. */
  readonly facts: AlertFacts;
  /** Since when the condition has held; all instants are by the database's clock. */
  readonly sinceAt: number;
  /** When a monitor last saw it. */
  readonly seenAt: number;
  /** When it was raised (ms since 1970); null: not yet. */
  readonly raisedAt: number | null;
  /** When the condition ended (ms since 1970); null: it holds. */
  readonly resolvedAt: number | null;
  /** When webhooks were last told that it is raised; null: they were not, because it is pending or silenced. */
  readonly notifiedAt: number | null;
  /** When an operator acknowledged it: webhooks are not notified again. */
  readonly acknowledgedAt: number | null;
  /** Who acknowledged it. */
  readonly acknowledgedBy: string | null;
  /** Webhooks are not notified before this instant; a silence that is over is removed. */
  readonly silencedUntil: number | null;
  /** Who silenced it. */
  readonly silencedBy: string | null;
  /** Why it was acknowledged or silenced last. */
  readonly note: string | null;
}

/** Open alerts that are looked at. */
export const OPEN_MAX = 1_000;

/** The longest silence of an alert. */
export const SILENCE_MS_MAX = 7 * 24 * 3_600_000;

/** Whether it is silenced at that instant. */
export function isSilenced({ silencedUntil }: Pick<Alert, "silencedUntil">, now: number): boolean {
  return silencedUntil !== null && silencedUntil > now;
}

/** What an operator does with an open alert. `silence` for no time ends a silence. */
export type AlertChange =
  | { readonly kind: "acknowledge" }
  | { readonly kind: "silence"; readonly forMs: number };

/** What an alert says about its problem. */
export type AlertFacts = Readonly<
  Record<string, string | number | boolean | null | readonly string[]>
>;

const SUBJECT_LENGTH_MAX = 255;

const MESSAGE_LENGTH_MAX = 1_000;

const FACTS_MAX = 20;

const FACT_LENGTH_MAX = 500;

const LIST_MAX = 20;

/** What a rule found, in a form that every database accepts: texts of limited length without control characters. */
export function asSighted(rule: AlertRule, trouble: Trouble): Omit<Sighting, "id" | "targets"> {
  const facts = Object.entries(trouble.facts).slice(0, FACTS_MAX);
  return {
    rule: clip(trouble.rule ?? rule.name, NAME_LENGTH_MAX),
    subject: clip(trouble.subject, SUBJECT_LENGTH_MAX),
    severity: trouble.severity ?? rule.severity,
    message: clip(trouble.message, MESSAGE_LENGTH_MAX),
    facts: JSON.stringify(Object.fromEntries(facts.map(([name, value]) => [name, capped(value)]))),
    holdMs: trouble.holdMs ?? rule.holdMs,
    sinceAt: trouble.sinceAt ?? null,
  };
}

/** On one line, and trimmed, because some databases ignore blanks at the end. */
function clip(text: string, lengthMax: number): string {
  const line = text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").trim();
  const short = line.length > lengthMax ? `${line.slice(0, lengthMax - 1).trimEnd()}…` : line;
  return short.toWellFormed();
}

function capped(value: AlertFacts[string]): AlertFacts[string] {
  if (typeof value === "string") return clip(value, FACT_LENGTH_MAX);
  if (typeof value !== "object" || value === null) return value;
  return value.slice(0, LIST_MAX).map((one) => clip(one, FACT_LENGTH_MAX));
}

// Any number of monitors see the same conditions at once. A unique index allows one open alert for a rule and a subject.
// One monitor makes each change of its status, and enqueues a delivery for each target in the same transaction: a job of
// the reserved queue. So an alert is raised once and resolved once, and no target is forgotten.

export interface Sighting {
  /** Made by the caller: the id of a new alert, and of the change. */
  readonly id: string;
  readonly rule: string;
  readonly subject: string;
  readonly severity: Severity;
  readonly message: string;
  /** As JSON. */
  readonly facts: string;
  readonly holdMs: number;
  /** Since when it has held; null: from now on. */
  readonly sinceAt: number | null;
  /** Targets of the delivery when it is raised. */
  readonly targets: readonly string[];
}

/** Pending from now on; raised by this call; or seen again. */
export interface Noted {
  readonly change: "pending" | "raised" | "seen";
  readonly id: string;
}

export interface Clearing {
  readonly alert: string;
  /** Made by the caller: the id of the change. */
  readonly id: string;
  /** When the caller last saw it: a pending alert that was seen since is left alone. */
  readonly seenAt: number;
  /** A raised alert is left alone until no monitor has seen it for this long. */
  readonly quietMs: number;
  /** Targets of the delivery when it is resolved. */
  readonly targets: readonly string[];
}

/** A pending alert was deleted, or a raised one was resolved by this call. */
export type Cleared = "dropped" | "resolved";

/** A row: the facts are JSON. */
export type AlertRecord = Omit<Alert, "facts"> & { readonly facts: string };

export interface OpenAlerts {
  readonly now: number;
  readonly alerts: readonly AlertRecord[];
}

/** Which alerts to list, in the store. */
export interface AlertFilter {
  /** Raised alerts, raised and pending ones, or all of them. */
  readonly which: "raised" | "open" | "all";
  /** Only alerts that follow the one with this id. */
  readonly before?: string;
  /** Only alerts with such an id. */
  readonly id?: string;
  /** The most alerts of the page. */
  readonly limit: number;
}

export function alertOf(record: AlertRecord): Alert {
  return { ...record, facts: factsOf(record.facts) };
}

/** The row may have been edited by hand. */
function factsOf(text: string): AlertFacts {
  try {
    const facts: unknown = JSON.parse(text);
    return typeof facts === "object" && facts !== null ? (facts as AlertFacts) : {};
  } catch {
    return {};
  }
}
