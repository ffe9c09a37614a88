/**
 * The states of a job, the legal moves between them, and the outcomes of an attempt.
 *
 * The guards of the store, the triggers of the database, the model in the tests and the diagram in docs/design/states.md all
 * derive from the one table of moves.
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
  "expired",
] as const;

/** Where a job is: waiting, running, or how it ended. */
export type Status = (typeof statuses)[number];

export const moves = {
  promote: { from: ["scheduled", "retry", "waiting"], to: "pending" },
  claim: { from: ["pending"], to: "processing" },
  finish: { from: ["processing"], to: "done" },
  retry: { from: ["processing"], to: "retry" },
  suspend: { from: ["processing"], to: "waiting" },
  release: { from: ["processing"], to: "pending" },
  fail: { from: ["processing", "waiting"], to: "failed" },
  cancel: { from: ["scheduled", "pending", "processing", "waiting", "retry"], to: "cancelled" },
  expire: { from: ["scheduled", "pending", "waiting"], to: "expired" },
  reopen: { from: ["failed", "cancelled", "expired"], to: "pending" },
  rerun: { from: ["done", "failed", "cancelled", "expired"], to: "pending" },
} as const satisfies Record<string, { from: readonly Status[]; to: Status }>;

export type Move = keyof typeof moves;

export function mayMove(move: Move, from: Status): boolean {
  const allowed: readonly Status[] = moves[move].from;
  return allowed.includes(from);
}

/** The table that holds the row of a job in this state. */
export const home = {
  pending: "ready",
  scheduled: "waiting",
  retry: "waiting",
  waiting: "waiting",
  processing: "lease",
  done: "finished",
  failed: "finished",
  cancelled: "finished",
  expired: "finished",
} as const satisfies Record<Status, string>;

export const finalStatuses = [
  "done",
  "failed",
  "cancelled",
  "expired",
] as const satisfies readonly Status[];
/** How a job ended. */
export type FinalStatus = (typeof finalStatuses)[number];

const unclaimed = ["scheduled", "retry", "waiting", "pending"] as const satisfies readonly Status[];

/** In which states an operator may do what to a job. The dashboard's page has the same table. */
export const operatorActions = {
  retry: moves.reopen.from,
  // A job that waits, waits for what its task or another job says.
  runNow: ["scheduled", "retry", "pending"],
  edit: unclaimed,
  cancel: [...unclaimed, "processing"],
  rerun: moves.rerun.from,
  replay: finalStatuses,
  delete: finalStatuses,
} as const satisfies Record<string, readonly Status[]>;

/** The right to write about a claimed job: this job, claimed by this worker, at this epoch. */
export interface Fence {
  /** The id of the job. */
  readonly id: string;
  /** The id of the worker that claimed it. */
  readonly worker: string;
  /** Grows by 1 at every claim of the job; only the holder of the latest may write. */
  readonly epoch: number;
}

/** How an attempt ended. Values are JSON texts; delays count from the current time of the database. */
export type Outcome =
  /** `error`: why its result could not be stored. */
  | { readonly kind: "done"; readonly result: string | null; readonly error?: string }
  | { readonly kind: "retry"; readonly delayMs: number; readonly error: string }
  | { readonly kind: "failed"; readonly error: string }
  | {
      readonly kind: "suspended";
      readonly delayMs: number | null;
      readonly waits?: readonly Wait[];
      /** Why it was put off, if neither a sleep nor an event did it. */
      readonly error?: string;
    }
  /** The error says why it was handed back, unless its worker chose to. */
  | { readonly kind: "released"; readonly error?: string }
  | { readonly kind: "cancelled"; readonly error: string | null };

export const attemptStates = [
  "running",
  "done",
  "retry",
  "suspended",
  "released",
  "crashed",
  "failed",
  "cancelled",
] as const;
/** How an attempt ended; `running` until then. */
export type AttemptState = (typeof attemptStates)[number];

/** An event that a suspended job waits for. The first event wakes it, or its delay. */
export interface Wait {
  readonly event: string;
  readonly key: string;
}

export interface Settlement extends Fence {
  readonly outcome: Outcome;
  /** What the claim returned, if known: it saves the store a read. */
  readonly claimed?: {
    readonly queue: string;
    readonly task: string;
    readonly attempt: number;
    /** How often its lease had expired before. If there is one more now, this lease expired too. */
    readonly crashes: number;
  };
}

/** An attempt whose lease expired because the database did not respond in time, although its worker was alive. */
export interface OutageReport extends Settlement {
  /** The worker aborted the attempt because of it, so the outcome is not the fault of the job. */
  readonly gaveUp: boolean;
}

/**
 * The name of one worker's attempt at a job, in rows and logs. An attempt that was handed back keeps its number, so the same
 * worker may use the name again for the next claim.
 */
export function traceId(of: {
  readonly id: string;
  readonly worker: string;
  readonly attempt: number;
}): string {
  return `${of.worker}-${of.id}-${of.attempt}`;
}
