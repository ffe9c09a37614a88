/** What is done to the crew, decided by a seed before anything happens. */
import { seededRandom } from "../support/runtime.ts";

export const TASK = "work";
export const LEASE_MS = 2_000;

export interface WorkerConfig {
  readonly url: string;
  readonly journal: string;
}

/** A line of a worker's journal. */
export type Entry =
  | {
      readonly kind: "started" | "done";
      readonly id: string;
      readonly epoch: number;
      readonly by: string;
    }
  | { readonly kind: "refused"; readonly count: number };

export type Deed = "kill" | "freeze" | "cut" | "restart";

export interface Plan {
  readonly seed: number;
  readonly jobs: number;
  readonly workers: number;
  /** All deeds take this long together. */
  readonly ms: number;
  readonly deeds: Readonly<Record<Deed, number>>;
}

export interface Step {
  readonly atMs: number;
  readonly deed: Deed;
  /** Whom it meets: the share of the list of those it can meet. */
  readonly whom: number;
}

/** Every deed as often as the plan says, in an order and at moments that the seed decides. */
export function steps(plan: Plan): Step[] {
  const random = seededRandom(plan.seed);
  const deeds = Object.entries(plan.deeds).flatMap(([deed, times]) =>
    Array.from({ length: times }, () => ({ deed: deed as Deed, order: random() })),
  );
  return deeds
    .toSorted((a, b) => a.order - b.order)
    .map(({ deed }, index) => ({
      atMs: ((index + random()) / deeds.length) * plan.ms,
      deed,
      whom: random(),
    }));
}
