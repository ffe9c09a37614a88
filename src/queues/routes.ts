/** Routes that pause queues and set their limits. Their counts are among the statistics. */
import { z } from "zod";
import { auditedBy, route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { QueueOptions, Queues } from "./queues.ts";

const TAG = "queues";

const rateSchema = z.object({ count: z.int(), periodMs: z.int(), burst: z.int() }).meta({
  description: "At most `count` jobs start per period, and `burst` together after a quiet period.",
});

const limitsFields = {
  concurrency: z
    .int()
    .nullable()
    .meta({ description: "Maximum number of running jobs in all processes; null: no limit." }),
  rate: rateSchema.nullable(),
};

const queueSchema = z
  .object({
    name: z.string(),
    paused: z
      .object({ at: s.instant, by: z.string(), reason: z.string().nullable() })
      .nullable()
      .meta({ description: "Who paused the queue, when and why; null: it is not paused." }),
    ageingMs: z.int().nullable(),
    limits: z.object(limitsFields),
    eachLane: z.object(limitsFields),
    lanes: z.record(z.string(), z.object({ ...limitsFields, weight: z.int() })),
    tasks: z.record(z.string(), z.object(limitsFields)),
  })
  .meta({ id: "QueueSettings", description: "The settings of a queue." });

const rateInput = z.strictObject({
  count: z.int(),
  per: s.duration,
  burst: z.int().optional(),
});

const limitInput = {
  concurrency: z.int().nullable().optional(),
  rate: rateInput.nullable().optional(),
};

const settingsInput = z
  .strictObject({
    ...limitInput,
    eachLane: z.strictObject(limitInput).nullable().optional(),
    lanes: z
      .record(
        s.key,
        z.strictObject({ ...limitInput, weight: z.int().nullable().optional() }).nullable(),
      )
      .optional(),
    tasks: z.record(s.name, z.strictObject(limitInput).nullable()).optional(),
    ageing: s.duration.nullable().optional(),
    reason: s.reason.optional(),
  })
  .meta({
    id: "QueueChange",
    description: "Omitted fields do not change; null removes a setting.",
  });

const params = { name: s.name };
const answer = { 200: { description: "The settings of the queue.", schema: queueSchema } };

export function queueRoutes(queues: Queues): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/queue-settings",
      name: "listQueueSettings",
      tag: TAG,
      summary: "List the queues that have settings",
      access: "viewer",
      answers: {
        200: {
          description: "The queues, by name.",
          schema: z.object({ queues: z.array(queueSchema) }),
        },
      },
      run: async () => ({ status: 200, json: { queues: await queues.list() } }),
    }),
    route({
      method: "GET",
      path: "/api/v1/queues/{name}/settings",
      name: "getQueueSettings",
      tag: TAG,
      summary: "Get the settings of a queue",
      access: "viewer",
      params,
      answers: answer,
      run: async ({ params: { name } }) => ({ status: 200, json: await queues.get(name) }),
    }),
    route({
      method: "POST",
      path: "/api/v1/queues/{name}/settings",
      name: "setQueue",
      tag: TAG,
      summary: "Set limits, weights and ageing",
      access: "operator",
      params,
      body: settingsInput,
      answers: answer,
      run: async (call) => {
        const { reason: _reason, ...settings } = call.body;
        const changed = { ...(settings as QueueOptions), ...auditedBy(call) };
        return { status: 200, json: await queues.set(call.params.name, changed) };
      },
    }),
    ...(["pause", "resume"] as const).map((action) =>
      route({
        method: "POST",
        path: `/api/v1/queues/{name}/${action}`,
        name: `${action}Queue`,
        tag: TAG,
        summary:
          action === "pause"
            ? "Pause a queue: workers claim none of its jobs"
            : "Resume a paused queue",
        access: "operator",
        params,
        body: z.strictObject({ reason: s.reason.optional() }),
        answers: answer,
        run: async (call) => {
          const { name } = call.params;
          await queues[action](name, auditedBy(call));
          return { status: 200, json: await queues.get(name) };
        },
      }),
    ),
    ...(["pause", "resume"] as const).map((action) => allRoute(queues, action)),
  ];
}

function allRoute(queues: Queues, action: "pause" | "resume"): Route {
  return route({
    method: "POST",
    path: `/api/v1/${action}-all`,
    name: `${action}AllQueues`,
    tag: TAG,
    summary:
      action === "pause"
        ? "Pause all queues, in one transaction: workers claim no job"
        : "Resume the queues that pause-all paused; others stay paused",
    access: "operator",
    body: z.strictObject({ reason: s.reason.optional() }),
    answers: {
      200: {
        description: "The queues that were changed, by name, and those that are paused now.",
        schema: z.object({ queues: z.array(z.string()), paused: z.array(z.string()) }),
      },
    },
    repeatable: true,
    run: async (call) => {
      const [id = ""] = call.ids;
      const changed =
        action === "pause"
          ? await queues.pauseAll(auditedBy(call), { id })
          : await queues.resumeAll(auditedBy(call), { id });
      const all = await queues.list();
      const paused = all.filter((queue) => queue.paused !== null).map(({ name }) => name);
      return { status: 200, json: { queues: changed, paused } };
    },
  });
}
