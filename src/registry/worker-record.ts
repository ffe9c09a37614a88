/** Workers as the store reads and writes them. */
import type { OperatorEntry } from "../audit/entry.ts";

/** Identifies a process on its host, even after its end. Null: the host does not provide it. */
export interface ProcessTrace {
  /** The name of its host. */
  readonly hostname: string;
  /** Its process id. */
  readonly pid: number;
  /** The boot of the host and the namespace of process ids. */
  readonly hostBoot: string | null;
  /** When the process started, as its host writes it. */
  readonly processStart: string | null;
}

export interface WorkerMove {
  readonly state: WorkerState;
  readonly reason: string | null;
  /** The last vitals of a worker that stops: no heartbeat follows. */
  readonly vitals?: WorkerVitals;
}

/** What a worker is: its name, its build, its process, and what it serves. */
export interface WorkerFacts extends ProcessTrace {
  /** Its id. */
  readonly id: string;
  /** The name that workers share. */
  readonly type: string;
  /** The build of the application. */
  readonly version: string;
  /** The version of Node. */
  readonly nodeVersion: string;
  /** As `process.platform`. */
  readonly platform: string;
  /** As `process.arch`. */
  readonly arch: string;
  /** The queues that it serves. */
  readonly queues: readonly string[];
  /** The names of its tasks. */
  readonly tasks: readonly string[];
  /** How many jobs it runs at once. */
  readonly concurrency: number;
}

/** A worker that registers. */
export interface NewWorker extends WorkerFacts {
  /** How many workers of this type may be active at once; null: any number. */
  readonly slots: number | null;
  /** When it takes other workers for dead. */
  readonly silence: Silence;
  /** How long its transactions wait for locks. */
  readonly waitLimits: WaitLimits;
}

/** How long a worker waits for its registration. */
export interface WaitLimits {
  /** For other workers of its type that register at the same time. */
  readonly lockMs: number;
  /** In all. */
  readonly allMs: number;
}

/** When a worker counts as dead. */
export interface Silence {
  /** After this long without a heartbeat … */
  readonly staleMs: number;
  /** … or this long, if it is stopping … */
  readonly hungMs: number;
  /** … or at once, if a worker on its host saw that its process is gone: the ids of these. */
  readonly gone: readonly string[];
}

export interface Registered {
  readonly slot: number | null;
  /** Counts the starts of this type; a worker with a smaller one was replaced. */
  readonly instance: number;
  /** The dead workers whose rows this registration closed. The new worker reports them and reclaims their jobs. */
  readonly closed: readonly ClosedWorker[];
}

/** What a heartbeat tells about a worker. */
export interface WorkerVitals {
  /** How many jobs it has claimed since it registered. */
  readonly claimed: number;
  /** How many attempts of it ended with a job that is done. */
  readonly done: number;
  /** How many jobs failed in it for good. */
  readonly failed: number;
  /** How many attempts of it failed and are followed by another. */
  readonly retried: number;
  /** How many leases it lost. */
  readonly leasesLost: number;
  /** How many jobs it ran at the heartbeat. */
  readonly running: number;
  /** The mean delay of its event loop since the heartbeat before, in milliseconds. */
  readonly loopDelayMs: number;
  /** The memory of its process, in bytes. */
  readonly memoryBytes: number;
}

/** What a worker learns with each heartbeat. */
export interface HeartbeatWrite {
  readonly desiredState: DesiredState;
  /** How many other workers are alive, and when the last of them started: this shows whether they changed. */
  readonly others: number;
  readonly newestAt: number;
  /** The longest time since a heartbeat among them. */
  readonly silentMsMax: number;
  /** Whether its queues have pending jobs. */
  readonly pending: boolean;
}

