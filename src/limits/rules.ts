/** The rules of a queue, as its rows say them. */
import { bareName } from "../core/name.ts";
import { LANE_END } from "../jobs/rows.ts";
import type { Rate } from "./rate.ts";

export interface Limit {
  /** How many jobs may run at once, in all processes together; null: any number. */
  readonly concurrency: number | null;
  readonly rate: Rate | null;
}

/** Of the queue, of each lane, of one lane, or of one task in the queue. */
export type RuleKind = "queue" | "lanes" | "lane" | "task";

export interface Rule extends Limit {
  readonly kind: RuleKind;
  /** Of the lane or the task. */
  readonly name: string;
  /** Of a lane: its share when lanes take turns. */
  readonly weight: number;
}

export interface RuleRow {
  kind: RuleKind;
  name: string;
  concurrency: number | null;
  rate_count: number | null;
  rate_ms: number | null;
  rate_burst: number | null;
  weight: number | null;
}

export function ruleOf(row: RuleRow): Rule {
  const { kind, name, concurrency, weight } = row;
  const rate =
    row.rate_count === null
      ? null
      : {
          count: row.rate_count,
          periodMs: row.rate_ms ?? 0,
          burst: row.rate_burst ?? 1,
        };
  return { kind, name, concurrency, rate, weight: weight ?? 1 };
}

export const NO_LIMIT: Limit = { concurrency: null, rate: null };

export function isLimited({ concurrency, rate }: Limit): boolean {
  return concurrency !== null || rate !== null;
}

/** A lane of pending jobs: those of one name, or those of a limited task in it. */
export interface Lane {
  /** As `ready.lane` has it. */
  readonly text: string;
  readonly name: string;
  readonly task: string | null;
}

export function laneOf(text: string): Lane {
  const [name = "", task = null] = text.split(LANE_END);
  return { text, name, task };
}

/** The lane in which a job of this task belongs. */
export function laneFor(name: string, task: string, limited: ReadonlySet<string>): string {
  const bare = bareName(task);
  return limited.has(bare) ? `${name}${LANE_END}${bare}` : name;
}
