/** What a rule found, in a shape that every database takes: texts of bounded length, and without what some refuse. */
import type { AlertFacts } from "../core/alert.ts";
import { NAME_LENGTH_MAX } from "../core/name.ts";
import type { Sighting } from "../store/alerts.ts";
import type { AlertRule, Trouble } from "./alert-rule.ts";

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
    facts: JSON.stringify(bounded(trouble.facts)),
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

function bounded(facts: AlertFacts): AlertFacts {
  const entries = Object.entries(facts).slice(0, FACTS_MAX);
  return Object.fromEntries(entries.map(([name, value]) => [name, boundedValue(value)]));
}

function boundedValue(value: AlertFacts[string]): AlertFacts[string] {
  if (typeof value === "string") return clip(value, FACT_LENGTH_MAX);
  if (typeof value !== "object" || value === null) return value;
  return value.slice(0, LIST_MAX).map((one) => clip(one, FACT_LENGTH_MAX));
}
