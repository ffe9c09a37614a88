/**
 * The HTTP server: health and metrics for machines, the API for programs and the dashboard.
 *
 * It listens on the loopback interface by default. Node's server keeps open streams and idle connections when it closes; this
 * one ends them within a time limit.
 */
import type { AddressInfo } from "node:net";
import { z } from "zod";
import { alertRoutes } from "../alerts/routes.ts";
import { auditRoute } from "../audit/routes.ts";
import { bulkRoutes } from "../bulk/routes.ts";
import { PORT_MAX } from "../config/kind.ts";
import { BEARER_ALLOWED, isBearer, isGuessable } from "../core/bearer.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { guardedLogger, type Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { checkWhole } from "../core/options.ts";
import type { Task } from "../core/task.ts";
import { libraryVersion } from "../core/version.ts";
import { explainRoutes } from "../explain/routes.ts";
import { Batches } from "../flows/batches.ts";
import { Flows } from "../flows/flows.ts";
import { flowRoutes } from "../flows/routes.ts";
import { deadLetterRoutes } from "../dead-letters/routes.ts";
import { App } from "../http/app.ts";
import { Auth, type TokenLookup } from "../http/auth.ts";
import { hostNames, isLoopback } from "../http/guards.ts";
import { Once } from "../http/idempotency.ts";
import { DEFAULT_LIMITS, type Limits } from "../http/limits.ts";
import { openApiOf } from "../http/openapi.ts";
import { serverSettings } from "../http/options.ts";
import { JSON_TYPE, route, type Route } from "../http/route.ts";
import { Connections, httpServer, listen } from "../http/server.ts";
import { Streams } from "../http/sse.ts";
import { leaseRoutes } from "../jobs/lease-routes.ts";
import { jobRoutes } from "../jobs/routes.ts";
import { lockRoutes } from "../locks/routes.ts";
import { queueRoutes } from "../queues/routes.ts";
import { Feed } from "../monitoring/feed.ts";
import type { Observation } from "../monitoring/observation.ts";
import { probeRoutes, type Probes, streamRoute } from "../monitoring/routes.ts";
import { workerRoutes } from "../registry/routes.ts";
import { prospectsOf } from "../registry/runnable.ts";
import type { Workers } from "../registry/workers.ts";
import { reportRoute } from "../reports/routes.ts";
import { scheduleRoutes } from "../schedules/routes.ts";
import { statsRoutes } from "../stats/routes.ts";
import { effectRoutes, emitRoute } from "../steps/routes.ts";
import { itemChangeRoutes } from "../workflows/change-routes.ts";
import { workflowRoutes } from "../workflows/routes.ts";
import type { AnyWorkflow } from "../workflows/workflow.ts";
import type { Holdfast } from "./holdfast.ts";

const PRUNE_EVERY_MS = 60_000;
const PRUNE_BATCH = 500;
const BULK_EVERY_MS = 30_000;

export interface Server extends AsyncDisposable {
  /** The base URL, such as http://127.0.0.1:8080. */
  readonly url: string;
  readonly port: number;
  readonly routes: readonly Route[];
  /** The OpenAPI document. It is generated when it is first read: most processes never need it. */
  readonly document: object;
  /** Ends streams at once, waits briefly for requests in progress, and then cuts off the rest. */
  close(): Promise<void>;
}

