/** Events that jobs wait for, emitted by programs that speak HTTP. */
import { z } from "zod";
import { defineEvent } from "../../core/event.ts";
import type { RouteParts } from "../parts.ts";
import { route, type Route } from "../route.ts";
import * as s from "../schemas.ts";

export function emitRoute({ holdfast }: RouteParts): Route {
  return route({
    method: "POST",
    path: "/api/v1/events",
    name: "emitEvent",
    tag: "jobs",
    summary: "Emit an event: jobs that wait for it go on",
    access: "operator",
    body: z.strictObject({ name: s.name, key: s.key, payload: z.unknown().optional() }),
    answers: {
      200: {
        description: "`first` false: the event was emitted before, and its first payload stands.",
        schema: z.object({ first: z.boolean(), woken: z.int().min(0) }),
      },
    },
    problems: [413],
    run: async ({ body: { name, key, payload = null } }) => {
      const { first, woken } = await holdfast.emit(defineEvent<unknown>({ name }), key, payload);
      return { status: 200, json: { first, woken } };
    },
  });
}
