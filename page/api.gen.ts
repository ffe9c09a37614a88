// The types of the API, written by `node scripts/api-types.ts` from the OpenAPI document. Do not edit it, nor merge it by
// hand: write it again.

export type AcknowledgeAlertRequest = {
  readonly reason?: string;
};

export type AcquireLeasesRequest = {
  /** Must be unique for every start of your process. */
  readonly worker: string;
  readonly queues?: readonly string[];
  readonly tasks?: readonly string[];
  readonly limit?: number;
  /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
  readonly lease?: string | number;
};

export type AcquireLeasesResponse = {
  readonly leases: readonly Lease[];
};

export type AddFlowJobsRequest = {
  readonly jobs: readonly NewFlowJob[];
};

/** A condition that needs attention; raised once and resolved once. */
export type Alert = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly rule: string;
  readonly subject: string;
  readonly severity: "info" | "warning" | "critical";
  readonly status: "pending" | "raised" | "resolved";
  readonly message: string;
  readonly facts: Readonly<Record<string, unknown>>;
  /** Milliseconds since the Unix epoch. */
  readonly sinceAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly seenAt: number;
  readonly raisedAt: number | null;
  readonly resolvedAt: number | null;
  /** When webhooks were last notified; null: not yet, or it is silenced. */
  readonly notifiedAt: number | null;
  readonly acknowledgedAt: number | null;
  readonly acknowledgedBy: string | null;
  /** Webhooks are not notified before; a silence that is over is removed. */
  readonly silencedUntil: number | null;
  readonly silencedBy: string | null;
  /** Why it was acknowledged or silenced last. */
  readonly note: string | null;
};

/** A rule that raises alerts. */
export type AlertRule = {
  readonly name: string;
  readonly severity: "info" | "warning" | "critical";
  /** The condition must hold this long. */
  readonly holdMs: number;
  /** The condition, with the default limits. */
  readonly when: string;
};

/** One attempt to run a job. */
export type Attempt = {
  readonly epoch: number;
  readonly attempt: number;
  readonly worker: string;
  readonly outcome: "running" | "done" | "retry" | "suspended" | "released" | "crashed" | "failed" | "cancelled";
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
  readonly endedAt: number | null;
  readonly traceId: string;
  readonly error: ErrorRecord | null;
};

/** An attempt with the build of its worker. */
export type AttemptOfBuild = {
  readonly epoch: number;
  readonly attempt: number;
  readonly worker: string;
  readonly outcome: "running" | "done" | "retry" | "suspended" | "released" | "crashed" | "failed" | "cancelled";
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
  readonly endedAt: number | null;
  readonly traceId: string;
  readonly error: ErrorRecord | null;
  readonly build: string | null;
  /** The kind of its error, as the list of errors has it. */
  readonly kind: string | null;
};

/** One entry of the audit log. */
export type AuditLine = {
  readonly id: string;
  readonly seq: number;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly actor: string;
  readonly action: string;
  readonly subject: string;
  readonly oldStatus: string | null;
  readonly newStatus: string | null;
  readonly reason: string | null;
  readonly traceId: string | null;
  readonly detail: string | null;
  readonly previousHash: string | null;
  readonly hash: string | null;
};

export type BackingOffFacts = {
  /** Milliseconds since the Unix epoch. */
  readonly until: number;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly error: string | null;
};

export type BehindFacts = {
  readonly queue: string;
  readonly lane: string | null;
  readonly before: number;
  readonly isMore: boolean;
  readonly busy: BusyFacts | null;
};

export type BuildBrief = {
  readonly build: string;
  /** Milliseconds since the Unix epoch. */
  readonly firstAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly lastAt: number;
  readonly done: number;
  /** Jobs that failed for good. */
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  /** Attempts that failed and were followed by another. */
  readonly retried: number;
  /** Attempts whose worker died. */
  readonly crashed: number;
  /** Attempts that ended well or badly. */
  readonly attempts: number;
  /** Of the attempts, 0 to 1; null: there were none. */
  readonly failedShare: number | null;
};

/** What a build changed, against the one before it. */
export type BuildChange = {
  readonly build: string;
  readonly before: string | null;
  readonly is: "worse" | "better" | "same" | "unknown";
  /** In words. Unknown: the numbers are too small to tell. */
  readonly text: string;
};

/** What a build changed, task by task. */
export type BuildReport = {
  readonly build: string;
  /** Milliseconds since the Unix epoch. */
  readonly firstAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly lastAt: number;
  /** The build that was first seen before it. */
  readonly before: string | null;
  readonly done: number;
  /** Jobs that failed for good. */
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  /** Attempts that failed and were followed by another. */
  readonly retried: number;
  /** Attempts whose worker died. */
  readonly crashed: number;
  /** Attempts that ended well or badly. */
  readonly attempts: number;
  /** Of the attempts, 0 to 1; null: there were none. */
  readonly failedShare: number | null;
  /** How long jobs that are done ran; null: unknown. */
  readonly runs: Times | null;
  /** How long jobs waited to be started; null: unknown. */
  readonly pickups: Times | null;
  /** Those that became worse first. */
  readonly tasks: readonly {
    readonly task: string;
    readonly done: number;
    /** Jobs that failed for good. */
    readonly failed: number;
    readonly cancelled: number;
    readonly expired: number;
    /** Attempts that failed and were followed by another. */
    readonly retried: number;
    /** Attempts whose worker died. */
    readonly crashed: number;
    /** Attempts that ended well or badly. */
    readonly attempts: number;
    /** Of the attempts, 0 to 1; null: there were none. */
    readonly failedShare: number | null;
    /** How long jobs that are done ran; null: unknown. */
    readonly runs: Times | null;
    /** How long jobs waited to be started; null: unknown. */
    readonly pickups: Times | null;
    readonly change: BuildChange;
  }[];
};

/** An action on all jobs that match a filter. Workers and servers carry it out in the background; the counts show its progress. */
export type BulkAction = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly action: "retry" | "cancel" | "delete" | "move" | "priority";
  readonly filter: BulkFilter;
  readonly terms: {
    readonly attempts?: number;
    readonly withCalled?: boolean;
    readonly queue?: string;
    readonly priority?: number;
  };
  readonly dryRun: boolean;
  readonly actor: string;
  readonly reason: string | null;
  readonly status: "running" | "done" | "stopped" | "failed";
  readonly looked: number;
  readonly matched: number;
  readonly changed: number;
  readonly refused: number;
  readonly sample: readonly string[];
  readonly refusals: readonly {
    /** The id of a job or an item: a lower-case UUID. */
    readonly id: string;
    readonly code: string;
    readonly message: string;
  }[];
  readonly error: string | null;
  readonly carrier: string | null;
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly changedAt: number;
  readonly endedAt: number | null;
};

/** A job must match all given fields. */
export type BulkFilter = {
  /** Only jobs with one of these statuses. */
  readonly status?: Status | readonly Status[];
  /** Only jobs of this queue. */
  readonly queue?: string;
  /** Only jobs of this task, in all versions unless one is given. */
  readonly task?: string;
  /** Only jobs enqueued with this key. */
  readonly key?: string;
  /** Only jobs whose key begins with this. */
  readonly keyPrefix?: string;
  /** Only jobs with all of these tags. */
  readonly tag?: string | readonly string[];
  /** Only jobs of this lane. */
  readonly lane?: string;
  /** Only jobs that ran or run on this worker. */
  readonly worker?: string;
  /** Only jobs that ran or run on a worker of this build. */
  readonly build?: string;
  /** Only jobs of the flow or batch with this id. */
  readonly flow?: string;
  /** Only jobs that this schedule enqueued. */
  readonly schedule?: string;
  /** Only jobs that failed, or are to be retried, with this kind of error. */
  readonly kind?: string;
  /** Only jobs whose last error has this code or name. */
  readonly code?: string;
  /** Only jobs whose last error has this in its name or message, in upper or lower case. */
  readonly error?: string;
  /** Only jobs whose input, as JSON, has this, in upper or lower case. */
  readonly input?: string;
  /** Only jobs enqueued at or after this time. */
  readonly enqueuedSince?: number;
  /** Only jobs enqueued before this time. */
  readonly enqueuedUntil?: number;
  /** Only jobs whose running or last attempt started since. */
  readonly startedSince?: number;
  /** Only jobs whose running or last attempt started before. */
  readonly startedUntil?: number;
  /** Only jobs that ended at or after this time. */
  readonly endedSince?: number;
  /** Only jobs that ended before this time. */
  readonly endedUntil?: number;
  /** Only jobs with one of these ids, or with ids that begin with this one. */
  readonly id?: string | readonly string[];
  /** Required if no other field is given. */
  readonly all?: boolean;
};

export type BusyFacts = {
  readonly workers: readonly string[];
  readonly places: number;
};

/** A job that only shows that jobs run. */
export type Canary = {
  readonly queue: string;
  /** Milliseconds since the Unix epoch. */
  readonly sentAt: number;
  /** Null: it has not started. */
  readonly pickupMs: number | null;
  /** Null: it has not ended. */
  readonly doneMs: number | null;
};

export type CancelFlowRequest = {
  readonly reason?: string;
};

export type CancelFlowResponse = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly cancelled: number;
};

export type CancelJobRequest = {
  readonly reason?: string;
};

export type CancelJobResponse = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly status: Status;
};

export type CancellingFacts = {
  readonly worker: string;
  /** Milliseconds since the Unix epoch. */
  readonly claimedAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly lockedUntil: number;
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Milliseconds since the Unix epoch. */
  readonly requestedAt: number;
};

export type ChangeChildrenRequest = {
  readonly changes: readonly {
    /** The id of a job or an item: a lower-case UUID. */
    readonly id: string;
    readonly move?: string;
    readonly patch?: Readonly<Record<string, unknown>>;
    /** The revision the change is based on; a different current revision is a conflict. */
    readonly expect?: number;
  }[];
  readonly reason?: string;
};

export type ChangeChildrenResponse = {
  readonly items: readonly Item[];
};

/** Number of child items in a state. */
export type ChildrenIn = {
  readonly workflow: string;
  readonly status: string;
  readonly isFinal: boolean;
  readonly children: number;
};

export type ConcurrencyLimitFacts = {
  readonly queue: string;
  readonly of: "queue" | "lane" | "task";
  /** Of the lane or the task. */
  readonly name: string | null;
  readonly limit: number;
  readonly running: number;
  readonly longest: {
    /** The id of a job or an item: a lower-case UUID. */
    readonly job: string;
    readonly task: string;
    readonly worker: string;
    /** Milliseconds since the Unix epoch. */
    readonly claimedAt: number;
  } | null;
};

/** A lock that is waited for, or was until requests gave up. */
export type ContendedLock = {
  readonly key: string;
  /** Who holds it now; null: it is free. */
  readonly holder: Lock | null;
  /** Requests that wait for it now, in all processes. */
  readonly waiting: number;
  /** The processes in which they wait; the one that waits longest first. */
  readonly waiters: readonly {
    readonly owner: string;
    readonly waiting: number;
    /** Milliseconds since the Unix epoch. */
    readonly since: number;
  }[];
  /** Requests that gave up within the last hour. */
  readonly timeouts: number;
};

export type CountItemsResponse = {
  readonly states: readonly {
    readonly name: string;
    readonly items: number;
    /** There are more than were counted. */
    readonly isMore: boolean;
  }[];
};

export type CountJobsResponse = {
  readonly count: number;
  /** How many jobs were looked at. */
  readonly examined: number;
  /** Whether all jobs were looked at. */
  readonly isComplete: boolean;
  readonly next: string | null;
};

export type CreateScheduleRequest = {
  readonly name: string;
  readonly task: string;
  /** Five fields, or six with seconds first, or a nickname such as @daily. */
  readonly cron?: string;
  /** The IANA name of the time zone of `cron`. Default: UTC. */
  readonly timeZone?: string;
  /** An interval in whole seconds, instead of `cron`. */
  readonly every?: string | number;
  /** Shifts the runs of `every`. */
  readonly offset?: string | number;
  /** The input of its jobs. Default: null. */
  readonly input?: unknown;
  /** Options of its jobs, as for enqueueing. */
  readonly options?: {
    readonly queue?: string;
    readonly priority?: number;
    readonly maxAttempts?: number;
    readonly key?: string;
    /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
    readonly keyFor?: string | number;
    readonly onConflict?: "return" | "replace";
  };
  /** Which missed ticks run: none, the newest, or up to this many of the newest. */
  readonly missed?: "skip" | "once" | {
    readonly all: number;
  };
  /** What happens to a tick while the job of an earlier one has not ended. */
  readonly overlap?: "allow" | "skip" | "queue";
  readonly description?: string;
  readonly paused?: boolean;
  readonly reason?: string;
};
export const createScheduleRequestDefaults = {"overlap":"allow"} as const;

export type DeleteJobRequest = {
  readonly reason?: string;
};

export type DeleteJobResponse = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
};

export type DeleteScheduleRequest = {
  /** Required for a schedule that workers declare in code: it may come back. */
  readonly force?: boolean;
  readonly reason?: string;
};

export type DeleteScheduleResponse = {
  readonly deleted: string;
};

/** A job that another job waits or waited for. */
export type Dependency = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly name: string | null;
  readonly task: string | null;
  /** Null: its record was deleted. */
  readonly status: Status | null;
  readonly onFailed: "fail" | "cancel" | "ignore";
  readonly onCancelled: "fail" | "cancel" | "ignore";
};

/** An effect that started but whose outcome is unknown. */
export type Doubt = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly name: string;
  readonly occurrence: number;
  readonly task: string;
  readonly queue: string;
  /** Milliseconds since the Unix epoch. */
  readonly begunAt: number;
};

