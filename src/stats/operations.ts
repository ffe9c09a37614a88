/** The verbs of statistics: what queues hold, and figures over time. */
import { type Status, statuses } from "../core/job.ts";
import { type Runtime, systemRuntime } from "../core/runtime.ts";
import { Cached } from "../core/wait.ts";
import type { Unclaimable } from "../jobs/store.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, right, tableOf } from "../operations/show.ts";
import { type Cell, count, span, statusPaint } from "../terminal/table.ts";
import { type CountsApp, type LatestCounts, type QueueDepth, recentCounts } from "./counts.ts";
import { counts, depth, unclaimable } from "./shapes.ts";
import { type MinuteStats, type Range, RANGES, type Series } from "./spans.ts";

/** The search for unclaimable jobs reads the head of every queue, so its result is cached. */
const UNCLAIMABLE_FOR_MS = 10_000;

const UNCLAIMABLE_WAIT_MS = 5_000;

/** Longest cached list of queues. */
const QUEUES_MAX = 1_000;

/** Shown even if there are none; other statuses only if there are some. */
const ALWAYS = new Set<Status>(["pending", "processing", "done", "failed"]);

const minute = s
  .object({
    minute: s.instant,
    queue: s.text(),
    arrived: s.count,
    done: s.count,
    failed: s.count,
    cancelled: s.count,
    expired: s.count,
    runMsSum: s.number(),
    runMsMax: s.number(),
  })
  .named("Minute", "Totals of a queue for one minute.");

const mark = s
  .object({
    at: s.instant,
    kind: s.choice(["deploy", "crash"]),
    text: s.text(),
    detail: s.text(),
    worker: s.text().nullable(),
  })
  .named("Mark", "When a build was first seen, or a worker was found dead.");

const point = s
  .object({
    at: s.instant,
    arrived: s.count,
    done: s.count,
    failed: s.count,
    cancelled: s.count,
    expired: s.count,
    retried: s.count,
    crashed: s.count,
    runMsSum: s.number(),
    runMsMax: s.number(),
    pickupP50Ms: s.number().nullable(),
    pickupP99Ms: s.number().nullable(),
    pending: s.count.nullable(),
  })
  .named("SeriesPoint", "One step of a chart.");

const series = s
  .object({
    from: s.instant,
    to: s.instant,
    stepMs: s.integer(),
    openAt: s.instant.about("Steps that end later are not over: their figures grow."),
    points: s.list(point),
    marks: s.list(mark),
  })
  .named("Series", "Figures over time; a step that was never counted is missing.");

interface StatsApp {
  readonly latest: LatestCounts;
  /** The last minutes that the monitor has seen, if one runs. */
  readonly minutes: () => readonly MinuteStats[];
  readonly series: (wanted: { range: Range; queue?: string }) => Promise<Series>;
  /** What charts mark; see the registry. */
  readonly marks: (from: number) => Promise<readonly s.TypeOf<typeof mark>[]>;
  readonly unclaimable: FindUnclaimable;
}

const operation = operationsOf<StatsApp>("queues");

export const statsOperations = {
  counts: operation({
    name: "getCounts",
    summary: "How many jobs there are, by status",
    access: "viewer",
    input: { queue: s.name.optional() },
    returns: "The last counts, added up. Ended jobs are those of the last 7 days.",
    result: s.object({ countedAt: s.instant, counts, total: s.count }),
    run: async ({ latest }, { queue }) => {
      const { queues, countedAt } = await latest.counts();
      const some = queues.filter((one) => queue === undefined || one.queue === queue);
      const sum = (status: Status): number =>
        some.reduce((all, one) => all + one.counts[status], 0);
      const sums = statuses.map((status) => [status, sum(status)] as const);
      const total = sums.reduce((all, [, n]) => all + n, 0);
      return { countedAt, counts: Object.fromEntries(sums) as Record<Status, number>, total };
    },
    http: { method: "GET", path: "/api/v1/counts" },
  }),

  series: operation({
    name: "getSeries",
    summary: "Figures over time, with deploys and crashes",
    access: "viewer",
    input: {
      range: s.choice(Object.keys(RANGES) as Range[]).optional(),
      queue: s.name.optional().about("Of this queue; without it, of all."),
    },
    returns: "At most 120 points.",
    result: series,
    run: async (app, { range = "1h", ...of }) => {
      const found = await app.series({ range, ...of });
      return { ...found, marks: await app.marks(found.from) };
    },
    http: { method: "GET", path: "/api/v1/series" },
  }),

  stats: operation({
    name: "getStats",
    summary: "Statistics of all queues, totals of the last minutes, and unclaimable jobs",
    access: "viewer",
    returns: "`minutes` is empty unless a monitor runs.",
    result: s.object({
      countedAt: s.instant,
      queues: s.list(depth),
      minutes: s.list(minute),
      unclaimable,
    }),
    run: async ({ latest, minutes, unclaimable: stuck }) => ({
      ...(await latest.counts()),
      minutes: minutes(),
      unclaimable: await stuck().get(),
    }),
    http: { method: "GET", path: "/api/v1/stats" },
  }),
};

/** A server keeps counts; a command reads the monitor's, or counts. */
export const statsCommand = operationsOf<CountsApp>("queues")({
  name: "countQueues",
  summary: "Count the jobs of each queue by status",
  access: "viewer",
  input: { exact: s.boolean().optional() },
  returns: "`countedAt` is null if they were counted now.",
  result: s.object({
    queues: s.list(depth),
    countedAt: s.instant.nullable(),
    ageMs: s.number(),
    exact: s.boolean(),
  }),
  run: async (app, { exact }) => {
    const { queues, countedAt, ageMs } = await recentCounts(app, exact);
    return { queues, countedAt, ageMs, exact: countedAt === null };
  },
  cli: {
    command: "stats",
    flags: { exact: { about: "count now instead of using the monitor's last count" } },
    examples: ["stats", "stats --exact --json"],
    show: ({ queues, countedAt, ageMs }, { terminal }) => {
      if (queues.length === 0) return ["No jobs."];
      const now = countedAt === null ? systemRuntime.now() : countedAt + ageMs;
      const lines = tableOf(columnsOf(queues, now), queues, terminal);
      if (countedAt === null) return lines;
      const age = `Counted ${span(Math.max(0, ageMs))} ago; --exact counts now.`;
      return [
        ...lines,
        "",
        ...[age, "Finished jobs: the last 7 days only."].map(terminal.colors.dim),
      ];
    },
  },
});

function columnsOf(queues: readonly QueueDepth[], now: number): Columns<QueueDepth> {
  const shown = statuses.filter(
    (status) => ALWAYS.has(status) || queues.some((queue) => queue.counts[status] > 0),
  );
  return [
    flexible("QUEUE", ({ queue }) => queue),
    ...shown.map((status) =>
      right<QueueDepth>(status.toUpperCase(), (queue, { colors }) =>
        number(queue.counts[status], statusPaint(colors, status)),
      ),
    ),
    right("OLDEST", ({ oldestPendingAt: at }) => (at === null ? "" : span(now - at))),
  ];
}

function number(value: number, paint: (text: string) => string): string | Cell {
  return value === 0 ? "0" : { text: count(value), paint };
}

type Found = Cached<readonly Unclaimable[]>;

type FindUnclaimable = (queue?: string) => Found;

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
