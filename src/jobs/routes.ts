/** Routes to enqueue, inspect, cancel and retry jobs. */
import { z } from "zod";
import { JobNotFoundError } from "../core/errors.ts";
import { calledId } from "../core/id.ts";
import { type Redaction, restoredInput } from "../config/redaction.ts";
import { ATTEMPTS_MAX } from "../core/retry.ts";
import { DEFAULT_QUEUE, stepKinds, stepStates, type Task } from "../core/task.ts";
import { auditedBy, route, type Route, withoutUndefined } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import { traceOf } from "../tracing/tracing.ts";
import { AFTER_MAX } from "./after.ts";
import { conflicts, type EnqueueCall, type EnqueueOptions, PRIORITY_MAX } from "./enqueue.ts";
import type { Jobs, JobView } from "./jobs.ts";
import { ENQUEUE_BATCH_MAX } from "./sql-jobs.ts";
import { dependencyPolicies, type Enqueued } from "./store.ts";
import { TAGS_MAX } from "./list.ts";

const TAG = "jobs";

const PAGE = 50;

export const enqueueOptionsSchema = z
  .strictObject({
    queue: s.name.optional(),
    priority: z.int().min(-PRIORITY_MAX).max(PRIORITY_MAX).optional(),
    delay: s.duration.optional(),
    runAt: s.instant.optional(),
    startBy: s.instant.optional(),
    startWithin: s.duration.optional(),
    lane: s.key.optional(),
    maxAttempts: z.int().min(1).max(ATTEMPTS_MAX).optional(),
    key: s.key.optional(),
    keyFor: s.duration.optional(),
    onConflict: z.enum(conflicts).optional(),
    debounce: z
      .union([s.duration, z.strictObject({ wait: s.duration, maxWait: s.duration.optional() })])
      .optional(),
    throttle: s.duration.optional(),
    tags: z.array(s.tag).max(TAGS_MAX).optional(),
    after: z
      .array(s.id)
      .max(AFTER_MAX)
      .optional()
      .meta({ description: "The ids of jobs that must end first." }),
    onFailed: z.enum(dependencyPolicies).optional(),
    onCancelled: z.enum(dependencyPolicies).optional(),
  })
  .meta({ id: "EnqueueOptions", description: "The same options as the library's `enqueue`." });

const newJob = z
  .strictObject({
    task: s.name,
    input: z.unknown().optional(),
    options: enqueueOptionsSchema.optional(),
  })
  .meta({
    id: "NewJob",
    description: "Runs the task with the input. Without one, the input is null.",
  });

type NewJob = z.output<typeof newJob>;

const errorRecordSchema = z
  .object({
    name: z.string(),
    message: z.string(),
    code: z.string().optional(),
    stack: z.string().optional(),
    cause: z.unknown().optional(),
    step: z
      .object({ name: z.string(), occurrence: s.count, tookMs: z.number() })
      .optional()
      .meta({ description: "The step that failed, and how long it had run." }),
  })
  .meta({ id: "ErrorRecord", description: "The error of a failed attempt." });

const summaryFields = {
  id: s.id,
  queue: z.string(),
  task: z.string(),
  status: s.status,
  priority: z.int(),
  key: z.string().nullable(),
  lane: z.string().nullable().meta({ description: "The lane it was enqueued in." }),
  epoch: s.count,
  attempts: s.count,
  maxAttempts: s.count,
  crashes: s.count,
  enqueuedAt: s.instant,
  dueAt: s.instant.nullable(),
  lockedBy: z.string().nullable(),
  lockedUntil: s.instant.nullable(),
  claimedAt: s.instant.nullable(),
  heartbeatAt: s.instant.nullable(),
  traceId: z.string().nullable(),
  finishedAt: s.instant.nullable(),
  lastError: errorRecordSchema.nullable(),
  inDoubt: z.string().nullable().meta({
    description: "The name of an effect in doubt: an operator must record whether it happened.",
  }),
  tags: z.array(z.string()),
};

export const jobSummarySchema = z
  .object(summaryFields)
  .meta({ id: "JobSummary", description: "A job without its input and result." });

export const jobSchema = z
  .object({
    ...summaryFields,
    input: z.unknown(),
    result: z.unknown().optional(),
    cancelRequestedAt: s.instant.nullable(),
  })
  .meta({ id: "Job", description: "A job with its input and result." });

export const attemptSchema = z
  .object({
    epoch: s.count,
    attempt: s.count,
    worker: z.string(),
    outcome: z.string(),
    startedAt: s.instant,
    endedAt: s.instant.nullable(),
    traceId: z.string(),
    error: errorRecordSchema.nullable(),
  })
  .meta({ id: "Attempt", description: "One attempt to run a job." });

