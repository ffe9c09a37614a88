/** Conditions that rules could have found. */
import type { Sighting } from "../../src/alerts/alert.ts";
import { nextId } from "./jobs.ts";

export const HOLD_MS = 60_000;

/** Every call another sighting of the same. */
export function sighting(facts: Partial<Sighting> = {}): Sighting {
  return {
    id: nextId(),
    rule: "pending-old",
    subject: "mail",
    severity: "warning",
    message: "The oldest pending job of mail waits for 6m.",
    facts: '{"waitsMs":360000}',
    holdMs: HOLD_MS,
    sinceAt: null,
    targets: [],
    ...facts,
  };
}
