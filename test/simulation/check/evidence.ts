/** What the checker is given, and how it says what is wrong. Nothing in this folder knows the product's code. */
import type { Coverage } from "../coverage.ts";
import type { Tables } from "../database.ts";
import type { History } from "../history.ts";
import type { Limits } from "../plan.ts";
import type { Change } from "../witness.ts";

/** I1 … I14, as docs/evidence/simulation.md lists them. */
export type Invariant =
  | "I1 no lost job"
  | "I2 no phantom, no duplicate"
  | "I3 epochs"
  | "I4 one owner"
  | "I5 the fence"
  | "I6 effects once"
  | "I7 attempts"
  | "I8 the moves"
  | "I9 the attempts' history"
  | "I11 steps"
  | "I12 limits"
  | "I13 ticks"
  | "I14 liveness";

export interface Violation {
  readonly invariant: Invariant;
  readonly problem: string;
}

export interface Evidence {
  readonly changes: readonly Change[];
  readonly tables: Tables;
  readonly history: History;
  readonly settings: {
    readonly leaseMs: number;
    readonly graceMs: number;
    readonly maxCrashes: number;
    readonly limits: Limits | null;
  };
  /** What did not come to an end in time; null: all did, or no process waited for it. */
  readonly stuck: string | null;
  readonly coverage: Coverage;
}

/** More than this many of one seed say nothing more. */
const VIOLATIONS_MAX = 20;

export class Findings {
  readonly violations: Violation[] = [];

  add(invariant: Invariant, problem: string): void {
    if (this.violations.length < VIOLATIONS_MAX) this.violations.push({ invariant, problem });
  }

  /** Says so unless it holds. */
  expect(holds: boolean, invariant: Invariant, problem: () => string): void {
    if (!holds) this.add(invariant, problem());
  }
}

export function fenceKey(id: string, worker: string | null, epoch: number | null): string {
  return `${id} ${worker} ${epoch}`;
}