/** A build that enqueued jobs. */
export interface EnqueuerRecord {
  /** The build, as `version` of its Holdfast. */
  readonly version: string;
  /** When it first enqueued a job (ms since 1970). */
  readonly firstAt: number;
  /** When it last enqueued a job (ms since 1970). */
  readonly lastAt: number;
  /** Time since then, by the database's clock. It is recorded about once a minute. */
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

/** A standby, which will register under the same id, or a program that claims jobs with the lease methods. */
export interface NewUnregistered {
  /** Its id. */
  readonly id: string;
  /** A standby waits for a slot; `leases` is a program of your own. */
  readonly kind: "standby" | "leases";
  /** Null for a program that takes leases: it is unknown. */
  readonly type: string | null;
  /** Its host; null: unknown. */
  readonly hostname: string | null;
  /** Its process id; null: unknown. */
  readonly pid: number | null;
  /** Its build; null: unknown. */
  readonly version: string | null;
  /** The queues that it claims from. */
  readonly queues: readonly string[];
  /** Null: any. */
  readonly tasks: readonly string[] | null;
}

/** A standby worker, or a program that takes leases by itself. */
export interface UnregisteredWorker extends NewUnregistered {
  /** When it was first seen. */
  readonly startedAt: number;
  /** When it was last seen. */
  readonly heartbeatAt: number;
  /** Time since then, by the database's clock. It is recorded about three times a minute. */
  readonly silentMs: number;
  /** Jobs that it holds under a lease, counted now. */
  readonly leases: number;
}

/** The name that workers share, and how many of them may be active. */
export interface WorkerType {
  /** The name that the workers share. */
  readonly type: string;
  /** How many workers of it may be active at once; null: any number. */
  readonly slots: number | null;
  /** How many of them hold a slot now. */
  readonly active: number;
}

export interface LimitChange extends OperatorEntry {
  readonly type: string;
  readonly slots: number | null;
}

/** Equal `from` and `to`: nothing changed. */
export interface ChangedLimit {
  /** The name that the workers share. */
  readonly type: string;
  /** The limit before; null: none. */
  readonly from: number | null;
  /** The limit now; null: none. */
  readonly to: number | null;
}

export interface WorkerFilter {
  readonly type?: string;
  /** Only workers that have not stopped. */
  readonly alive?: boolean;
  /** Only workers that were found dead within the last hour. */
  readonly lost?: boolean;
  /** Only workers whose id begins with this. */
  readonly prefix?: string;
  readonly limit: number;
}

export const livenesses = ["alive", "stale", "hung", "stopped"] as const;
/** `stale` and `hung`: its row is open, and its last heartbeat is too old. */
export type Liveness = (typeof livenesses)[number];

/** A worker, with its heartbeat and what it is doing. */
export interface WorkerRecord extends WorkerFacts, WorkerVitals {
  /** The slot that it holds; null: workers of its name are not limited. */
  readonly slot: number | null;
  /** Counts the starts of workers of its name, from 1. */
  readonly instance: number;
  /** What it said with its last heartbeat that it does. */
  readonly status: WorkerState;
  /** Why it stopped; null: it has not. */
  readonly reason: string | null;
  /** What an operator wants it to do. */
  readonly desiredState: DesiredState;
  /** When it registered (ms since 1970, the database's clock). */
  readonly startedAt: number;
  /** When it last sent a heartbeat (ms since 1970, the database's clock). */
  readonly heartbeatAt: number;
  /** Time since then, by the database's clock. */
  readonly silentMs: number;
  /** It counts as dead after this long without a heartbeat; `hungMs` applies while it is stopping. */
  readonly staleMs: number;
  /** While it is stopping, it counts as dead after this long without a heartbeat, in milliseconds. */
  readonly hungMs: number;
  /** Whether it is alive, by its last heartbeat and the database's clock. */
  readonly liveness: Liveness;
  /** Jobs that it holds under a lease, counted now; `running` is what it reported with its last heartbeat. */
  readonly leases: number;
  /** When it stopped (ms since 1970); null: it has not. */
  readonly stoppedAt: number | null;
  /** The number of heartbeats, and the longest time between two of them. */
  readonly heartbeats: number;
  /** The longest time between two heartbeats, in milliseconds. */
  readonly gapMsMax: number;
  /** For how long a task had blocked its event loop when the stack was taken; 0: none does. */
  readonly blockedMs: number;
  /** The stack of the task that blocks its event loop; null: none does. */
  readonly blockedStack: string | null;
}

// The states of a worker's row. The databases enforce the same moves: their triggers are made from these lists.
//
//     starting ──► running ──► stopping ──► stopped
//
// Any worker may close the row of a worker without a heartbeat, so every state leads to `stopped`.

export const workerStates = ["starting", "running", "stopping", "stopped"] as const;

/** What a worker is doing. */
export type WorkerState = (typeof workerStates)[number];

/** A worker in one of these states has its slot; a stopping worker has released it. */
export const activeStates = ["starting", "running"] as const satisfies WorkerState[];

export const workerMoves: Readonly<Record<WorkerState, readonly WorkerState[]>> = {
  starting: ["running", "stopping", "stopped"],
  running: ["stopping", "stopped"],
  stopping: ["stopped"],
  stopped: [],
};

/** What an operator wants a worker to do: it learns this with its next heartbeat, or at once where the database pushes. */
export const desiredStates = ["run", "pause", "drain", "stop"] as const;

/** What an operator wants a worker to do. */
export type DesiredState = (typeof desiredStates)[number];

/** Why a worker's row was closed. */
export type Ending = "asked" | "failed" | "gone" | "stale" | "hung";

export const SLOTS_MAX = 1_000;
