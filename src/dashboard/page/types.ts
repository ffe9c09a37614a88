/** What the API answers, as far as the page shows it. */

export const statuses = [
  "pending",
  "processing",
  "retry",
  "waiting",
  "scheduled",
  "done",
  "failed",
  "cancelled",
  "expired",
] as const;

export type Status = (typeof statuses)[number];

export type Counts = Readonly<Record<Status, number>>;

export interface Session {
  readonly principal: {
    readonly name: string;
    readonly role: "viewer" | "operator";
    readonly via: string;
  };
  readonly version: string;
  readonly engine: string;
  readonly database: string;
  readonly site: string | null;
  readonly latencyMs: number | null;
  readonly now: number;
  readonly build: string | null;
  readonly canSignOut: boolean;
}

export interface ErrorRecord {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: unknown;
  /** The step that failed, and how long it had run. */
  readonly step?: { readonly name: string; readonly occurrence: number; readonly tookMs: number };
}

export interface JobSummary {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly status: Status;
  readonly priority: number;
  readonly key: string | null;
  readonly lane: string | null;
  readonly epoch: number;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly crashes: number;
  readonly enqueuedAt: number;
  readonly dueAt: number | null;
  readonly lockedBy: string | null;
  readonly lockedUntil: number | null;
  readonly claimedAt: number | null;
  readonly heartbeatAt: number | null;
  readonly traceId: string | null;
  readonly finishedAt: number | null;
  readonly lastError: ErrorRecord | null;
  readonly inDoubt: string | null;
  readonly tags: readonly string[];
}

export interface FoundJob extends JobSummary {
  readonly startedAt?: number | null;
  readonly ranMs?: number | null;
  readonly changedAt?: number;
  readonly worker?: string | null;
  readonly why?: string | null;
}

export interface Job extends JobSummary {
  readonly input: unknown;
  readonly result?: unknown;
  readonly cancelRequestedAt: number | null;
}

export interface Attempt {
  readonly epoch: number;
  readonly attempt: number;
  readonly worker: string;
  readonly outcome: string;
  readonly startedAt: number;
  readonly endedAt: number | null;
  readonly traceId: string;
  readonly error: ErrorRecord | null;
  readonly build?: string | null;
  readonly renewals?: readonly number[];
}

export type StepKind = "step" | "effect" | "commit" | "sleep" | "event" | "call";

export interface Step {
  readonly name: string;
  readonly occurrence: number;
  readonly kind: StepKind;
  readonly position: number;
  readonly status: "begun" | "done" | "failed" | "doubt";
  readonly result?: unknown;
  readonly epoch: number;
  readonly begunAt: number;
  readonly endedAt: number | null;
}

export interface Explanation {
  readonly reason: string;
  readonly sentence: string;
  readonly facts: Readonly<Record<string, unknown>>;
}

export interface JobRef {
  readonly id: string;
  readonly task: string | null;
  readonly status: Status | null;
  readonly name?: string | null;
  readonly step?: string | null;
}

export interface AuditLine {
  readonly id: string;
  readonly seq: number;
  readonly at: number;
  readonly actor: string;
  readonly action: string;
  readonly subject: string;
  readonly oldStatus: string | null;
  readonly newStatus: string | null;
  readonly reason: string | null;
  readonly detail: string | null;
}

/** Where a task blocks the event loop of a worker, and for how long when the stack was taken. */
export interface BlockedAt {
  readonly ms: number;
  readonly stack: string;
}

export interface Story {
  readonly job: Job;
  readonly attempts: readonly Attempt[];
  readonly steps: readonly Step[];
  readonly inputs?: readonly {
    readonly revision: number;
    readonly input: unknown;
    readonly changedAt: number;
  }[];
  readonly explanation?: Explanation | null;
  readonly dependencies?: readonly JobRef[];
  readonly dependents?: readonly JobRef[];
  readonly called?: readonly JobRef[];
  readonly callers?: readonly JobRef[];
  readonly schedule?: string | null;
  readonly item?: {
    readonly id: string;
    readonly workflow: string;
    readonly identifier: string;
    readonly status: string;
  } | null;
  readonly flow?: string | null;
  readonly enqueuedBy?: { readonly build: string | null; readonly actor?: string | null } | null;
  readonly startBy?: number | null;
  readonly usual?: {
    readonly lowMs: number;
    readonly highMs: number;
    readonly count: number;
  } | null;
  readonly audit?: readonly AuditLine[];
  readonly canRunNow?: boolean;
  readonly blocked: BlockedAt | null;
}

export interface Report {
  readonly seq: number;
  readonly at: number;
  readonly epoch: number;
  readonly kind: "progress" | "log" | "report" | "dropped";
  readonly share?: number;
  readonly text?: string | null;
  readonly name?: string;
  readonly data?: unknown;
  readonly count?: number;
}