export const stepSchema = z
  .object({
    name: z.string(),
    occurrence: s.count,
    kind: z.enum(stepKinds),
    position: s.count,
    status: z.enum(stepStates),
    result: z.unknown().optional(),
    epoch: s.count,
    begunAt: s.instant,
    endedAt: s.instant.nullable(),
  })
  .meta({ id: "Step", description: "A durable step of a job; its result is saved." });

export const inputSchema = z
  .object({ revision: s.count, input: z.unknown(), changedAt: s.instant })
  .meta({ id: "InputRevision", description: "An earlier input of a job." });

const enqueuedSchema = z
  .object({
    id: s.id,
    task: z.string(),
    added: z.boolean(),
    warning: z.string().optional().meta({
      description:
        "Set if no live worker can run the job. Only a server with registered tasks checks this, and only for unregistered tasks.",
    }),
  })
  .meta({
    id: "Enqueued",
    description: "An accepted job. If `added` is false, it is the existing job with the same key.",
  });

interface JobRouteParts {
  readonly jobs: Jobs;
  readonly redaction: Redaction;
  /** Enqueues as the library does: the same checks and defaults, all jobs or none. */
  readonly enqueue: (calls: readonly EnqueueCall[], newId: () => string) => Promise<Enqueued[]>;
  /** Tasks whose schemas check inputs, by name. */
  readonly tasks: ReadonlyMap<string, Task>;
  /** For each pending job, why no live worker can run it; null: one can. */
  readonly whyUnclaimable: (jobs: readonly Pending[]) => Promise<readonly (string | null)[]>;
}

type Pending = Pick<JobView, "queue" | "task">;

export function jobRoutes(parts: JobRouteParts): Route[] {
  return [...enqueueRoutes(parts), ...readRoutes(parts), ...actionRoutes(parts)];
}

function enqueueRoutes(parts: JobRouteParts): Route[] {
  return [
    route({
      method: "POST",
      path: "/api/v1/jobs",
      name: "enqueue",
      tag: TAG,
      summary: "Enqueue a job",
      access: "operator",
      body: newJob,
      answers: {
        200: {
          description: "An existing job holds the key; it is returned.",
          schema: enqueuedSchema,
        },
        201: { description: "The job is stored durably.", schema: enqueuedSchema },
      },
      problems: [409, 413],
      repeatable: true,
      location: (json) => `/api/v1/jobs/${(json as Accepted[number]).id}`,
      run: async ({ body, ids, headers }) => {
        const [job] = await accept(parts, { jobs: [body], ids, headers });
        return { status: job?.added === true ? 201 : 200, json: job };
      },
    }),
    route({
      method: "POST",
      path: "/api/v1/jobs/bulk",
      name: "enqueueMany",
      tag: TAG,
      summary: "Enqueue many jobs, all or none",
      access: "operator",
      body: z.strictObject({ jobs: z.array(newJob).min(1).max(ENQUEUE_BATCH_MAX) }),
      answers: {
        201: {
          description: "All jobs are stored durably; the list is in the order of the request.",
          schema: z.object({ jobs: z.array(enqueuedSchema) }),
        },
      },
      problems: [409, 413],
      repeatable: true,
      idCount: ({ jobs }) => jobs.length,
      run: async ({ body: { jobs }, ids, headers }) => ({
        status: 201,
        json: { jobs: await accept(parts, { jobs, ids, headers }) },
      }),
    }),
  ];
}

interface Wanted {
  readonly jobs: readonly NewJob[];
  readonly ids: readonly string[];
  readonly headers: Parameters<typeof traceOf>[0];
}

type Accepted = z.output<typeof enqueuedSchema>[];

/**
 * The jobs join the trace of the request. A job whose id exists already was accepted by an earlier attempt of the same
 * request.
 */
async function accept(parts: JobRouteParts, { jobs, ids, headers }: Wanted): Promise<Accepted> {
  const trace = traceOf(headers);
  const calls = jobs.map(({ task, input = null, options: terms = {} }) => ({
    task: parts.tasks.get(task) ?? task,
    inputs: [input],
    options: { ...(terms as EnqueueOptions), ...(trace === null ? {} : { trace }) },
  }));
  const unused = ids.values();
  const enqueued = await parts.enqueue(calls, () => unused.next().value as string);
  const accepted = enqueued.map(({ id }, index) => {
    const job = jobs[index] as NewJob;
    const ours = ids[index] ?? "";
    // A job that waits for others has a mark in its id.
    return { id, task: job.task, added: id === ours || id === calledId(ours) };
  });
  return withWarnings(parts, jobs, accepted);
}

/**
 * A misspelt task name is accepted like any other. Only a server with registered tasks looks for workers, and only for
 * unregistered tasks, so most requests need no extra query.
 */
