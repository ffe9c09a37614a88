/** Dead letters over HTTP. Bulk actions revive or delete many of them. */
import { z } from "zod";
import { type Redaction, restoredInput } from "../config/redaction.ts";
import { ATTEMPTS_MAX } from "../core/retry.ts";
import type { Task } from "../core/task.ts";
import { auditedBy, route, type Route, withoutUndefined } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import { attemptSchema, jobSchema, jobSummarySchema, stepSchema } from "../jobs/routes.ts";
import { type DeadLetters, GROUPED_MAX } from "./dead-letters.ts";

const TAG = "dead letters";

const PAGE = 50;

const groupSchema = z
  .object({
    task: z.string(),
    error: z.string(),
    jobs: s.count,
    message: z.string(),
    newest: z.object({ id: s.id, at: s.instant }),
    oldestAt: s.instant,
    isExact: z.boolean().meta({
      description: "A bulk action with this `task` and `code` finds these jobs and no others.",
    }),
  })
  .meta({ id: "DeadLetterGroup", description: "Dead letters with the same task and cause." });

export const inputSchema = z
  .object({ revision: s.count, input: z.unknown(), changedAt: s.instant })
  .meta({ id: "InputRevision", description: "An earlier input of a job." });

/** `tasks`: their schemas check a changed input. */
export function deadLetterRoutes(
  deadLetters: DeadLetters,
  tasks: ReadonlyMap<string, Task>,
  redaction: Redaction,
): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/dead-letters",
      name: "listDeadLetters",
      tag: TAG,
      summary: "List failed jobs, newest first",
      access: "viewer",
      query: {
        queue: s.name.optional(),
        task: s.name.optional(),
        tag: s.tag.optional(),
        before: s.id.optional().meta({ description: "`next` from the previous page." }),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: {
          description:
            "Failed jobs without input and result. A page may be short, or empty, and still have a `next`. `next` is null on the last page.",
          schema: z.object({ jobs: z.array(jobSummarySchema), next: s.id.nullable() }),
        },
      },
      run: async ({ query: { limit = PAGE, tag, ...query } }) => {
        const tags = tag === undefined ? {} : { tags: [tag] };
        const page = await deadLetters.page({ ...withoutUndefined(query), ...tags, limit });
        return { status: 200, json: page };
      },
    }),
    route({
      method: "GET",
      path: "/api/v1/dead-letter-groups",
      name: "groupDeadLetters",
      tag: TAG,
      summary: "Count failed jobs by task and cause",
      access: "viewer",
      query: {
        limit: z.int().min(1).max(GROUPED_MAX).optional().meta({
          description: "How many to examine, newest first.",
        }),
      },
      answers: {
        200: {
          description: "`isAll` is false if there are more than were examined.",
          schema: z.object({
            looked: s.count,
            isAll: z.boolean(),
            groups: z.array(groupSchema),
          }),
        },
      },
      run: async ({ query }) => ({
        status: 200,
        json: await deadLetters.groups(withoutUndefined(query)),
      }),
    }),
    ...oneRoutes(deadLetters, tasks, redaction),
  ];
}

function oneRoutes(
  deadLetters: DeadLetters,
  tasks: ReadonlyMap<string, Task>,
  redaction: Redaction,
): Route[] {
  const jobs = { get: async (id: string) => (await deadLetters.get(id)).job };
  return [
    route({
      method: "GET",
      path: "/api/v1/dead-letters/{id}",
      name: "getDeadLetter",
      tag: TAG,
      summary: "One job with its attempts, steps and earlier inputs",
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
      run: async ({ params: { id } }) => ({ status: 200, json: await deadLetters.get(id) }),
    }),
    route({
      method: "POST",
      path: "/api/v1/dead-letters/{id}/revive",
      name: "reviveDeadLetter",
      tag: TAG,
      summary: "Retry a failed, cancelled or expired job, optionally with a new input",
      access: "operator",
      params: { id: s.id },
      body: z.strictObject({
        input: z.unknown().optional().meta({ description: "Replaces the input." }),
        attempts: z.int().min(1).max(ATTEMPTS_MAX).optional(),
        withCalled: z.boolean().optional(),
        reason: s.reason.optional(),
      }),
      answers: {
        200: {
          description: "The job is pending again.",
          schema: z.object({ id: s.id, status: s.status, called: z.array(s.id) }),
        },
      },
      problems: [409, 413],
      repeatable: true,
      restores: true,
      run: async (call) => {
        const { id } = call.params;
        const { attempts, withCalled } = call.body;
        const input = await restoredInput({ jobs, redaction }, id, call.body.input);
        const definition = await definitionOf(deadLetters, tasks, id);
        const how = withoutUndefined({ attempts, withCalled, input, definition });
        const called = await deadLetters.revive(id, { ...auditedBy(call), ...how }, call.ids[0]);
        return { status: 200, json: { id, status: "pending", called } };
      },
    }),
  ];
}

async function definitionOf(
  deadLetters: DeadLetters,
  tasks: ReadonlyMap<string, Task>,
  id: string,
): Promise<Task | undefined> {
  return tasks.size === 0 ? undefined : tasks.get((await deadLetters.get(id)).job.task);
}
