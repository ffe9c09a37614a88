/** Routes for the page of one job, and for the form that enqueues one. */
import { z } from "zod";
import { auditLineSchema } from "../audit/routes.ts";
import { inputSchema } from "../dead-letters/routes.ts";
import { explanationSchema } from "../explain/routes.ts";
import { dependencySchema } from "../flows/routes.ts";
import { auditedBy, route, type Route } from "../http/route.ts";
import * as s from "../http/schemas.ts";
import { attemptSchema, jobSchema, stepSchema } from "../jobs/routes.ts";
import type { DashboardStore } from "./store.ts";
import type { TaskView } from "./tasks.ts";

const TAG = "dashboard";

const relatedSchema = z
  .object({ id: s.id, task: z.string(), status: z.string() })
  .meta({ id: "RelatedJob" });

const storySchema = z
  .object({
    job: jobSchema,
    attempts: z.array(
      attemptSchema
        .extend({ build: z.string().nullable() })
        .meta({ id: "AttemptOfBuild", description: "An attempt with the build of its worker." }),
    ),
    steps: z.array(stepSchema),
    inputs: z.array(inputSchema),
    explanation: explanationSchema.nullable(),
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
    dependencies: z.array(dependencySchema),
    dependents: z.array(relatedSchema),
    called: z.array(relatedSchema).meta({ description: "Jobs it called and waits for now." }),
    callers: z.array(relatedSchema).meta({ description: "Jobs that called it and wait for it." }),
    usual: z
      .object({ lowMs: z.number(), highMs: z.number(), count: s.count })
      .nullable()
      .meta({ description: "Four of five recent runs of its task took between these." }),
    audit: z.array(auditLineSchema),
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
  readonly store: Pick<DashboardStore, "runNow">;
  readonly story: (id: string) => Promise<object>;
  readonly tasks: () => Promise<TaskView[]>;
}

export function jobPageRoutes({ store, story, tasks }: JobPageParts): Route[] {
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
    route({
      method: "POST",
      path: "/api/v1/jobs/{id}/run-now",
      name: "runJobNow",
      tag: "jobs",
      summary: "Run a job now that is scheduled or waits for its next attempt",
      access: "operator",
      params: { id: s.id },
      body: z.strictObject({ reason: s.reason.optional() }),
      answers: {
        200: {
          description: "It is due; a worker takes it next.",
          schema: z.object({ id: s.id, status: s.status }),
        },
      },
      problems: [409],
      repeatable: true,
      run: async (call) => {
        const { id } = call.params;
        const { actor, trace, reason } = auditedBy(call);
        const by = { id: call.ids[0] as string, actor, traceId: trace, reason: reason ?? null };
        await store.runNow(id, by);
        return { status: 200, json: { id, status: "pending" } };
      },
    }),
  ];
}
