/** Many jobs by what they have in common: a chunk at a request, from a cursor on. */
import { z } from "zod";
import { ATTEMPTS_MAX } from "../../core/retry.ts";
import {
  BULK_LIMIT_DEFAULT,
  BULK_LIMIT_MAX,
  type BulkFilter,
  type BulkOptions,
} from "../../queue/bulk.ts";
import type { RouteParts } from "../parts.ts";
import { route, type Route } from "../route.ts";
import * as s from "../schemas.ts";

const TAG = "jobs";
const ERROR_LENGTH_MAX = 1_000;

const filter = {
  status: s.status.optional(),
  queue: s.name.optional(),
  task: s.name.optional(),
  since: s.instant.optional().meta({
    description: "Not before: when it ended; of a job that has not, when it was enqueued.",
  }),
  until: s.instant.optional().meta({ description: "Before." }),
  error: z.string().min(1).max(ERROR_LENGTH_MAX).optional().meta({
    description: "A part of the last error's name or message, in either case.",
  }),
  code: z.string().min(1).max(ERROR_LENGTH_MAX).optional().meta({
    description: "The code, or the name, of the last error.",
  }),
  all: z.boolean().optional().meta({ description: "Needed where nothing else is named." }),
};

const terms = {
  dryRun: z.boolean().optional().meta({ description: "Only tells which jobs fit." }),
  limit: z
    .int()
    .min(1)
    .max(BULK_LIMIT_MAX)
    .optional()
    .meta({
      description: `How many jobs are looked at. Default: ${BULK_LIMIT_DEFAULT}.`,
    }),
  cursor: z.string().max(64).optional().meta({ description: "`next` of the chunk before." }),
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
      "How many jobs were looked at, how many fit, those that were changed, and those that could not be. `next` null: that was all.",
  });

const answers = {
  200: { description: "A chunk; `next` is the cursor of the next.", schema: chunk },
};

export function bulkRoutes({ holdfast: { jobs } }: RouteParts): Route[] {
  return [
    route({
      method: "POST",
      path: "/api/v1/jobs/retry",
      name: "retryJobs",
      tag: TAG,
      summary: "Retry the failed or cancelled jobs that fit, a chunk at a time",
      access: "operator",
      body: z.strictObject({
        ...filter,
        ...terms,
        attempts: z.int().min(1).max(ATTEMPTS_MAX).optional(),
        withCalled: z.boolean().optional(),
      }),
      answers,
      repeatable: true,
      run: async ({ body, asker, requestId }) => {
        const { attempts, withCalled, ...rest } = body;
        const { which, how } = split(rest, { actor: asker.name, trace: requestId });
        const more = given({ attempts, withCalled });
        return { status: 200, json: await jobs.retryMany(which, { ...how, ...more }) };
      },
    }),
    route({
      method: "POST",
      path: "/api/v1/jobs/cancel",
      name: "cancelJobs",
      tag: TAG,
      summary: "Cancel the jobs that fit and have not ended, a chunk at a time",
      access: "operator",
      body: z.strictObject({ ...filter, ...terms }),
      answers,
      repeatable: true,
      run: async ({ body, asker, requestId }) => {
        const { which, how } = split(body, { actor: asker.name, trace: requestId });
        return { status: 200, json: await jobs.cancelMany(which, how) };
      },
    }),
  ];
}

const both = z.strictObject({ ...filter, ...terms });

function split(
  body: z.output<typeof both>,
  by: { readonly actor: string; readonly trace: string },
): { which: BulkFilter; how: BulkOptions } {
  const { dryRun, limit, cursor, reason, ...which } = body;
  return { which: given(which), how: { ...by, ...given({ dryRun, limit, cursor, reason }) } };
}

/** Without what is undefined. */
function given(options: object): object {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
