/** Bulk retry and cancel: one chunk per request, continued by a cursor. */
import { z } from "zod";
import { ATTEMPTS_MAX } from "../core/retry.ts";
import { auditedBy, route, type Route, withoutUndefined } from "../http/route.ts";
import * as s from "../http/schemas.ts";
import {
  BULK_LIMIT_DEFAULT,
  BULK_LIMIT_MAX,
  type BulkFilter,
  type BulkOptions,
  ERROR_LENGTH_MAX,
} from "./bulk.ts";
import type { Jobs } from "./jobs.ts";

const TAG = "jobs";

const filter = {
  status: s.status.optional(),
  queue: s.name.optional(),
  task: s.name.optional(),
  since: s.instant.optional().meta({
    description: "Only jobs that ended (or, if not ended, were enqueued) at or after this time.",
  }),
  until: s.instant.optional().meta({ description: "Before." }),
  error: z.string().min(1).max(ERROR_LENGTH_MAX).optional().meta({
    description: "Part of the last error's name or message, case-insensitive.",
  }),
  code: z.string().min(1).max(ERROR_LENGTH_MAX).optional().meta({
    description: "The code or name of the last error.",
  }),
  all: z.boolean().optional().meta({ description: "Required if no other filter is given." }),
};

const terms = {
  dryRun: z
    .boolean()
    .optional()
    .meta({ description: "Only report the matching jobs; change nothing." }),
  limit: z
    .int()
    .min(1)
    .max(BULK_LIMIT_MAX)
    .optional()
    .meta({
      description: `Number of jobs to examine. Default: ${BULK_LIMIT_DEFAULT}.`,
    }),
  cursor: z.string().max(64).optional().meta({ description: "`next` from the previous chunk." }),
  reason: s.reason.optional(),
};

const chunk = z
  .object({
    looked: s.count,
    matched: s.count,
    ids: z.array(s.id),
    refused: z.array(z.object({ id: s.id, code: z.string(), message: z.string() })),
    next: z.string().nullable(),
  })
  .meta({
    id: "BulkChunk",
    description:
      "Number of jobs examined and matched, the changed jobs, and the jobs that could not be changed. `next` is null after the last chunk.",
  });

const answers = {
  200: { description: "One chunk; `next` is the cursor of the next one.", schema: chunk },
};

const body = z.strictObject({ ...filter, ...terms });

export function bulkRoutes(jobs: Pick<Jobs, "retryMany" | "cancelMany">): Route[] {
  return [
    route({
      method: "POST",
      path: "/api/v1/jobs/retry",
      name: "retryJobs",
      tag: TAG,
      summary: "Retry matching failed or cancelled jobs, one chunk at a time",
      access: "operator",
      body: body.extend({
        attempts: z.int().min(1).max(ATTEMPTS_MAX).optional(),
        withCalled: z.boolean().optional(),
      }),
      answers,
      repeatable: true,
      run: async (call) => {
        const { attempts, withCalled, ...rest } = call.body;
        const { which, how } = split(rest, auditedBy(call));
        const more = withoutUndefined({ attempts, withCalled });
        return { status: 200, json: await jobs.retryMany(which, { ...how, ...more }) };
      },
    }),
    route({
      method: "POST",
      path: "/api/v1/jobs/cancel",
      name: "cancelJobs",
      tag: TAG,
      summary: "Cancel matching jobs that have not ended, one chunk at a time",
      access: "operator",
      body,
      answers,
      repeatable: true,
      run: async (call) => {
        const { which, how } = split(call.body, auditedBy(call));
        return { status: 200, json: await jobs.cancelMany(which, how) };
      },
    }),
  ];
}

function split(
  { dryRun, limit, cursor, reason: _reason, ...which }: z.output<typeof body>,
  by: ReturnType<typeof auditedBy>,
): { which: BulkFilter; how: BulkOptions } {
  return {
    which: withoutUndefined(which),
    how: { ...by, ...withoutUndefined({ dryRun, limit, cursor }) },
  };
}
