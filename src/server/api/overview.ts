/** Queues, figures, locks and the audit: what an operator looks at. */
import { z } from "zod";
import type { AuditFilter } from "../../queue/audit.ts";
import type { LockStatsOptions } from "../../queue/lock-stats.ts";
import type { QueueStats, Stranded } from "../../store/store.ts";
import { Kept } from "../kept.ts";
import type { RouteParts } from "../parts.ts";
import { notFound } from "../problem.ts";
import { route, type Route } from "../route.ts";
import * as s from "../schemas.ts";

/** Where nobody counts in the background, counting is shared by all who ask within this time. */
const COUNT_EVERY_MS = 2_000;
const PAGE = 100;
/** Jobs that nobody can run are looked for at the head of every queue: what was found is told for a while. */
const STRANDED_FOR_MS = 10_000;
const STRANDED_WAIT_MS = 5_000;
/** Of more queues than this nothing is remembered. */
const QUEUES_MAX = 1_000;

interface Counted {
  readonly countedAt: number;
  readonly queues: readonly QueueStats[];
}

export function overviewRoutes(parts: RouteParts): Route[] {
  const count = counter(parts);
  return [...queueRoutes(parts, count), ...lockRoutes(parts), auditRoute(parts)];
}

/** What the monitor counted, if there is one; otherwise it is counted now, seldom. */
function counter({ holdfast, monitor }: RouteParts): () => Promise<Counted> {
  const { runtime } = holdfast;
  let counting: Promise<Counted> | null = null;
  let countedAt = Number.NEGATIVE_INFINITY;
  const begin = async (): Promise<Counted> => {
    const queues = await holdfast.stats();
    countedAt = runtime.monotonic();
    return { queues, countedAt: runtime.now() };
  };
  return () => {
    const census = monitor?.latest()?.census ?? null;
    if (census !== null)
      return Promise.resolve({ queues: census.queues, countedAt: census.countedAt });
    // One at a time, however long it takes.
    if (counting !== null && runtime.monotonic() - countedAt < COUNT_EVERY_MS) return counting;
    countedAt = Number.POSITIVE_INFINITY;
    counting = begin();
    counting.catch(() => void (counting = null));
    return counting;
  };
}

type Told = Kept<readonly Stranded[]>;

/** Of all queues, or of one: each asked for by itself, so that a look at one queue does not go through all. */
function strandedBy({ holdfast }: RouteParts): (queue?: string) => Told {
  const { runtime, store } = holdfast;
  const times = { runtime, forMs: STRANDED_FOR_MS, waitMs: STRANDED_WAIT_MS };
  const all: Told = new Kept({ ...times, ask: () => store.stranded() });
  const byQueue = new Map<string, Told>();
  return (queue) => {
    if (queue === undefined) return all;
    const known = byQueue.get(queue);
    if (known !== undefined) return known;
    if (byQueue.size >= QUEUES_MAX) byQueue.clear();
    const one: Told = new Kept({ ...times, ask: () => store.stranded({ queue }) });
    byQueue.set(queue, one);
    return one;
  };
}

const strandedOrNull = z
  .array(s.stranded)
  .nullable()
  .meta({ description: "As found within the last seconds. Null: the database took too long." });

