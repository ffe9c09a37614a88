/** Routes of effects in doubt and of events. */
import { z } from "zod";
import { defineEvent, type Emitted, type EventType } from "../core/event.ts";
import { auditedBy, route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { Jobs } from "../jobs/jobs.ts";

const TAG = "jobs";

const doubtSchema = z
  .object({
    job: s.id,
    name: z.string(),
    occurrence: s.count,
    task: z.string(),
    queue: z.string(),
    begunAt: s.instant,
  })
  .meta({ id: "Doubt", description: "An effect that started but whose outcome is unknown." });

export function effectRoutes(jobs: Pick<Jobs, "effectsInDoubt" | "resolve">): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/effects",
      name: "listEffects",
      tag: TAG,
      summary: "List effects in doubt",
      access: "viewer",
      query: { limit: s.pageLimit.optional() },
      answers: {
        200: {
          description: "The effects, oldest first.",
          schema: z.object({ effects: z.array(doubtSchema) }),
        },
      },
      run: async ({ query }) => ({
        status: 200,
        json: { effects: await jobs.effectsInDoubt(query as object) },
      }),
    }),
    route({
      method: "POST",
      path: "/api/v1/jobs/{id}/resolve",
      name: "resolveDoubt",
      tag: TAG,
      summary: "Resolve an effect in doubt; its job continues",
      access: "operator",
      params: { id: s.id },
      body: z.strictObject({
        name: s.name,
        occurrence: z.int().min(1).optional(),
        done: z.boolean(),
        result: z.unknown().optional(),
        reason: s.reason.optional(),
      }),
      answers: {
        200: {
          description: "The decision is recorded.",
          schema: z.object({ id: s.id, done: z.boolean() }),
        },
      },
      run: async (call) => {
        const { id } = call.params;
        const { name, occurrence = 1, done, result } = call.body;
        const happened = done ? { done, result } : { done };
        await jobs.resolve({ job: id, name, occurrence }, happened, auditedBy(call));
        return { status: 200, json: { id, done } };
      },
    }),
  ];
}

export function emitRoute(
  emit: (event: EventType, key: string, payload: unknown) => Promise<Emitted>,
): Route {
  return route({
    method: "POST",
    path: "/api/v1/events",
    name: "emitEvent",
    tag: TAG,
    summary: "Emit an event; jobs waiting for it continue",
    access: "operator",
    body: z.strictObject({ name: s.name, key: s.key, payload: z.unknown().optional() }),
    answers: {
      200: {
        description:
          "If `first` is false, the event was emitted before and keeps its first payload.",
        schema: z.object({ first: z.boolean(), woken: z.int().min(0) }),
      },
    },
    problems: [413],
    run: async ({ body: { name, key, payload = null } }) => {
      const { first, woken } = await emit(defineEvent<unknown>({ name }), key, payload);
      return { status: 200, json: { first, woken } };
    },
  });
}
