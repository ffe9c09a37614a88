import { type AlertsStore, SqlAlerts } from "../alerts/store.ts";
import { auditChecks } from "../audit/verify.ts";
import { type AuditStore, SqlAudit } from "../audit/store.ts";
import { bulkChecks, bulkHooks, type BulkStore, SqlBulk } from "../bulk/store.ts";
import { refuseIncomplete } from "../copy/store.ts";
import { type DashboardStore, SqlDashboard } from "../dashboard/store.ts";
import { type Database, EngineDatabase, type Push } from "../database/database.ts";
import type { Engine, Migrated, MigrationPlan } from "../database/engine.ts";
import { checkSchema, migrate, planMigration } from "../database/migrate.ts";
import {
  onPool,
  openEngine,
  type DatabaseLocation,
  pushFor,
  type StoreOptions,
} from "../database/open.ts";
import { type CheckGroup, type DoctorStore, SqlChecks } from "../doctor/store.ts";
import { schemaChecks } from "../doctor/schema-checks.ts";
import { errorFold } from "../error-kinds/fold.ts";
import { type ErrorKindsStore, SqlErrorKinds } from "../error-kinds/store.ts";
import { type ExplainStore, SqlExplain } from "../explain/store.ts";
import { flowChecks } from "../flows/checks.ts";
import { flowHooks } from "../flows/hooks.ts";
import { type FlowsStore, SqlFlows } from "../flows/store.ts";
import { type RequestsStore, SqlRequests } from "../http-kernel/idempotency.ts";
import { formatChecks, orphanChecks, placeChecks } from "../jobs/checks.ts";
import type { JobHooks } from "../jobs/hooks.ts";
import { leaseChecks, overdueChecks } from "../jobs/lease-checks.ts";
import { type JobsStore, SqlJobs } from "../jobs/sql-jobs.ts";
import { statementsFor } from "../jobs/statements.ts";
import type { JobStatements } from "../jobs/store.ts";
import { GovernedQueues } from "../limits/claim.ts";
import { lockFold } from "../locks/stats.ts";
import { lockChecks, type LocksStore, SqlLocks } from "../locks/store.ts";
import { type QueuesStore, SqlQueues } from "../queues/store.ts";
import { unclaimableChecks, workerChecks } from "../registry/checks.ts";
import { buildFold } from "../registry/marks.ts";
import { SqlWorkers, type WorkersStore } from "../registry/store.ts";
import { reportHooks, type ReportsStore, SqlReports } from "../reports/store.ts";
import { scheduleChecks } from "../schedules/checks.ts";
import { scheduleHooks } from "../schedules/runs.ts";
import { type SchedulesStore, SqlSchedules } from "../schedules/store.ts";
import type { MinuteFold } from "../stats/minute-totals.ts";
import { SqlStats, type StatsStore } from "../stats/store.ts";
import { taskFold } from "../stats/task-totals.ts";
import { stepChecks, waitChecks } from "../steps/checks.ts";
import { eventHooks, wakeHooks } from "../steps/events.ts";
import { SqlSteps, type StepsStore } from "../steps/store.ts";
import { type SessionsStore, SqlSessions, SqlTokens, type TokensStore } from "../tokens/store.ts";
import { SqlTraces, type TracesStore } from "../tracing/tracing.ts";
import { itemChecks } from "../workflows/checks.ts";
import { itemHooks } from "../workflows/item-record.ts";
import { type ItemsStore, SqlItems } from "../workflows/store.ts";

// What features do when a job moves, in the order of their locks: the event of its end, items, flows, jobs that wait.

export const jobHooks: readonly JobHooks[] = [
  eventHooks,
  itemHooks,
  flowHooks,
  wakeHooks,
  reportHooks,
  bulkHooks,
  scheduleHooks,
];

/** What features count when a minute is over. */
const minuteFolds: readonly MinuteFold[] = [buildFold, taskFold, errorFold, lockFold];

