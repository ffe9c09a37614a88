/** Enqueueing flows and batches over HTTP. Ids come from the request, so that a repeated one changes nothing. */
import type { Task } from "../core/task.ts";
import type { EnqueueOptions } from "../jobs/enqueue.ts";
import { enqueueFields, newJobFields } from "../jobs/shapes.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { FLOW_JOBS_MAX, type FlowJobSpec } from "./builder.ts";
import type { Batches, Flow, Flows } from "./flows.ts";

export interface EnqueueFlowApp {
  readonly withIds: (newId: () => string) => { readonly flows: Flows; readonly batches: Batches };
  /** Tasks whose schemas check inputs, by name. */
  readonly tasks: ReadonlyMap<string, Task>;
}

const operation = operationsOf<EnqueueFlowApp>("flows");

const { after: _after, ...optionsInFlow } = enqueueFields;

const flowJob = s
  .strict({
    name: s.name.about("Unique in the flow."),
    task: s.name,
    input: s.anything().optional(),
    after: s
      .list(s.name, { max: FLOW_JOBS_MAX })
      .optional()
      .about("The names of jobs of the flow, or ids of jobs, that must end first."),
    options: s.strict(optionsInFlow).optional(),
  })
  .named("NewFlowJob", "A job of a flow. Without an input, the input is null.");

const flowJobs = s.list(flowJob, { min: 1, max: FLOW_JOBS_MAX });

const batchJob = s.strict(newJobFields);

const accepted = s
  .object({
    id: s.id,
    jobs: s.list(s.object({ id: s.id, task: s.text(), added: s.boolean() })),
  })
  .named("EnqueuedFlow", "An accepted flow with its jobs.");

const post = { method: "POST", status: 201, repeatable: true } as const;
const location = ({ id }: { readonly id: string }): string => `/api/v1/flows/${id}`;

export const enqueueFlowOperations = {
  enqueue: operation({
    name: "enqueueFlow",
    summary: "Enqueue jobs that wait for each other, all or none",
    access: "operator",
    input: { name: s.name, jobs: flowJobs },
    returns: "All jobs are stored durably.",
    result: accepted,
    run: async ({ withIds }, { name, jobs }, { ids }) =>
      acceptedOf(await withIds(inTurn(ids)).flows.enqueue(name, jobs.map(specOf))),
    http: {
      ...post,
      path: "/api/v1/flows",
      problems: [409, 413],
      location,
      idCount: ({ jobs }) => jobs.length + 1,
    },
  }),

  add: operation({
    name: "addFlowJobs",
    summary: "Add jobs to a flow, all or none",
    access: "operator",
    input: { id: s.id, jobs: flowJobs },
    returns: "All jobs are stored durably.",
    result: accepted,
    run: async ({ withIds }, { id, jobs }, { ids }) =>
      acceptedOf(await withIds(inTurn(ids)).flows.add(id, jobs.map(specOf))),
    http: {
      ...post,
      path: "/api/v1/flows/{id}/jobs",
      problems: [404, 409, 413],
      idCount: ({ jobs }) => jobs.length,
    },
  }),

  batch: operation({
    name: "enqueueBatch",
    summary: "Enqueue jobs, and a job that runs when all of them have ended",
    access: "operator",
    input: {
      name: s.name,
      jobs: s.list(batchJob, { max: FLOW_JOBS_MAX - 1 }),
      callback: batchJob.optional(),
    },
    returns: "All jobs are stored durably. The callback is the last job in the list.",
    result: accepted,
    run: async ({ withIds, tasks }, { name, jobs, callback }, { ids }) => {
      const { batches } = withIds(inTurn(ids));
      const calls = jobs.map((job) => callOf(job, tasks));
      const last = callback === undefined ? {} : { callback: callOf(callback, tasks) };
      const batch = await batches.enqueue(name, calls, last);
      const all = [...batch.jobs, ...(batch.callback === null ? [] : [batch.callback])];
      return acceptedOf({ id: batch.id, jobs: all });
    },
    http: {
      ...post,
      path: "/api/v1/batches",
      problems: [409, 413],
      location,
      idCount: ({ jobs }) => jobs.length + 3,
    },
  }),
};

function callOf(
  { task, input = null, options = {} }: s.TypeOf<typeof batchJob>,
  tasks: EnqueueFlowApp["tasks"],
): readonly [Task | string, unknown, EnqueueOptions] {
  return [tasks.get(task) ?? task, input, options];
}

function specOf({ input = null, after = [], options = {}, ...job }: s.TypeOf<typeof flowJob>) {
  return { ...job, input, after, options } satisfies FlowJobSpec;
}

function acceptedOf({ id, jobs }: Pick<Flow, "id" | "jobs">): s.TypeOf<typeof accepted> {
  return { id, jobs: jobs.map((job) => ({ id: job.id, task: job.task, added: job.added })) };
}

/** The ids of a request, one after the other. */
function inTurn(ids: readonly string[]): () => string {
  let at = 0;
  return () => ids[at++] as string;
}
