/** Routes of effects in doubt, of reruns and of events. */
import { z } from "zod";
import { type Redaction, restoredInput } from "../config/redaction.ts";
import { defineEvent, type Emitted, type EventType } from "../core/event.ts";
import { ATTEMPTS_MAX } from "../core/retry.ts";
import { stepKinds, stepStates } from "../core/task.ts";
import { auditedBy, route, type Route, withoutUndefined } from "../http-kernel/route.ts";
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

// Running an ended job again from a step.

/** A step is written as its name, or as an object with its occurrence. */
const rerunFrom = z
  .union([s.name, z.strictObject({ name: s.name, occurrence: z.int().min(1) })])
  .nullable()
  .meta({ description: "The step to start from; null: the beginning." });

const plannedStep = z.object({
  name: z.string(),
  occurrence: s.count,
  kind: z.enum(stepKinds),
  status: z.enum(stepStates),
});

const rerunPlan = z
  .object({
    job: s.id,
    from: z.object({ name: z.string(), occurrence: s.count }).nullable(),
    keeps: z.array(plannedStep),
    repeats: z.array(plannedStep),
    confirm: z.array(z.string()),
  })
  .meta({
    id: "RerunPlan",
    description:
      "Which steps would keep their results and which would run again. `confirm` names those that change something outside the job.",
  });

/** Names of confirmed steps: a job has fewer steps. */
const CONFIRM_MAX = 10_000;

interface RerunParts {
  readonly jobs: Jobs;
  readonly redaction: Redaction;
}

export function rerunRoutes({ jobs, redaction }: RerunParts): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/jobs/{id}/rerun-plan",
      name: "planRerun",
      tag: TAG,
      summary: "Show what a rerun from a step would repeat",
      access: "viewer",
      params: { id: s.id },
      query: {
        from: s.name
          .optional()
          .meta({ description: "The step to start from; if omitted, the beginning." }),
        occurrence: z
          .int()
          .min(1)
          .optional()
          .meta({ description: "Which step, if several have this name." }),
      },
      answers: { 200: { description: "The plan; nothing is changed.", schema: rerunPlan } },
      run: async ({ params: { id }, query: { from, occurrence = 1 } }) => ({
        status: 200,
        json: await jobs.planRerun(id, {
          from: from === undefined ? null : { name: from, occurrence },
        }),
      }),
    }),
    route({
      method: "POST",
      path: "/api/v1/jobs/{id}/rerun",
      name: "rerunJob",
      tag: TAG,
      summary: "Run an ended job again from a step",
      access: "operator",
      restores: true,
      params: { id: s.id },
      body: z.strictObject({
        from: rerunFrom,
        confirm: z.array(z.string()).max(CONFIRM_MAX).optional().meta({
          description: "`confirm` of the plan: the steps that may happen again.",
        }),
        input: z.unknown().optional().meta({ description: "Replaces the input." }),
        attempts: z.int().min(1).max(ATTEMPTS_MAX).optional(),
        reason: s.reason.optional(),
      }),
      answers: {
        200: {
          description: "The job is pending again.",
          schema: z.object({ id: s.id, status: s.status }),
        },
      },
      problems: [409, 413],
      repeatable: true,
      run: async (call) => {
        const { id } = call.params;
        const { from, confirm, attempts } = call.body;
        const input = await restoredInput({ jobs, redaction }, id, call.body.input);
        const how = withoutUndefined({ confirm, input, attempts });
        await jobs.rerun(id, { ...auditedBy(call), from, ...how }, call.ids[0]);
        return { status: 200, json: { id, status: "pending" } };
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
