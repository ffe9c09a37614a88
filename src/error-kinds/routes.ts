/** Routes of errors by kind. */
import { z } from "zod";
import { notFound } from "../http-kernel/problem.ts";
import { auditedBy, route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import { type ErrorKindsStore, type KindState, kindStates } from "./store.ts";

const TAG = "errors";

const id = z.string().regex(/^[0-9a-f]{32}$/);

const kindSchema = z
  .object({
    id,
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
  resolve: {
    state: "resolved",
    summary: "Resolve a kind of error; it is open again when it comes back",
  },
  mute: { state: "muted", summary: "Mute a kind of error" },
  reopen: { state: "open", summary: "Open a kind of error again" },
} as const satisfies Record<string, { state: KindState; summary: string }>;

type Change = keyof typeof CHANGES;

interface ErrorRouteParts {
  readonly kinds: ErrorKindsStore;
  /** The newest error with its stack; null: its job is gone. */
  readonly stackOf: (job: string) => Promise<string | null>;
}

export function errorRoutes(parts: ErrorRouteParts): Route[] {
  const { kinds, stackOf } = parts;
  return [
    route({
      method: "GET",
      path: "/api/v1/errors",
      name: "listErrors",
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
      run: async ({ query: { state = "open", limit = 100 } }) => {
        const counts = await kinds.counts();
        const groups = await kinds.list({ state, limit });
        return { status: 200, json: { counts, groups, isAll: groups.length >= counts[state] } };
      },
    }),
    route({
      method: "GET",
      path: "/api/v1/errors/{id}",
      name: "getError",
      tag: TAG,
      summary: "One kind of error with its newest stack",
      access: "viewer",
      params: { id },
      answers: {
        200: {
          description: "The kind.",
          schema: z.object({ group: kindSchema, stack: z.string().nullable() }),
        },
      },
      run: async ({ params }) => {
        const group = await kinds.find(params.id);
        if (group === null) throw notFound("such kind of error");
        return { status: 200, json: { group, stack: await stackOf(group.sample.job) } };
      },
    }),
    ...(Object.keys(CHANGES) as Change[]).map((change) => changeRoute(parts, change)),
  ];
}

function changeRoute({ kinds }: ErrorRouteParts, change: Change): Route {
  const { state, summary } = CHANGES[change];
  return route({
    method: "POST",
    path: `/api/v1/errors/{id}/${change}`,
    name: `${change}Error`,
    tag: TAG,
    summary,
    access: "operator",
    params: { id },
    body: z.strictObject({
      inBuild: s.name.optional().meta({
        description:
          "Only to resolve: it stays resolved until a build that was not known to have it has it.",
      }),
      reason: s.reason.optional(),
    }),
    answers: {
      200: {
        description: "The kind, as it is now.",
        schema: z.object({ group: kindSchema, changed: z.boolean() }),
      },
    },
    run: async (call) => {
      const { actor, trace, reason } = auditedBy(call);
      const by = { id: call.ids[0] as string, actor, traceId: trace, reason: reason ?? null };
      const { inBuild = null } = call.body;
      const changed = await kinds.change(call.params.id, { state, resolvedIn: inBuild }, by);
      const group = await kinds.find(call.params.id);
      if (group === null) throw notFound("such kind of error");
      return { status: 200, json: { group, changed } };
    },
  });
}
