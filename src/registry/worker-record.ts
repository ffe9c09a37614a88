/** What the store promises about workers; see workers.ts for how. */
import type { OperatorEntry } from "../audit/operator.ts";

/** By what a process is known, also after its end, on the host it runs on. Null: the host does not tell. */
export interface ProcessTrace {
  readonly hostname: string;
  readonly pid: number;
  /** Which boot of which host, and which namespace of process ids. */
  readonly hostBoot: string | null;
  readonly processStart: string | null;
}

export interface WorkerMove {
  readonly state: WorkerState;
  readonly reason: string | null;
  /** Its last figures, of one that ends: there will be no sign of life any more that could tell them. */
  readonly vitals?: WorkerVitals;
}

export interface NewWorker extends ProcessTrace {
  readonly id: string;
  readonly type: string;
  /** How many workers of this type may be active at once; null: any number. */
  readonly slots: number | null;
  readonly version: string;
  readonly nodeVersion: string;
  readonly platform: string;
  readonly arch: string;
  readonly queues: readonly string[];
  readonly tasks: readonly string[];
  readonly concurrency: number;
  readonly silence: Silence;
  readonly patience: Patience;
}

/** How long somebody waits to be registered. */
interface Patience {
  /** For others who register a worker of the type at the same time … */
  readonly lockMs: number;
  /** … and in all. */
  readonly allMs: number;
}

/** When a worker counts as dead. */
export interface Silence {
  /** After so long without a sign of life … */
  readonly staleMs: number;
  /** … or so long, if it is stopping … */
  readonly hungMs: number;
  /** … or when somebody on its host has seen that its process is gone: the ids of these. */
  readonly gone: readonly string[];
}

export interface Registered {
  readonly slot: number | null;
  /** Counts the starts of this type; whoever has a smaller one was replaced. */
  readonly instance: number;
  /** The dead workers whose rows this registration closed. The new worker has to report them and take their jobs back. */
  readonly closed: readonly ClosedWorker[];
}

export interface WorkerVitals {
  readonly claimed: number;
  readonly done: number;
  readonly failed: number;
  readonly retried: number;
  readonly leasesLost: number;
  readonly running: number;
  readonly loopDelayMs: number;
  readonly memoryBytes: number;
}

/** What a worker is told with each sign of life, so that it need not ask for it. */
export interface HeartbeatWrite {
  readonly desiredState: DesiredState;
  /** How many other workers are alive, and when the last of them started: whether they are the same as before. */
  readonly others: number;
  readonly newestAt: number;
  /** How long the most silent of them has been silent. */
  readonly silentMsMax: number;
  /** Whether there are pending jobs in its queues. */
  readonly pending: boolean;
}

export interface EnqueuerRecord {
  readonly version: string;
  readonly firstAt: number;
  readonly lastAt: number;
  /** How long ago that is, by the database's clock. It is noted about once a minute. */
  readonly silentMs: number;
}

export interface ClosedWorker {
  readonly id: string;
  readonly type: string;
  readonly ending: Ending;
}

export interface Command extends OperatorEntry {
  readonly desiredState: DesiredState;
  readonly target: { readonly worker: string } | { readonly type: string } | { readonly all: true };
}

/** A standby, which will register under the same id, or a program that takes jobs with the lease verbs. */
export interface NewUnregistered {
  readonly id: string;
  readonly kind: "standby" | "leases";
  /** The facts of a program that takes leases are not known. */
  readonly type: string | null;
  readonly hostname: string | null;
  readonly pid: number | null;
  readonly version: string | null;
  readonly queues: readonly string[];
  /** Null: any. */
  readonly tasks: readonly string[] | null;
}

export interface UnregisteredWorker extends NewUnregistered {
  readonly startedAt: number;
  readonly heartbeatAt: number;
  /** How long ago that is, by the database's clock. It is noted about three times a minute. */
  readonly silentMs: number;
  /** Jobs that it holds under a lease, counted now. */
  readonly leases: number;
}

export interface WorkerType {
  readonly type: string;
  /** How many workers of it may be active at once; null: any number. */
  readonly slots: number | null;
  /** How many are. */
  readonly active: number;
}

export interface LimitChange extends OperatorEntry {
  readonly type: string;
  readonly slots: number | null;
}

/** The same before and after: nothing was changed. */
export interface ChangedLimit {
  readonly type: string;
  readonly from: number | null;
  readonly to: number | null;
}

export interface WorkerFilter {
  readonly type?: string;
  /** Only those that have not stopped. */
  readonly alive?: boolean;
  /** Only those whose id begins with this. */
  readonly prefix?: string;
  readonly limit: number;
}

/** `stale` and `hung`: its row is open, and no heartbeat has come for too long. */
export type Liveness = "alive" | "stale" | "hung" | "stopped";

export interface WorkerRecord
  extends Omit<NewWorker, "silence" | "patience" | "slots">, WorkerVitals {
  readonly slot: number | null;
  readonly instance: number;
  readonly status: WorkerState;
  readonly reason: string | null;
  readonly desiredState: DesiredState;
  readonly startedAt: number;
  readonly heartbeatAt: number;
  /** How long ago that is, by the database's clock. */
  readonly silentMs: number;
  /** Without a heartbeat for so long it counts as dead; the same while it is stopping. */
  readonly staleMs: number;
  readonly hungMs: number;
  /** Whether it is alive, by its last heartbeat and the database's clock. */
  readonly liveness: Liveness;
  /** Jobs that it holds under a lease, counted now; `running` is what it reported with its last heartbeat. */
  readonly leases: number;
  readonly stoppedAt: number | null;
  /** Signs of life, and the longest time between two of them. */
  readonly heartbeats: number;
  readonly gapMsMax: number;
}

// The life of a worker, as its row tells it. The databases enforce the same: their triggers are made from these lists.
//
//     starting ──► running ──► stopping ──► stopped
//
// Anybody may close the row of a worker that gave no sign of life for too long, so every state leads to `stopped`.

export const workerStates = ["starting", "running", "stopping", "stopped"] as const;

export type WorkerState = (typeof workerStates)[number];

/** A worker in one of these has its slot; one that is stopping has let go of it. */
export const activeStates = ["starting", "running"] as const satisfies WorkerState[];

export const workerMoves: Readonly<Record<WorkerState, readonly WorkerState[]>> = {
  starting: ["running", "stopping", "stopped"],
  running: ["stopping", "stopped"],
  stopping: ["stopped"],
  stopped: [],
};

/** What somebody wants a worker to do: it is told with its next heartbeat, or at once where there is push. */
export const desiredStates = ["run", "pause", "drain", "stop"] as const;

export type DesiredState = (typeof desiredStates)[number];

/** Why a worker's row was closed. */
const endings = ["asked", "failed", "gone", "stale", "hung"] as const;

export type Ending = (typeof endings)[number];

export const SLOTS_MAX = 1_000;
