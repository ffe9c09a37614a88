/** Routes for the pages of the dashboard: what a page shows, in one request. */
import { z } from "zod";
import { alertSchema } from "../alerts/routes.ts";
import { statuses } from "../core/job.ts";
import type { Redaction } from "../core/redaction.ts";
import type { Runtime } from "../core/runtime.ts";
import { Problem, retryAfter } from "../http/problem.ts";
import { route, type Route } from "../http/route.ts";
import * as s from "../http/schemas.ts";
import { jobSummarySchema } from "../jobs/routes.ts";
import type { QueueRecord } from "../queues/store.ts";
import { jobPageRoutes } from "./job-routes.ts";
import { limitsOf } from "./limits.ts";
import type { Overview } from "./overview.ts";
import { searchRoutes } from "./search-routes.ts";
import type { DashboardStore } from "./store.ts";
import type { TaskView } from "./tasks.ts";

const TAG = "dashboard";

const queueSchema = z
  .object({
    queue: z.string(),
    counts: z.object(Object.fromEntries(statuses.map((status) => [status, s.count]))),
    oldestPendingAt: s.instant.nullable(),
    paused: z.object({ at: s.instant, by: z.string(), reason: z.string().nullable() }).nullable(),
    running: s.count,
    slots: s.count.meta({ description: "Of all live workers that serve the queue." }),
    concurrency: s.count.nullable().meta({ description: "The limit of the queue; null: none." }),
    inPerSecond: z.number(),
    outPerSecond: z.number(),
    failedHour: s.count,
    spark: z.array(s.count).meta({
      description: "Jobs that ended in every two minutes of the last hour, oldest first.",
    }),
  })
  .meta({ id: "OverviewQueue", description: "A queue with its work and its workers." });

const overviewSchema = z
  .object({
    at: s.instant,
    countedAt: s.instant,
    figures: z.object({
      endedPerSecond: z.number().meta({ description: "In the last whole minute." }),
      usualLow: z.number().nullable().meta({
        description: "Four of five quarters of an hour of the last day are between these.",
      }),
      usualHigh: z.number().nullable(),
      succeeded: z.number().nullable().meta({ description: "The share in the last hour, 0 to 1." }),
      succeededBefore: z.number().nullable(),
      pickupP50Ms: z.number().nullable(),
      pickupP99Ms: z.number().nullable(),
      pending: s.count,
      running: s.count,
      slots: s.count,
      workers: s.count,
      builds: z.array(z.string()),
      failedHour: s.count,
      recovered: s.count.meta({
        description: "Jobs of workers that died or froze in the last five minutes.",
      }),
      errorKinds: s.count,
      errorKindsNew: s.count,
    }),
    queues: z.array(queueSchema),
    queuesLeftOut: s.count,
    workers: z.array(
      z.object({
        id: z.string(),
        type: z.string(),
        running: s.count,
        concurrency: s.count,
        status: z.string(),
        desiredState: z.string(),
        liveness: z.string(),
        version: z.string(),
      }),
    ),
    alerts: z.array(alertSchema),
    canaries: z.array(
      z.object({
        queue: z.string(),
        sentAt: s.instant,
        pickupMs: z.number().nullable(),
        doneMs: z.number().nullable(),
      }),
    ),
    failed: z.array(jobSummarySchema),
    isEmpty: z.boolean(),
    pausedAll: z.boolean(),
  })
  .meta({ id: "Overview", description: "How the service is." });

const limitSchema = z
  .object({
    queue: z.string(),
    kind: z.enum(["queue", "lanes", "lane", "task"]).meta({
      description: "Of the queue, of each of its lanes, of one lane, or of one task in it.",
    }),
    name: z.string().nullable().meta({ description: "Of the lane or the task." }),
    concurrency: s.count.nullable(),
    rate: z.object({ count: s.count, periodMs: z.number(), burst: s.count }).nullable(),
    inUse: s.count.meta({ description: "Of each lane: in the lane with the most." }),
  })
  .meta({ id: "LimitInUse", description: "A limit, and how many jobs run under it." });

interface DashboardRouteParts {
  readonly runtime: Runtime;
  readonly redaction: Redaction;
  readonly overview: Overview;
  readonly store: DashboardStore;
  readonly story: (id: string) => Promise<object>;
  readonly tasks: () => Promise<TaskView[]>;
  readonly queues: () => Promise<readonly QueueRecord[]>;
}

export function dashboardRoutes(parts: DashboardRouteParts): Route[] {
  const { overview } = parts;
  return [
    ...searchRoutes(parts),
    ...jobPageRoutes(parts),
    limitsRoute(parts),
    route({
      method: "GET",
      path: "/api/v1/overview",
      name: "getOverview",
      tag: TAG,
      summary: "How the service is: figures, queues, workers and alerts",
      access: "viewer",
      answers: { 200: { description: "At most a second old.", schema: overviewSchema } },
      run: async () => {
        const json = await overview.get();
        if (json === null) throw tooSlow();
        return { status: 200, json };
      },
    }),
  ];
}

function limitsRoute({ store, queues }: DashboardRouteParts): Route {
  return route({
    method: "GET",
    path: "/api/v1/limits",
    name: "listLimits",
    tag: TAG,
    summary: "All limits of queues, and how much of each is in use",
    access: "viewer",
    answers: {
      200: {
        description: "Counted from the leases of this moment.",
        schema: z.object({ limits: z.array(limitSchema) }),
      },
    },
    run: async () => {
      const [all, running] = await Promise.all([queues(), store.running()]);
      return { status: 200, json: { limits: limitsOf(all, running) } };
    },
  });
}

function tooSlow(): Problem {
  const detail = "The database did not answer in time. Try again.";
  return new Problem({ status: 503, code: "TOOK_TOO_LONG", detail, headers: retryAfter("2") });
}
