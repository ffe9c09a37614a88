/** What a setting is. */
import type { Kind } from "./kind.ts";

export const groups = ["Database", "Worker", "Server", "Monitoring", "Process"] as const;
export type Group = (typeof groups)[number];

export interface Setting<Value> {
  readonly group: Group;
  /** In the environment and in `.env`; when several are set, the first of them counts. */
  readonly env: readonly string[];
  /** On the command line, as its help shows it. */
  readonly flag: string | null;
  /** In `holdfast.config.ts`. */
  readonly file: string | null;
  readonly kind: Kind<Value>;
  /** What it is when nobody says; null: nothing. */
  readonly initial: Value | null;
  readonly about: string;
  /** Set to nothing it is still set. */
  readonly emptyCounts?: true;
}

/** One that always has a value. */
export type Settled<Value> = Setting<Value> & { readonly initial: Value };

export function setting<Value>(given: Setting<Value>): Setting<Value> {
  return given;
}

export function settled<Value>(given: Settled<Value>): Settled<Value> {
  return given;
}

export const SECOND = 1_000;
export const DAY = 86_400_000;