export type DrainWorkerRequest = {
  readonly reason?: string;
};

export type DrainWorkerResponse = {
  readonly id: string;
  readonly desiredState: "run" | "pause" | "drain" | "stop";
};

/** Where builds differ. */
export type Drift = {
  /** Worker types with running workers of different builds. */
  readonly workers: readonly {
    readonly type: string;
    readonly versions: readonly string[];
  }[];
  /** Builds that enqueued jobs within the last five minutes but have no running worker. */
  readonly enqueuers: readonly {
    readonly version: string;
    /** Milliseconds since the Unix epoch. */
    readonly firstAt: number;
    /** Milliseconds since the Unix epoch. */
    readonly lastAt: number;
    /** Time since it last enqueued a job; updated once a minute. */
    readonly silentMs: number;
  }[];
};

export type DueFacts = {
  /** Milliseconds since the Unix epoch. */
  readonly dueAt: number;
};

export type EditJobRequest = {
  /** Replaces the input; the old one is kept. */
  readonly input?: unknown;
  /** Higher numbers run first. */
  readonly priority?: number;
  /** Start after this long; 0: at once. */
  readonly delay?: string | number;
  /** Start at this time. */
  readonly runAt?: number;
  /** The queue to move to. */
  readonly queue?: string;
  readonly reason?: string;
};

export type EditJobResponse = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly status: Status;
};

export type EditScheduleRequest = {
  /** Five fields, or six with seconds first, or a nickname such as @daily. */
  readonly cron?: string;
  /** The IANA name of the time zone of `cron`. Default: UTC. */
  readonly timeZone?: string;
  /** An interval in whole seconds, instead of `cron`. */
  readonly every?: string | number;
  /** Shifts the runs of `every`. */
  readonly offset?: string | number;
  /** The input of its jobs. Default: null. */
  readonly input?: unknown;
  /** Options of its jobs, as for enqueueing. */
  readonly options?: {
    readonly queue?: string;
    readonly priority?: number;
    readonly maxAttempts?: number;
    readonly key?: string;
    /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
    readonly keyFor?: string | number;
    readonly onConflict?: "return" | "replace";
  };
  /** Which missed ticks run: none, the newest, or up to this many of the newest. */
  readonly missed?: "skip" | "once" | {
    readonly all: number;
  };
  /** What happens to a tick while the job of an earlier one has not ended. */
  readonly overlap?: "allow" | "skip" | "queue";
  readonly description?: string;
  /** Refuse the change if the schedule has a different revision. */
  readonly revision?: number;
  readonly reason?: string;
};

export type EffectInDoubtFacts = {
  readonly effects: readonly {
    readonly name: string;
    readonly occurrence: number;
    /** Milliseconds since the Unix epoch. */
    readonly begunAt: number;
  }[];
};

export type EmitEventRequest = {
  readonly name: string;
  readonly key: string;
  readonly payload?: unknown;
};

export type EmitEventResponse = {
  readonly first: boolean;
  readonly woken: number;
};

export type EmptyFacts = {
  /** At most 1,000 are counted. */
  readonly running: {
    readonly count: number;
    readonly isMore: boolean;
  };
};

export type EndedFacts = {
  readonly status: "done" | "failed" | "cancelled";
  /** Milliseconds since the Unix epoch. */
  readonly finishedAt: number;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly error: string | null;
};

export type EnqueueBatchRequest = {
  readonly name: string;
  readonly jobs: readonly {
    readonly task: string;
    readonly input?: unknown;
    readonly options?: EnqueueOptions;
  }[];
  readonly callback?: {
    readonly task: string;
    readonly input?: unknown;
    readonly options?: EnqueueOptions;
  };
};

export type EnqueueFlowRequest = {
  readonly name: string;
  readonly jobs: readonly NewFlowJob[];
};

export type EnqueueManyRequest = {
  readonly jobs: readonly NewJob[];
};

export type EnqueueManyResponse = {
  readonly jobs: readonly Enqueued[];
};

/** The same options as the library's `enqueue`. */
export type EnqueueOptions = {
  readonly queue?: string;
  readonly priority?: number;
  /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
  readonly delay?: string | number;
  /** Milliseconds since the Unix epoch. */
  readonly runAt?: number;
  /** Milliseconds since the Unix epoch. */
  readonly startBy?: number;
  /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
  readonly startWithin?: string | number;
  readonly lane?: string;
  readonly maxAttempts?: number;
  readonly key?: string;
  /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
  readonly keyFor?: string | number;
  readonly onConflict?: "return" | "replace" | "reject";
  readonly debounce?: string | number | {
    /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
    readonly wait: string | number;
    /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
    readonly maxWait?: string | number;
  };
  /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
  readonly throttle?: string | number;
  readonly tags?: readonly string[];
  /** The ids of jobs that must end first. */
  readonly after?: readonly string[];
  readonly onFailed?: "fail" | "cancel" | "ignore";
  readonly onCancelled?: "fail" | "cancel" | "ignore";
};

export type EnqueueRequest = {
  readonly task: string;
  readonly input?: unknown;
  readonly options?: EnqueueOptions;
};

/** An accepted job. If `added` is false, it is the existing job with the same key. */
export type Enqueued = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly task: string;
  readonly added: boolean;
  /** Set if no live worker can run the job. Only a server with registered tasks checks this, and only for unregistered tasks. */
  readonly warning?: string;
};

/** An accepted flow with its jobs. */
export type EnqueuedFlow = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly jobs: readonly {
    /** The id of a job or an item: a lower-case UUID. */
    readonly id: string;
    readonly task: string;
    readonly added: boolean;
  }[];
};

/** Errors of one task with the same name, code and message. */
export type ErrorKind = {
  readonly id: string;
  readonly task: string;
  readonly name: string;
  readonly code: string | null;
  /** With … in place of values. */
  readonly message: string;
  readonly state: "open" | "resolved" | "muted";
  /** Jobs that failed for good with it. */
  readonly failed: number;
  /** Attempts that failed with it and were followed by another. */
  readonly retried: number;
  /** Milliseconds since the Unix epoch. */
  readonly firstAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly lastAt: number;
  readonly firstBuild: string | null;
  readonly builds: readonly string[];
  /** The first job that had it. */
  readonly first: {
    /** The id of a job or an item: a lower-case UUID. */
    readonly job: string;
    readonly message: string;
  };
  /** The newest job that had it. */
  readonly sample: {
    /** The id of a job or an item: a lower-case UUID. */
    readonly job: string;
    readonly message: string;
  };
  /** Jobs that failed with it and still are. */
  readonly failedNow: number;
  /** False: at least so many; the newest failed jobs are counted. */
  readonly isFailedNowExact: boolean;
  /** In the time or the build that was asked for; null: all was. */
  readonly within: {
    readonly failed: number;
    readonly retried: number;
  } | null;
  readonly changedAt: number | null;
  readonly changedBy: string | null;
  readonly resolvedIn: string | null;
  readonly cameBackAt: number | null;
  /** First seen within the last 24 hours. */
  readonly isNew: boolean;
  /** Of each of the last 24 hours, oldest first. */
  readonly trend: readonly number[];
};

/** The error of a failed attempt. */
export type ErrorRecord = {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: unknown;
  /** The step that failed, and how long it had run. */
  readonly step?: {
    readonly name: string;
    readonly occurrence: number;
    readonly tookMs: number;
  };
};

export type ExpiredFacts = {
  readonly startBy: number | null;
  readonly finishedAt: number | null;
};

/** Why a job does not run. */
export type Explanation = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "running";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: RunningFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "cancelling";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: CancellingFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "lease-expired";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: LeaseExpiredFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "ended";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: EndedFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "expired";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: ExpiredFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "scheduled";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: ScheduledFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "due";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: DueFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "backing-off";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: BackingOffFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "waits-for-jobs";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: WaitsForJobsFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "waits-for-event";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: WaitsForEventFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "sleeping";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: SleepingFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "effect-in-doubt";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: EffectInDoubtFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "stuck";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: StuckFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "paused";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: PausedFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "no-worker";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: NoWorkerFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "workers-paused";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: WorkersPausedFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "concurrency-limit";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: ConcurrencyLimitFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "rate-limit";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: RateLimitFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "workers-busy";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: BusyFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "behind";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: BehindFacts;
} | {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly reason: "next";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: NextFacts;
};

export type ExtendLeaseRequest = {
  readonly worker: string;
  readonly epoch: number;
  /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
  readonly lease?: string | number;
};

export type ExtendLeaseResponse = {
  /** Milliseconds since the Unix epoch. */
  readonly lockedUntil: number;
  readonly cancelRequested: boolean;
};

export type FindResponse = {
  readonly hits: readonly {
    readonly kind: "job" | "item" | "flow" | "bulk" | "key" | "tag" | "lock" | "queue" | "task" | "worker" | "build" | "schedule" | "workflow";
    readonly id: string;
    readonly text: string;
  }[];
};

/** A problem that a check found, and what to do about it. */
export type Finding = {
  readonly check: string;
  readonly severity: "info" | "warning" | "critical";
  readonly problem: string;
  readonly remedy: string;
  readonly fixable: boolean;
  readonly offenders: readonly {
    readonly subject: string;
    readonly detail: string;
    readonly sinceAt: number | null;
  }[];
  readonly more: boolean;
};

/** A flow or a batch with the state of its jobs. */
export type Flow = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly kind: "flow" | "batch";
  readonly name: string;
  /** The job that runs when all jobs of a batch have ended. */
  readonly callback: string | null;
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number;
  readonly status: "running" | "done" | "failed" | "cancelled";
  readonly total: number;
  readonly done: number;
  readonly failed: number;
  readonly cancelled: number;
  /** Jobs that have not ended. */
  readonly live: number;
  /** Ended jobs whose records were pruned. */
  readonly pruned: number;
};

/** A flow. */
export type FlowDetails = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly kind: "flow" | "batch";
  readonly name: string;
  /** The job that runs when all jobs of a batch have ended. */
  readonly callback: string | null;
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number;
  readonly status: "running" | "done" | "failed" | "cancelled";
  readonly total: number;
  readonly done: number;
  readonly failed: number;
  readonly cancelled: number;
  /** Jobs that have not ended. */
  readonly live: number;
  /** Ended jobs whose records were pruned. */
  readonly pruned: number;
  readonly jobs: readonly FlowJob[];
};

/** A job of a flow. */
export type FlowJob = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly name: string | null;
  readonly task: string;
  readonly queue: string;
  readonly status: Status;
  /** How many jobs it still waits for. */
  readonly missing: number;
  /** The job that it waited for and whose end ended it; null: it ended by itself. */
  readonly endedBy: string | null;
  /** Name and message of its last error. */
  readonly error: string | null;
};

export type GetCountsResponse = {
  /** Milliseconds since the Unix epoch. */
  readonly countedAt: number;
  readonly counts: {
    readonly scheduled: number;
    readonly pending: number;
    readonly processing: number;
    readonly waiting: number;
    readonly retry: number;
    readonly done: number;
    readonly failed: number;
    readonly cancelled: number;
    readonly expired: number;
  };
  readonly total: number;
};

export type GetErrorResponse = {
  readonly group: ErrorKind;
  readonly stack: string | null;
  /** The attempt of the job, and the step that failed; null: the job has no such attempt now. */
  readonly first: {
    readonly epoch: number;
    readonly step: string | null;
  } | null;
  /** The attempt of the job, and the step that failed; null: the job has no such attempt now. */
  readonly newest: {
    readonly epoch: number;
    readonly step: string | null;
  } | null;
};

export type GetItemResponse = {
  readonly item: Item;
  readonly moves: readonly LegalMove[];
  /** Whether this server has the workflow's code and can change the item. */
  readonly movable: boolean;
  readonly progress: readonly ChildrenIn[];
  readonly history: readonly ItemLine[];
};

export type GetJobResponse = {
  readonly job: Job;
  readonly attempts: readonly Attempt[];
  readonly steps: readonly Step[];
  readonly inputs: readonly InputRevision[];
};

export type GetQueueResponse = {
  /** Milliseconds since the Unix epoch. */
  readonly countedAt: number;
  readonly queue: QueueView;
  /** Found within the last few seconds. Null: the database took too long. */
  readonly unclaimable: readonly Unclaimable[] | null;
};

export type GetStatsResponse = {
  /** Milliseconds since the Unix epoch. */
  readonly countedAt: number;
  readonly queues: readonly Queue[];
  readonly minutes: readonly Minute[];
  /** Found within the last few seconds. Null: the database took too long. */
  readonly unclaimable: readonly Unclaimable[] | null;
};

export type GetWorkerResponse = {
  readonly worker: Worker;
} | {
  readonly unregistered: UnregisteredWorker;
};

export type GetWorkflowResponse = {
  readonly workflow: Workflow;
};

export type HealthResponse = {
  readonly status: string;
};

export type HeldFacts = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly because: JobExplanation;
  /** At most 1,000 are counted. */
  readonly pending: {
    readonly count: number;
    readonly isMore: boolean;
  };
};

/** An earlier input of a job. */
export type InputRevision = {
  readonly revision: number;
  readonly input: unknown;
  /** Milliseconds since the Unix epoch. */
  readonly changedAt: number;
};

/** An item of a workflow, with its data. */
export type Item = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly workflow: string;
  readonly type: string;
  readonly tenant: string;
  readonly identifier: string;
  readonly parent: string | null;
  readonly root: string;
  readonly status: string;
  readonly revision: number;
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly updatedAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly enteredAt: number;
  readonly data: unknown;
};

