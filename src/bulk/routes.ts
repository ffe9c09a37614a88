/** Bulk actions over HTTP: start one, then follow, stop and resume it. */
import { z } from "zod";
import type { Redaction } from "../config/redaction.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { ATTEMPTS_MAX } from "../core/retry.ts";
import { auditedBy, route, type Route, withoutUndefined } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import { PRIORITY_MAX } from "../jobs/after.ts";
import { filterValues } from "../jobs/shapes.ts";
import { zodOf } from "../operations/route.ts";
import { boolean, strict } from "../operations/shape.ts";
import type { BulkActions } from "./bulk.ts";
import { bulkActions, type BulkFilter, type BulkRequest } from "./request.ts";
import { type BulkRecord, bulkStatuses } from "./store.ts";

const TAG = "bulk";

const PAGE = 50;

const all = boolean().optional().about("Required if no other field is given.");

const filter = zodOf(
  strict({ ...filterValues, all }).named("BulkFilter", "A job must match all given fields."),
);

export const bulkBody = z.strictObject({
  action: z.enum(bulkActions),
  filter,
  dryRun: z.boolean().optional().meta({ description: "Only count the matching jobs." }),
  attempts: z.int().min(1).max(ATTEMPTS_MAX).optional().meta({
    description: "Retry: additional attempts. Default: 3.",
  }),
  withCalled: z.boolean().optional().meta({
    description: "Retry: whether to also retry called jobs whose failure caused a job to fail.",
  }),
  queue: s.name.optional().meta({ description: "Move: the new queue." }),
  priority: z.int().min(-PRIORITY_MAX).max(PRIORITY_MAX).optional().meta({
    description: "Priority: the new priority.",
  }),
  reason: s.reason.optional(),
});

export const bulkSchema = z
  .object({
    id: s.id,
    action: z.enum(bulkActions),
    filter,
    terms: z.object({
      attempts: s.count.optional(),
      withCalled: z.boolean().optional(),
      queue: z.string().optional(),
      priority: z.int().optional(),
    }),
    dryRun: z.boolean(),
    actor: z.string(),
    reason: z.string().nullable(),
    status: z.enum(bulkStatuses),
    looked: s.count,
    matched: s.count,
    changed: s.count,
    refused: s.count,
    sample: z.array(s.id),
    refusals: z.array(z.object({ id: s.id, code: z.string(), message: z.string() })),
    error: z.string().nullable(),
    carrier: z.string().nullable(),
    createdAt: s.instant,
    changedAt: s.instant,
    endedAt: s.instant.nullable(),
  })
  .meta({
    id: "BulkAction",
    description:
      "An action on all jobs that match a filter. Workers and servers carry it out in the background; the counts show its progress.",
  });

const audited = z.strictObject({ reason: s.reason.optional() });

interface BulkRouteParts {
  readonly bulk: BulkActions;
  readonly redaction: Redaction;
}

/** A count of the jobs whose inputs have a text would tell what is hidden in them. */
export function refuseHidden({ isEmpty }: Redaction, { input }: { readonly input?: string }): void {
  if (isEmpty || input === undefined) return;
  const problem =
    "cannot be used here, because inputs are redacted. List the jobs, and pass their ids.";
  throw new InvalidArgumentError({ field: "filter.input", problem });
}

/** `onStart` wakes the process that carries it out. */
export function bulkRoutes({ bulk, redaction }: BulkRouteParts, onStart: () => void): Route[] {
  return [
    route({
      method: "POST",
      path: "/api/v1/bulk",
      name: "startBulk",
      tag: TAG,
      summary: "Retry, cancel, delete, move or reprioritize the jobs that match a filter",
      access: "operator",
      body: bulkBody,
      answers: { 201: { description: "The stored action.", schema: bulkSchema } },
      repeatable: true,
      location: (json) => `/api/v1/bulk/${(json as BulkRecord).id}`,
      run: async (call) => {
        const { reason: _reason, ...request } = call.body;
        refuseHidden(redaction, request.filter as BulkFilter);
        const asked = withoutUndefined({
          ...request,
          filter: withoutUndefined(request.filter as object),
        }) as BulkRequest;
        const started = await bulk.start(asked, auditedBy(call), call.ids[0]);
        onStart();
        return { status: 201, json: started };
      },
    }),
    route({
      method: "GET",
      path: "/api/v1/bulk",
      name: "listBulk",
      tag: TAG,
      summary: "List bulk actions, newest first",
      access: "viewer",
      query: {
        status: z.enum(bulkStatuses).optional(),
        before: s.id.optional().meta({ description: "`next` from the previous page." }),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: {
          description: "`next` is null on the last page.",
          schema: z.object({ actions: z.array(bulkSchema), next: s.id.nullable() }),
        },
      },
      run: async ({ query: { limit = PAGE, ...query } }) => {
        const actions = await bulk.list({ ...withoutUndefined(query), limit });
        const next = actions.length === limit ? (actions.at(-1)?.id ?? null) : null;
        return { status: 200, json: { actions, next } };
      },
    }),
    route({
      method: "GET",
      path: "/api/v1/bulk/{id}",
      name: "getBulk",
      tag: TAG,
      summary: "One bulk action with its progress",
      access: "viewer",
      agent:
        "How far a bulk action has come: how many jobs matched, were changed and were refused.",
      params: { id: s.id },
      answers: { 200: { description: "The action.", schema: bulkSchema } },
      problems: [404],
      run: async ({ params: { id } }) => ({ status: 200, json: await bulk.get(id) }),
    }),
    ...turnRoutes(bulk, onStart),
  ];
}

function turnRoutes(bulk: BulkActions, onStart: () => void): Route[] {
  return (["stop", "resume"] as const).map((turn) =>
    route({
      method: "POST",
      path: `/api/v1/bulk/{id}/${turn}`,
      name: `${turn}Bulk`,
      tag: TAG,
      summary:
        turn === "stop"
          ? "Stop a bulk action; jobs that it has changed stay changed"
          : "Resume a bulk action that was stopped or failed",
      access: "operator",
      params: { id: s.id },
      body: audited,
      answers: { 200: { description: "The action.", schema: bulkSchema } },
      problems: turn === "stop" ? [404] : [404, 409],
      repeatable: true,
      run: async (call) => {
        const turned = await bulk[turn](call.params.id, auditedBy(call), call.ids[0]);
        onStart();
        return { status: 200, json: turned };
      },
    }),
  );
}
