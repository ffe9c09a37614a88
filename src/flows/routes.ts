/** Routes of flows and batches. */
import { z } from "zod";
import { ATTEMPTS_MAX } from "../core/retry.ts";
import type { Task } from "../core/task.ts";
import { auditedBy, route, type Route, withoutUndefined } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { EnqueueOptions } from "../jobs/enqueue.ts";
import { enqueueOptionsSchema } from "../jobs/routes.ts";
import { dependencyPolicies } from "../jobs/store.ts";
import type { Batches, Flow, Flows } from "./flows.ts";
import { FLOW_JOBS_MAX, type FlowJobSpec } from "./builder.ts";
import { FlowNotFoundError } from "./errors.ts";
import { flowKinds } from "./store.ts";

const TAG = "flows";
const PAGE = 50;

const flowFields = {
  id: s.id,
  kind: z.enum(flowKinds),
  name: z.string(),
  callback: s.id
    .nullable()
    .meta({ description: "The job that runs when all jobs of a batch have ended." }),
  createdAt: s.instant,
};

const flowSummarySchema = z
  .object(flowFields)
  .meta({ id: "FlowSummary", description: "A flow or a batch." });

const flowSchema = z
  .object({
    ...flowFields,
    status: z.enum(["running", "done", "failed", "cancelled"]),
    total: s.count,
    done: s.count,
    failed: s.count,
    cancelled: s.count,
    live: s.count.meta({ description: "Jobs that have not ended." }),
    pruned: s.count.meta({ description: "Ended jobs whose records were pruned." }),
  })
  .meta({ id: "Flow", description: "A flow or a batch with the state of its jobs." });

const flowJobSchema = z
  .object({
    id: s.id,
    name: z.string().nullable(),
    task: z.string(),
    queue: z.string(),
    status: s.status,
    missing: s.count.meta({ description: "How many jobs it still waits for." }),
  })
  .meta({ id: "FlowJob", description: "A job of a flow." });

export const dependencySchema = z
  .object({
    id: s.id,
    name: z.string().nullable(),
    task: z.string().nullable(),
    status: s.status.nullable().meta({ description: "Null: its record was deleted." }),
    onFailed: z.enum(dependencyPolicies),
    onCancelled: z.enum(dependencyPolicies),
  })
  .meta({ id: "Dependency", description: "A job that another job waits or waited for." });

const newFlowJob = z
  .strictObject({
    name: s.name.meta({ description: "Unique in the flow." }),
    task: s.name,
    input: z.unknown().optional(),
    after: z
      .array(s.name)
      .max(FLOW_JOBS_MAX)
      .optional()
      .meta({ description: "The names of jobs of the flow, or ids of jobs, that must end first." }),
    options: enqueueOptionsSchema.omit({ after: true }).optional(),
  })
  .meta({ id: "NewFlowJob", description: "A job of a flow. Without an input, the input is null." });

const newFlowJobs = z.array(newFlowJob).min(1).max(FLOW_JOBS_MAX);

const newBatchJob = z.strictObject({
  task: s.name,
  input: z.unknown().optional(),
  options: enqueueOptionsSchema.optional(),
});

const enqueuedSchema = z
  .object({
    id: s.id,
    jobs: z.array(z.object({ id: s.id, task: z.string(), added: z.boolean() })),
  })
  .meta({ id: "EnqueuedFlow", description: "An accepted flow with its jobs." });

interface FlowRouteParts {
  readonly flows: Flows;
  /** The same with other ids, so that a repeated request changes nothing. */
  readonly withIds: (newId: () => string) => { readonly flows: Flows; readonly batches: Batches };
  /** Tasks whose schemas check inputs, by name. */
  readonly tasks: ReadonlyMap<string, Task>;
}

export function flowRoutes(parts: FlowRouteParts): Route[] {
  return [
    ...readRoutes(parts),
    dependencyRoute(parts),
    ...enqueueRoutes(parts),
    batchRoute(parts),
    ...actionRoutes(parts),
  ];
}

