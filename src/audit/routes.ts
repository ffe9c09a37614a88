/** The route of the audit log. */
import { z } from "zod";
import { Cached } from "../core/wait.ts";
import type { Runtime } from "../core/runtime.ts";
import { Problem } from "../http-kernel/problem.ts";
import { route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
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

/** A chain of a million lines takes a while: all who ask share one walk, and its result for a minute. */
const VERIFIED_FOR_MS = 60_000;
const VERIFY_WAIT_MS = 20_000;

export function verifyRoute(audit: Pick<Audit, "verify">, runtime: Runtime): Route {
  const cached = new Cached({
    runtime,
    forMs: VERIFIED_FOR_MS,
    waitMs: VERIFY_WAIT_MS,
    ask: async () => {
      const begunAt = runtime.monotonic();
      const { actions, lines, held, breaks, breaksFound } = await audit.verify();
      const tookMs = Math.round(runtime.monotonic() - begunAt);
      return {
        lines: actions + lines,
        isWhole: held,
        broken: breaks[0] ?? null,
        breaks: breaksFound,
        verifiedAt: runtime.now(),
        tookMs,
      };
    },
  });
  return route({
    method: "GET",
    path: "/api/v1/audit/verify",
    name: "verifyAudit",
    tag: "audit",
    summary: "Whether the audit log is whole",
    access: "viewer",
    answers: {
      200: {
        description: "At most a minute old.",
        schema: z.object({
          lines: s.count.meta({ description: "Of operators and of items." }),
          isWhole: z.boolean(),
          broken: z
            .object({
              kind: z.string(),
              item: z.string().nullable(),
              seq: s.count,
              problem: z.string(),
            })
            .nullable()
            .meta({ description: "The first break." }),
          breaks: s.count,
          verifiedAt: s.instant,
          tookMs: z.number(),
        }),
      },
    },
    run: async () => {
      const json = await cached.get();
      if (json !== null) return { status: 200, json };
      const detail = "The audit log could not be read in time. To verify it: holdfast audit verify";
      throw new Problem({ status: 503, code: "TOOK_TOO_LONG", detail });
    },
  });
}
