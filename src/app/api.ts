/** The API of a Holdfast: its whole table of routes, for the server and for the dashboard in an application. */
import { z } from "zod";
import { alertOperations } from "../alerts/operations.ts";
import { auditOperations, sharedVerification, verifyOperations } from "../audit/operations.ts";
import { bulkOperations } from "../bulk/operations.ts";
import { Cached } from "../core/wait.ts";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import type { Task } from "../core/task.ts";
import { libraryVersion } from "../core/version.ts";
import { Overview } from "../dashboard/overview.ts";
import { keptNames, type Names, tasksOf } from "../dashboard/names.ts";
import { overviewOperations, statusOperations } from "../dashboard/operations.ts";
import { searchOperations } from "../dashboard/search-operations.ts";
import { type StoryApp, storyOperations } from "../dashboard/story-operations.ts";
import { errorOperations } from "../error-kinds/operations.ts";
import { explainOperations } from "../explain/operations.ts";
import { enqueueFlowOperations } from "../flows/enqueue-operations.ts";
import { Batches, Flows } from "../flows/flows.ts";
import { flowOperations } from "../flows/operations.ts";
import type { Auth } from "../http-kernel/auth.ts";
import { openApiOf } from "../http-kernel/openapi.ts";
import { JSON_TYPE, route, type Route } from "../http-kernel/route.ts";
import { leaseRoutes } from "../jobs/lease-routes.ts";
import { type EnqueueApp, enqueueOperations, jobOperations } from "../jobs/operations.ts";
import { listOperations } from "../jobs/list-operations.ts";
import { lockOperations } from "../locks/operations.ts";
import type { Ask } from "../mcp/tools.ts";
import { Feed } from "../monitoring/feed.ts";
import type { Observation } from "../monitoring/monitor.ts";
import { findingOperations } from "../monitoring/operations.ts";
import { probeRoutes, type Probes, streamRoute } from "../monitoring/routes.ts";
import { routesOf } from "../operations/route.ts";
import { queueOperations } from "../queues/operations.ts";
import { leaseOperations, workerOperations } from "../registry/operations.ts";
import { prospectsOf } from "../registry/tasks.ts";
import type { Workers } from "../registry/workers.ts";
import { reportRoute } from "../reports/routes.ts";
import { scheduleOperations } from "../schedules/operations.ts";
import { LatestCounts } from "../stats/counts.ts";
import { statsOperations, unclaimableBy } from "../stats/operations.ts";
import { buildOperations, taskOperations } from "../stats/task-operations.ts";
import { eventOperations, stepOperations } from "../steps/operations.ts";
import { tokenOperations } from "../tokens/operations.ts";
import { type ServerFacts, sessionRoutes } from "../tokens/routes.ts";
import { itemChangeOperations } from "../workflows/change-operations.ts";
import { itemOperations, workflowOperations } from "../workflows/operations.ts";
import type { AnyWorkflow } from "../workflows/workflow.ts";
import type { Holdfast } from "./holdfast.ts";
import { mcpRoute } from "./mcp.ts";

const BULK_EVERY_MS = 30_000;

/** Workers whose tasks are listed. */
const WORKERS_MAX = 500;

/** Without a monitor, requests keep the counts about this fresh. */
const COUNT_EVERY_MS = 30_000;

/** How long the round trip to the database is cached, and how long it may take. */
const CLOCK_FOR_MS = 5_000;
const CLOCK_WAIT_MS = 1_000;

/** The response to the request says which tasks are unknown. */
const saidAlready = (): void => {};

export interface ApiParts {
  readonly holdfast: Holdfast;
  /** Tasks whose schemas validate jobs enqueued over HTTP; other tasks are accepted unchecked. */
  readonly tasks?: readonly Task[];
  /** Workflows whose items can be moved over HTTP: guards are functions, so the server needs the code. */
  readonly workflows?: readonly AnyWorkflow[];
  /** Serves `/metrics`. */
  readonly metrics?: { text(): Promise<string> };
  /** Serves `/health`, `/live` and `/ready`. */
  readonly health?: Probes;
  readonly monitor?: { latest(): Observation | null };
}

interface Surroundings {
  readonly auth: Pick<Auth, "signIn" | "signOut"> | null;
  readonly port: () => number | null;
  /** Asks the API itself. */
  readonly ask: Ask;
  readonly basePath: string;
}

export class Api {
  readonly routes: readonly Route[];
  readonly #feed: Feed;
  readonly #carrying: Carrying;
  readonly #basePath: string;
  #document: object | null = null;

