/** The route of the audit log. */
import { z } from "zod";
import { route, type Route } from "../http/route.ts";
import * as s from "../http/schemas.ts";
import type { Audit, AuditFilter } from "./audit.ts";

export const auditLineSchema = z
  .object({
    id: z.string(),
    seq: s.count,
    at: s.instant,
    actor: z.string(),
    action: z.string(),
    subject: z.string(),
    oldStatus: z.string().nullable(),
    newStatus: z.string().nullable(),
    reason: z.string().nullable(),
    traceId: z.string().nullable(),
    detail: z.string().nullable(),
    previousHash: z.string().nullable(),
    hash: z.string().nullable(),
  })
  .meta({ id: "AuditLine", description: "One entry of the audit log." });

export function auditRoute(audit: Pick<Audit, "list">): Route {
  return route({
    method: "GET",
    path: "/api/v1/audit",
    name: "listAudit",
    tag: "audit",
    summary: "Read the audit log",
    access: "viewer",
    query: {
      subject: s.key
        .optional()
        .meta({ description: "For example `job 0199…`, `worker mailer-…` or `lock order:42`." }),
      actor: s.name.optional(),
      after: z.int().min(0).optional(),
      before: z.int().min(0).optional(),
      limit: s.pageLimit.optional(),
    },
    answers: {
      200: {
        description: "A page in chronological order: the last page, unless `after` is given.",
        schema: z.object({ lines: z.array(auditLineSchema) }),
      },
    },
    run: async ({ query }) => ({
      status: 200,
      json: { lines: await audit.list(query as AuditFilter) },
    }),
  });
}