function readRoutes({ flows }: FlowRouteParts): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/flows",
      name: "listFlows",
      tag: TAG,
      summary: "List flows and batches, newest first",
      access: "viewer",
      query: {
        kind: z.enum(flowKinds).optional(),
        before: s.id.optional(),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: {
          description: "A page. Pass the last id as `before` to get the next.",
          schema: z.object({ flows: z.array(flowSummarySchema) }),
        },
      },
      run: async ({ query: { limit = PAGE, ...rest } }) => ({
        status: 200,
        json: { flows: (await flows.list({ ...withoutUndefined(rest), limit })).map(summaryOf) },
      }),
    }),
    route({
      method: "GET",
      path: "/api/v1/flows/{id}",
      name: "getFlow",
      tag: TAG,
      summary: "Get a flow or a batch, with the state of its jobs",
      access: "viewer",
      params: { id: s.id },
      answers: { 200: { description: "The flow.", schema: flowSchema } },
      run: async ({ params: { id } }) => {
        const flow = await flows.get(id);
        if (flow === null) throw new FlowNotFoundError({ id });
        return { status: 200, json: flow };
      },
    }),
    route({
      method: "GET",
      path: "/api/v1/flows/{id}/jobs",
      name: "listFlowJobs",
      tag: TAG,
      summary: "List the jobs of a flow, in the order in which they were added",
      access: "viewer",
      params: { id: s.id },
      query: { after: s.id.optional(), limit: s.pageLimit.optional() },
      answers: {
        200: {
          description: "A page. Pass the last id as `after` to get the next.",
          schema: z.object({ jobs: z.array(flowJobSchema) }),
        },
      },
      run: async ({ params: { id }, query: { limit = PAGE, ...rest } }) => ({
        status: 200,
        json: { jobs: await flows.jobs(id, { ...withoutUndefined(rest), limit }) },
      }),
    }),
  ];
}

function dependencyRoute({ flows }: FlowRouteParts): Route {
  return route({
    method: "GET",
    path: "/api/v1/jobs/{id}/dependencies",
    name: "listDependencies",
    tag: TAG,
    summary: "List the jobs that a job waits or waited for, and those that wait for it",
    access: "viewer",
    params: { id: s.id },
    query: { limit: s.pageLimit.optional() },
    answers: {
      200: {
        description:
          "The first page of both lists. `flow` is the flow that the job belongs to, or null.",
        schema: z.object({
          flow: s.id.nullable(),
          dependencies: z.array(dependencySchema),
          dependents: z.array(s.id),
        }),
      },
    },
    run: async ({ params: { id }, query: { limit = PAGE } }) => {
      const dependencies: object[] = [];
      for await (const { result: _result, error: _error, ...one } of flows.dependencies(id)) {
        if (dependencies.push(one) === limit) break;
      }
      const dependents = await flows.dependents(id, { limit });
      return { status: 200, json: { flow: await flows.of(id), dependencies, dependents } };
    },
  });
}

function enqueueRoutes({ withIds }: FlowRouteParts): Route[] {
  return [
    route({
      method: "POST",
      path: "/api/v1/flows",
      name: "enqueueFlow",
      tag: TAG,
      summary: "Enqueue jobs that wait for each other, all or none",
      access: "operator",
      body: z.strictObject({ name: s.name, jobs: newFlowJobs }),
      answers: { 201: { description: "All jobs are stored durably.", schema: enqueuedSchema } },
      problems: [409, 413],
      repeatable: true,
      location: (json) => `/api/v1/flows/${(json as { id: string }).id}`,
      idCount: ({ jobs }) => jobs.length + 1,
      run: async ({ body: { name, jobs }, ids }) => {
        const { flows } = withIds(inTurn(ids));
        return { status: 201, json: acceptedOf(await flows.enqueue(name, specsOf(jobs))) };
      },
    }),
    route({
      method: "POST",
      path: "/api/v1/flows/{id}/jobs",
      name: "addFlowJobs",
      tag: TAG,
      summary: "Add jobs to a flow, all or none",
      access: "operator",
      params: { id: s.id },
      body: z.strictObject({ jobs: newFlowJobs }),
      answers: { 201: { description: "All jobs are stored durably.", schema: enqueuedSchema } },
      problems: [404, 409, 413],
      repeatable: true,
      idCount: ({ jobs }) => jobs.length,
      run: async ({ params: { id }, body: { jobs }, ids }) => {
        const { flows } = withIds(inTurn(ids));
        return { status: 201, json: acceptedOf(await flows.add(id, specsOf(jobs))) };
      },
    }),
  ];
}

