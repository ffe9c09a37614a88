/** What the store promises about workers; see workers.ts for how. */
import type { Ending, Wish, WorkerState } from "../core/worker-state.ts";
import type { Signature } from "./actions.ts";

export interface Registry {
  /**
   * Enters a worker as `starting`, in one transaction with closing those of its type that are dead. Throws WorkerRefused
   * when all slots of its type are taken, and WorkerLimitMismatchError when its type has another limit.
   */
  register(worker: NewWorker): Promise<Registered>;

  /**
   * A sign of life of a worker on these queues, and what it should know. Null: its row was closed or is gone, so it is
   * nobody.
   */
  beat(id: string, vitals: WorkerVitals, queues: readonly string[]): Promise<Beat | null>;

  /** What is wanted of a worker, without a sign of life. Null: as above. */
  wishOf(id: string): Promise<Wish | null>;

  /** False: the row was closed or is gone. A worker that is stopping has let go of its slot. */
  moveWorker(id: string, to: WorkerMove): Promise<boolean>;

  /** Closes the rows of workers that are dead, of any type. */
  closeDead(silence: Silence): Promise<ClosedWorker[]>;

  /** Says what workers shall do from now on. Returns the ids of those that are there to hear it. */
  command(command: Command): Promise<string[]>;

  /** The types that were declared, with their limits. */
  workerTypes(): Promise<WorkerType[]>;
  /** Changes how many workers of a type may be active at once. */
  changeLimit(change: LimitChange): Promise<ChangedLimit>;

  /** Workers, those that started last first. */
  workers(filter: WorkerFilter): Promise<WorkerRecord[]>;
  findWorker(id: string): Promise<WorkerRecord | null>;

  /** Notes a standby, or a program that acquires leases, so that people can see it. It is to be called every 20 s. */
  noteUnregistered(worker: NewUnregistered): Promise<void>;
  forgetUnregistered(id: string): Promise<void>;
  /** Those that were noted within the last minute, and owners of leases that no registry knows. */
  unregistered(): Promise<UnregisteredWorker[]>;

  /** The queues that somebody works on who is in no registry: over HTTP, or with the lease verbs. */
  outsideQueues(): Promise<string[]>;

  /** Deletes the rows of workers that stopped, and of builds that enqueued, longer ago than this. Returns how many. */
  pruneWorkers(forMs: number): Promise<number>;

  /** Notes that a build of the application enqueues jobs. */
  noteEnqueuer(version: string): Promise<void>;
  /** The builds that enqueued jobs within this time, those that did so last first. */
  enqueuers(withinMs: number): Promise<EnqueuerRecord[]>;
}

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
export interface Patience {
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
export interface Beat {
  readonly wish: Wish;
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

export interface Command extends Signature {
  readonly wish: Wish;
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

export interface LimitChange extends Signature {
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
  readonly wish: Wish;
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
  readonly beats: number;
  readonly gapMsMax: number;
}
