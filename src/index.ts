/** Holdfast: durable jobs in the SQL database you already have. */
export { openHoldfast, type Holdfast, type HoldfastOptions } from "./worker/holdfast.ts";
export {
  defineTask,
  type AnyTask,
  type CallOptions,
  type Committed,
  type Context,
  type Effect,
  type Task,
  type TaskOptions,
} from "./core/task.ts";
export { defineConfig, type HoldfastConfig } from "./config/define.ts";
export { defineEvent, type EventType } from "./core/event.ts";
export { traceOf, type GivenTrace, type TraceContext } from "./core/trace.ts";
export { diagramOf } from "./core/diagram.ts";
export {
  defineWorkflow,
  unchecked,
  type AnyWorkflow,
  type EntryFacts,
  type GuardFacts,
  type MoveOptions,
  type StateOptions,
  type Verdict,
  type Workflow,
} from "./core/workflow.ts";
export type { AuditBreak, AuditEntry, BreakKind } from "./core/audit.ts";
export type { ChildrenIn, ItemEntry, ItemRecord } from "./core/item.ts";
export type {
  DroppedReport,
  LogReport,
  NamedReport,
  Progress,
  ProgressReport,
  Report,
  StatusChange,
  WatchEntry,
} from "./core/report.ts";
export type { UserTransaction } from "./core/step.ts";
export type { Doubt, Emitted, StepRecord } from "./store/journal.ts";
export type { Worker, WorkerStatus } from "./worker/worker.ts";
export type { WorkerOptions } from "./worker/settings.ts";
export type { WorkerEvents } from "./worker/events.ts";
export { startMonitor, type Monitor, type MonitorOptions } from "./ops/monitor.ts";
export { canaryTask, withCanary, type CanaryOptions } from "./ops/canary.ts";
export type { CanaryReport, Observation } from "./ops/observation.ts";
export type { Figures, MinutesOptions } from "./queue/figures.ts";
export type { AgedCensus, Census, MinuteFigures, QueueDepth } from "./store/figures.ts";
export type { Finding, Offender, Severity } from "./core/finding.ts";
export type { Job } from "./queue/job.ts";
export type { Item } from "./queue/item.ts";
export type {
  Actor,
  ChildChange,
  ChildPatch,
  HistoryOptions,
  ItemChange,
  ItemsFilter,
  ImportedItem,
  NewItem,
  Signed,
} from "./queue/item-options.ts";
export type { Workflows } from "./queue/workflows.ts";
export type { Audit, AuditFilter, PruneOptions, TrailOptions } from "./queue/audit.ts";
export type { Verification, VerifyOptions, VerifyProgress, Witness } from "./queue/audit-walk.ts";
export type { TrailEntry } from "./queue/item-trail.ts";
export type { ByOperator } from "./queue/signature.ts";
export type { TaskClient } from "./queue/task-client.ts";
export type { Within } from "./queue/within.ts";
export type { WatchOptions } from "./queue/watches.ts";
export type { EnqueueOptions } from "./queue/options.ts";
export type { AttemptView, Jobs, JobSummary, JobView, StepView } from "./queue/jobs.ts";
export type { BulkChunk, BulkFilter, BulkOptions } from "./queue/bulk.ts";
export type { Lock } from "./queue/lock.ts";
export type { LockOptions, Locks, WithLockOptions } from "./queue/locks.ts";
export type { LockFigures, LockStatistics, LockStatsOptions } from "./queue/lock-stats.ts";
export type { LockHold, LockMode, LockRecord } from "./core/lock.ts";
export { Alerts, type AlertsParts } from "./ops/alerts.ts";
export type { AlertsFilter } from "./ops/alert-list.ts";
export type { AlertOptions } from "./ops/alert-settings.ts";
export type { WebhookOptions } from "./ops/webhook.ts";
export type { Alert, AlertEvent, AlertFacts, AlertStatus } from "./core/alert.ts";
export type { AcquireOptions, Lease, Leases, Release, Released } from "./queue/leases.ts";
export type {
  Drift,
  Drifts,
  WorkerMetrics,
  Workers,
  WorkersFilter,
  WorkerTarget,
} from "./queue/workers.ts";
export type {
  ChangedLimit,
  EnqueuerRecord,
  UnregisteredWorker,
  WorkerRecord,
  WorkerType,
} from "./store/registry.ts";
export type { LeaseRecord, OnConflict, QueueStats, Store, Stranded } from "./store/store.ts";
export { openStore } from "./store/open.ts";
export { Doctor } from "./ops/doctor.ts";
export type { Checked, Diagnosis, ExamineOptions, Fixed, FixOptions } from "./ops/doctor.ts";
export type { CheckRecord } from "./store/findings.ts";
export type { Fence, Status } from "./core/job.ts";
export type { Duration } from "./core/duration.ts";
export type { RetryOptions } from "./core/retry.ts";
export type { ErrorRecord } from "./core/error-record.ts";
export type { Logger } from "./core/log.ts";
export type { Runtime } from "./core/runtime.ts";
export * from "./core/errors.ts";
export { NotSerializable, TooLarge } from "./core/value-errors.ts";
export { LockLost, LockNotAcquired } from "./core/lock-errors.ts";
export {
  WorkerLimitInUseError,
  WorkerLimitMismatchError,
  WorkerTypeNotFoundError,
} from "./core/worker-errors.ts";
export {
  CalledFailed,
  CallFailed,
  DoubtNotFound,
  EventTimeout,
  NotCommitted,
  NotDone,
  StepsChanged,
  Suspended,
} from "./core/step-errors.ts";
export {
  IntegrityViolation,
  InvalidMove,
  ItemChanged,
  ItemNotFound,
  ItemsStranded,
  MoveRefused,
  WorkflowConflict,
  type Strand,
} from "./core/workflow-errors.ts";