async function withWarnings(
  { tasks, whyUnclaimable }: JobRouteParts,
  jobs: readonly NewJob[],
  accepted: Accepted,
): Promise<Accepted> {
  const isUnknown = ({ task, added }: Accepted[number]): boolean => added && !tasks.has(task);
  if (tasks.size === 0 || !accepted.some(isUnknown)) return accepted;
  const pending = accepted.map(({ task }, index) => ({
    task,
    queue: jobs[index]?.options?.queue ?? DEFAULT_QUEUE,
  }));
  // The jobs are accepted; failing to look up workers must not fail the request.
  const reasons = await whyUnclaimable(pending).catch(() => []);
  return accepted.map((job, index) => {
    const reason = isUnknown(job) ? (reasons[index] ?? null) : null;
    return reason === null ? job : { ...job, warning: reason };
  });
}

function readRoutes({ jobs }: JobRouteParts): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/jobs",
      name: "listJobs",
      tag: TAG,
      summary: "List jobs, newest first",
      access: "viewer",
      query: {
        status: s.status.optional(),
        queue: s.name.optional(),
        task: s.name.optional(),
        key: s.key.optional().meta({ description: "Only jobs enqueued with this key." }),
        tag: s.tag.optional().meta({ description: "Only jobs with this tag." }),
        prefix: s.idPrefix.optional(),
        before: s.id.optional().meta({ description: "`next` from the previous page." }),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: {
          description:
            "Jobs without input and result. A page may have fewer jobs than its limit, or none, and still have a `next`: a request looks for a short time only. `next` is null on the last page.",
          schema: z.object({ jobs: z.array(jobSummarySchema), next: s.id.nullable() }),
        },
      },
      run: async ({ query }) => {
        const { limit = PAGE, tag, ...filter } = query;
        const tags = tag === undefined ? {} : { tags: [tag] };
        return { status: 200, json: await jobs.page({ ...filter, ...tags, limit } as object) };
      },
    }),
    route({
      method: "GET",
      path: "/api/v1/jobs/{id}",
      name: "getJob",
      tag: TAG,
      summary: "One job with its input, attempts, steps and earlier inputs",
      access: "viewer",
      params: { id: s.id },
      answers: {
        200: {
          description: "The job.",
          schema: z.object({
            job: jobSchema,
            attempts: z.array(attemptSchema),
            steps: z.array(stepSchema),
            inputs: z.array(inputSchema),
          }),
        },
      },
      run: async ({ params: { id } }) => {
        const job = await jobs.get(id);
        if (job === null) throw new JobNotFoundError({ id });
        const attempts = await jobs.attempts(id);
        const rest = { steps: await jobs.steps(id), inputs: await jobs.inputs(id) };
        return { status: 200, json: { job, attempts, ...rest } };
      },
    }),
  ];
}

const audited = { reason: s.reason.optional() };

function actionRoutes({ jobs, redaction, tasks }: JobRouteParts): Route[] {
  const definitionOf = async (id: string): Promise<Task | undefined> =>
    tasks.size === 0 ? undefined : tasks.get((await jobs.get(id))?.task ?? "");
  return [
    route({
      method: "POST",
      path: "/api/v1/jobs/{id}/cancel",
      name: "cancelJob",
      tag: TAG,
      summary: "Cancel a job",
      access: "operator",
      params: { id: s.id },
      body: z.strictObject(audited),
      answers: {
        200: {
          description:
            "The job's status now. `processing`: its worker is notified. `done` or `failed`: it had already ended.",
          schema: z.object({ id: s.id, status: s.status }),
        },
      },
      repeatable: true,
      run: async (call) => {
        const { id } = call.params;
        const status = await jobs.cancel(id, auditedBy(call), call.ids[0]);
        return { status: 200, json: { id, status } };
      },
    }),
    route({
      method: "POST",
      path: "/api/v1/jobs/{id}/retry",
      name: "retryJob",
      tag: TAG,
      summary: "Retry a failed, cancelled or expired job, optionally with another input",
      access: "operator",
      restores: true,
      params: { id: s.id },
      body: z.strictObject({
        input: z.unknown().optional().meta({ description: "Replaces the input." }),
        attempts: z.int().min(1).max(ATTEMPTS_MAX).optional(),
        withCalled: z.boolean().optional().meta({
          description:
            "Whether to also retry called jobs whose failure caused this job to fail. If omitted, the retry of such a job is refused.",
        }),
        ...audited,
      }),
      answers: {
        200: {
          description: "The job is pending again, and so are the `called` jobs.",
          schema: z.object({ id: s.id, status: s.status, called: z.array(s.id) }),
        },
      },
      problems: [409, 413],
      repeatable: true,
      run: async (call) => {
        const { id } = call.params;
        const { attempts, withCalled } = call.body;
        const input = await restoredInput({ jobs, redaction }, id, call.body.input);
        const definition = input === undefined ? undefined : await definitionOf(id);
        const how = withoutUndefined({ attempts, withCalled, input, definition });
        const called = await jobs.retry(id, { ...auditedBy(call), ...how }, call.ids[0]);
        return { status: 200, json: { id, status: "pending", called } };
      },
    }),
  ];
}