export type ItemHistoryResponse = {
  readonly history: readonly ItemLine[];
  readonly next: number | null;
};

/** One entry of an item's audit trail. */
export type ItemLine = {
  readonly item: string;
  readonly seq: number;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly actor: string;
  readonly action: "start" | "import" | "move" | "update";
  readonly move: string | null;
  readonly oldStatus: string | null;
  readonly newStatus: string;
  readonly revision: number;
  readonly reason: string | null;
  readonly lockWaitMs: number | null;
  readonly traceId: string | null;
  readonly jobs: readonly string[];
  readonly dataHash: string;
  readonly previousHash: string;
  readonly hash: string;
};

/** An item without its data. */
export type ItemSummary = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly workflow: string;
  readonly type: string;
  readonly tenant: string;
  readonly identifier: string;
  readonly parent: string | null;
  readonly root: string;
  readonly status: string;
  readonly revision: number;
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly updatedAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly enteredAt: number;
};

/** A job with its input and result. */
export type Job = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly status: Status;
  readonly priority: number;
  readonly key: string | null;
  /** The lane it was enqueued in. */
  readonly lane: string | null;
  readonly epoch: number;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly crashes: number;
  /** Milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
  readonly dueAt: number | null;
  readonly lockedBy: string | null;
  readonly lockedUntil: number | null;
  readonly claimedAt: number | null;
  readonly heartbeatAt: number | null;
  readonly traceId: string | null;
  readonly finishedAt: number | null;
  readonly lastError: ErrorRecord | null;
  /** The name of an effect in doubt: an operator must record whether it happened. */
  readonly inDoubt: string | null;
  readonly tags: readonly string[];
  readonly input: unknown;
  readonly result?: unknown;
  readonly cancelRequestedAt: number | null;
};

export type JobEventsResponse = {
  readonly reports: readonly Report[];
  readonly next: number | null;
};

export type JobExplanation = {
  readonly reason: "running";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: RunningFacts;
} | {
  readonly reason: "cancelling";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: CancellingFacts;
} | {
  readonly reason: "lease-expired";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: LeaseExpiredFacts;
} | {
  readonly reason: "ended";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: EndedFacts;
} | {
  readonly reason: "expired";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: ExpiredFacts;
} | {
  readonly reason: "scheduled";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: ScheduledFacts;
} | {
  readonly reason: "due";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: DueFacts;
} | {
  readonly reason: "backing-off";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: BackingOffFacts;
} | {
  readonly reason: "waits-for-jobs";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: WaitsForJobsFacts;
} | {
  readonly reason: "waits-for-event";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: WaitsForEventFacts;
} | {
  readonly reason: "sleeping";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: SleepingFacts;
} | {
  readonly reason: "effect-in-doubt";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: EffectInDoubtFacts;
} | {
  readonly reason: "stuck";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: StuckFacts;
} | {
  readonly reason: "paused";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: PausedFacts;
} | {
  readonly reason: "no-worker";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: NoWorkerFacts;
} | {
  readonly reason: "workers-paused";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: WorkersPausedFacts;
} | {
  readonly reason: "concurrency-limit";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: ConcurrencyLimitFacts;
} | {
  readonly reason: "rate-limit";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: RateLimitFacts;
} | {
  readonly reason: "workers-busy";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: BusyFacts;
} | {
  readonly reason: "behind";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: BehindFacts;
} | {
  readonly reason: "next";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: NextFacts;
};

/** Everything about one job. */
export type JobStory = {
  readonly job: Job;
  /** The newest 10, oldest first. */
  readonly attempts: readonly AttemptOfBuild[];
  readonly steps: readonly Step[];
  readonly inputs: readonly InputRevision[];
  readonly explanation: JobExplanation | null;
  readonly startBy: number | null;
  readonly schedule: string | null;
  readonly item: {
    /** The id of a job or an item: a lower-case UUID. */
    readonly id: string;
    readonly workflow: string;
    readonly identifier: string | null;
    readonly status: string;
  } | null;
  readonly flow: string | null;
  readonly dependencies: readonly Dependency[];
  readonly dependents: readonly RelatedJob[];
  /** Jobs it called and waits for now. */
  readonly called: readonly RelatedJob[];
  /** Jobs that called it and wait for it. */
  readonly callers: readonly RelatedJob[];
  /** Four of five recent runs of its task took between these. */
  readonly usual: {
    readonly lowMs: number;
    readonly highMs: number;
    readonly count: number;
  } | null;
  readonly audit: readonly AuditLine[];
  /** Where a task blocks the event loop of the worker that runs it. */
  readonly blocked: {
    readonly ms: number;
    readonly stack: string;
  } | null;
};

/** A job without its input and result. */
export type JobSummary = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly status: Status;
  readonly priority: number;
  readonly key: string | null;
  /** The lane it was enqueued in. */
  readonly lane: string | null;
  readonly epoch: number;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly crashes: number;
  /** Milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
  readonly dueAt: number | null;
  readonly lockedBy: string | null;
  readonly lockedUntil: number | null;
  readonly claimedAt: number | null;
  readonly heartbeatAt: number | null;
  readonly traceId: string | null;
  readonly finishedAt: number | null;
  readonly lastError: ErrorRecord | null;
  /** The name of an effect in doubt: an operator must record whether it happened. */
  readonly inDoubt: string | null;
  readonly tags: readonly string[];
};

/** A lane of a queue: often the jobs of one customer. */
export type Lane = {
  /** Null: the jobs that are in no lane. */
  readonly lane: string | null;
  /** Up to 10,000. */
  readonly pending: number;
  /** More jobs than that are pending. */
  readonly isMore: boolean;
  readonly oldestPendingAt: number | null;
  readonly running: number;
  /** In the last minute; null: too many to be counted. */
  readonly startsPerMinute: number | null;
  /** Its share when lanes take turns. */
  readonly weight: number;
  /** Who paused the lane, when and why; null: it is not paused. */
  readonly paused: {
    /** Milliseconds since the Unix epoch. */
    readonly at: number;
    readonly by: string;
    readonly reason: string | null;
  } | null;
};

/** The lanes of a queue. */
export type Lanes = {
  /** Milliseconds since the Unix epoch. */
  readonly countedAt: number;
  /** False: of more than two million pending jobs, the lanes at the end of the alphabet were not counted. */
  readonly isComplete: boolean;
  readonly lanes: readonly Lane[];
  /** Of all lanes with pending jobs that were counted. */
  readonly total: {
    readonly lanes: number;
    readonly pending: number;
    readonly isMore: boolean;
  };
};

/** A job claimed until `lockedUntil`. Send `worker` and `epoch` with every later request about it. */
export type Lease = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly worker: string;
  readonly epoch: number;
  readonly queue: string;
  readonly task: string;
  readonly input: unknown;
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Milliseconds since the Unix epoch. */
  readonly lockedUntil: number;
};

export type LeaseExpiredFacts = {
  readonly worker: string;
  /** Milliseconds since the Unix epoch. */
  readonly claimedAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly lockedUntil: number;
  readonly attempt: number;
  readonly maxAttempts: number;
};

/** A claimed job, its worker, and when the lease expires. */
export type LeaseRecord = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly worker: string;
  readonly epoch: number;
  readonly queue: string;
  readonly task: string;
  readonly attempt: number;
  readonly traceId: string;
  /** Milliseconds since the Unix epoch. */
  readonly claimedAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly heartbeatAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly lockedUntil: number;
  readonly cancelRequestedAt: number | null;
};

/** A move that leads on from the item's state. */
export type LegalMove = {
  readonly name: string;
  readonly to: string;
  /** What the guard says if the data stays as it is; null: this server does not have the workflow's code. */
  readonly allowed: boolean | null;
  /** Why the guard refuses. */
  readonly why: string | null;
};

/** A limit, and how many jobs run under it. */
export type LimitInUse = {
  readonly queue: string;
  /** Of the queue, of each of its lanes, of one lane, or of one task in it. */
  readonly kind: "queue" | "lanes" | "lane" | "task";
  /** Of the lane or the task. */
  readonly name: string | null;
  readonly concurrency: number | null;
  readonly rate: {
    readonly count: number;
    readonly periodMs: number;
    readonly burst: number;
  } | null;
  /** Of each lane: in the lane with the most. */
  readonly inUse: number;
};

export type ListAlertRulesResponse = {
  readonly rules: readonly AlertRule[];
};

export type ListAlertsResponse = {
  readonly alerts: readonly Alert[];
  readonly open: {
    /** Silenced ones too. */
    readonly raised: number;
    /** Their conditions have not held for long enough. */
    readonly pending: number;
    readonly silenced: number;
  };
};

export type ListAttemptsResponse = {
  readonly attempts: readonly Attempt[];
  readonly next: number | null;
};

export type ListAuditResponse = {
  readonly lines: readonly AuditLine[];
};

export type ListBuildsResponse = {
  readonly builds: readonly BuildBrief[];
};

export type ListBulkResponse = {
  readonly actions: readonly BulkAction[];
  readonly next: string | null;
};

export type ListContendedLocksResponse = {
  readonly locks: readonly ContendedLock[];
};

export type ListDependenciesResponse = {
  readonly flow: string | null;
  readonly dependencies: readonly Dependency[];
  readonly dependents: readonly string[];
};

export type ListEffectsResponse = {
  readonly effects: readonly Doubt[];
};

export type ListErrorsResponse = {
  readonly counts: {
    readonly open: number;
    readonly resolved: number;
    readonly muted: number;
    readonly new: number;
  };
  readonly groups: readonly ErrorKind[];
  readonly isAll: boolean;
};

export type ListFindingsResponse = {
  readonly at: number | null;
  readonly findings: readonly Finding[];
};

export type ListFlowEdgesResponse = {
  readonly edges: readonly {
    /** The id of a job or an item: a lower-case UUID. */
    readonly job: string;
    /** The job that it waits for. */
    readonly on: string;
  }[];
  readonly isAll: boolean;
};

export type ListFlowJobsResponse = {
  readonly jobs: readonly FlowJob[];
};

export type ListFlowsResponse = {
  readonly flows: readonly Flow[];
};

export type ListItemsResponse = {
  readonly items: readonly ItemSummary[];
  readonly next: string | null;
};

export type ListJobsResponse = {
  readonly jobs: readonly JobSummary[];
  /** How many jobs were looked at. */
  readonly examined: number;
  /** Whether all jobs were looked at. */
  readonly isComplete: boolean;
  readonly next: string | null;
};

export type ListLeasesResponse = {
  readonly leases: readonly LeaseRecord[];
  readonly next: string | null;
};

export type ListLimitsResponse = {
  readonly limits: readonly LimitInUse[];
};

export type ListLocksResponse = {
  readonly locks: readonly Lock[];
};

export type ListQueuesResponse = {
  /** Milliseconds since the Unix epoch. */
  readonly countedAt: number;
  readonly queues: readonly QueueView[];
};

export type ListScheduleRunsResponse = {
  readonly runs: readonly ScheduleRun[];
};

export type ListSchedulesResponse = {
  readonly schedules: readonly ListedSchedule[];
};

export type ListTaskInputsResponse = {
  readonly inputs: readonly TaskInput[];
  /** How many jobs were looked at. */
  readonly examined: number;
  /** Whether all jobs were looked at. */
  readonly isComplete: boolean;
  readonly next: string | null;
};

export type ListTasksResponse = {
  readonly tasks: readonly TaskInfo[];
};

export type ListTokensResponse = {
  readonly tokens: readonly Token[];
};

export type ListWorkerTypesResponse = {
  readonly types: readonly WorkerType[];
};

export type ListWorkersResponse = {
  readonly workers: readonly Worker[];
  readonly unregistered: readonly UnregisteredWorker[];
};

export type ListWorkflowsResponse = {
  readonly workflows: readonly Workflow[];
};

/** A schedule in a list. */
export type ListedSchedule = {
  readonly name: string;
  readonly task: string;
  readonly input: unknown;
  readonly options: Readonly<Record<string, unknown>>;
  readonly cron: string | null;
  readonly timeZone: string | null;
  readonly everyMs: number | null;
  readonly offsetMs: number | null;
  /** The timing in words. */
  readonly words: string;
  /** Which missed ticks run: none, the newest, or up to this many of the newest. */
  readonly missed: "skip" | "once" | {
    readonly all: number;
  };
  readonly overlap: "allow" | "skip" | "queue";
  readonly description: string | null;
  /** Null: it is paused, or never runs again. */
  readonly nextAt: number | null;
  /** The last tick that was handled. */
  readonly lastAt: number | null;
  readonly pausedAt: number | null;
  readonly pausedBy: string | null;
  /** The name of the workers whose code declares it; null: created at run time. */
  readonly declaredBy: string | null;
  readonly revision: number;
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly updatedAt: number;
  /** Missed ticks that were skipped. */
  readonly missedCount: number;
  /** Runs that wait for the end of an earlier job. */
  readonly queuedCount: number;
  /** Why its last tick could not be handled. */
  readonly error: string | null;
  readonly errorAt: number | null;
  /** Newest first, if they were wanted. */
  readonly runs?: readonly ScheduleRun[];
};

export type LiveResponse = {
  readonly status: string;
};

/** A held lock. */
export type Lock = {
  readonly key: string;
  readonly token: number;
  readonly owner: string;
  readonly trace: string | null;
  /** Milliseconds since the Unix epoch. */
  readonly acquiredAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly expiresAt: number;
  readonly expiresInMs: number;
};

