/**
 * A job's states, the legal moves between them, and what an attempt may come to.
 *
 * The moves are one table. The store's guards, the database's triggers, the model in the tests and the diagram in
 * docs/design/states.md are all read off it.
 */

export const statuses = [
  "scheduled",
  "pending",
  "processing",
  "waiting",
  "retry",
  "done",
  "failed",
  "cancelled",
] as const;

export type Status = (typeof statuses)[number];

/** Every legal move of a job. */
export const moves = {
  promote: { from: ["scheduled", "retry", "waiting"], to: "pending" },
  claim: { from: ["pending"], to: "processing" },
  finish: { from: ["processing"], to: "done" },
  retry: { from: ["processing"], to: "retry" },
  suspend: { from: ["processing"], to: "waiting" },
  release: { from: ["processing"], to: "pending" },
  fail: { from: ["processing"], to: "failed" },
  cancel: { from: ["scheduled", "pending", "processing", "waiting", "retry"], to: "cancelled" },
  revive: { from: ["failed", "cancelled"], to: "pending" },
} as const satisfies Record<string, { from: readonly Status[]; to: Status }>;

export type Move = keyof typeof moves;

export function mayMove(move: Move, from: Status): boolean {
  const allowed: readonly Status[] = moves[move].from;
  return allowed.includes(from);
}

/** A job's state is the table its row stands in. */
export const home = {
  pending: "ready",
  scheduled: "waiting",
  retry: "waiting",
  waiting: "waiting",
  processing: "lease",
  done: "finished",
  failed: "finished",
  cancelled: "finished",
} as const satisfies Record<Status, string>;

export const finalStatuses = ["done", "failed", "cancelled"] as const satisfies readonly Status[];
export type FinalStatus = (typeof finalStatuses)[number];

/** The right to write about a claimed job: this job, claimed by this worker, at this epoch. */
export interface Fence {
  readonly id: string;
  readonly worker: string;
  readonly epoch: number;
}

/** What became of an attempt. Values are texts encoded by `json.ts`; spans count from the database's now. */
export type Outcome =
  | { readonly kind: "done"; readonly result: string | null }
  | { readonly kind: "retry"; readonly delayMs: number; readonly error: string }
  | { readonly kind: "failed"; readonly error: string }
  | {
      readonly kind: "suspended";
      readonly delayMs: number | null;
      readonly waits?: readonly Wait[];
    }
  /** With an error: why it was handed back, if its worker did not choose to. */
  | { readonly kind: "released"; readonly error?: string }
  | { readonly kind: "cancelled"; readonly error: string | null };

/** An event that a suspended job waits for. The first of them that is said lets it go on; its time, if it has one, too. */
export interface Wait {
  readonly event: string;
  readonly key: string;
}

export interface Settlement extends Fence {
  readonly outcome: Outcome;
  /** What the attempt's claim said about the job, where it is at hand: the store need not say it again. */
  readonly claimed?: {
    readonly queue: string;
    readonly task: string;
    readonly attempt: number;
    /** How often its lease had run out before: one more, and it ended because this one did. */
    readonly crashes: number;
  };
}

/** An attempt whose lease ended because the database did not answer in time: its worker was alive. */
export interface OutageReport extends Settlement {
  /** The attempt was given up for it: what the outcome says is no fault of the job's. */
  readonly gaveUp: boolean;
}

/**
 * Names one worker's attempt at a job, in the rows of SQL and everywhere else. An attempt that was handed back keeps its
 * number, so the same worker may use the name again for the next claim.
 */
export function traceId(of: {
  readonly id: string;
  readonly worker: string;
  readonly attempt: number;
}): string {
  return `${of.worker}-${of.id}-${of.attempt}`;
}
