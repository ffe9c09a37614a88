/** Routes of queues and statistics. */
import { z } from "zod";
import { Cached } from "../core/wait.ts";
import { type Status, statuses } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import { route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { Unclaimable } from "../jobs/store.ts";
import { zodOf } from "../operations/route.ts";
import type { LatestCounts } from "./counts.ts";
import { counts, depth, unclaimable } from "./shapes.ts";
import { type MinuteStats, type Range, RANGES, type Series } from "./spans.ts";

/** The search for unclaimable jobs reads the head of every queue, so its result is cached. */
const UNCLAIMABLE_FOR_MS = 10_000;

const UNCLAIMABLE_WAIT_MS = 5_000;

/** Longest cached list of queues. */
const QUEUES_MAX = 1_000;

interface StatsRouteParts {
  readonly latest: LatestCounts;
  /** The last minutes that the monitor has seen, if one runs. */
  readonly minutes: () => readonly MinuteStats[];
  readonly series: (wanted: { range: Range; queue?: string }) => Promise<Series>;
  readonly marks: (from: number) => Promise<readonly Mark[]>;
  readonly unclaimable: FindUnclaimable;
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

export type FindUnclaimable = (queue?: string) => Found;

interface UnclaimableParts {
  readonly runtime: Runtime;
  readonly unclaimable: (filter?: { readonly queue: string }) => Promise<readonly Unclaimable[]>;
}

/** Cached separately for all queues and for each one, so a query for one queue does not scan all. */
export function unclaimableBy({ runtime, unclaimable: find }: UnclaimableParts): FindUnclaimable {
  const times = { runtime, forMs: UNCLAIMABLE_FOR_MS, waitMs: UNCLAIMABLE_WAIT_MS };
  const all: Found = new Cached({ ...times, ask: () => find() });
  const byQueue = new Map<string, Found>();
  return (queue) => {
    if (queue === undefined) return all;
    const known = byQueue.get(queue);
    if (known !== undefined) return known;
    if (byQueue.size >= QUEUES_MAX) byQueue.clear();
    const one: Found = new Cached({ ...times, ask: () => find({ queue }) });
    byQueue.set(queue, one);
    return one;
  };
}

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

const markSchema = z
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

export function statsRoutes(parts: StatsRouteParts): Route[] {
  const { latest, minutes } = parts;
  const counted = { countedAt: s.instant };
  return [
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
            queues: z.array(zodOf(depth)),
            minutes: z.array(minuteSchema),
            unclaimable: zodOf(unclaimable),
          }),
        },
      },
      run: async () => {
        const stuck = await parts.unclaimable().get();
        const json = { ...(await latest.counts()), minutes: minutes(), unclaimable: stuck };
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
    name: "getCounts",
    tag: "queues",
    summary: "How many jobs there are, by status",
    access: "viewer",
    query: { queue: s.name.optional() },
    answers: {
      200: {
        description: "The last counts, added up. Ended jobs are those of the last 7 days.",
        schema: z.object({ countedAt: s.instant, counts: zodOf(counts), total: s.count }),
      },
    },
    run: async ({ query: { queue } }) => {
      const { queues, countedAt } = await latest.counts();
      const some = queues.filter((one) => queue === undefined || one.queue === queue);
      const sum = (status: Status): number =>
        some.reduce((all, one) => all + one.counts[status], 0);
      const byStatus = Object.fromEntries(statuses.map((status) => [status, sum(status)]));
      const total = Object.values(byStatus).reduce((all, n) => all + n, 0);
      return { status: 200, json: { countedAt, counts: byStatus, total } };
    },
  });
}
