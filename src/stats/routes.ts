/** Routes of queues and statistics. */
import { z } from "zod";
import { Cached } from "../core/wait.ts";
import { type Status, statuses } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import { notFound } from "../http-kernel/problem.ts";
import { route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { Unclaimable } from "../jobs/store.ts";
import type { LatestCounts } from "./counts.ts";
import { type MinuteStats, type Range, RANGES, type Series } from "./spans.ts";

/** The search for unclaimable jobs reads the head of every queue, so its result is cached. */
const UNCLAIMABLE_FOR_MS = 10_000;

const UNCLAIMABLE_WAIT_MS = 5_000;

/** Longest cached list of queues. */
const QUEUES_MAX = 1_000;

interface StatsRouteParts {
  readonly runtime: Runtime;
  readonly latest: LatestCounts;
  /** The last minutes that the monitor has seen, if one runs. */
  readonly minutes: () => readonly MinuteStats[];
  readonly series: (wanted: { range: Range; queue?: string }) => Promise<Series>;
  readonly marks: (from: number) => Promise<readonly Mark[]>;
  readonly unclaimable: (filter?: { readonly queue: string }) => Promise<readonly Unclaimable[]>;
}

/** What charts mark; see the registry. */
interface Mark {
  readonly at: number;
  readonly kind: "deploy" | "crash";
  readonly text: string;
  readonly detail: string;
  readonly worker: string | null;
}

type Found = Cached<readonly Unclaimable[]>;

/** Cached separately for all queues and for each one, so a query for one queue does not scan all. */
function unclaimableBy({ runtime, unclaimable }: StatsRouteParts): (queue?: string) => Found {
  const times = { runtime, forMs: UNCLAIMABLE_FOR_MS, waitMs: UNCLAIMABLE_WAIT_MS };
  const all: Found = new Cached({ ...times, ask: () => unclaimable() });
  const byQueue = new Map<string, Found>();
  return (queue) => {
    if (queue === undefined) return all;
    const known = byQueue.get(queue);
    if (known !== undefined) return known;
    if (byQueue.size >= QUEUES_MAX) byQueue.clear();
    const one: Found = new Cached({ ...times, ask: () => unclaimable({ queue }) });
    byQueue.set(queue, one);
    return one;
  };
}

const countsSchema = z.object(Object.fromEntries(statuses.map((one) => [one, s.count])));

const queueSchema = z
  .object({
    queue: z.string(),
    counts: countsSchema,
    oldestPendingAt: s.instant.nullable(),
  })
  .meta({ id: "Queue", description: "Job counts of a queue by status." });

const minuteSchema = z
  .object({
    minute: s.instant,
    queue: z.string(),
    arrived: s.count,
    done: s.count,
    failed: s.count,
    cancelled: s.count,
    expired: s.count,
    runMsSum: z.number(),
    runMsMax: z.number(),
  })
  .meta({ id: "Minute", description: "Totals of a queue for one minute." });

export const markSchema = z
  .object({
    at: s.instant,
    kind: z.enum(["deploy", "crash"]),
    text: z.string(),
    detail: z.string(),
    worker: z.string().nullable(),
  })
  .meta({ id: "Mark", description: "When a build was first seen, or a worker was found dead." });

const pointSchema = z
  .object({
    at: s.instant,
    arrived: s.count,
    done: s.count,
    failed: s.count,
    cancelled: s.count,
    expired: s.count,
    retried: s.count,
    crashed: s.count,
    runMsSum: z.number(),
    runMsMax: z.number(),
    pickupP50Ms: z.number().nullable(),
    pickupP99Ms: z.number().nullable(),
    pending: s.count.nullable(),
  })
  .meta({ id: "SeriesPoint", description: "One step of a chart." });

const seriesSchema = z
  .object({
    from: s.instant,
    to: s.instant,
    stepMs: z.int(),
    openAt: s.instant.meta({
      description: "Steps that end later are not over: their figures grow.",
    }),
    points: z.array(pointSchema),
    marks: z.array(markSchema),
  })
  .meta({
    id: "Series",
    description: "Figures over time; a step that was never counted is missing.",
  });

const unclaimableSchema = z
  .object({ queue: z.string(), task: z.string(), jobs: s.count, waitedMs: z.number() })
  .meta({ id: "Unclaimable", description: "Pending jobs that no live worker can run." });

const unclaimableOrNull = z
  .array(unclaimableSchema)
  .nullable()
  .meta({ description: "Found within the last few seconds. Null: the database took too long." });

export function statsRoutes(parts: StatsRouteParts): Route[] {
  const { latest, minutes } = parts;
  const unclaimableIn = unclaimableBy(parts);
  const counted = { countedAt: s.instant };
  return [
    route({
      method: "GET",
      path: "/api/v1/queues",
      name: "listQueues",
      tag: "queues",
      summary: "List queues with their job counts",
      access: "viewer",
      answers: {
        200: {
          description: "The last counts.",
          schema: z.object({ ...counted, queues: z.array(queueSchema) }),
        },
      },
      run: async () => ({ status: 200, json: await latest.counts() }),
    }),
    route({
      method: "GET",
      path: "/api/v1/queues/{name}",
      name: "getQueue",
      tag: "queues",
      summary: "One queue and its unclaimable jobs",
      access: "viewer",
      params: { name: s.name },
      answers: {
        200: {
          description: "The last counts.",
          schema: z.object({ ...counted, queue: queueSchema, unclaimable: unclaimableOrNull }),
        },
      },
      run: async ({ params: { name } }) => {
        const { queues, countedAt } = await latest.counts();
        const queue = queues.find((one) => one.queue === name);
        if (queue === undefined) throw notFound("queue of this name with jobs");
        const unclaimable = await unclaimableIn(name).get();
        return { status: 200, json: { countedAt, queue, unclaimable } };
      },
    }),
    countsRoute(parts),
    seriesRoute(parts),
    route({
      method: "GET",
      path: "/api/v1/stats",
      name: "getStats",
      tag: "queues",
      summary: "Statistics of all queues, totals of the last minutes, and unclaimable jobs",
      access: "viewer",
      answers: {
        200: {
          description: "`minutes` is empty unless a monitor runs.",
          schema: z.object({
            ...counted,
            queues: z.array(queueSchema),
            minutes: z.array(minuteSchema),
            unclaimable: unclaimableOrNull,
          }),
        },
      },
      run: async () => {
        const unclaimable = await unclaimableIn().get();
        const json = { ...(await latest.counts()), minutes: minutes(), unclaimable };
        return { status: 200, json };
      },
    }),
  ];
}

function seriesRoute({ series, marks }: StatsRouteParts): Route {
  return route({
    method: "GET",
    path: "/api/v1/series",
    name: "getSeries",
    tag: "queues",
    summary: "Figures over time, with deploys and crashes",
    access: "viewer",
    query: {
      range: z.enum(Object.keys(RANGES) as [Range, ...Range[]]).optional(),
      queue: s.name.optional().meta({ description: "Of this queue; without it, of all." }),
    },
    answers: { 200: { description: "At most 120 points.", schema: seriesSchema } },
    run: async ({ query: { range = "1h", queue } }) => {
      const found = await series({ range, ...(queue === undefined ? {} : { queue }) });
      return { status: 200, json: { ...found, marks: await marks(found.from) } };
    },
  });
}

function countsRoute({ latest }: StatsRouteParts): Route {
  return route({
    method: "GET",
    path: "/api/v1/counts",
    name: "countJobs",
    tag: "queues",
    summary: "How many jobs there are, by status",
    access: "viewer",
    query: { queue: s.name.optional() },
    answers: {
      200: {
        description: "The last counts, added up. Ended jobs are those of the last 7 days.",
        schema: z.object({ countedAt: s.instant, counts: countsSchema, total: s.count }),
      },
    },
    run: async ({ query: { queue } }) => {
      const { queues, countedAt } = await latest.counts();
      const some = queues.filter((one) => queue === undefined || one.queue === queue);
      const sum = (status: Status): number =>
        some.reduce((all, one) => all + one.counts[status], 0);
      const counts = Object.fromEntries(statuses.map((status) => [status, sum(status)]));
      const total = Object.values(counts).reduce((all, n) => all + n, 0);
      return { status: 200, json: { countedAt, counts, total } };
    },
  });
}