  constructor(
    parts: ApiParts & { readonly logger: Logger },
    { ask, basePath, ...signing }: Surroundings,
  ) {
    const { holdfast, logger } = parts;
    const { store, runtime } = holdfast;
    this.#feed = new Feed({ store, runtime, logger, monitor: parts.monitor ?? null });
    this.#basePath = basePath;
    this.#carrying = new Carrying(holdfast, logger);
    this.routes = [
      ...allRoutes(parts, this.#feed, () => this.#carrying.wake()),
      ...sessionRoutes({ facts: factsOf(holdfast), ...signing }),
      documentRoute(() => this.document),
      mcpRoute(() => this.routes, ask),
    ];
  }

  /** The OpenAPI document. It is generated when it is first read: most processes never need it. */
  get document(): object {
    this.#document ??= openApiOf(this.routes, libraryVersion(), this.#basePath);
    return this.#document;
  }

  /** Looks for bulk actions that another process left. */
  carry(): void {
    this.#carrying.wake();
  }

  async close(): Promise<void> {
    this.#feed.stop();
    await this.#carrying.stop();
  }
}

/** Without a worker, the bulk actions that a request starts would wait forever. */
class Carrying {
  readonly #holdfast: Holdfast;
  readonly #logger: Logger;
  #loop: Loop | null = null;

  constructor(holdfast: Holdfast, logger: Logger) {
    this.#holdfast = holdfast;
    this.#logger = logger;
  }

  wake(): void {
    if (this.#loop !== null) return this.#loop.wake();
    const { bulk, runtime } = this.#holdfast;
    this.#loop = new Loop({
      name: "bulk actions",
      runtime,
      logger: this.#logger,
      once: async () => ((await bulk.carrier.once()) ? 0 : BULK_EVERY_MS),
      background: true,
    });
  }

  async stop(): Promise<void> {
    await this.#loop?.stop();
  }
}

function factsOf({ store, runtime, version, redaction }: Holdfast): () => Promise<ServerFacts> {
  const clock = new Cached({
    runtime,
    forMs: CLOCK_FOR_MS,
    waitMs: CLOCK_WAIT_MS,
    ask: async () => {
      const begunAt = runtime.monotonic();
      const now = await store.db.clock();
      const tookMs = runtime.monotonic() - begunAt;
      return { aheadMs: now - runtime.now(), latencyMs: Math.round(tookMs * 100) / 100 };
    },
  });
  return async () => {
    const { aheadMs = 0, latencyMs = null } = (await clock.get()) ?? {};
    return {
      version: libraryVersion(),
      build: version,
      engine: store.db.engine.kind,
      database: store.db.name,
      site: store.db.database,
      latencyMs,
      now: Math.round(runtime.now() + aheadMs),
      redacts: !redaction.isEmpty,
    };
  };
}

function allRoutes(parts: ApiParts, feed: Feed, onBulk: () => void): Route[] {
  const { holdfast, metrics, health, monitor } = parts;
  const { store, runtime, redaction, jobs, bulk, leases, workers } = holdfast;
  const tasks = byName(parts.tasks);
  const latest = new LatestCounts({
    runtime,
    monitor,
    stored: () => store.stats.counts(),
    take: () => store.stats.takeCounts({ everyMs: COUNT_EVERY_MS }),
    count: () => holdfast.stats(),
  });
  return [
    ...probeRoutes({ runtime, health, metrics }),
    ...routesOf({ bulk, redaction, runtime, store, wake: onBulk }, bulkOperations),
    ...routesOf<EnqueueApp>(
      {
        enqueue: (calls, newId) => holdfast.enqueueCalls(calls, newId),
        definitions: tasks,
        whyUnclaimable: (pending) => whyUnclaimable(workers, pending),
      },
      enqueueOperations,
    ),
    ...routesOf({ jobs, redaction, definitions: tasks }, jobOperations),
    ...routesOf(holdfast, listOperations),
    ...routesOf(holdfast, flowOperations),
    ...routesOf(
      {
        withIds: (newId: () => string) => {
          const flows = { store, jobs, newId, write: store.flows, tasks, onNamed: saidAlready };
          return { flows: new Flows(flows), batches: new Batches(flows) };
        },
        tasks,
      },
      enqueueFlowOperations,
    ),
    reportRoute({
      standing: (id) => store.reports.standing(id),
      list: (id, options) => jobs.reports(id, options),
      watch: (id, options) => jobs.watch(id, options),
    }),
    ...routesOf(holdfast, stepOperations),
    ...routesOf(holdfast, explainOperations),
    ...leaseRoutes({ jobs: store.jobs, leases, runtime }),
    ...routesOf(holdfast, leaseOperations),
    ...queueRoutes(parts, latest),
    ...pageRoutes(parts, tasks, latest),
    ...routesOf(holdfast, lockOperations),
    ...routesOf(holdfast, auditOperations),
    ...routesOf(sharedVerification(holdfast.audit, runtime), verifyOperations),
    ...routesOf(parts, findingOperations),
    ...routesOf(holdfast, alertOperations),
    ...routesOf(holdfast, workerOperations),
    ...routesOf(holdfast, scheduleOperations),
    ...itemRoutes(parts),
    ...routesOf(holdfast, eventOperations),
    ...routesOf(holdfast, tokenOperations),
    streamRoute(feed, runtime),
  ];
}