/** Waits for locks over time, by type. */
export type LockHeat = {
  /** Milliseconds since the Unix epoch. */
  readonly from: number;
  /** Milliseconds since the Unix epoch. */
  readonly to: number;
  readonly stepMs: number;
  readonly types: readonly ({
    readonly type: string;
    readonly acquisitions: number;
    readonly timeouts: number;
    readonly heldMsMax: number;
    readonly p50Ms: number | null;
    readonly p99Ms: number | null;
    readonly cells: readonly {
      /** Milliseconds since the Unix epoch. */
      readonly at: number;
      readonly acquisitions: number;
      readonly timeouts: number;
      readonly p99Ms: number | null;
    }[];
  })[];
};

/** Lock statistics by type. */
export type LockStats = {
  readonly types: readonly ({
    readonly type: string;
    readonly acquisitions: number;
    readonly timeouts: number;
    readonly waitMs: {
      readonly average: number;
      readonly p50: number;
      readonly p95: number;
      readonly p99: number;
    } | null;
    readonly heldMsMax: number;
  })[];
  readonly minutes: readonly ({
    readonly type: string;
    readonly acquisitions: number;
    readonly timeouts: number;
    readonly waitMs: {
      readonly average: number;
      readonly p50: number;
      readonly p95: number;
      readonly p99: number;
    } | null;
    readonly heldMsMax: number;
    /** Milliseconds since the Unix epoch. */
    readonly minute: number;
  })[];
  readonly partial: boolean;
};

/** When a build was first seen, or a worker was found dead. */
export type Mark = {
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly kind: "deploy" | "crash";
  readonly text: string;
  readonly detail: string;
  readonly worker: string | null;
};

/** A JSON-RPC 2.0 message. See https://modelcontextprotocol.io/specification/2026-07-28. */
export type McpMessage = unknown;

/** Totals of a queue for one minute. */
export type Minute = {
  /** Milliseconds since the Unix epoch. */
  readonly minute: number;
  readonly queue: string;
  readonly arrived: number;
  readonly done: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  readonly runMsSum: number;
  readonly runMsMax: number;
};

export type MoveItemRequest = {
  readonly move: string;
  readonly patch?: Readonly<Record<string, unknown>>;
  /** The revision the change is based on; a different current revision is a conflict. */
  readonly expect?: number;
  readonly reason?: string;
};

export type MoveItemResponse = {
  readonly item: Item;
};

export type MovingFacts = {
  /** At most 1,000 are counted. */
  readonly running: {
    readonly count: number;
    readonly isMore: boolean;
  };
  /** At most 1,000 are counted. */
  readonly pending: {
    readonly count: number;
    readonly isMore: boolean;
  };
};

export type MuteErrorRequest = {
  readonly reason?: string;
};

export type MuteErrorResponse = {
  readonly group: ErrorKind;
  readonly changed: boolean;
};

/** At most 200 of each. */
export type Names = {
  readonly queues: readonly string[];
  readonly tasks: readonly string[];
  readonly tags: readonly string[];
  readonly workers: readonly string[];
  readonly builds: readonly string[];
  readonly schedules: readonly string[];
  readonly workflows: readonly string[];
};

/** A job of a flow. Without an input, the input is null. */
export type NewFlowJob = {
  /** Unique in the flow. */
  readonly name: string;
  readonly task: string;
  readonly input?: unknown;
  /** The names of jobs of the flow, or ids of jobs, that must end first. */
  readonly after?: readonly string[];
  readonly options?: {
    readonly queue?: string;
    readonly priority?: number;
    /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
    readonly delay?: string | number;
    /** Milliseconds since the Unix epoch. */
    readonly runAt?: number;
    /** Milliseconds since the Unix epoch. */
    readonly startBy?: number;
    /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
    readonly startWithin?: string | number;
    readonly lane?: string;
    readonly maxAttempts?: number;
    readonly key?: string;
    /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
    readonly keyFor?: string | number;
    readonly onConflict?: "return" | "replace" | "reject";
    readonly debounce?: string | number | {
      /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
      readonly wait: string | number;
      /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
      readonly maxWait?: string | number;
    };
    /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
    readonly throttle?: string | number;
    readonly tags?: readonly string[];
    readonly onFailed?: "fail" | "cancel" | "ignore";
    readonly onCancelled?: "fail" | "cancel" | "ignore";
  };
};

/** Runs the task with the input. Without one, the input is null. */
export type NewJob = {
  readonly task: string;
  readonly input?: unknown;
  readonly options?: EnqueueOptions;
};

export type NextFacts = {
  readonly queue: string;
};

export type NoWorkerFacts = {
  readonly missing: "worker" | "queue" | "task" | "version";
  readonly queue: string;
  readonly task: string | null;
  /** A worker that could run it, but counts as dead. */
  readonly silent: {
    readonly worker: string;
    /** Milliseconds since the Unix epoch. */
    readonly heartbeatAt: number;
  } | null;
  /** The queues in which live workers know the task, or the versions that they know. */
  readonly known: readonly string[];
};

export type OpenapiResponse = {
  readonly openapi: string;
};

/** How the service is. */
export type Overview = {
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly status: ServiceStatus;
  /** Milliseconds since the Unix epoch. */
  readonly countedAt: number;
  readonly figures: {
    /** In the last whole minute. */
    readonly endedPerSecond: number;
    /** Four of five quarters of an hour of the last day are between these. */
    readonly usualLow: number | null;
    readonly usualHigh: number | null;
    /** The share in the last hour, 0 to 1. */
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
    /** Jobs of workers that died or froze in the last five minutes. */
    readonly recovered: number;
    readonly errorKinds: number;
    readonly errorKindsNew: number;
  };
  readonly queues: readonly OverviewQueue[];
  readonly queuesLeftOut: number;
  readonly workers: readonly OverviewWorker[];
  /** The worst first, at most 20. */
  readonly alerts: readonly Alert[];
  /** By severity without the silenced ones. */
  readonly alertsOpen: {
    readonly critical: number;
    readonly warning: number;
    readonly info: number;
    readonly silenced: number;
  };
  readonly canaries: readonly Canary[];
  readonly failed: readonly JobSummary[];
  readonly isEmpty: boolean;
  readonly pausedAll: boolean;
};

/** A queue with its work and its workers. */
export type OverviewQueue = {
  readonly queue: string;
  readonly counts: {
    readonly scheduled: number;
    readonly pending: number;
    readonly processing: number;
    readonly waiting: number;
    readonly retry: number;
    readonly done: number;
    readonly failed: number;
    readonly cancelled: number;
    readonly expired: number;
  };
  readonly oldestPendingAt: number | null;
  /** Who paused the queue, when and why; null: it is not paused. */
  readonly paused: {
    /** Milliseconds since the Unix epoch. */
    readonly at: number;
    readonly by: string;
    readonly reason: string | null;
    /** It was paused together with all others, and is resumed with them. */
    readonly isOfAll: boolean;
  } | null;
  readonly running: number;
  /** Of all workers that serve the queue and answer. */
  readonly slots: number;
  /** Whether a worker takes jobs from it. */
  readonly served: boolean;
  /** The limit of the queue; null: none. */
  readonly concurrency: number | null;
  readonly inPerSecond: number;
  readonly outPerSecond: number;
  readonly failedHour: number;
  /** Jobs that ended in every two minutes of the last hour, oldest first. */
  readonly spark: readonly number[];
};

/** A worker with its jobs. */
export type OverviewWorker = {
  readonly id: string;
  readonly type: string;
  readonly running: number;
  readonly concurrency: number;
  readonly status: "starting" | "running" | "stopping" | "stopped";
  readonly desiredState: "run" | "pause" | "drain" | "stop";
  readonly liveness: "alive" | "stale" | "hung" | "stopped";
  readonly version: string;
};

export type PauseAllQueuesRequest = {
  readonly reason?: string;
};

export type PauseAllQueuesResponse = {
  /** Those that were changed, by name. */
  readonly queues: readonly string[];
  /** Those that are paused now. */
  readonly paused: readonly string[];
};

export type PauseQueueRequest = {
  /** One lane of the queue; default: the whole queue. */
  readonly lane?: string;
  readonly reason?: string;
};

export type PauseScheduleRequest = {
  readonly reason?: string;
};

export type PauseWorkerRequest = {
  readonly reason?: string;
};

export type PauseWorkerResponse = {
  readonly id: string;
  readonly desiredState: "run" | "pause" | "drain" | "stop";
};

export type PausedFacts = {
  readonly queue: string;
  /** Null: the whole queue is paused. */
  readonly lane: string | null;
  readonly by: string;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly why: string | null;
};

export type PreviewBulkRequest = {
  readonly action: "retry" | "cancel" | "delete" | "move" | "priority";
  readonly filter: BulkFilter;
  /** Retry: additional attempts. Default: 3. */
  readonly attempts?: number;
  /** Retry: whether to also retry called jobs whose failure caused a job to fail. */
  readonly withCalled?: boolean;
  /** Move: the new queue. */
  readonly queue?: string;
  /** Priority: the new priority. */
  readonly priority?: number;
  readonly reason?: string;
};

export type PreviewBulkResponse = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly token: string;
  readonly preview: BulkAction;
};

export type PreviewScheduleResponse = {
  readonly words: string;
  readonly nextRuns: readonly number[];
  /** How the clock's next change moves one of its runs. */
  readonly clock: string | null;
};

/** A problem document (RFC 9457). */
export type Problem = {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: string;
  readonly field?: string;
  readonly requestId: string;
};

/** Job counts of a queue by status. */
export type Queue = {
  readonly queue: string;
  readonly counts: {
    readonly scheduled: number;
    readonly pending: number;
    readonly processing: number;
    readonly waiting: number;
    readonly retry: number;
    readonly done: number;
    readonly failed: number;
    readonly cancelled: number;
    readonly expired: number;
  };
  readonly oldestPendingAt: number | null;
};

/** Why the jobs of a queue do not start. */
export type QueueExplanation = {
  readonly queue: string;
  readonly reason: "empty";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: EmptyFacts;
} | {
  readonly queue: string;
  readonly reason: "paused";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: PausedFacts;
} | {
  readonly queue: string;
  readonly reason: "no-worker";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: NoWorkerFacts;
} | {
  readonly queue: string;
  readonly reason: "workers-paused";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: WorkersPausedFacts;
} | {
  readonly queue: string;
  readonly reason: "concurrency-limit";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: ConcurrencyLimitFacts;
} | {
  readonly queue: string;
  readonly reason: "rate-limit";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: RateLimitFacts;
} | {
  readonly queue: string;
  readonly reason: "workers-busy";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: BusyFacts;
} | {
  readonly queue: string;
  readonly reason: "held";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: HeldFacts;
} | {
  readonly queue: string;
  readonly reason: "moving";
  /** The reason in English, with its facts. */
  readonly sentence: string;
  readonly facts: MovingFacts;
};

/** The settings of a queue. */
export type QueueSettings = {
  readonly name: string;
  /** Who paused the queue, when and why; null: it is not paused. */
  readonly paused: {
    /** Milliseconds since the Unix epoch. */
    readonly at: number;
    readonly by: string;
    readonly reason: string | null;
    /** It was paused together with all others, and is resumed with them. */
    readonly isOfAll: boolean;
  } | null;
  readonly ageingMs: number | null;
  readonly limits: {
    /** Maximum number of running jobs in all processes; null: no limit. */
    readonly concurrency: number | null;
    readonly rate: {
      readonly count: number;
      readonly periodMs: number;
      readonly burst: number;
    } | null;
  };
  readonly eachLane: {
    /** Maximum number of running jobs in all processes; null: no limit. */
    readonly concurrency: number | null;
    readonly rate: {
      readonly count: number;
      readonly periodMs: number;
      readonly burst: number;
    } | null;
  };
  readonly lanes: Readonly<Record<string, {
    /** Maximum number of running jobs in all processes; null: no limit. */
    readonly concurrency: number | null;
    readonly rate: {
      readonly count: number;
      readonly periodMs: number;
      readonly burst: number;
    } | null;
    readonly weight: number;
    /** Who paused the lane, when and why; null: it is not paused. */
    readonly paused: {
      /** Milliseconds since the Unix epoch. */
      readonly at: number;
      readonly by: string;
      readonly reason: string | null;
    } | null;
  }>>;
  readonly tasks: Readonly<Record<string, {
    /** Maximum number of running jobs in all processes; null: no limit. */
    readonly concurrency: number | null;
    readonly rate: {
      readonly count: number;
      readonly periodMs: number;
      readonly burst: number;
    } | null;
  }>>;
};

/** The settings of a queue that was paused or resumed. */
export type QueueState = {
  readonly name: string;
  /** Who paused the queue, when and why; null: it is not paused. */
  readonly paused: {
    /** Milliseconds since the Unix epoch. */
    readonly at: number;
    readonly by: string;
    readonly reason: string | null;
    /** It was paused together with all others, and is resumed with them. */
    readonly isOfAll: boolean;
  } | null;
  readonly ageingMs: number | null;
  readonly limits: {
    /** Maximum number of running jobs in all processes; null: no limit. */
    readonly concurrency: number | null;
    readonly rate: {
      readonly count: number;
      readonly periodMs: number;
      readonly burst: number;
    } | null;
  };
  readonly eachLane: {
    /** Maximum number of running jobs in all processes; null: no limit. */
    readonly concurrency: number | null;
    readonly rate: {
      readonly count: number;
      readonly periodMs: number;
      readonly burst: number;
    } | null;
  };
  readonly lanes: Readonly<Record<string, {
    /** Maximum number of running jobs in all processes; null: no limit. */
    readonly concurrency: number | null;
    readonly rate: {
      readonly count: number;
      readonly periodMs: number;
      readonly burst: number;
    } | null;
    readonly weight: number;
    /** Who paused the lane, when and why; null: it is not paused. */
    readonly paused: {
      /** Milliseconds since the Unix epoch. */
      readonly at: number;
      readonly by: string;
      readonly reason: string | null;
    } | null;
  }>>;
  readonly tasks: Readonly<Record<string, {
    /** Maximum number of running jobs in all processes; null: no limit. */
    readonly concurrency: number | null;
    readonly rate: {
      readonly count: number;
      readonly periodMs: number;
      readonly burst: number;
    } | null;
  }>>;
  /** False: it already was as was wanted. */
  readonly changed: boolean;
};

