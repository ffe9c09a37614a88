/** Routes of errors by kind. */
import { z } from "zod";
import { auditedBy, route, type Route, withoutUndefined } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { Errors } from "./errors.ts";
import { kindStates } from "./store.ts";

const TAG = "errors";

const kindId = z.string().regex(/^[0-9a-f]{32}$/);

const kindSchema = z
  .object({
    id: kindId,
    task: z.string(),
    name: z.string(),
    code: z.string().nullable(),
    message: z.string().meta({ description: "With … in place of values." }),
    state: z.enum(kindStates),
    failed: s.count.meta({ description: "Jobs that failed for good with it." }),
    retried: s.count.meta({
      description: "Attempts that failed with it and were followed by another.",
    }),
    firstAt: s.instant,
    lastAt: s.instant,
    firstBuild: z.string().nullable(),
    builds: z.array(z.string()),
    sample: z.object({ job: s.id, message: z.string() }),
    changedAt: s.instant.nullable(),
    changedBy: z.string().nullable(),
    resolvedIn: z.string().nullable(),
    cameBackAt: s.instant.nullable(),
    isNew: z.boolean().meta({ description: "First seen within the last 24 hours." }),
    trend: z.array(s.count).meta({ description: "Of each of the last 24 hours, oldest first." }),
  })
  .meta({
    id: "ErrorKind",
    description: "Errors of one task with the same name, code and message.",
  });

const CHANGES = {
  resolve: "Resolve a kind of error; it is open again when it comes back",
  mute: "Mute a kind of error",
  reopen: "Open a kind of error again",
};

type Change = keyof typeof CHANGES;

interface ErrorRouteParts {
  readonly errors: Errors;
  /** The newest error with its stack; null: its job is gone. */
  readonly stackOf: (job: string) => Promise<string | null>;
}

export function errorRoutes(parts: ErrorRouteParts): Route[] {
  const { errors, stackOf } = parts;
  return [
    route({
      method: "GET",
      path: "/api/v1/errors",
      name: "listErrors",
      agent:
        "Errors by kind, last seen first: how many jobs failed with it, since which build, and one of them.",
      tag: TAG,
      summary: "List errors by kind, last seen first",
      access: "viewer",
      query: { state: z.enum(kindStates).optional(), limit: s.pageLimit.optional() },
      answers: {
        200: {
          description: "At most 200 kinds. They are counted when a minute is over.",
          schema: z.object({
            counts: z.object({ open: s.count, resolved: s.count, muted: s.count, new: s.count }),
            groups: z.array(kindSchema),
            isAll: z.boolean(),
          }),
        },
      },
      run: async ({ query }) => ({ status: 200, json: await errors.list(withoutUndefined(query)) }),
    }),
    route({
      method: "GET",
      path: "/api/v1/errors/{id}",
      name: "getError",
      agent: "One kind of error, with the stack of its newest error.",
      tag: TAG,
      summary: "One kind of error with its newest stack",
      access: "viewer",
      params: { id: kindId },
      answers: {
        200: {
          description: "The kind.",
          schema: z.object({ group: kindSchema, stack: z.string().nullable() }),
        },
      },
      run: async ({ params }) => {
        const group = await errors.get(params.id);
        return { status: 200, json: { group, stack: await stackOf(group.sample.job) } };
      },
    }),
    ...(Object.keys(CHANGES) as Change[]).map((change) => changeRoute(parts, change)),
  ];
}

const inBuild = s.name.optional().meta({
  description: "It stays resolved until a build that was not known to have it has it.",
});

function changeRoute({ errors }: ErrorRouteParts, change: Change): Route {
  return route({
    method: "POST",
    path: `/api/v1/errors/{id}/${change}`,
    name: `${change}Error`,
    tag: TAG,
    summary: CHANGES[change],
    access: "operator",
    params: { id: kindId },
    body: z.strictObject({
      ...(change === "resolve" ? { inBuild } : {}),
      reason: s.reason.optional(),
    }) as z.ZodType<{ inBuild?: string; reason?: string }>,
    answers: {
      200: {
        description: "The kind, as it is now.",
        schema: z.object({ group: kindSchema, changed: z.boolean() }),
      },
    },
    run: async (call) => {
      const { id } = call.params;
      const how = { ...auditedBy(call), ...withoutUndefined({ inBuild: call.body.inBuild }) };
      const changed = await errors[change](id, how, call.ids[0]);
      return { status: 200, json: { group: await errors.get(id), changed } };
    },
  });
}
