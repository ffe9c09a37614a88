/** What a rule of alerts is: a condition, how bad it is, and for how long it has to hold. */
import type { AlertFacts } from "../core/alert.ts";
import type { Severity } from "../core/finding.ts";
import type { Observation } from "./observation.ts";

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