function queueRoutes(parts: RouteParts, count: () => Promise<Counted>): Route[] {
  const { monitor } = parts;
  const strandedIn = strandedBy(parts);
  const counted = { countedAt: s.instant };
  return [
    route({
      method: "GET",
      path: "/api/v1/queues",
      name: "listQueues",
      tag: "queues",
      summary: "The queues, and how many jobs of them have which status",
      access: "viewer",
      answers: {
        200: {
          description: "As they were counted last.",
          schema: z.object({ ...counted, queues: z.array(s.queue) }),
        },
      },
      run: async () => ({ status: 200, json: await count() }),
    }),
    route({
      method: "GET",
      path: "/api/v1/queues/{name}",
      name: "getQueue",
      tag: "queues",
      summary: "One queue, and its jobs that nobody can run",
      access: "viewer",
      params: { name: s.name },
      answers: {
        200: {
          description: "As it was counted last.",
          schema: z.object({ ...counted, queue: s.queue, stranded: strandedOrNull }),
        },
      },
      run: async ({ params: { name } }) => {
        const { queues, countedAt } = await count();
        const queue = queues.find((one) => one.queue === name);
        if (queue === undefined) throw notFound("such queue: it has no jobs");
        const stranded = await strandedIn(name).get();
        return { status: 200, json: { countedAt, queue, stranded } };
      },
    }),
    route({
      method: "GET",
      path: "/api/v1/stats",
      name: "getStats",
      tag: "queues",
      summary: "Figures of all queues, the last minutes, and jobs that nobody can run",
      access: "viewer",
      answers: {
        200: {
          description: "`minutes` is empty where no monitor runs.",
          schema: z.object({
            ...counted,
            queues: z.array(s.queue),
            minutes: z.array(s.minute),
            stranded: strandedOrNull,
          }),
        },
      },
      run: async () => {
        const minutes = monitor?.latest()?.minutes ?? [];
        const stranded = await strandedIn().get();
        return { status: 200, json: { ...(await count()), minutes, stranded } };
      },
    }),
  ];
}

function lockRoutes({ holdfast }: RouteParts): Route[] {
  const type = s.key.optional().meta({ description: "Only keys that begin with it and a colon." });
  return [
    route({
      method: "GET",
      path: "/api/v1/locks",
      name: "listLocks",
      tag: "locks",
      summary: "Locks that somebody has",
      access: "viewer",
      query: { type, limit: s.pageLimit.optional() },
      answers: {
        200: {
          description: "Those that were taken first first.",
          schema: z.object({ locks: z.array(s.lock) }),
        },
      },
      run: async ({ query }) => ({
        status: 200,
        json: { locks: await holdfast.locks.list(query as object) },
      }),
    }),
    route({
      method: "GET",
      path: "/api/v1/locks/stats",
      name: "lockStats",
      tag: "locks",
      summary: "How often locks were acquired, and how long that took",
      access: "viewer",
      query: { last: s.durationText.optional(), type },
      answers: { 200: { description: "By type, and by minute.", schema: s.lockStats } },
      run: async ({ query }) => ({
        status: 200,
        json: await holdfast.locks.stats(query as LockStatsOptions),
      }),
    }),
    route({
      method: "POST",
      path: "/api/v1/locks/release",
      name: "releaseLock",
      tag: "locks",
      summary: "Take a lock away from whoever has it",
      access: "operator",
      body: z.strictObject({ key: s.key, reason: s.reason.optional() }),
      answers: { 200: { description: "As it was.", schema: z.object({ lock: s.lock }) } },
      run: async ({ body: { key, reason }, asker, requestId }) => {
        const by = { actor: asker.name, trace: requestId };
        const lock = await holdfast.locks.forceRelease(key, {
          ...by,
          ...(reason === undefined ? {} : { reason }),
        });
        if (lock === null) throw notFound("such lock that somebody has");
        return { status: 200, json: { lock } };
      },
    }),
  ];
}

function auditRoute({ holdfast }: RouteParts): Route {
  return route({
    method: "GET",
    path: "/api/v1/audit",
    name: "listAudit",
    tag: "audit",
    summary: "What operators did",
    access: "viewer",
    query: {
      subject: s.key
        .optional()
        .meta({ description: "Such as `job 0199…`, `worker mailer-…`, `lock order:42`." }),
      actor: s.name.optional(),
      after: z.int().min(0).optional(),
      before: z.int().min(0).optional(),
      limit: s.pageLimit.optional(),
    },
    answers: {
      200: {
        description: "A page in order: the last one, unless `after` is given.",
        schema: z.object({ lines: z.array(s.auditLine) }),
      },
    },
    run: async ({ query }) => {
      const { limit = PAGE, ...filter } = query;
      const lines = await holdfast.audit.list({ ...filter, limit } as AuditFilter);
      return { status: 200, json: { lines } };
    },
  });
}
