/** Routes of alerts. */
import { z } from "zod";
import { severities } from "../database/check.ts";
import { route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import { alertStatuses } from "./alert.ts";
import { listAlerts } from "./alerts.ts";
import type { AlertsStore } from "./store.ts";

export const alertSchema = z
  .object({
    id: s.id,
    rule: z.string(),
    subject: z.string(),
    severity: z.enum(severities),
    status: z.enum(alertStatuses),
    message: z.string(),
    facts: z.record(z.string(), z.unknown()),
    sinceAt: s.instant,
    seenAt: s.instant,
    raisedAt: s.instant.nullable(),
    resolvedAt: s.instant.nullable(),
  })
  .meta({
    id: "Alert",
    description: "A condition that needs attention; raised once and resolved once.",
  });

export function alertRoutes(alerts: AlertsStore): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/alerts",
      name: "listAlerts",
      tag: "operations",
      summary: "List alerts, newest first",
      access: "viewer",
      query: {
        which: z.enum(["raised", "open", "all"]).optional().meta({
          description:
            "`raised` (the default), `open` (raised and pending) or `all`, including resolved alerts.",
        }),
        before: s.id
          .optional()
          .meta({ description: "The id of the last alert on the previous page." }),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: {
          description: "A page of alerts.",
          schema: z.object({ alerts: z.array(alertSchema) }),
        },
      },
      run: async ({ query }) => ({
        status: 200,
        json: { alerts: await listAlerts(alerts, query as object) },
      }),
    }),
  ];
}
