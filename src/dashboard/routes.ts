/** Routes for the pages of the dashboard: what a page shows, in one request. */
import { z } from "zod";
import { alert } from "../alerts/operations.ts";
import { type AuditEntry, subjects } from "../audit/entry.ts";
import { auditLine } from "../audit/operations.ts";
import { JobNotFoundError } from "../core/errors.ts";
import type { Explanation } from "../core/explanation.ts";
import { statuses } from "../core/job.ts";
import type { Redaction } from "../config/redaction.ts";
import type { Runtime } from "../core/runtime.ts";
import { jobExplanation } from "../explain/operations.ts";
import type { DependencyView } from "../flows/results.ts";
import { dependency } from "../flows/operations.ts";
import { route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { AttemptView, InputRevision, JobView, StepView } from "../jobs/jobs.ts";
import * as shapes from "../jobs/shapes.ts";
import { zodOf } from "../operations/route.ts";
import { object, text } from "../operations/shape.ts";
import {
  desiredStates,
  livenesses,
  type WorkerRecord,
  workerStates,
} from "../registry/worker-record.ts";
import type { Usual } from "../stats/times.ts";
import type { TaskView } from "./names.ts";
import type { Overview } from "./overview.ts";
import { serviceStatus } from "./status.ts";
import { TookTooLongError } from "./operations.ts";
import { searchRoutes } from "./search-routes.ts";
import { STARTABLE } from "../jobs/actions.ts";
import type { DashboardStore, Related, Relations } from "./store.ts";

const TAG = "dashboard";

const queueSchema = z
  .object({
    queue: z.string(),
    counts: z.object(Object.fromEntries(statuses.map((status) => [status, s.count]))),
    oldestPendingAt: s.instant.nullable(),
    paused: z.object({ at: s.instant, by: z.string(), reason: z.string().nullable() }).nullable(),
    running: s.count,
    slots: s.count.meta({ description: "Of all workers that serve the queue and answer." }),
    served: z.boolean().meta({ description: "Whether a worker takes jobs from it." }),
    concurrency: s.count.nullable().meta({ description: "The limit of the queue; null: none." }),
    inPerSecond: z.number(),
    outPerSecond: z.number(),
    failedHour: s.count,
    spark: z.array(s.count).meta({
      description: "Jobs that ended in every two minutes of the last hour, oldest first.",
    }),
  })
  .meta({ id: "OverviewQueue", description: "A queue with its work and its workers." });

const workerSchema = z
  .object({
    id: z.string(),
    type: z.string(),
    running: s.count,
    concurrency: s.count,
    status: z.enum(workerStates),
    desiredState: z.enum(desiredStates),
    liveness: z.enum(livenesses),
    version: z.string(),
  })
  .meta({ id: "OverviewWorker", description: "A worker with its jobs." });

const canarySchema = z
  .object({
    queue: z.string(),
    sentAt: s.instant,
    pickupMs: z.number().nullable().meta({ description: "Null: it has not started." }),
    doneMs: z.number().nullable().meta({ description: "Null: it has not ended." }),
  })
  .meta({ id: "Canary", description: "A job that only shows that jobs run." });

const overviewSchema = z
  .object({
    at: s.instant,
    status: zodOf(serviceStatus),
    countedAt: s.instant,
    figures: z.object({
      endedPerSecond: z.number().meta({ description: "In the last whole minute." }),
      usualLow: z.number().nullable().meta({
        description: "Four of five quarters of an hour of the last day are between these.",
      }),
      usualHigh: z.number().nullable(),
      succeeded: z.number().nullable().meta({ description: "The share in the last hour, 0 to 1." }),
      succeededBefore: z.number().nullable(),
      pickupP50Ms: z.number().nullable(),
      pickupP99Ms: z.number().nullable(),
      pending: s.count,
      running: s.count,
      slots: s.count,
      workers: s.count,
      builds: z.array(z.string()),
      failedHour: s.count,
      recovered: s.count.meta({
        description: "Jobs of workers that died or froze in the last five minutes.",
      }),
      errorKinds: s.count,
      errorKindsNew: s.count,
    }),
    queues: z.array(queueSchema),
    queuesLeftOut: s.count,
    workers: z.array(workerSchema),
    alerts: z.array(zodOf(alert)).meta({ description: "The worst first, at most 20." }),
    alertsOpen: z.object({ critical: s.count, warning: s.count, info: s.count }),
    canaries: z.array(canarySchema),
    failed: z.array(zodOf(shapes.jobSummary)),
    isEmpty: z.boolean(),
    pausedAll: z.boolean(),
  })
  .meta({ id: "Overview", description: "How the service is." });

interface DashboardRouteParts {
  readonly runtime: Runtime;
  readonly redaction: Redaction;
  readonly overview: Overview;
  readonly store: DashboardStore;
  readonly story: (id: string) => Promise<object>;
  readonly tasks: () => Promise<TaskView[]>;
}

export function dashboardRoutes(parts: DashboardRouteParts): Route[] {
  const { overview } = parts;
  return [
    ...searchRoutes(parts),
    ...jobPageRoutes(parts),
    route({
      method: "GET",
      path: "/api/v1/overview",
      name: "getOverview",
      tag: TAG,
      summary: "How the service is: figures, queues, workers and alerts",
      access: "viewer",
      answers: { 200: { description: "At most a second old.", schema: overviewSchema } },
      run: async () => {
        const json = await overview.get();
        if (json === null) throw new TookTooLongError();
        return { status: 200, json };
      },
    }),
  ];
}

// Routes for the page of one job, and for the form that enqueues one.

const relatedSchema = z
  .object({ id: s.id, task: z.string(), status: s.status })
  .meta({ id: "RelatedJob" });

const attemptOfBuild = object({ ...shapes.attemptFields, build: text().nullable() }).named(
  "AttemptOfBuild",
  "An attempt with the build of its worker.",
);

const storySchema = z
  .object({
    job: zodOf(shapes.job),
    attempts: z.array(zodOf(attemptOfBuild)),
    steps: z.array(zodOf(shapes.step)),
    inputs: z.array(zodOf(shapes.inputRevision)),
    explanation: zodOf(jobExplanation).nullable(),
    startBy: s.instant.nullable(),
    schedule: z.string().nullable(),
    item: z
      .object({
        id: s.id,
        workflow: z.string(),
        identifier: z.string().nullable(),
        status: z.string(),
      })
      .nullable(),
    flow: s.id.nullable(),
    dependencies: z.array(zodOf(dependency)),
    dependents: z.array(relatedSchema),
    called: z.array(relatedSchema).meta({ description: "Jobs it called and waits for now." }),
    callers: z.array(relatedSchema).meta({ description: "Jobs that called it and wait for it." }),
    usual: z
      .object({ lowMs: z.number(), highMs: z.number(), count: s.count })
      .nullable()
      .meta({ description: "Four of five recent runs of its task took between these." }),
    audit: z.array(zodOf(auditLine)),
    canRunNow: z.boolean(),
    blocked: z
      .object({ ms: z.number(), stack: z.string() })
      .nullable()
      .meta({ description: "Where a task blocks the event loop of the worker that runs it." }),
  })
  .meta({ id: "JobStory", description: "Everything about one job." });

const taskSchema = z
  .object({
    name: z.string(),
    queue: z.string().nullable().meta({
      description: "Null: this server does not have the task's code.",
    }),
    maxAttempts: s.count.nullable(),
    hasSchema: z.boolean(),
    schema: z.unknown().meta({ description: "The JSON schema of the input; null: none." }),
    workers: s.count.meta({ description: "Live workers that run it." }),
  })
  .meta({ id: "TaskInfo", description: "A task that the server or a worker knows." });

interface JobPageParts {
  readonly story: (id: string) => Promise<object>;
  readonly tasks: () => Promise<TaskView[]>;
}

function jobPageRoutes({ story, tasks }: JobPageParts): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/tasks",
      name: "listTasks",
      tag: TAG,
      summary: "List tasks with the JSON schemas of their inputs",
      access: "viewer",
      answers: {
        200: {
          description: "By name: those of this server and of the workers.",
          schema: z.object({ tasks: z.array(taskSchema) }),
        },
      },
      run: async () => ({ status: 200, json: { tasks: await tasks() } }),
    }),
    route({
      method: "GET",
      path: "/api/v1/jobs/{id}/story",
      name: "getJobStory",
      tag: TAG,
      summary: "Everything about one job in one request",
      access: "viewer",
      params: { id: s.id },
      answers: { 200: { description: "The job.", schema: storySchema } },
      run: async ({ params: { id } }) => ({ status: 200, json: await story(id) }),
    }),
  ];
}