/** A queue with its job counts by status, and its settings. */
export type QueueView = {
  readonly queue: string;
  readonly counts: {
    readonly scheduled: number;
    readonly pending: number;
    readonly processing: number;
    readonly waiting: number;
    readonly retry: number;
    readonly done: number;
    readonly failed: number;
    readonly cancelled: number;
    readonly expired: number;
  };
  readonly oldestPendingAt: number | null;
  /** Null: it has none. */
  readonly settings: QueueSettings | null;
};

export type RateLimitFacts = {
  readonly queue: string;
  readonly of: "queue" | "lane" | "task";
  /** Of the lane or the task. */
  readonly name: string | null;
  readonly count: number;
  readonly periodMs: number;
  /** Milliseconds since the Unix epoch. */
  readonly freeAt: number;
};

export type ReadyResponse = {
  readonly status: string;
};

export type RelatedJob = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly task: string;
  readonly status: Status;
};

export type ReleaseLockRequest = {
  readonly key: string;
  readonly reason?: string;
};

export type ReleaseLockResponse = {
  readonly lock: Lock;
};

export type ReopenErrorRequest = {
  readonly reason?: string;
};

export type ReopenErrorResponse = {
  readonly group: ErrorKind;
  readonly changed: boolean;
};

export type ReplayJobRequest = {
  /** Instead of the input of the old job. */
  readonly input?: unknown;
  readonly reason?: string;
};

export type ReplayJobResponse = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly task: string;
  /** The id of a job or an item: a lower-case UUID. */
  readonly replayOf: string;
};

/** Progress, a log line or a custom report of a job. */
export type Report = {
  readonly seq: number;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly epoch: number;
  readonly kind: "progress";
  readonly share: number;
  readonly done: number | null;
  readonly total: number | null;
  readonly text: string | null;
} | {
  readonly seq: number;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly epoch: number;
  readonly kind: "log";
  readonly level: "info" | "warn" | "error";
  readonly text: string;
  readonly data?: unknown;
} | {
  readonly seq: number;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly epoch: number;
  readonly kind: "report";
  readonly name: string;
  readonly data?: unknown;
} | {
  readonly seq: number;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly epoch: number;
  readonly kind: "dropped";
  readonly count: number;
};

export type RerunJobRequest = {
  /** The step to start from; null: the beginning. */
  readonly from: string | {
    readonly name: string;
    readonly occurrence: number;
  } | null;
  /** `confirm` of the plan: the steps that may happen again. */
  readonly confirm?: readonly string[];
  /** Replaces the input. */
  readonly input?: unknown;
  readonly attempts?: number;
  readonly reason?: string;
};

export type RerunJobResponse = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly status: Status;
};

/** Which steps would keep their results and which would run again. `confirm` names those that change something outside the job. */
export type RerunPlan = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
  readonly from: {
    readonly name: string;
    readonly occurrence: number;
  } | null;
  readonly keeps: readonly {
    readonly name: string;
    readonly occurrence: number;
    readonly kind: "step" | "effect" | "commit" | "sleep" | "event" | "call";
    readonly status: "begun" | "done" | "failed" | "doubt";
  }[];
  readonly repeats: readonly {
    readonly name: string;
    readonly occurrence: number;
    readonly kind: "step" | "effect" | "commit" | "sleep" | "event" | "call";
    readonly status: "begun" | "done" | "failed" | "doubt";
  }[];
  readonly confirm: readonly string[];
};

export type ResetExpiredLeasesRequest = {
  /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
  readonly grace?: string | number;
  readonly limit?: number;
};

export type ResetExpiredLeasesResponse = {
  readonly jobs: readonly {
    /** The id of a job or an item: a lower-case UUID. */
    readonly id: string;
    readonly worker: string;
    readonly epoch: number;
    readonly status: Status;
  }[];
};

export type ResolveDoubtRequest = {
  readonly name: string;
  readonly occurrence?: number;
  readonly done: boolean;
  readonly result?: unknown;
  readonly reason?: string;
};

export type ResolveDoubtResponse = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly done: boolean;
};

export type ResolveErrorRequest = {
  /** It stays resolved until a build that was not known to have it has it. */
  readonly inBuild?: string;
  readonly reason?: string;
};

export type ResolveErrorResponse = {
  readonly group: ErrorKind;
  readonly changed: boolean;
};

export type ResumeAllQueuesRequest = {
  readonly reason?: string;
};

export type ResumeAllQueuesResponse = {
  /** Those that were changed, by name. */
  readonly queues: readonly string[];
  /** Those that are paused now. */
  readonly paused: readonly string[];
};

export type ResumeBulkRequest = {
  readonly reason?: string;
};

export type ResumeQueueRequest = {
  /** One lane of the queue; default: the whole queue. */
  readonly lane?: string;
  readonly reason?: string;
};

export type ResumeScheduleRequest = {
  readonly reason?: string;
};

export type ResumeWorkerRequest = {
  readonly reason?: string;
};

export type ResumeWorkerResponse = {
  readonly id: string;
  readonly desiredState: "run" | "pause" | "drain" | "stop";
};

export type RetryFlowRequest = {
  readonly attempts?: number;
  readonly reason?: string;
};

export type RetryFlowResponse = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly retried: number;
};

export type RetryJobRequest = {
  /** Replaces the input. */
  readonly input?: unknown;
  readonly attempts?: number;
  /** Whether to also retry called jobs whose failure caused this job to fail. If omitted, the retry of such a job is refused. */
  readonly withCalled?: boolean;
  readonly reason?: string;
};

export type RetryJobResponse = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly status: Status;
  readonly called: readonly string[];
};

export type RevokeTokenRequest = {
  readonly reason?: string;
};

export type RevokeTokenResponse = {
  readonly revoked: string;
};

export type RunJobNowRequest = {
  readonly reason?: string;
};

export type RunJobNowResponse = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly status: Status;
};

export type RunScheduleRequest = {
  readonly reason?: string;
};

export type RunScheduleResponse = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly job: string;
};

export type RunningFacts = {
  readonly worker: string;
  /** Milliseconds since the Unix epoch. */
  readonly claimedAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly lockedUntil: number;
  readonly attempt: number;
  readonly maxAttempts: number;
};

/** What to enqueue, and when. */
export type Schedule = {
  readonly name: string;
  readonly task: string;
  readonly input: unknown;
  readonly options: Readonly<Record<string, unknown>>;
  readonly cron: string | null;
  readonly timeZone: string | null;
  readonly everyMs: number | null;
  readonly offsetMs: number | null;
  /** The timing in words. */
  readonly words: string;
  /** Which missed ticks run: none, the newest, or up to this many of the newest. */
  readonly missed: "skip" | "once" | {
    readonly all: number;
  };
  readonly overlap: "allow" | "skip" | "queue";
  readonly description: string | null;
  /** Null: it is paused, or never runs again. */
  readonly nextAt: number | null;
  /** The last tick that was handled. */
  readonly lastAt: number | null;
  readonly pausedAt: number | null;
  readonly pausedBy: string | null;
  /** The name of the workers whose code declares it; null: created at run time. */
  readonly declaredBy: string | null;
  readonly revision: number;
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly updatedAt: number;
  /** Missed ticks that were skipped. */
  readonly missedCount: number;
  /** Runs that wait for the end of an earlier job. */
  readonly queuedCount: number;
  /** Why its last tick could not be handled. */
  readonly error: string | null;
  readonly errorAt: number | null;
};

export type ScheduleCalendarResponse = {
  /** Milliseconds since the Unix epoch. */
  readonly from: number;
  /** Milliseconds since the Unix epoch. */
  readonly until: number;
  readonly schedules: readonly {
    readonly name: string;
    readonly words: string;
    /** Empty: it never runs in this time, or too often. */
    readonly ticks: readonly number[];
    /** It runs more than 24 times, which are not listed. */
    readonly isDense: boolean;
  }[];
  /** At most 200 schedules are looked at. */
  readonly isAll: boolean;
};

/** A schedule with its next and its last runs. */
export type ScheduleDetails = {
  readonly name: string;
  readonly task: string;
  readonly input: unknown;
  readonly options: Readonly<Record<string, unknown>>;
  readonly cron: string | null;
  readonly timeZone: string | null;
  readonly everyMs: number | null;
  readonly offsetMs: number | null;
  /** The timing in words. */
  readonly words: string;
  /** Which missed ticks run: none, the newest, or up to this many of the newest. */
  readonly missed: "skip" | "once" | {
    readonly all: number;
  };
  readonly overlap: "allow" | "skip" | "queue";
  readonly description: string | null;
  /** Null: it is paused, or never runs again. */
  readonly nextAt: number | null;
  /** The last tick that was handled. */
  readonly lastAt: number | null;
  readonly pausedAt: number | null;
  readonly pausedBy: string | null;
  /** The name of the workers whose code declares it; null: created at run time. */
  readonly declaredBy: string | null;
  readonly revision: number;
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly updatedAt: number;
  /** Missed ticks that were skipped. */
  readonly missedCount: number;
  /** Runs that wait for the end of an earlier job. */
  readonly queuedCount: number;
  /** Why its last tick could not be handled. */
  readonly error: string | null;
  readonly errorAt: number | null;
  /** The next five ticks. */
  readonly nextRuns: readonly number[];
  /** How the clock's next change moves one of its runs. */
  readonly clock: string | null;
  /** The last five runs, newest first. */
  readonly runs: readonly ScheduleRun[];
};

/** What happened at a tick. */
export type ScheduleRun = {
  readonly schedule: string;
  /** When it was due; for a manual run, when it was requested. */
  readonly tick: number;
  readonly manual: boolean;
  readonly outcome: "enqueued" | "joined" | "queued" | "skipped";
  readonly job: string | null;
  /** Of the job; null: there is none. */
  readonly status: Status | null;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
};

export type ScheduledFacts = {
  /** Milliseconds since the Unix epoch. */
  readonly dueAt: number;
};

/** Figures over time; a step that was never counted is missing. */
export type Series = {
  /** Milliseconds since the Unix epoch. */
  readonly from: number;
  /** Milliseconds since the Unix epoch. */
  readonly to: number;
  readonly stepMs: number;
  /** Steps that end later are not over: their figures grow. */
  readonly openAt: number;
  readonly points: readonly SeriesPoint[];
  readonly marks: readonly Mark[];
};

/** One step of a chart. */
export type SeriesPoint = {
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly arrived: number;
  readonly done: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  readonly retried: number;
  readonly crashed: number;
  readonly runMsSum: number;
  readonly runMsMax: number;
  readonly pickupP50Ms: number | null;
  readonly pickupP99Ms: number | null;
  readonly pending: number | null;
};

/** Whether all is well, and if not, what is wrong. */
export type ServiceStatus = {
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  /** There is no finding. */
  readonly isWell: boolean;
  /** The worst first. */
  readonly findings: readonly StatusFinding[];
  /** Workers that answer. */
  readonly workers: number;
  readonly queues: number;
  readonly pending: number;
  readonly running: number;
};

/** Who sent the request, and to which server. */
export type Session = {
  readonly principal: {
    readonly name: string;
    readonly role: "viewer" | "operator";
    /** A token in the request, the cookie of a session, no token at all because none exists yet, or the application that serves the dashboard. */
    readonly via: "token" | "cookie" | "open" | "app";
  };
  readonly canSignOut: boolean;
  /** The version of Holdfast. */
  readonly version: string;
  /** The build of the application that runs the server. */
  readonly build: string;
  readonly engine: "sqlite" | "postgres" | "mysql";
  /** The database's kind and version, for people. */
  readonly database: string;
  /** The database's name. */
  readonly site: string | null;
  /** A round trip to the database. */
  readonly latencyMs: number | null;
  /** The database's clock; the server's, if it is unknown. */
  readonly now: number;
  /** Whether redaction rules hide parts of data. */
  readonly redacts: boolean;
};

export type SetQueueRequest = {
  readonly concurrency?: number | null;
  readonly rate?: {
    readonly count: number;
    /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
    readonly per: string | number;
    readonly burst?: number;
  } | null;
  readonly eachLane?: {
    readonly concurrency?: number | null;
    readonly rate?: {
      readonly count: number;
      /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
      readonly per: string | number;
      readonly burst?: number;
    } | null;
  } | null;
  readonly lanes?: Readonly<Record<string, {
    readonly concurrency?: number | null;
    readonly rate?: {
      readonly count: number;
      /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
      readonly per: string | number;
      readonly burst?: number;
    } | null;
    readonly weight?: number | null;
  } | null>>;
  readonly tasks?: Readonly<Record<string, {
    readonly concurrency?: number | null;
    readonly rate?: {
      readonly count: number;
      /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
      readonly per: string | number;
      readonly burst?: number;
    } | null;
  } | null>>;
  readonly ageing?: string | number | null;
  readonly reason?: string;
};

export type SetWorkerLimitRequest = {
  /** Maximum number of active workers of the type; null: unlimited. */
  readonly slots: number | null;
  readonly reason?: string;
};

