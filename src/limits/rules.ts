/** The rules of a queue, as its rows say them. */
import { bareName } from "../core/name.ts";
import { LANE_END } from "../jobs/rows.ts";

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

/**
 * Rates, as the generic cell rate algorithm counts them: one instant per limit says when the next start is due.
 *
 * In any interval of length W there are at most `burst + W / T` starts, where T is the time that one start costs. All times
 * are microseconds of the database's clock.
 */
export interface Rate {
  readonly count: number;
  readonly periodMs: number;
  /** How many may start at once after a pause. */
  readonly burst: number;
}

/** What one start costs. Rounded up, so that a rate is never exceeded. */
function costOf({ count, periodMs }: Rate): number {
  return Math.ceil((periodMs * 1_000) / count);
}

/** The limit's instant, not before now. A clock that was set back must not stop the limit for as long as the step. */
function dueAt(rate: Rate, allowedAt: number, nowUs: number): number {
  const cost = costOf(rate);
  const isTooLate = allowedAt > nowUs + (rate.burst + 1) * cost;
  return isTooLate ? nowUs + (rate.burst - 1) * cost : Math.max(allowedAt, nowUs);
}

/** How many may start now. */
export function mayStart(rate: Rate, allowedAt: number, nowUs: number): number {
  const cost = costOf(rate);
  return Math.floor((nowUs + rate.burst * cost - dueAt(rate, allowedAt, nowUs)) / cost);
}

/** The limit's instant after so many starts. */
export function afterStarts(rate: Rate, allowedAt: number, starts: number, nowUs: number): number {
  return dueAt(rate, allowedAt, nowUs) + starts * costOf(rate);
}

/** In how many milliseconds the next may start. */
export function nextStartMs(rate: Rate, allowedAt: number, nowUs: number): number {
  const due = dueAt(rate, allowedAt, nowUs) - (rate.burst - 1) * costOf(rate);
  return Math.max(0, Math.ceil((due - nowUs) / 1_000));
}

/** What accrues between two looks of a worker: with less, the rate would not be reached. */
const LOOK_MS = 50;

export function defaultBurst(count: number, periodMs: number): number {
  return Math.max(1, Math.ceil((count * LOOK_MS) / periodMs));
}