export async function openStore(
  location: DatabaseLocation,
  options: StoreOptions = {},
): Promise<Store> {
  const engine = await (typeof location === "string"
    ? openEngine(location, options)
    : onPool(location, options));
  try {
    const push = await pushFor(engine, options);
    return await storeOn(engine, push ?? engine);
  } catch (error) {
    await engine.close();
    throw error;
  }
}

/** The stores of all features on one database. */
export async function storeOn(engine: Engine, push: Push = engine): Promise<Store> {
  return composeStore(engine, await statementsFor(engine), push);
}

export function composeStore(
  engine: Engine,
  statements: JobStatements,
  push: Push = engine,
): Store {
  const db = new EngineDatabase(engine, push);
  const workers = new SqlWorkers(db);
  return {
    db,
    jobs: new SqlJobs(db, statements, { hooks: jobHooks, rules: new GovernedQueues(engine) }),
    bulk: new SqlBulk(db, jobHooks),
    queues: new SqlQueues(db),
    steps: new SqlSteps(db, jobHooks),
    flows: new SqlFlows(db, jobHooks),
    reports: new SqlReports(db),
    workers,
    items: new SqlItems(db, jobHooks),
    locks: new SqlLocks(db),
    audit: new SqlAudit(db),
    stats: new SqlStats(db, minuteFolds),
    alerts: new SqlAlerts(db, jobHooks),
    schedules: new SqlSchedules(db, jobHooks),
    tokens: new SqlTokens(db),
    sessions: new SqlSessions(db),
    requests: new SqlRequests(db),
    traces: new SqlTraces(db),
    checks: new SqlChecks(db, checkGroups),
    explain: new SqlExplain(engine, workers),
    dashboard: new SqlDashboard(db),
    errorKinds: new SqlErrorKinds(db),
    migrate: async () => {
      const migrated = await migrate(engine);
      await refuseIncomplete(engine);
      return migrated;
    },
    planMigration: () => planMigration(engine),
    checkSchema: async () => {
      await checkSchema(engine);
      await refuseIncomplete(engine);
    },
    close: () => db.close(),
  };
}

/** Composed of one small store per feature, all on the same database. */
export interface Store {
  readonly db: Database;
  readonly jobs: JobsStore;
  readonly bulk: BulkStore;
  readonly queues: QueuesStore;
  readonly steps: StepsStore;
  readonly flows: FlowsStore;
  readonly reports: ReportsStore;
  readonly workers: WorkersStore;
  readonly items: ItemsStore;
  readonly locks: LocksStore;
  readonly audit: AuditStore;
  readonly stats: StatsStore;
  readonly alerts: AlertsStore;
  readonly schedules: SchedulesStore;
  readonly tokens: TokensStore;
  readonly sessions: SessionsStore;
  readonly requests: RequestsStore;
  readonly traces: TracesStore;
  readonly checks: DoctorStore;
  readonly explain: ExplainStore;
  readonly dashboard: DashboardStore;
  readonly errorKinds: ErrorKindsStore;

  /** Brings the tables up to this version, one process at a time. Safe to call from many at once. */
  migrate(): Promise<Migrated>;
  /** What `migrate` would do, as SQL for others to apply. Changes nothing. */
  planMigration(): Promise<MigrationPlan>;
  /** Throws unless the tables fit this version of the library. */
  checkSchema(): Promise<void>;

  close(): Promise<void>;
}

// The checks of all features, in the order of the report: jobs first.

export const checkGroups: readonly CheckGroup[] = [
  { about: "jobs", checks: placeChecks },
  { about: "leases", checks: leaseChecks(jobHooks) },
  { about: "workers", checks: workerChecks },
  { about: "waiting", checks: [...overdueChecks(jobHooks), ...waitChecks, ...unclaimableChecks] },
  { about: "flows", checks: flowChecks(jobHooks) },
  { about: "steps", checks: stepChecks },
  { about: "bulk", checks: bulkChecks },
  { about: "leftovers", checks: orphanChecks },
  { about: "items", checks: itemChecks },
  { about: "schedules", checks: scheduleChecks },
  { about: "audit", checks: auditChecks },
  { about: "locks", checks: lockChecks },
  { about: "ids", checks: formatChecks },
  { about: "schema", checks: schemaChecks },
];
