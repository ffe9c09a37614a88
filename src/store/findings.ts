/** What the store promises about its own health: rules that must hold, and those that offend against them. */
import type { Finding, Severity } from "../core/finding.ts";
import type { Signature } from "./actions.ts";

export interface Findings {
  /** The rules that are looked after here, in the order in which they are told. */
  checks(): Promise<CheckRecord[]>;

  /**
   * Looks for those that offend against one rule, as all of them stood at one moment. Null: there is none. Reads only, and
   * waits for nobody.
   */
  examine(check: string, look: Examination): Promise<Finding | null>;

  /**
   * Mends up to `limit` of them, each only if it still offends when it is written, and leaves a line in the operators' audit.
   * Returns what was mended; call again when it is `limit`.
   */
  fix(check: string, fixing: Fix): Promise<string[]>;
}

/**
 * `quick`: cheap enough to be asked all the time, whatever is stored. `full`: reads what is stored, some of it from end to end.
 * `deep`: takes minutes on a large database, so somebody has to ask for it.
 */
export const costs = ["quick", "full", "deep"] as const;
export type Cost = (typeof costs)[number];

export interface CheckRecord {
  readonly name: string;
  /** What it is about, such as `leases`. */
  readonly about: string;
  readonly severity: Severity;
  /** One sentence: what is wrong with those that it finds. */
  readonly problem: string;
  readonly remedy: string;
  readonly cost: Cost;
  /** Whether the remedy is one that can be applied without a person's judgement. */
  readonly fixable: boolean;
}

export interface Examination {
  readonly limit: number;
  /** Also what takes long. */
  readonly deep?: boolean;
  /** What was written into history before this is left alone. */
  readonly sinceAt?: number | null;
}

export interface Fix extends Signature {
  readonly limit: number;
}
