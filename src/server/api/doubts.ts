/** Effects of which nobody knows whether they happened: a person looks, and says. */
import { z } from "zod";
import type { RouteParts } from "../parts.ts";
import { route, type Route } from "../route.ts";
import * as s from "../schemas.ts";

const TAG = "jobs";

export function doubtRoutes({ holdfast }: RouteParts): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/doubts",
      name: "listDoubts",
      tag: TAG,
      summary: "Effects of which nobody knows whether they happened",
      access: "viewer",
      query: { limit: s.pageLimit.optional() },
      answers: {
        200: {
          description: "Those that wait longest first.",
          schema: z.object({ doubts: z.array(s.doubt) }),
        },
      },
      run: async ({ query }) => ({
        status: 200,
        json: { doubts: await holdfast.jobs.doubts(query as object) },
      }),
    }),
    route({
      method: "POST",
      path: "/api/v1/jobs/{id}/resolve",
      name: "resolveDoubt",
      tag: TAG,
      summary: "Say whether an effect happened that is in doubt; its job goes on",
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
        200: { description: "It is on record.", schema: z.object({ id: s.id, done: z.boolean() }) },
      },
      run: async ({ params: { id }, body, asker, requestId }) => {
        const { name, occurrence = 1, done, result, reason } = body;
        const by = { actor: asker.name, trace: requestId };
        await holdfast.jobs.resolve(
          { job: id, name, occurrence },
          done ? { done, result } : { done },
          { ...by, ...(reason === undefined ? {} : { reason }) },
        );
        return { status: 200, json: { id, done } };
      },
    }),
  ];
}
