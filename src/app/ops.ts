/** Published as `holdfast/ops`: what runs a service and looks after it. */

export type { Alert, AlertEvent, AlertFacts, AlertStatus } from "../alerts/alert.ts";
export { Alerts, type AlertsParts } from "../alerts/alerts.ts";
export type { AlertHistory, AlertsFilter } from "../alerts/history.ts";
export type { AlertCounts } from "../alerts/store.ts";
export type { AlertOptions } from "../alerts/options.ts";
export type { WebhookOptions } from "../alerts/webhook.ts";
export type { Audit, AuditFilter, PruneOptions } from "../audit/audit.ts";
export type { AuditBreak, AuditEntry, BreakKind } from "../audit/entry.ts";
export type { Actor, Audited, OperatorOptions } from "../audit/entry.ts";
export type { Verification, VerifyOptions, VerifyProgress, Witness } from "../audit/verify.ts";
export type { ErrorRecord, FailedStep } from "../core/error-record.ts";
export type {
  Explanation,
  JobReasons,
  QueueExplanation,
  QueueReasons,
} from "../core/explanation.ts";
export type { Finding, Offender, Severity } from "../database/check.ts";
export type { Fence } from "../core/job.ts";
export type {
  DroppedReport,
  LogReport,
  NamedReport,
  Progress,
  ProgressReport,
  Report,
  StatusChange,
  WatchEntry,
  WatchOptions,
} from "../core/report.ts";
export {
  Doctor,
  type Checked,
  type Diagnosis,
  type ExamineOptions,
  type Fixed,
  type FixOptions,
} from "../doctor/doctor.ts";
export type { CheckRecord } from "../database/check.ts";
export type { BulkActions, BulkListFilter, BulkRunOptions } from "../bulk/bulk.ts";
export type { BulkAction, BulkFilter, BulkRequest, BulkTerms } from "../bulk/request.ts";
export type { BulkRecord, BulkStatus, Refusal } from "../bulk/store.ts";
export type {
  ErrorKindFilter,
  ErrorKinds,
  Errors,
  ResolveErrorOptions,
} from "../error-kinds/errors.ts";
export type { ErrorExample, ErrorKind, ErrorKindState } from "../error-kinds/store.ts";
export type { AttemptView, InputRevision, Jobs, JobSummary, StepView } from "../jobs/jobs.ts";
export type { EditOptions, ReplayOptions, RerunOptions, RetryJobOptions } from "../jobs/options.ts";
export type { AcquireOptions, Lease, Leases, Release, Released } from "../jobs/leases.ts";
export type { LeaseRecord, QueueStats, Unclaimable } from "../jobs/store.ts";
export { canaryTask, withCanary, type CanaryOptions } from "../monitoring/canary.ts";
export {
  startMonitor,
  type Monitor,
  type MonitorOptions,
  type Observation,
} from "../monitoring/monitor.ts";
export type { CanaryReport } from "../monitoring/canary.ts";
export {
  WorkerLimitInUseError,
  WorkerLimitMismatchError,
  WorkerTypeNotFoundError,
} from "../registry/worker-types.ts";
export type {
  ChangedLimit,
  EnqueuerRecord,
  UnregisteredWorker,
  WorkerRecord,
  WorkerType,
} from "../registry/worker-record.ts";
export type {
  Drift,
  Drifts,
  WorkerMetrics,
  Workers,
  WorkersFilter,
  WorkerTarget,
} from "../registry/workers.ts";
export type { EffectInDoubt, PlannedStep, RerunPlan, StepRecord } from "../core/task.ts";
export type { AgedCounts, Counts, QueueDepth } from "../stats/counts.ts";
export type { MinuteStats } from "../stats/spans.ts";
export type { MinutesOptions, Stats } from "../stats/store.ts";
export type { Emitted } from "../core/event.ts";
export type { GivenTrace, TraceContext } from "../tracing/tracing.ts";
export type { WorkerStatus } from "../worker/worker.ts";

// What the types of `holdfast` mention.
export type { AlertFilter, AlertRule, AlertView, Trouble } from "../alerts/alert.ts";
export type { Pruned } from "../audit/verify.ts";
export type { StoredFilter } from "../bulk/request.ts";
export type { CheckedFilter, JobFilter, JobListFilter } from "../jobs/filter.ts";
export type {
  AwaitedJob,
  Bounded,
  Busy,
  Claim,
  Explained,
  Holder,
  Limited,
  Obstacles,
} from "../core/explanation.ts";
export type { Histogram } from "../core/histogram.ts";
export type { Json } from "../core/json.ts";
export type { AttemptState, FinalStatus } from "../core/job.ts";
export type { JsonForm, NotJson, StorableTask } from "../core/json-form.ts";
export type { JobLog, JobLogLevel, Numbered, ReportKind, ReportsFilter } from "../core/report.ts";
export type { Backoff, RetryPolicy } from "../core/retry.ts";
export type {
  CallOptions,
  Committed,
  Found,
  InputArguments,
  InputFor,
  Isolation,
  IsolationOptions,
  NewStep,
  ParsedFor,
  Recorded,
  StepFacts,
  StepKind,
  StepMatching,
  StepName,
  StepState,
} from "../core/task.ts";
export type { CheckCost } from "../database/check.ts";
export type { PgClient, PgPool, PgQuery, PgResult } from "../database/postgres/address.ts";
export type { DoctorTarget } from "../doctor/doctor.ts";
export type { AfterOptions } from "../jobs/after.ts";
export type { JobOptions, Sender } from "../jobs/enqueue.ts";
export type {
  AttemptFacts,
  AttemptRecord,
  ClaimedJob,
  JobFacts,
  JobRecord,
  JobSummary as JobRow,
  LeasesFilter,
  OnConflict,
  Settled,
} from "../jobs/store.ts";
export type { CanaryHost } from "../monitoring/canary.ts";
export type { MonitorHost } from "../monitoring/monitor.ts";
export type {
  LaneOptions,
  LimitOptions,
  Limits,
  PauseOptions,
  Queue,
  QueueOptions,
  Queues,
  RateOptions,
} from "../queues/queues.ts";
export type { Pause } from "../limits/gates.ts";
export type { Lane, LaneFigures, Lanes } from "../queues/lanes.ts";
export type { LimitInUse } from "../queues/limits.ts";
export type { QueuePause } from "../queues/store.ts";
export type {
  DesiredState,
  Ending,
  Liveness,
  NewUnregistered,
  NewWorker,
  ProcessTrace,
  Silence,
  WaitLimits,
  WorkerFacts,
  WorkerState,
  WorkerVitals,
} from "../registry/worker-record.ts";
export type {
  AttemptOutcome,
  EndEvent,
  FailureEvent,
  JobEvent,
  Meter,
  Pulse,
  WorkerEvent,
  WorkerEvents,
} from "../worker/events.ts";
export type { Counters } from "../worker/reporter.ts";
export type { ClientConfig } from "./holdfast.ts";
export type { WorkerConfig } from "../worker/options.ts";
export type { LogLevel } from "./settings.ts";
export type { RuleKind } from "../limits/gates.ts";
export type { Rate } from "../limits/rates.ts";
