/** What is wrong now, and what was. */
import { z } from "zod";
import { listAlerts } from "../../ops/alert-list.ts";
import type { RouteParts } from "../parts.ts";
import { route, type Route } from "../route.ts";
import * as s from "../schemas.ts";

export function alertRoutes({ holdfast }: RouteParts): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/alerts",
      name: "listAlerts",
      tag: "operations",
      summary: "Alerts, those that were noticed last first",
      access: "viewer",
      query: {
        which: z.enum(["raised", "open", "all"]).optional().meta({
          description:
            "Raised ones (the default), those with what is pending, or all that there were.",
        }),
        before: s.id.optional().meta({ description: "The last of the page before." }),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: { description: "A page.", schema: z.object({ alerts: z.array(s.alert) }) },
      },
      run: async ({ query }) => ({
        status: 200,
        json: { alerts: await listAlerts(holdfast.store, query as object) },
      }),
    }),
  ];
}