export async function startServer(parts: ServerParts): Promise<Server> {
  const { holdfast, host = serverSettings.host.initial } = parts;
  const { port: given = serverSettings.port.initial } = parts;
  const port = checkWhole("port", given, { least: 0, most: PORT_MAX });
  const logger = guardedLogger(parts.logger ?? holdfast.logger);
  const limits: Limits = { ...DEFAULT_LIMITS, ...parts.limits };
  const { store, runtime } = holdfast;
  const feed = new Feed({ store, runtime, logger, monitor: parts.monitor ?? null });
  const streams = new Streams(runtime, limits);
  let generated: object | null = null;
  const documentOf = (): object => (generated ??= openApiOf(routes, libraryVersion()));
  const onBulk = (): void => carrying.wake();
  const routes = [...routesOf(parts, feed, onBulk), documentRoute(documentOf)];
  const token = checkToken(parts.token);
  const { production = process.env["NODE_ENV"] === "production" } = parts;
  const isLocal = isLoopback(host);
  const { tokens, requests } = store;
  const auth = new Auth({ tokens, runtime, logger, limits, token, isLocal, production });
  const once = new Once({ requests, runtime, logger, limits });
  const hosts = hostNames(host);
  const connections = new Connections(runtime, limits);
  const app = new App({ routes, auth, once, streams, connections, limits, runtime, logger, hosts });
  const http = httpServer({ app, connections, limits, runtime });
  await listen(http, { host, port });
  const at = http.address() as AddressInfo;
  const prune = async (): Promise<number> => {
    const gone = await requests.prune({ forMs: limits.keepRequestsMs, limit: PRUNE_BATCH });
    return gone === PRUNE_BATCH ? 0 : PRUNE_EVERY_MS;
  };
  const pruning = new Loop({
    name: "old requests",
    runtime,
    logger,
    once: prune,
    background: true,
  });
  // Without a worker, the actions that a request starts would wait forever.
  const carrying = new Loop({
    name: "bulk actions",
    runtime,
    logger,
    once: async () => ((await holdfast.bulk.carrier.once()) ? 0 : BULK_EVERY_MS),
    background: true,
  });
  const url = `http://${at.family === "IPv6" ? `[${at.address}]` : at.address}:${at.port}`;
  logger.info({ event: "http:listening", url }, `listening on ${url}`);
  await warnWithoutToken(auth, { tokens, logger, token });
  const close = async (): Promise<void> => {
    feed.stop();
    streams.closeAll();
    await pruning.stop();
    await carrying.stop();
    await connections.close(limits.closeMs);
  };
  return {
    url,
    port: at.port,
    routes,
    get document() {
      return documentOf();
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function routesOf(parts: ServerParts, feed: Feed, onBulk: () => void): Route[] {
  const { holdfast, metrics, health, monitor } = parts;
  const { store, runtime, jobs, leases, workers, workflows } = holdfast;
  const tasks = byName(parts.tasks);
  const items = { items: store.items, workflows, known: byName(parts.workflows) };
  return [
    ...probeRoutes({ runtime, health, metrics }),
    ...bulkRoutes(holdfast.bulk, onBulk),
    ...deadLetterRoutes(holdfast.deadLetters, tasks),
    ...jobRoutes({
      jobs,
      enqueue: (calls, newId) => holdfast.enqueueCalls(calls, newId),
      tasks,
      whyUnclaimable: (pending) => whyUnclaimable(workers, pending),
    }),
    ...flowRoutes({
      flows: holdfast.flows,
      withIds: (newId) => {
        const flows = { store, jobs, newId, write: store.flows, tasks };
        return { flows: new Flows(flows), batches: new Batches(flows) };
      },
      tasks,
    }),
    reportRoute({
      standing: (id) => store.reports.standing(id),
      list: (id, options) => jobs.reports(id, options),
      watch: (id, options) => jobs.watch(id, options),
    }),
    ...effectRoutes(jobs),
    ...explainRoutes({ jobs, queues: holdfast.queues }),
    ...leaseRoutes({ jobs: store.jobs, leases, runtime }),
    ...statsRoutes({
      runtime,
      monitor,
      count: () => holdfast.stats(),
      unclaimable: (filter) => store.workers.unclaimable(filter),
    }),
    ...lockRoutes(holdfast.locks),
    ...queueRoutes(holdfast.queues),
    auditRoute(holdfast.audit),
    ...alertRoutes(store.alerts),
    ...workerRoutes(workers),
    ...scheduleRoutes(holdfast.schedules),
    ...workflowRoutes(items),
    ...itemChangeRoutes(items),
    emitRoute((event, key, payload) => holdfast.emit(event, key, payload)),
    streamRoute(feed),
  ];
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

function checkToken(token: string | undefined): string | null {
  if (token === undefined || token === "") return null;
  if (isBearer(token) && !isGuessable(token)) return token;
  throw new InvalidArgumentError({
    field: "HOLDFAST_TOKEN",
    problem: `must be ${BEARER_ALLOWED}.`,
  });
}

/** Warns at every start without a token who may use the API. Probes and metrics never need one. */
async function warnWithoutToken(
  auth: Auth,
  { tokens, logger, token }: { tokens: TokenLookup; logger: Logger; token: string | null },
): Promise<void> {
  if (token !== null || (await tokens.any().catch(() => true))) return;
  const remedy = "Create one with 'holdfast tokens create', or set HOLDFAST_TOKEN";
  const meaning = auth.mayBeOpen
    ? "any program on this machine can use the API"
    : "the API refuses every request";
  logger.warn({ event: "http:no-token" }, `no API token exists, so ${meaning}. ${remedy}`);
}

// The options of a server.

export interface ServerParts {
  readonly holdfast: Holdfast;
  /** The address to listen on. Default 127.0.0.1, which is not reachable from other machines. */
  readonly host?: string;
  /** Default 8080; 0: any free port. */
  readonly port?: number;
  readonly logger?: Logger;
  /** An operator token from the configuration (HOLDFAST_TOKEN), in addition to those in the database. */
  readonly token?: string;
  /** Requires a token on the loopback interface too. Default: whether NODE_ENV is "production". */
  readonly production?: boolean;
  /** Tasks whose schemas validate jobs enqueued over HTTP; other tasks are accepted unchecked. */
  readonly tasks?: readonly Task[];
  /** Workflows whose items can be moved over HTTP: guards are functions, so the server needs the code. */
  readonly workflows?: readonly AnyWorkflow[];
  /** Serves `/metrics`. */
  readonly metrics?: { text(): Promise<string> };
  /** Serves `/health`, `/live` and `/ready`. */
  readonly health?: Probes;
  readonly monitor?: { latest(): Observation | null };
  readonly limits?: Partial<Limits>;
}
