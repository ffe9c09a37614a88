/** Routes of locks. */
import { z } from "zod";
import { notFound } from "../http-kernel/problem.ts";
import { auditedBy, route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { Locks } from "./locks.ts";
import { HEAT_RANGES, type HeatRange, type LockHeat, type LockStatsOptions } from "./stats.ts";

const lockSchema = z
  .object({
    key: z.string(),
    token: z.number(),
    owner: z.string(),
    trace: z.string().nullable(),
    acquiredAt: s.instant,
    expiresAt: s.instant,
    expiresInMs: z.number(),
  })
  .meta({ id: "Lock", description: "A held lock." });

const statsFields = {
  type: z.string(),
  acquisitions: s.count,
  timeouts: s.count,
  waitMs: z
    .object({ average: z.number(), p50: z.number(), p95: z.number(), p99: z.number() })
    .nullable(),
  heldMsMax: z.number(),
};

const lockStatsSchema = z
  .object({
    types: z.array(z.object(statsFields)),
    minutes: z.array(z.object({ ...statsFields, minute: s.instant })),
    partial: z.boolean(),
  })
  .meta({ id: "LockStats", description: "Lock statistics by type." });

const heatSchema = z
  .object({
    from: s.instant,
    to: s.instant,
    stepMs: z.int(),
    types: z.array(
      z.object({
        type: z.string(),
        acquisitions: s.count,
        timeouts: s.count,
        heldMsMax: z.number(),
        p50Ms: z.number().nullable(),
        p99Ms: z.number().nullable(),
        cells: z.array(
          z.object({
            at: s.instant,
            acquisitions: s.count,
            timeouts: s.count,
            p99Ms: z.number().nullable(),
          }),
        ),
      }),
    ),
  })
  .meta({ id: "LockHeat", description: "Waits for locks over time, by type." });

export function heatRoute(heat: (range: HeatRange) => Promise<LockHeat>): Route {
  return route({
    method: "GET",
    path: "/api/v1/locks/heat",
    name: "lockHeat",
    tag: "locks",
    summary: "How locks were contended over time",
    access: "viewer",
    query: { range: z.enum(Object.keys(HEAT_RANGES) as [HeatRange, ...HeatRange[]]).optional() },
    answers: {
      200: {
        description: "Steps without a request for a lock are missing. At most 100 steps.",
        schema: heatSchema,
      },
    },
    run: async ({ query: { range = "4h" } }) => ({ status: 200, json: await heat(range) }),
  });
}

export function lockRoutes(locks: Pick<Locks, "list" | "stats" | "forceRelease">): Route[] {
  const type = s.key
    .optional()
    .meta({ description: "Only keys that start with this prefix and a colon." });
  return [
    route({
      method: "GET",
      path: "/api/v1/locks",
      name: "listLocks",
      tag: "locks",
      summary: "List held locks",
      access: "viewer",
      query: { type, limit: s.pageLimit.optional() },
      answers: {
        200: {
          description: "The locks, oldest first.",
          schema: z.object({ locks: z.array(lockSchema) }),
        },
      },
      run: async ({ query }) => ({
        status: 200,
        json: { locks: await locks.list(query as object) },
      }),
    }),
    route({
      method: "GET",
      path: "/api/v1/locks/stats",
      name: "lockStats",
      tag: "locks",
      summary: "Lock statistics: acquisitions, timeouts and waits",
      access: "viewer",
      query: { last: s.durationText.optional(), type },
      answers: {
        200: { description: "Statistics by type and by minute.", schema: lockStatsSchema },
      },
      run: async ({ query }) => ({
        status: 200,
        json: await locks.stats(query as LockStatsOptions),
      }),
    }),
    route({
      method: "POST",
      path: "/api/v1/locks/release",
      name: "releaseLock",
      tag: "locks",
      summary: "Release a lock by force",
      access: "operator",
      body: z.strictObject({ key: s.key, reason: s.reason.optional() }),
      answers: {
        200: { description: "The lock as it was.", schema: z.object({ lock: lockSchema }) },
      },
      run: async (call) => {
        const lock = await locks.forceRelease(call.body.key, auditedBy(call));
        if (lock === null) throw notFound("held lock with this key");
        return { status: 200, json: { lock } };
      },
    }),
  ];
}
