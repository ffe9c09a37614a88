/** Routes of flows and batches. */
import { z } from "zod";
import type { Task } from "../core/task.ts";
import { route, type Route, withoutUndefined } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { EnqueueOptions } from "../jobs/enqueue.ts";
import { enqueueOptions } from "../jobs/shapes.ts";
import { zodOf } from "../operations/route.ts";
import type { Batches, Flow, Flows } from "./flows.ts";
import { FLOW_JOBS_MAX, type FlowJobSpec } from "./builder.ts";

const TAG = "flows";

const enqueueOptionsSchema = zodOf(enqueueOptions) as z.ZodObject;

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
  /** With the ids of the request, so that a repeated request changes nothing. */
  readonly withIds: (newId: () => string) => { readonly flows: Flows; readonly batches: Batches };
  /** Tasks whose schemas check inputs, by name. */
  readonly tasks: ReadonlyMap<string, Task>;
}

export function flowRoutes(parts: FlowRouteParts): Route[] {
  return [...enqueueRoutes(parts), batchRoute(parts)];
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

function specsOf(jobs: z.output<typeof newFlowJobs>): FlowJobSpec[] {
  return jobs.map(({ name, task, input = null, after = [], options = {} }) => {
    return { name, task, input, after, options: withoutUndefined(options) };
  });
}

function acceptedOf({ id, jobs }: Pick<Flow, "id" | "jobs">): object {
  return { id, jobs: jobs.map((job) => ({ id: job.id, task: job.task, added: job.added })) };
}

/** The ids of a request, one after the other. */
function inTurn(ids: readonly string[]): () => string {
  let at = 0;
  return () => ids[at++] as string;
}