export interface Alert {
  readonly id: string;
  readonly rule: string;
  readonly subject: string;
  readonly severity: "info" | "warning" | "critical";
  readonly status: "pending" | "raised" | "resolved";
  readonly message: string;
  readonly sinceAt: number;
  readonly raisedAt: number | null;
  readonly resolvedAt: number | null;
}

export interface Paused {
  readonly at: number;
  readonly by: string;
  readonly reason: string | null;
}

export interface QueueRow {
  readonly queue: string;
  readonly counts: Counts;
  readonly oldestPendingAt: number | null;
  readonly paused: Paused | null;
  readonly running: number;
  /** Of the workers that answer. */
  readonly slots: number;
  /** A worker takes jobs from it, registered or over HTTP. */
  readonly served: boolean;
  readonly concurrency: number | null;
  readonly inPerSecond: number | null;
  readonly outPerSecond: number | null;
  readonly failedHour: number;
  readonly spark: readonly number[];
}

export interface WorkerBrief {
  readonly id: string;
  readonly type: string;
  readonly running: number;
  readonly concurrency: number;
  readonly status: string;
  readonly desiredState: DesiredState;
  readonly liveness: Liveness;
  readonly version: string;
}

export type DesiredState = "run" | "pause" | "drain" | "stop";
export type Liveness = "alive" | "stale" | "hung" | "stopped";

export interface Canary {
  readonly queue: string;
  readonly sentAt: number;
  readonly pickupMs: number | null;
  readonly doneMs: number | null;
  readonly history?: readonly (number | null)[];
}

export interface Overview {
  readonly at: number;
  readonly countedAt: number | null;
  readonly figures: {
    readonly endedPerSecond: number | null;
    readonly usualLow: number | null;
    readonly usualHigh: number | null;
    readonly succeeded: number | null;
    readonly succeededBefore: number | null;
    readonly pickupP50Ms: number | null;
    readonly pickupP99Ms: number | null;
    readonly pending: number;
    readonly running: number;
    readonly slots: number;
    readonly workers: number;
    readonly builds: readonly string[];
    readonly failedHour: number;
    /** Jobs that were taken over from workers that died or froze in the last five minutes. */
    readonly recovered: number;
    readonly errorKinds: number | null;
    readonly errorKindsNew: number | null;
  };
  readonly queues: readonly QueueRow[];
  readonly queuesLeftOut: number;
  readonly workers: readonly WorkerBrief[];
  /** The worst first; as many as fit. */
  readonly alerts: readonly Alert[];
  readonly alertsOpen: Readonly<Record<Alert["severity"], number>>;
  readonly canaries: readonly Canary[];
  readonly failed: readonly JobSummary[];
  readonly isEmpty: boolean;
  readonly pausedAll?: boolean;
}

export interface SeriesPoint {
  readonly at: number;
  readonly arrived: number;
  readonly done: number;
  readonly retried: number | null;
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  readonly pickupP50Ms: number | null;
  readonly pickupP99Ms: number | null;
  readonly pending: number | null;
  readonly worst?: { readonly queue: string; readonly pending: number } | null;
  readonly topError?: string | null;
}

export interface Mark {
  readonly at: number;
  readonly kind: "deploy" | "crash";
  readonly text: string;
  readonly detail: string | null;
  readonly worker?: string | null;
}

export interface Series {
  readonly from: number;
  readonly to: number;
  readonly stepMs: number;
  readonly openAt: number;
  readonly points: readonly SeriesPoint[];
  readonly marks: readonly Mark[];
}

export interface Worker extends WorkerBrief {
  readonly slot: number | null;
  readonly instance: number;
  readonly reason: string | null;
  readonly nodeVersion: string;
  readonly hostname: string;
  readonly pid: number;
  readonly queues: readonly string[];
  readonly tasks: readonly string[];
  readonly startedAt: number;
  readonly heartbeatAt: number;
  readonly silentMs: number;
  readonly staleMs: number;
  readonly leases: number;
  readonly stoppedAt: number | null;
  readonly claimed: number;
  readonly done: number;
  readonly failed: number;
  readonly retried: number;
  readonly leasesLost: number;
  readonly gapMsMax: number;
  readonly loopDelayMs: number;
  readonly memoryBytes: number;
  /** For how long a task had blocked its event loop when the stack was taken; 0: none does. */
  readonly blockedMs: number;
  readonly blockedStack: string | null;
}

export interface UnregisteredWorker {
  readonly id: string;
  readonly kind: "standby" | "leases";
  readonly type: string | null;
  readonly hostname: string | null;
  readonly pid: number | null;
  readonly version: string | null;
  readonly queues: readonly string[];
  readonly startedAt: number;
  readonly heartbeatAt: number;
  readonly silentMs: number;
  readonly leases: number;
}

export interface Lease {
  readonly id: string;
  readonly worker: string;
  readonly queue: string;
  readonly task: string;
  readonly attempt: number;
  readonly claimedAt: number;
  readonly lockedUntil: number;
}
