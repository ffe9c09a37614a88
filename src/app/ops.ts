/** Published as `holdfast/ops`: what runs a service and looks after it. */

export type { Alert, AlertEvent, AlertFacts, AlertStatus } from "../alerts/alert.ts";
export { Alerts, type AlertsFilter, type AlertsParts } from "../alerts/alerts.ts";
export type { AlertOptions } from "../alerts/options.ts";
export type { WebhookOptions } from "../alerts/webhook.ts";
export type { Audit, AuditFilter, PruneOptions } from "../audit/audit.ts";
export type { AuditBreak, AuditEntry, BreakKind } from "../audit/entry.ts";
export type { Actor, Audited, OperatorOptions } from "../audit/operator.ts";
export type { Verification, VerifyOptions, VerifyProgress, Witness } from "../audit/verify.ts";
export type { ErrorRecord } from "../core/error-record.ts";
export type {
  Explanation,
  JobReasons,
  QueueExplanation,
  QueueReasons,
} from "../core/explanation.ts";
export type { Finding, Offender, Severity } from "../core/finding.ts";
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
export type { BulkAction, BulkFilter, BulkRequest, BulkTerms } from "../bulk/filter.ts";
export type { BulkRecord, BulkStatus, Refusal } from "../bulk/store.ts";
export type {
  DeadLetter,
  DeadLetterFilter,
  DeadLetterGroup,
  DeadLetters,
} from "../dead-letters/dead-letters.ts";
export type {
  AttemptView,
  InputRevision,
  JobSummary,
  RerunOptions,
  RetryJobOptions,
  StepView,
} from "../jobs/jobs.ts";
export type { AcquireOptions, Lease, Leases, Release, Released } from "../jobs/leases.ts";
export type { LeaseRecord, QueueStats, Unclaimable } from "../jobs/store.ts";
export { canaryTask, withCanary, type CanaryOptions } from "../monitoring/canary.ts";
export { startMonitor, type Monitor, type MonitorOptions } from "../monitoring/monitor.ts";
export type { CanaryReport, Observation } from "../monitoring/observation.ts";
export {
  WorkerLimitInUseError,
  WorkerLimitMismatchError,
  WorkerTypeNotFoundError,
} from "../registry/errors.ts";
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
export type { MinuteStats } from "../stats/totals.ts";
export type { MinutesOptions, Stats } from "../stats/stats.ts";
export type { Emitted } from "../core/event.ts";
export type { GivenTrace, TraceContext } from "../tracing/trace.ts";
export type { WorkerStatus } from "../worker/worker.ts";
