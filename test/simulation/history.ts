/**
 * What everybody says they did: every call of a store, with when it was made and when it was answered, and what tasks did.
 *
 * When is a number of transactions: what a call changed was changed after `from`, and not after `to`. The checker holds
 * this against what the witness saw.
 */

export interface Fence {
  readonly id: string;
  readonly worker: string;
  readonly epoch: number;
}

interface Call {
  readonly who: string;
  readonly from: number;
  /** By the caller's own monotonic clock. */
  readonly sentAt: number;
  /** Null: it was never answered. */
  to: number | null;
  /** Unknown: the caller was told that the outcome is unknown. */
  answer: "ok" | "failed" | "unknown" | null;
}

export interface EnqueueCall extends Call {
  readonly f: "enqueue";
  readonly jobs: readonly { id: string; task: string; key: string | null; lane: string | null }[];
  told: readonly { id: string; added: boolean }[];
}

export interface SettleCall extends Call {
  readonly f: "settle";
  readonly settlements: readonly (Fence & { kind: string })[];
  told: readonly Fence[];
  claimed: readonly Fence[];
}

/** An owner says that its lease ended because the database did not answer. */
export interface OutageCall extends Call {
  readonly f: "outage";
  readonly settlements: readonly (Fence & { kind: string })[];
  told: readonly Fence[];
}

export interface ExtendCall extends Call {
  readonly f: "extend";
  readonly fences: readonly Fence[];
  told: readonly Fence[];
}

export interface StepCall extends Call {
  readonly f: "step";
  readonly op: "put" | "drop" | "commit";
  readonly fence: Fence;
  readonly name: string;
  readonly status: string;
  told: boolean;
}

export interface CancelCall extends Call {
  readonly f: "cancel";
  readonly id: string;
  told: string | null;
}

export interface RetryCall extends Call {
  readonly f: "retry";
  readonly id: string;
}

export interface ResolveCall extends Call {
  readonly f: "resolve";
  readonly job: string;
}

export interface EmitCall extends Call {
  readonly f: "emit";
  readonly key: string;
  readonly payload: string | null;
  told: boolean;
}

export type Recorded =
  | EnqueueCall
  | SettleCall
  | OutageCall
  | ExtendCall
  | StepCall
  | CancelCall
  | RetryCall
  | ResolveCall
  | EmitCall;

/** What a task's function did, as it tells it. */
export interface Note {
  readonly kind: "called" | "body begins" | "body ends" | "act" | "verify" | "charged" | "slept";
  readonly job: string;
  readonly epoch: number;
  /** Of the step. */
  readonly name: string;
  /** How many transactions had begun by then. */
  readonly tx: number;
  /** By the database's clock, and by the machine's own monotonic one. */
  readonly at: number;
  readonly monotonicAt: number;
  /** Whether the signal was aborted when a function was called, what a body returned, what a look at the bank found, how long a sleep was. */
  readonly value: unknown;
}

/** What the bank did for a key. */
export interface Charge {
  readonly receipt: string;
  readonly cents: number;
  /** How often it was asked to; it charges once. */
  requests: number;
}

/** All that is known of one seed when it is over. */
export interface History {
  readonly calls: Recorded[];
  readonly notes: Note[];
  readonly charges: Map<string, Charge>;
  /** The first tick of the schedule, the last that was handled, and when it was paused; null: it was not. */
  ticks: { from: number; until: number | null; pausedAt: number } | null;
}