export type SetWorkerLimitResponse = {
  readonly type: string;
  /** Maximum number of active workers of the type; null: unlimited. */
  readonly from: number | null;
  /** Maximum number of active workers of the type; null: unlimited. */
  readonly to: number | null;
};

export type SettleLeaseResponse = {
  readonly status: Status;
  readonly attempts: number;
  readonly retryAt: number | null;
};

/** The outcome of the attempt, with the worker and epoch of the lease. */
export type Settlement = {
  readonly worker: string;
  readonly epoch: number;
  readonly as: "done";
  readonly result?: unknown;
} | {
  readonly worker: string;
  readonly epoch: number;
  readonly as: "failed";
  /** A string, or an object with a message. */
  readonly error: string | {
    readonly name?: string;
    readonly message: string;
    readonly code?: string;
    readonly stack?: string;
  };
  /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
  readonly retryIn?: string | number;
  readonly final?: boolean;
  readonly attempt?: number;
} | {
  readonly worker: string;
  readonly epoch: number;
  readonly as: "suspended";
  /** Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
  readonly for: string | number;
} | {
  readonly worker: string;
  readonly epoch: number;
  readonly as: "released";
};

export type SignInRequest = {
  readonly token: string;
};

export type SignOutRequest = {};

export type SignOutResponse = {};

export type SilenceAlertRequest = {
  /** At most 7d; 0 or 0s ends a silence. */
  readonly for: string | number;
  readonly reason?: string;
};

export type SleepingFacts = {
  /** Milliseconds since the Unix epoch. */
  readonly until: number;
  readonly why: string | null;
};

export type StartBulkRequest = {
  readonly action: "retry" | "cancel" | "delete" | "move" | "priority";
  readonly filter: BulkFilter;
  /** Only count the matching jobs. */
  readonly dryRun?: boolean;
  /** Retry: additional attempts. Default: 3. */
  readonly attempts?: number;
  /** Retry: whether to also retry called jobs whose failure caused a job to fail. */
  readonly withCalled?: boolean;
  /** Move: the new queue. */
  readonly queue?: string;
  /** Priority: the new priority. */
  readonly priority?: number;
  readonly reason?: string;
};

export type StartItemRequest = {
  readonly data: Readonly<Record<string, unknown>>;
  /** Default: the first type of the workflow. */
  readonly type?: string;
  /** Default: the parent's tenant, or `default` without a parent. */
  readonly tenant?: string;
  /** Your own identifier. Default: the item's id. */
  readonly identifier?: string;
  /** Required if the workflow has a parent workflow. */
  readonly parent?: string;
  readonly reason?: string;
};

export type StartItemResponse = {
  readonly item: Item;
};

export type StartItemsRequest = {
  readonly items: readonly {
    readonly data: Readonly<Record<string, unknown>>;
    /** Default: the first type of the workflow. */
    readonly type?: string;
    /** Default: the parent's tenant, or `default` without a parent. */
    readonly tenant?: string;
    /** Your own identifier. Default: the item's id. */
    readonly identifier?: string;
    /** Required if the workflow has a parent workflow. */
    readonly parent?: string;
  }[];
  readonly reason?: string;
};

export type StartItemsResponse = {
  readonly items: readonly Item[];
};

export type StartPreviewedBulkRequest = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly token: string;
  readonly reason?: string;
};

export const statusValues = ["scheduled","pending","processing","waiting","retry","done","failed","cancelled","expired"] as const;
export type Status = (typeof statusValues)[number];

/** Something that is wrong, with the command that fixes it. */
export type StatusFinding = {
  readonly kind: "no-worker" | "critical" | "unserved" | "silent" | "all-paused" | "paused" | "workers-paused" | "warning" | "canary" | "late" | "failed" | "paused-idle" | "uncounted" | "info" | "silenced";
  /** Jobs do not run because of it, or an alert is critical. */
  readonly isBad: boolean;
  /** A whole sentence. */
  readonly title: string;
  /** A few words. */
  readonly brief: string;
  /** The command that fixes it, or that shows why it is so. */
  readonly command: string;
  /** What it is about: those with the most pending jobs first. */
  readonly queues: readonly string[];
};

/** A durable step of a job; its result is saved. */
export type Step = {
  readonly name: string;
  readonly occurrence: number;
  readonly kind: "step" | "effect" | "commit" | "sleep" | "event" | "call";
  readonly position: number;
  readonly status: "begun" | "done" | "failed" | "doubt";
  readonly result?: unknown;
  readonly epoch: number;
  /** Milliseconds since the Unix epoch. */
  readonly begunAt: number;
  readonly endedAt: number | null;
};

export type StopBulkRequest = {
  readonly reason?: string;
};

export type StopWorkerRequest = {
  readonly reason?: string;
};

export type StopWorkerResponse = {
  readonly id: string;
  readonly desiredState: "run" | "pause" | "drain" | "stop";
};

/** Each event of the stream, with its fields. */
export type StreamEvent = {
  readonly id?: string;
  readonly event: StreamEventName;
  /** JSON. */
  readonly data: unknown;
};

export const streamEventNameValues = ["hello","enqueued","finished","worker","counts","gap","tick"] as const;
export type StreamEventName = (typeof streamEventNameValues)[number];

export type StuckFacts = {};

/** How the jobs of a task fare. */
export type Task = {
  readonly task: string;
  /** Milliseconds since the Unix epoch. */
  readonly from: number;
  /** Milliseconds since the Unix epoch. */
  readonly to: number;
  readonly stepMs: number;
  readonly done: number;
  /** Jobs that failed for good. */
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  /** Attempts that failed and were followed by another. */
  readonly retried: number;
  /** Attempts whose worker died. */
  readonly crashed: number;
  /** Attempts that ended well or badly. */
  readonly attempts: number;
  /** Of the attempts, 0 to 1; null: there were none. */
  readonly failedShare: number | null;
  /** How long jobs that are done ran; null: unknown. */
  readonly runs: Times | null;
  /** How long jobs waited to be started; null: unknown. */
  readonly pickups: Times | null;
  /** Oldest first; hours in which nothing ended are missing. */
  readonly hours: readonly {
    /** Milliseconds since the Unix epoch. */
    readonly at: number;
    readonly done: number;
    /** Jobs that failed for good. */
    readonly failed: number;
    readonly cancelled: number;
    readonly expired: number;
    /** Attempts that failed and were followed by another. */
    readonly retried: number;
    /** Attempts whose worker died. */
    readonly crashed: number;
    /** Attempts that ended well or badly. */
    readonly attempts: number;
    /** Of the attempts, 0 to 1; null: there were none. */
    readonly failedShare: number | null;
    /** How long jobs that are done ran; null: unknown. */
    readonly runs: Times | null;
    /** How long jobs waited to be started; null: unknown. */
    readonly pickups: Times | null;
  }[];
  /** Newest first. */
  readonly builds: readonly {
    readonly build: string;
    readonly firstAt: number | null;
    readonly done: number;
    /** Jobs that failed for good. */
    readonly failed: number;
    readonly cancelled: number;
    readonly expired: number;
    /** Attempts that failed and were followed by another. */
    readonly retried: number;
    /** Attempts whose worker died. */
    readonly crashed: number;
    /** Attempts that ended well or badly. */
    readonly attempts: number;
    /** Of the attempts, 0 to 1; null: there were none. */
    readonly failedShare: number | null;
    /** How long jobs that are done ran; null: unknown. */
    readonly runs: Times | null;
    /** How long jobs waited to be started; null: unknown. */
    readonly pickups: Times | null;
  }[];
  /** Of the newest build; null: no build is known. */
  readonly change: BuildChange | null;
};

export type TaskBrief = {
  readonly task: string;
  readonly done: number;
  /** Jobs that failed for good. */
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  /** Attempts that failed and were followed by another. */
  readonly retried: number;
  /** Attempts whose worker died. */
  readonly crashed: number;
  /** Attempts that ended well or badly. */
  readonly attempts: number;
  /** Of the attempts, 0 to 1; null: there were none. */
  readonly failedShare: number | null;
};

/** A task that the server or a worker knows. */
export type TaskInfo = {
  readonly name: string;
  /** Null: this server does not have the task's code. */
  readonly queue: string | null;
  readonly maxAttempts: number | null;
  readonly hasSchema: boolean;
  /** The JSON schema of the input; null: none. */
  readonly schema: unknown;
  /** Live workers that run it. */
  readonly workers: number;
};