// Everything that the page of one job draws.

/** Jobs it waits for, and jobs that wait for it. */
const DEPENDENCIES_MAX = 100;

const AUDIT_MAX = 50;

export interface StoryParts {
  readonly jobs: {
    get(id: string): Promise<JobView | null>;
    attempts(id: string): Promise<AttemptView[]>;
    steps(id: string): Promise<StepView[]>;
    inputs(id: string): Promise<InputRevision[]>;
    explain(id: string): Promise<Explanation>;
  };
  readonly flows: {
    of(id: string): Promise<string | null>;
    dependencies(id: string): AsyncIterable<DependencyView>;
    dependents(id: string, options: { limit: number }): Promise<string[]>;
  };
  readonly audit: {
    list(filter: { subject: string; limit: number }): Promise<AuditEntry[]>;
  };
  readonly usual: (task: string) => Promise<Usual | null>;
  readonly relations: (id: string) => Promise<Relations>;
  readonly brief: (ids: readonly string[]) => Promise<Related[]>;
  readonly worker: (id: string) => Promise<Pick<WorkerRecord, "blockedMs" | "blockedStack"> | null>;
  readonly builds: (workers: readonly string[]) => Promise<Readonly<Record<string, string>>>;
}

export async function storyOf(parts: StoryParts, id: string): Promise<object> {
  const { jobs, flows } = parts;
  const job = await jobs.get(id);
  if (job === null) throw new JobNotFoundError({ id });
  const [attempts, steps, inputs, relations, usual, audit] = await Promise.all([
    jobs.attempts(id),
    jobs.steps(id),
    jobs.inputs(id),
    parts.relations(id),
    parts.usual(job.task),
    parts.audit.list({ subject: subjects.job(id), limit: AUDIT_MAX }),
  ]);
  const [flow, dependencies, dependents, builds, explanation, blocked] = await Promise.all([
    flows.of(id),
    dependenciesOf(parts, id),
    flows.dependents(id, { limit: DEPENDENCIES_MAX }).then(parts.brief),
    parts.builds(attempts.map(({ worker }) => worker)),
    jobs.explain(id).catch(() => null), // the rest is worth showing without it
    blockedOf(parts, job.lockedBy),
  ]);
  const { called, callers, ...belongs } = relations;
  return {
    job,
    attempts: attempts.map((one) => ({ ...one, build: builds[one.worker] ?? null })),
    steps,
    inputs,
    explanation,
    ...belongs,
    flow,
    dependencies,
    dependents,
    called,
    callers,
    usual,
    audit,
    canRunNow: STARTABLE.includes(job.status),
    blocked,
  };
}

/** Where the worker of a running job is blocked. */
async function blockedOf({ worker }: StoryParts, id: string | null): Promise<object | null> {
  const { blockedMs: ms = 0, blockedStack: stack = null } =
    (id === null ? null : await worker(id)) ?? {};
  return stack === null ? null : { ms, stack };
}

async function dependenciesOf({ flows }: StoryParts, id: string): Promise<object[]> {
  const found: object[] = [];
  for await (const { result: _result, error: _error, ...one } of flows.dependencies(id)) {
    if (found.push(one) === DEPENDENCIES_MAX) break;
  }
  return found;
}
