/** What a question is: an order that one system carries out once, in a place of its own, and the figures it gives. */
import type { QuestionName, System } from "../systems/system.ts";

/** Jobs a second, or milliseconds. */
export type Metric = "one by one" | "in bulk" | "drain" | "pickup p50" | "pickup p99";
export type Figures = Readonly<Partial<Record<Metric, number>>>;

export interface Order {
  readonly question: QuestionName;
  /** Of the payload, as JSON. */
  readonly bytes: number;
  readonly jobs: number;
  /** Jobs that are enqueued one by one, each with a commit. */
  readonly singles: number;
  /** Jobs that an idle worker is given, one at a time. */
  readonly pickups: number;
}

export type Question = (system: System, order: Order) => Promise<Figures>;

/** How many jobs one call of a bulk enqueue hands over, to everybody. */
export const BULK = 20_000;

export function payloadOf(bytes: number): string {
  return "x".repeat(Math.max(0, bytes - 2)); // JSON adds the quotes
}

/** The jobs in calls of a bulk enqueue. */
export function* inBulks(payload: string, jobs: number): Generator<string[]> {
  for (let left = jobs; left > 0; left -= BULK) {
    yield Array.from({ length: Math.min(BULK, left) }, () => payload);
  }
}

export function rate(jobs: number, ms: number): number {
  return (jobs / ms) * 1_000;
}

export function expectCount(what: string, found: number | null, wanted: number): void {
  if (found === null || found === wanted) return;
  throw new Error(`${found} of ${wanted} jobs are ${what}`);
}
