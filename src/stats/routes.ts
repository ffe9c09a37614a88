/** Routes of queues and statistics. */
import { z } from "zod";
import { Cached } from "../core/cached.ts";
import { statuses } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import { notFound } from "../http/problem.ts";
import { route, type Route } from "../http/route.ts";
import * as s from "../http/schemas.ts";
import type { QueueStats, Unclaimable } from "../jobs/store.ts";
import type { MinuteStats } from "./minute-totals.ts";

/** Without a monitor, requests within this time share one count. */
const COUNT_EVERY_MS = 2_000;

/** The search for unclaimable jobs reads the head of every queue, so its result is cached. */
const UNCLAIMABLE_FOR_MS = 10_000;

const UNCLAIMABLE_WAIT_MS = 5_000;

/** Longest cached list of queues. */
const QUEUES_MAX = 1_000;

interface Counted {
  readonly countedAt: number;
  readonly queues: readonly QueueStats[];
}

interface StatsRouteParts {
  readonly runtime: Runtime;
  /** The last counts of the monitor, if one runs. */
  readonly monitor:
    | { latest(): { counts: Counted | null; minutes: readonly MinuteStats[] } | null }
    | undefined;
  readonly count: () => Promise<readonly QueueStats[]>;
  readonly unclaimable: (filter?: { readonly queue: string }) => Promise<readonly Unclaimable[]>;
}

/** The monitor's last count, or a cached count of our own. */
function counter({ runtime, monitor, count }: StatsRouteParts): () => Promise<Counted> {
  let counting: Promise<Counted> | null = null;
  let countedAt = Number.NEGATIVE_INFINITY;
  const begin = async (): Promise<Counted> => {
    const queues = await count();
    countedAt = runtime.monotonic();
    return { queues, countedAt: runtime.now() };
  };
  return () => {
    const counts = monitor?.latest()?.counts ?? null;
    if (counts !== null) {
      const { queues, countedAt: at } = counts;
      return Promise.resolve({ queues, countedAt: at });
    }
    // One count at a time, however long it takes.
    if (counting !== null && runtime.monotonic() - countedAt < COUNT_EVERY_MS) return counting;
    countedAt = Number.POSITIVE_INFINITY;
    counting = begin();
    counting.catch(() => void (counting = null));
    return counting;
  };
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

const queueSchema = z
  .object({
    queue: z.string(),
    counts: z.object(Object.fromEntries(statuses.map((one) => [one, s.count]))),
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

const unclaimableSchema = z
  .object({ queue: z.string(), task: z.string(), jobs: s.count, waitedMs: z.number() })
  .meta({ id: "Unclaimable", description: "Pending jobs that no live worker can run." });

const unclaimableOrNull = z
  .array(unclaimableSchema)
  .nullable()
  .meta({ description: "Found within the last few seconds. Null: the database took too long." });

export function statsRoutes(parts: StatsRouteParts): Route[] {
  const { monitor } = parts;
  const count = counter(parts);
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
      run: async () => ({ status: 200, json: await count() }),
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
        const { queues, countedAt } = await count();
        const queue = queues.find((one) => one.queue === name);
        if (queue === undefined) throw notFound("queue of this name with jobs");
        const unclaimable = await unclaimableIn(name).get();
        return { status: 200, json: { countedAt, queue, unclaimable } };
      },
    }),
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
        const minutes = monitor?.latest()?.minutes ?? [];
        const unclaimable = await unclaimableIn().get();
        return { status: 200, json: { ...(await count()), minutes, unclaimable } };
      },
    }),
  ];
}