function batchRoute({ withIds, tasks }: FlowRouteParts): Route {
  return route({
    method: "POST",
    path: "/api/v1/batches",
    name: "enqueueBatch",
    tag: TAG,
    summary: "Enqueue jobs, and a job that runs when all of them have ended",
    access: "operator",
    body: z.strictObject({
      name: s.name,
      jobs: z.array(newBatchJob).max(FLOW_JOBS_MAX - 1),
      callback: newBatchJob.optional(),
    }),
    answers: {
      201: {
        description: "All jobs are stored durably. The callback is the last job in the list.",
        schema: enqueuedSchema,
      },
    },
    problems: [409, 413],
    repeatable: true,
    location: (json) => `/api/v1/flows/${(json as { id: string }).id}`,
    idCount: ({ jobs }) => jobs.length + 3,
    run: async ({ body: { name, jobs, callback }, ids }) => {
      const { batches } = withIds(inTurn(ids));
      const last = callback === undefined ? {} : { callback: callOf(callback, tasks) };
      const batch = await batches.enqueue(
        name,
        jobs.map((job) => callOf(job, tasks)),
        last,
      );
      const all = [...batch.jobs, ...(batch.callback === null ? [] : [batch.callback])];
      return { status: 201, json: acceptedOf({ id: batch.id, jobs: all }) };
    },
  });
}

type NewBatchJob = z.output<typeof newBatchJob>;
type BatchCall = readonly [Task | string, unknown, EnqueueOptions];

function callOf(
  { task, input = null, options = {} }: NewBatchJob,
  tasks: FlowRouteParts["tasks"],
): BatchCall {
  return [tasks.get(task) ?? task, input, withoutUndefined(options)];
}

function actionRoutes({ flows }: FlowRouteParts): Route[] {
  return [
    route({
      method: "POST",
      path: "/api/v1/flows/{id}/cancel",
      name: "cancelFlow",
      tag: TAG,
      summary: "Cancel the jobs of a flow that have not ended",
      access: "operator",
      params: { id: s.id },
      body: z.strictObject({ reason: s.reason.optional() }),
      answers: {
        200: {
          description: "How many jobs were cancelled or asked to stop.",
          schema: z.object({ id: s.id, cancelled: s.count }),
        },
      },
      problems: [404],
      run: async (call) => {
        const { id } = call.params;
        return { status: 200, json: { id, cancelled: await flows.cancel(id, auditedBy(call)) } };
      },
    }),
    route({
      method: "POST",
      path: "/api/v1/flows/{id}/retry",
      name: "retryFlow",
      tag: TAG,
      summary: "Retry the failed and cancelled jobs of a flow",
      access: "operator",
      params: { id: s.id },
      body: z.strictObject({
        attempts: z.int().min(1).max(ATTEMPTS_MAX).optional(),
        reason: s.reason.optional(),
      }),
      answers: {
        200: {
          description: "How many jobs were retried.",
          schema: z.object({ id: s.id, retried: s.count }),
        },
      },
      problems: [404, 409],
      run: async (call) => {
        const { id } = call.params;
        const options = {
          ...auditedBy(call),
          ...withoutUndefined({ attempts: call.body.attempts }),
        };
        return { status: 200, json: { id, retried: await flows.retry(id, options) } };
      },
    }),
  ];
}

function specsOf(jobs: z.output<typeof newFlowJobs>): FlowJobSpec[] {
  return jobs.map(({ name, task, input = null, after = [], options = {} }) => {
    return { name, task, input, after, options: withoutUndefined(options) };
  });
}

function acceptedOf({ id, jobs }: Pick<Flow, "id" | "jobs">): object {
  return { id, jobs: jobs.map((job) => ({ id: job.id, task: job.task, added: job.added })) };
}

function summaryOf({ id, kind, name, callback, createdAt }: Awaited<ReturnType<Flows["list"]>>[0]) {
  return { id, kind, name, callback, createdAt };
}

/** The ids of a request, one after the other. */
function inTurn(ids: readonly string[]): () => string {
  let at = 0;
  return () => ids[at++] as string;
}