function itemRoutes({ holdfast, workflows: known }: ApiParts): Route[] {
  const { store, runtime, workflows } = holdfast;
  const app = { store, runtime, workflows, known: byName(known) };
  return [workflowOperations, itemOperations, itemChangeOperations].flatMap((operations) =>
    routesOf(app, operations),
  );
}

/** Queues and statistics show the counts that a server keeps. */
function queueRoutes({ holdfast, monitor }: ApiParts, latest: LatestCounts): Route[] {
  const { store, runtime, queues } = holdfast;
  const unclaimable = unclaimableBy({
    runtime,
    unclaimable: (filter) => store.workers.unclaimable(filter),
  });
  const kept = {
    counts: () => latest.counts(),
    unclaimable: (queue: string) => unclaimable(queue).get(),
  };
  return [
    ...routesOf(
      {
        latest,
        minutes: () => monitor?.latest()?.minutes ?? [],
        series: (wanted) => store.stats.series(wanted),
        marks: (from) => store.dashboard.marks(from),
        unclaimable,
      },
      statsOperations,
    ),
    ...routesOf({ queues, stats: () => holdfast.stats(), store, kept }, queueOperations),
  ];
}

function pageRoutes(
  parts: ApiParts,
  tasks: ReadonlyMap<string, Task>,
  latest: LatestCounts,
): Route[] {
  const { holdfast, monitor } = parts;
  const { store, runtime } = holdfast;
  const overview = new Overview({
    source: holdfast,
    counts: () => latest.counts(),
    canaries: () => monitor?.latest()?.canaries ?? [],
  });
  return [
    ...routesOf({ overview }, statusOperations),
    ...routesOf(holdfast, errorOperations),
    ...routesOf(
      {
        names: keptNames(runtime, () => store.dashboard.names()),
        find: (text: string, known: Names) => store.dashboard.find(text, known),
        tasks: async () =>
          tasksOf({
            own: tasks,
            recorded: await store.dashboard.tasks(),
            workers: await store.workers.list({ alive: true, limit: WORKERS_MAX }),
          }),
      },
      searchOperations,
    ),
    ...routesOf(holdfast, taskOperations),
    ...routesOf(holdfast, buildOperations),
    ...routesOf(storyParts(holdfast), storyOperations),
    ...routesOf({ overview }, overviewOperations),
  ];
}

function storyParts({ store, jobs, flows, audit }: Holdfast): StoryApp {
  const { dashboard, stats } = store;
  return {
    jobs,
    flows,
    audit,
    usual: (task) => stats.usual(task),
    relations: (id) => dashboard.relations(id),
    brief: (ids) => dashboard.brief(ids),
    builds: (workers) => dashboard.builds(workers),
    worker: (id) => store.workers.find(id),
  };
}

function byName<T extends { readonly name: string }>(all: readonly T[] = []): Map<string, T> {
  return new Map(all.map((one) => [one.name, one]));
}

async function whyUnclaimable(
  workers: Workers,
  pending: readonly { readonly queue: string; readonly task: string }[],
): Promise<(string | null)[]> {
  const views = pending.map((job) => ({ ...job, status: "pending" as const }));
  return (await prospectsOf(workers, views)).map(({ note }) => note);
}

/** All responses share one buffer, so clients that do not read cost no memory. */
function documentRoute(document: () => object): Route {
  let bytes: Buffer | null = null;
  return route({
    method: "GET",
    path: "/api/v1/openapi.json",
    name: "openapi",
    tag: "probes",
    summary: "This document",
    access: "public",
    answers: {
      200: { description: "OpenAPI 3.1.", schema: z.looseObject({ openapi: z.string() }) },
    },
    run: async () => {
      bytes ??= Buffer.from(JSON.stringify(document()));
      return { status: 200, bytes, type: JSON_TYPE };
    },
  });
}