/** What a job of the task was enqueued with. */
export type TaskInput = {
  /** The id of a job or an item: a lower-case UUID. */
  readonly id: string;
  readonly key: string | null;
  readonly status: Status;
  /** Milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
  readonly input: unknown;
};

export type TaskStatsResponse = {
  readonly tasks: readonly TaskBrief[];
};

/** Durations in milliseconds, accurate to a fifth. */
export type Times = {
  readonly count: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
};

/** An API token without its secret. */
export type Token = {
  readonly id: string;
  readonly name: string;
  readonly role: "viewer" | "operator";
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly expiresInMs: number | null;
  readonly revokedAt: number | null;
  readonly usedAt: number | null;
};

/** Pending jobs that no live worker can run. */
export type Unclaimable = {
  readonly queue: string;
  readonly task: string;
  readonly jobs: number;
  readonly waitedMs: number;
};

/** A worker without a row in the registry. */
export type UnregisteredWorker = {
  readonly id: string;
  /** A standby worker, or a program that claims jobs over HTTP or with the SQL functions. */
  readonly kind: "standby" | "leases";
  readonly type: string | null;
  readonly hostname: string | null;
  readonly pid: number | null;
  readonly version: string | null;
  readonly queues: readonly string[];
  /** Null: any task. */
  readonly tasks: readonly string[] | null;
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly heartbeatAt: number;
  readonly silentMs: number;
  /** Jobs it holds now. */
  readonly leases: number;
};

export type UpdateItemRequest = {
  readonly patch: Readonly<Record<string, unknown>>;
  /** The revision the change is based on; a different current revision is a conflict. */
  readonly expect?: number;
  readonly reason?: string;
};

export type UpdateItemResponse = {
  readonly item: Item;
};

export type VerifyAuditResponse = {
  /** Of operators and of items. */
  readonly lines: number;
  readonly isWhole: boolean;
  /** The first break. */
  readonly broken: {
    readonly kind: string;
    readonly item: string | null;
    readonly seq: number;
    readonly problem: string;
  } | null;
  readonly breaks: number;
  /** Milliseconds since the Unix epoch. */
  readonly verifiedAt: number;
  readonly tookMs: number;
};

export type WaitsForEventFacts = {
  readonly events: readonly {
    readonly name: string;
    readonly key: string;
  }[];
  readonly until: number | null;
};

export type WaitsForJobsFacts = {
  readonly count: number;
  /** The first few of them. */
  readonly jobs: readonly {
    /** The id of a job or an item: a lower-case UUID. */
    readonly id: string;
    readonly task: string | null;
    readonly status: Status | null;
  }[];
  readonly until: number | null;
};

/** A process that runs jobs. */
export type Worker = {
  readonly id: string;
  readonly type: string;
  readonly slot: number | null;
  readonly instance: number;
  readonly status: "starting" | "running" | "stopping" | "stopped";
  readonly reason: string | null;
  readonly desiredState: "run" | "pause" | "drain" | "stop";
  readonly version: string;
  readonly nodeVersion: string;
  readonly platform: string;
  readonly arch: string;
  readonly hostname: string;
  readonly pid: number;
  readonly queues: readonly string[];
  readonly tasks: readonly string[];
  readonly concurrency: number;
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly heartbeatAt: number;
  readonly silentMs: number;
  readonly staleMs: number;
  readonly hungMs: number;
  /** Based on the last heartbeat and the database's clock. Stale and hung workers count as dead. */
  readonly liveness: "alive" | "stale" | "hung" | "stopped";
  /** Its process ran on this host, and exists no longer. */
  readonly gone: boolean;
  /** Jobs it holds now. */
  readonly leases: number;
  readonly stoppedAt: number | null;
  readonly heartbeats: number;
  readonly gapMsMax: number;
  readonly claimed: number;
  readonly done: number;
  readonly failed: number;
  readonly retried: number;
  readonly leasesLost: number;
  /** Jobs that were running at its last heartbeat. */
  readonly running: number;
  readonly loopDelayMs: number;
  readonly memoryBytes: number;
  /** How long a task had blocked the event loop when the stack was taken; 0: none. */
  readonly blockedMs: number;
  /** Where it blocks it. */
  readonly blockedStack: string | null;
};

/** The name that workers share, and how many of them may be active. */
export type WorkerType = {
  readonly type: string;
  /** Maximum number of active workers; null: unlimited. */
  readonly slots: number | null;
  readonly active: number;
};

export type WorkersPausedFacts = {
  readonly workers: readonly string[];
};

/** The states of a workflow and the moves between them. */
export type Workflow = {
  readonly name: string;
  readonly version: number;
  readonly parent: string | null;
  readonly keepMs: number | null;
  /** Milliseconds since the Unix epoch. */
  readonly declaredAt: number;
  readonly types: readonly string[];
  readonly states: readonly {
    readonly name: string;
    readonly isInitial: boolean;
    readonly isFinal: boolean;
  }[];
  readonly moves: readonly {
    readonly name: string;
    readonly from: string;
    readonly to: string;
  }[];
  /** Whether this server has the workflow's code and can move its items. */
  readonly movable: boolean;
};

export interface Reads {
  /** List bulk actions, newest first. */
  bulk: {
    input: {
      readonly status?: "running" | "done" | "stopped" | "failed";
      /** `next` from the previous page. */
      readonly before?: string;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListBulkResponse;
  };
  /** One bulk action with its progress. */
  "bulk/{id}": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    };
    result: BulkAction;
  };
  /** List the jobs that match a filter, newest first. */
  jobs: {
    input: {
      /** Only jobs with one of these statuses. */
      readonly status?: readonly Status[];
      /** Only jobs of this queue. */
      readonly queue?: string;
      /** Only jobs of this task, in all versions unless one is given. */
      readonly task?: string;
      /** Only jobs enqueued with this key. */
      readonly key?: string;
      /** Only jobs whose key begins with this. */
      readonly keyPrefix?: string;
      /** Only jobs with all of these tags. */
      readonly tag?: readonly string[];
      /** Only jobs of this lane. */
      readonly lane?: string;
      /** Only jobs that ran or run on this worker. */
      readonly worker?: string;
      /** Only jobs that ran or run on a worker of this build. */
      readonly build?: string;
      /** Only jobs of the flow or batch with this id. */
      readonly flow?: string;
      /** Only jobs that this schedule enqueued. */
      readonly schedule?: string;
      /** Only jobs that failed, or are to be retried, with this kind of error. */
      readonly kind?: string;
      /** Only jobs whose last error has this code or name. */
      readonly code?: string;
      /** Only jobs whose last error has this in its name or message, in upper or lower case. */
      readonly error?: string;
      /** Only jobs whose input, as JSON, has this, in upper or lower case. */
      readonly input?: string;
      /** Only jobs enqueued at or after this time: milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now. */
      readonly enqueuedSince?: string;
      /** Only jobs enqueued before this time: milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now. */
      readonly enqueuedUntil?: string;
      /** Only jobs whose running or last attempt started since: milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now. */
      readonly startedSince?: string;
      /** Only jobs whose running or last attempt started before: milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now. */
      readonly startedUntil?: string;
      /** Only jobs that ended at or after this time: milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now. */
      readonly endedSince?: string;
      /** Only jobs that ended before this time: milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now. */
      readonly endedUntil?: string;
      /** Only jobs with one of these ids, or with ids that begin with this one. */
      readonly id?: readonly string[];
      /** By when they were enqueued (the default) or ended, the last first. By their end only with statuses of `failed`, `cancelled` and `expired`. */
      readonly order?: "enqueued" | "ended";
      /** `next` from the previous page. */
      readonly before?: string;
      /** Maximum number of entries to return. */
      readonly limit?: number;
      /** How many jobs to look at, at most. */
      readonly examine?: number;
    };
    result: ListJobsResponse;
  };
  /** One job with its input, attempts, steps and earlier inputs. */
  "jobs/{id}": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    };
    result: GetJobResponse;
  };
  /** List the attempts of a job. */
  "jobs/{id}/attempts": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
      /** `next` of the previous page. */
      readonly before?: number;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListAttemptsResponse;
  };
  /** Count the jobs that match a filter. */
  "jobs/count": {
    input: {
      /** Only jobs with one of these statuses. */
      readonly status?: readonly Status[];
      /** Only jobs of this queue. */
      readonly queue?: string;
      /** Only jobs of this task, in all versions unless one is given. */
      readonly task?: string;
      /** Only jobs enqueued with this key. */
      readonly key?: string;
      /** Only jobs whose key begins with this. */
      readonly keyPrefix?: string;
      /** Only jobs with all of these tags. */
      readonly tag?: readonly string[];
      /** Only jobs of this lane. */
      readonly lane?: string;
      /** Only jobs that ran or run on this worker. */
      readonly worker?: string;
      /** Only jobs that ran or run on a worker of this build. */
      readonly build?: string;
      /** Only jobs of the flow or batch with this id. */
      readonly flow?: string;
      /** Only jobs that this schedule enqueued. */
      readonly schedule?: string;
      /** Only jobs that failed, or are to be retried, with this kind of error. */
      readonly kind?: string;
      /** Only jobs whose last error has this code or name. */
      readonly code?: string;
      /** Only jobs whose last error has this in its name or message, in upper or lower case. */
      readonly error?: string;
      /** Only jobs whose input, as JSON, has this, in upper or lower case. */
      readonly input?: string;
      /** Only jobs enqueued at or after this time: milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now. */
      readonly enqueuedSince?: string;
      /** Only jobs enqueued before this time: milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now. */
      readonly enqueuedUntil?: string;
      /** Only jobs whose running or last attempt started since: milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now. */
      readonly startedSince?: string;
      /** Only jobs whose running or last attempt started before: milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now. */
      readonly startedUntil?: string;
      /** Only jobs that ended at or after this time: milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now. */
      readonly endedSince?: string;
      /** Only jobs that ended before this time: milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now. */
      readonly endedUntil?: string;
      /** Only jobs with one of these ids, or with ids that begin with this one. */
      readonly id?: readonly string[];
      /** `next` from the previous page. */
      readonly before?: string;
      /** How many jobs to look at, at most. */
      readonly examine?: number;
    };
    result: CountJobsResponse;
  };
  /** The inputs of the newest jobs of a task, as examples. */
  "tasks/{task}/inputs": {
    input: {
      readonly task: string;
      /** `next` from the previous page. */
      readonly before?: string;
      readonly limit?: number;
    };
    result: ListTaskInputsResponse;
  };
  /** List flows and batches, newest first. */
  flows: {
    input: {
      readonly kind?: "flow" | "batch";
      /** The id of a job or an item: a lower-case UUID. */
      readonly before?: string;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListFlowsResponse;
  };
  /** Get a flow or a batch, with the state of its jobs and a page of them. */
  "flows/{id}": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
      /** The id of a job or an item: a lower-case UUID. */
      readonly after?: string;
      /** Maximum number of entries to return. */
      readonly limit?: number;
      /** Only jobs that ended and are not `done` (`failed`), `done` ones, or others (`live`). */
      readonly state?: "failed" | "done" | "live";
    };
    result: FlowDetails;
  };
  /** List the jobs of a flow, in the order in which they were added. */
  "flows/{id}/jobs": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
      /** The id of a job or an item: a lower-case UUID. */
      readonly after?: string;
      /** Maximum number of entries to return. */
      readonly limit?: number;
      /** Only jobs that ended and are not `done` (`failed`), `done` ones, or others (`live`). */
      readonly state?: "failed" | "done" | "live";
    };
    result: ListFlowJobsResponse;
  };
  /** List the lines of a flow's graph: which job waits or waited for which. */
  "flows/{id}/edges": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    };
    result: ListFlowEdgesResponse;
  };
  /** List the jobs that a job waits or waited for, and those that wait for it. */
  "jobs/{id}/dependencies": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListDependenciesResponse;
  };
  /** Reports of a job: a page, or live as server-sent events. */
  "jobs/{id}/events": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
      /** Only reports after this number. */
      readonly after?: number;
      readonly kind?: "progress" | "log" | "report" | "dropped";
      /** Return the last page instead of the first. */
      readonly newest?: boolean;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: JobEventsResponse;
  };
  /** List effects in doubt. */
  effects: {
    input: {
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListEffectsResponse;
  };
  /** Show what a rerun from a step would repeat. */
  "jobs/{id}/rerun-plan": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
      /** The step to start from; if omitted, the beginning. */
      readonly from?: string;
      /** Which step, if several have this name. */
      readonly occurrence?: number;
    };
    result: RerunPlan;
  };
  /** Explain why a job does not run. */
  "jobs/{id}/explanation": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    };
    result: Explanation;
  };
  /** Explain why the jobs of a queue do not start. */
  "queues/{name}/explanation": {
    input: {
      readonly name: string;
    };
    result: QueueExplanation;
  };
  /** List leases and expired leases. */
  leases: {
    input: {
      readonly state?: "active" | "expired";
      readonly worker?: string;
      /** `next` from the previous page. */
      readonly after?: string;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListLeasesResponse;
  };
  /** How many jobs there are, by status. */
  counts: {
    input: {
      readonly queue?: string;
    };
    result: GetCountsResponse;
  };
  /** Figures over time, with deploys and crashes. */
  series: {
    input: {
      readonly range?: "15m" | "1h" | "4h" | "24h" | "7d";
      /** Of this queue; without it, of all. */
      readonly queue?: string;
    };
    result: Series;
  };
  /** Statistics of all queues, totals of the last minutes, and unclaimable jobs. */
  stats: {
    input: {};
    result: GetStatsResponse;
  };
  /** List queues with their job counts, pauses and limits. */
  queues: {
    input: {};
    result: ListQueuesResponse;
  };
  /** One queue: its job counts, its settings and its unclaimable jobs. */
  "queues/{name}": {
    input: {
      readonly name: string;
    };
    result: GetQueueResponse;
  };
  /** The lanes of a queue: which customer has how many jobs waiting. */
  "queues/{name}/lanes": {
    input: {
      readonly name: string;
      /** Maximum number of lanes; those that are paused come after them. */
      readonly limit?: number;
    };
    result: Lanes;
  };
  /** Get the settings of a queue. */
  "queues/{name}/settings": {
    input: {
      readonly name: string;
    };
    result: QueueSettings;
  };
  /** All limits of queues, and how much of each is in use. */
  limits: {
    input: {};
    result: ListLimitsResponse;
  };
  /** Whether all is well, and if not, what is wrong and which command fixes it. */
  status: {
    input: {};
    result: ServiceStatus;
  };
  /** List errors by kind, last seen first. */
  errors: {
    input: {
      readonly state?: "open" | "resolved" | "muted";
      /** Of this task, without its version. */
      readonly task?: string;
      /** Seen in this build, within the last week. */
      readonly build?: string;
      /** Seen since: milliseconds since 1970, an ISO time, or a duration ago. Whole minutes of the last day, whole hours of the last week. */
      readonly since?: string;
      /** Seen before. */
      readonly until?: string;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListErrorsResponse;
  };
  /** One kind of error with its newest stack. */
  "errors/{id}": {
    input: {
      readonly id: string;
    };
    result: GetErrorResponse;
  };
  /** Names of queues, tasks, tags, workers, builds, schedules and workflows. */
  names: {
    input: {};
    result: Names;
  };
  /** What a text is: an id, the start of one, a key, a tag, or a name. */
  find: {
    input: {
      readonly text?: string;
      /** Only hits of this kind. */
      readonly kind?: "job" | "item" | "flow" | "bulk" | "key" | "tag" | "lock" | "queue" | "task" | "worker" | "build" | "schedule" | "workflow";
    };
    result: FindResponse;
  };
  /** List tasks with the JSON schemas of their inputs. */
  tasks: {
    input: {};
    result: ListTasksResponse;
  };
  /** How the jobs of each task fare. */
  "stats/tasks": {
    input: {
      /** How far back. Default 24h. */
      readonly range?: "24h" | "7d";
    };
    result: TaskStatsResponse;
  };
  /** How the jobs of a task fare: failures, durations and waits, by hour and by build. */
  "tasks/{task}": {
    input: {
      readonly task: string;
      /** How far back. Default 24h. */
      readonly range?: "24h" | "7d";
    };
    result: Task;
  };
  /** List builds of workers, newest first, with how their jobs fare. */
  builds: {
    input: {
      /** How far back. Default 24h. */
      readonly range?: "24h" | "7d";
    };
    result: ListBuildsResponse;
  };
  /** What a build changed, task by task. */
  "builds/{build}": {
    input: {
      readonly build: string;
    };
    result: BuildReport;
  };
  /** Everything about one job in one request. */
  "jobs/{id}/story": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    };
    result: JobStory;
  };
  /** How the service is: figures, queues, workers and alerts. */
  overview: {
    input: {};
    result: Overview;
  };
  /** List held locks. */
  locks: {
    input: {
      /** Only keys that start with this prefix and a colon. */
      readonly type?: string;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListLocksResponse;
  };
  /** List contended locks: who holds each, who waits, and how many gave up. */
  "locks/contended": {
    input: {
      /** Maximum number of locks. */
      readonly limit?: number;
    };
    result: ListContendedLocksResponse;
  };
  /** Lock statistics: acquisitions, timeouts and waits. */
  "locks/stats": {
    input: {
      /** A string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
      readonly last?: string;
      /** Only keys that start with this prefix and a colon. */
      readonly type?: string;
    };
    result: LockStats;
  };
  /** How locks were contended over time. */
  "locks/heat": {
    input: {
      readonly range?: "1h" | "4h" | "24h" | "7d";
    };
    result: LockHeat;
  };
  /** Read the audit log. */
  audit: {
    input: {
      /** For example `job 0199…`, `worker mailer-…` or `lock order:42`. */
      readonly subject?: string;
      readonly actor?: string;
      readonly after?: number;
      readonly before?: number;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListAuditResponse;
  };
  /** Whether the audit log is whole. */
  "audit/verify": {
    input: {};
    result: VerifyAuditResponse;
  };
  /** What the monitor's checks found. */
  invariants: {
    input: {};
    result: ListFindingsResponse;
  };
  /** List alerts: open ones worst first, all of them newest first. */
  alerts: {
    input: {
      /** `raised` (the default), `open` (raised and pending) or `all`, including those resolved in the last 30 days. */
      readonly which?: "raised" | "open" | "all";
      /** The id of the last alert on the previous page. */
      readonly before?: string;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListAlertsResponse;
  };
  /** List the rules that raise alerts. */
  "alert-rules": {
    input: {};
    result: ListAlertRulesResponse;
  };
  /** List workers, most recently started first. */
  workers: {
    input: {
      readonly type?: string;
      /** Include stopped workers. */
      readonly all?: boolean;
      /** Only workers that were found dead within the last hour. */
      readonly lost?: boolean;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListWorkersResponse;
  };
  /** One worker. */
  "workers/{id}": {
    input: {
      readonly id: string;
    };
    result: GetWorkerResponse;
  };
  /** List worker types and their limits. */
  "worker-types": {
    input: {
      /** Only this type. */
      readonly type?: string;
    };
    result: ListWorkerTypesResponse;
  };
  /** Build differences among workers, and between enqueuing processes and workers. */
  drift: {
    input: {};
    result: Drift;
  };
  /** List schedules, by name. */
  schedules: {
    input: {
      readonly task?: string;
      readonly paused?: boolean;
      /** The last name of the previous page. */
      readonly after?: string;
      /** Maximum number of entries to return. */
      readonly limit?: number;
      /** How many of its newest runs each schedule is listed with. Default: none. */
      readonly runs?: number;
    };
    result: ListSchedulesResponse;
  };
  /** One schedule, with its next five runs and its last ones. */
  "schedules/{name}": {
    input: {
      readonly name: string;
    };
    result: ScheduleDetails;
  };
  /** What happened at each tick of a schedule, newest first. */
  "schedules/{name}/runs": {
    input: {
      readonly name: string;
      /** The last tick of the previous page. */
      readonly before?: number;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListScheduleRunsResponse;
  };
  /** A timing in words, and the next runs it would have. */
  "schedule-preview": {
    input: {
      /** Five fields, or six with seconds first, or a nickname such as @daily. */
      readonly cron?: string;
      /** The IANA name of the time zone of `cron`. Default: UTC. */
      readonly timeZone?: string;
      /** A string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
      readonly every?: string;
      /** A string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m. */
      readonly offset?: string;
      /** Default: 5. */
      readonly count?: number;
      /** Default: now. */
      readonly after?: number;
    };
    result: PreviewScheduleResponse;
  };
  /** What all schedules run in the next days. */
  "schedule-calendar": {
    input: {
      /** Default: 7. */
      readonly days?: number;
    };
    result: ScheduleCalendarResponse;
  };
  /** List declared workflows. */
  workflows: {
    input: {};
    result: ListWorkflowsResponse;
  };
  /** One workflow with its states and moves. */
  "workflows/{name}": {
    input: {
      readonly name: string;
    };
    result: GetWorkflowResponse;
  };
  /** How many items of a workflow are in each state. */
  "workflows/{name}/counts": {
    input: {
      readonly name: string;
    };
    result: CountItemsResponse;
  };
  /** List items, newest first. */
  items: {
    input: {
      /** Required with `status` or `tenant`. */
      readonly workflow?: string;
      readonly status?: string;
      readonly tenant?: string;
      readonly identifier?: string;
      /** The id of a job or an item: a lower-case UUID. */
      readonly parent?: string;
      /** `next` from the previous page. */
      readonly before?: string;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListItemsResponse;
  };
  /** One item with its data, legal moves, child counts and history. */
  "items/{id}": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    };
    result: GetItemResponse;
  };
  /** The history of an item, oldest first. */
  "items/{id}/history": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
      /** `next` from the previous page. */
      readonly after?: number;
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ItemHistoryResponse;
  };
  /** List tokens, newest first. */
  tokens: {
    input: {
      /** Maximum number of entries to return. */
      readonly limit?: number;
    };
    result: ListTokensResponse;
  };
  /** Who sent this request, with which role. */
  session: {
    input: {};
    result: Session;
  };
  /** This document. */
  "openapi.json": {
    input: {};
    result: OpenapiResponse;
  };
}

export interface Writes {
  /** Retry, cancel, delete, move or reprioritize the jobs that match a filter. */
  bulk: {
    input: StartBulkRequest;
    result: BulkAction;
  };
  /** Count the jobs that a bulk action would change, and get a token that starts it. */
  "bulk/preview": {
    input: PreviewBulkRequest;
    result: PreviewBulkResponse;
  };
  /** Start the bulk action of a preview, for the jobs that matched then. */
  "bulk/start": {
    input: StartPreviewedBulkRequest;
    result: BulkAction;
  };
  /** Stop a bulk action; jobs that it has changed stay changed. */
  "bulk/{id}/stop": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & StopBulkRequest;
    result: BulkAction;
  };
  /** Resume a bulk action that was stopped or failed. */
  "bulk/{id}/resume": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & ResumeBulkRequest;
    result: BulkAction;
  };
  /** Enqueue a job. */
  jobs: {
    input: EnqueueRequest;
    result: Enqueued;
  };
  /** Enqueue many jobs, all or none. */
  "jobs/bulk": {
    input: EnqueueManyRequest;
    result: EnqueueManyResponse;
  };
  /** Cancel a job. */
  "jobs/{id}/cancel": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & CancelJobRequest;
    result: CancelJobResponse;
  };
  /** Retry a failed, cancelled or expired job, optionally with another input. */
  "jobs/{id}/retry": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & RetryJobRequest;
    result: RetryJobResponse;
  };
  /** Run a job now: first in its lane, also while its queue is paused. */
  "jobs/{id}/run-now": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & RunJobNowRequest;
    result: RunJobNowResponse;
  };
  /** Change the input, priority, time or queue of a job that no worker holds. */
  "jobs/{id}/edit": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & EditJobRequest;
    result: EditJobResponse;
  };
  /** Delete an ended job with its attempts, steps and reports. */
  "jobs/{id}/delete": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & DeleteJobRequest;
    result: DeleteJobResponse;
  };
  /** Enqueue a new job like one that has ended, optionally with another input. */
  "jobs/{id}/replay": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & ReplayJobRequest;
    result: ReplayJobResponse;
  };
  /** Enqueue jobs that wait for each other, all or none. */
  flows: {
    input: EnqueueFlowRequest;
    result: EnqueuedFlow;
  };
  /** Add jobs to a flow, all or none. */
  "flows/{id}/jobs": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & AddFlowJobsRequest;
    result: EnqueuedFlow;
  };
  /** Cancel the jobs of a flow that have not ended. */
  "flows/{id}/cancel": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & CancelFlowRequest;
    result: CancelFlowResponse;
  };
  /** Retry the failed and cancelled jobs of a flow. */
  "flows/{id}/retry": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & RetryFlowRequest;
    result: RetryFlowResponse;
  };
  /** Enqueue jobs, and a job that runs when all of them have ended. */
  batches: {
    input: EnqueueBatchRequest;
    result: EnqueuedFlow;
  };
  /** Resolve an effect in doubt; its job continues. */
  "jobs/{id}/resolve": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & ResolveDoubtRequest;
    result: ResolveDoubtResponse;
  };
  /** Run an ended job again from a step. */
  "jobs/{id}/rerun": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & RerunJobRequest;
    result: RerunJobResponse;
  };
  /** Claim pending jobs under exclusive leases. */
  "leases/acquire": {
    input: AcquireLeasesRequest;
    result: AcquireLeasesResponse;
  };
  /** Extend a lease. */
  "leases/{id}/extend": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & ExtendLeaseRequest;
    result: ExtendLeaseResponse;
  };
  /** Settle a job with the outcome of its attempt. */
  "leases/{id}/settle": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & Settlement;
    result: SettleLeaseResponse;
  };
  /** Reclaim expired leases; workers and `acquire` do this automatically. */
  "leases/reset-expired": {
    input: ResetExpiredLeasesRequest;
    result: ResetExpiredLeasesResponse;
  };
  /** Set limits, weights and ageing; omitted fields do not change, null removes a setting. */
  "queues/{name}/settings": {
    input: {
      readonly name: string;
    } & SetQueueRequest;
    result: QueueSettings;
  };
  /** Pause a queue, or one lane of it: workers claim none of its jobs. */
  "queues/{name}/pause": {
    input: {
      readonly name: string;
    } & PauseQueueRequest;
    result: QueueState;
  };
  /** Resume a paused queue, or one lane of it. */
  "queues/{name}/resume": {
    input: {
      readonly name: string;
    } & ResumeQueueRequest;
    result: QueueState;
  };
  /** Pause all queues, in one transaction: workers claim no job. */
  "pause-all": {
    input: PauseAllQueuesRequest;
    result: PauseAllQueuesResponse;
  };
  /** Resume the queues that pause-all paused; others stay paused. */
  "resume-all": {
    input: ResumeAllQueuesRequest;
    result: ResumeAllQueuesResponse;
  };
  /** Resolve a kind of error; it is open again when it comes back. */
  "errors/{id}/resolve": {
    input: {
      readonly id: string;
    } & ResolveErrorRequest;
    result: ResolveErrorResponse;
  };
  /** Mute a kind of error. */
  "errors/{id}/mute": {
    input: {
      readonly id: string;
    } & MuteErrorRequest;
    result: MuteErrorResponse;
  };
  /** Open a kind of error again. */
  "errors/{id}/reopen": {
    input: {
      readonly id: string;
    } & ReopenErrorRequest;
    result: ReopenErrorResponse;
  };
  /** Release a lock by force. */
  "locks/release": {
    input: ReleaseLockRequest;
    result: ReleaseLockResponse;
  };
  /** Acknowledge an open alert: webhooks are not notified again. */
  "alerts/{id}/acknowledge": {
    input: {
      /** The id of an open alert. */
      readonly id: string;
    } & AcknowledgeAlertRequest;
    result: Alert;
  };
  /** Silence an open alert for a time; it comes back by itself. */
  "alerts/{id}/silence": {
    input: {
      /** The id of an open alert. */
      readonly id: string;
    } & SilenceAlertRequest;
    result: Alert;
  };
  /** Pause a worker: it finishes its jobs and claims no new ones. */
  "workers/{id}/pause": {
    input: {
      readonly id: string;
    } & PauseWorkerRequest;
    result: PauseWorkerResponse;
  };
  /** Resume a paused worker. */
  "workers/{id}/resume": {
    input: {
      readonly id: string;
    } & ResumeWorkerRequest;
    result: ResumeWorkerResponse;
  };
  /** Drain a worker: it ends after its last job. */
  "workers/{id}/drain": {
    input: {
      readonly id: string;
    } & DrainWorkerRequest;
    result: DrainWorkerResponse;
  };
  /** Stop a worker: it releases jobs that do not end in time. */
  "workers/{id}/stop": {
    input: {
      readonly id: string;
    } & StopWorkerRequest;
    result: StopWorkerResponse;
  };
  /** Set the maximum number of active workers of a type. */
  "worker-types/{type}/limit": {
    input: {
      readonly type: string;
    } & SetWorkerLimitRequest;
    result: SetWorkerLimitResponse;
  };
  /** Create a schedule. */
  schedules: {
    input: CreateScheduleRequest;
    result: Schedule;
  };
  /** Change a schedule; omitted fields do not change. */
  "schedules/{name}/edit": {
    input: {
      readonly name: string;
    } & EditScheduleRequest;
    result: Schedule;
  };
  /** Pause a schedule: it enqueues nothing until it is resumed. */
  "schedules/{name}/pause": {
    input: {
      readonly name: string;
    } & PauseScheduleRequest;
    result: Schedule;
  };
  /** Resume a paused schedule: it enqueues from the next tick on. */
  "schedules/{name}/resume": {
    input: {
      readonly name: string;
    } & ResumeScheduleRequest;
    result: Schedule;
  };
  /** Enqueue one job of a schedule now, even if it is paused or a job is running. */
  "schedules/{name}/run": {
    input: {
      readonly name: string;
    } & RunScheduleRequest;
    result: RunScheduleResponse;
  };
  /** Delete a schedule, but not its jobs. */
  "schedules/{name}/delete": {
    input: {
      readonly name: string;
    } & DeleteScheduleRequest;
    result: DeleteScheduleResponse;
  };
  /** Start an item in the initial state of its workflow. */
  "workflows/{name}/items": {
    input: {
      readonly name: string;
    } & StartItemRequest;
    result: StartItemResponse;
  };
  /** Start several items with the same parent, or without one; all or none. */
  "workflows/{name}/items/bulk": {
    input: {
      readonly name: string;
    } & StartItemsRequest;
    result: StartItemsResponse;
  };
  /** Move an item. */
  "items/{id}/moves": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & MoveItemRequest;
    result: MoveItemResponse;
  };
  /** Change an item's data without changing its state. */
  "items/{id}/update": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & UpdateItemRequest;
    result: UpdateItemResponse;
  };
  /** Move or update several children of an item; all or none. */
  "items/{id}/children": {
    input: {
      /** The id of a job or an item: a lower-case UUID. */
      readonly id: string;
    } & ChangeChildrenRequest;
    result: ChangeChildrenResponse;
  };
  /** Emit an event; jobs waiting for it continue. */
  events: {
    input: EmitEventRequest;
    result: EmitEventResponse;
  };
  /** Revoke a token; servers reject it within seconds. */
  "tokens/{name}/revoke": {
    input: {
      readonly name: string;
    } & RevokeTokenRequest;
    result: RevokeTokenResponse;
  };
  /** Sign in with a token: the response sets a cookie. */
  session: {
    input: SignInRequest;
    result: Session;
  };
  /** Sign out. */
  "session/end": {
    input: SignOutRequest;
    result: SignOutResponse;
  };
}

/** In which states an operator may do what to a job. */
export const operatorActions = {"retry":["failed","cancelled","expired"],"runNow":["scheduled","retry","pending"],"edit":["scheduled","retry","waiting","pending"],"cancel":["scheduled","retry","waiting","pending","processing"],"rerun":["done","failed","cancelled","expired"],"replay":["done","failed","cancelled","expired"],"delete":["done","failed","cancelled","expired"]} as const;
