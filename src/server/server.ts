/**
 * The HTTP server: health and metrics for machines, the API for programs and the dashboard.
 *
 * It listens on the loopback interface unless told otherwise. Node's own server hangs on to open streams and idle connections
 * when it is closed; here they are ended, within a limit.
 */
import { readFileSync } from "node:fs";
import { createServer, type Server as HttpServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { z } from "zod";
import { BEARER_ALLOWED, isBearer, isGuessable } from "../core/bearer.ts";
import { checkWhole } from "../core/check.ts";
import { HoldfastError, InvalidArgument } from "../core/errors.ts";
import { guardedLogger, type Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Access } from "../store/access.ts";
import { alertRoutes } from "./api/alerts.ts";
import { bulkRoutes } from "./api/bulk.ts";
import { doubtRoutes } from "./api/doubts.ts";
import { emitRoute } from "./api/events.ts";
import { itemChangeRoutes } from "./api/item-changes.ts";
import { jobRoutes } from "./api/jobs.ts";
import { leaseRoutes } from "./api/leases.ts";
import { overviewRoutes } from "./api/overview.ts";
import { probeRoutes } from "./api/probes.ts";
import { streamRoute } from "./api/stream.ts";
import { workerRoutes } from "./api/workers.ts";
import { workflowRoutes } from "./api/workflows.ts";
import { App } from "./app.ts";
import { Auth } from "./auth.ts";
import { Connections } from "./connections.ts";
import { Feed } from "./feed.ts";
import { hostNames, isLoopback } from "./gate.ts";
import { DEFAULT_LIMITS, type Limits } from "./limits.ts";
import { Once } from "./once.ts";
import { openApiOf } from "./openapi.ts";
import type { RouteParts, ServerParts } from "./parts.ts";
import { refuseRaw } from "./raw-refusal.ts";
import { JSON_TYPE, route, type Route } from "./route.ts";
import { Streams } from "./sse.ts";

export const DEFAULT_HOST = "127.0.0.1";
export const DEFAULT_PORT = 8_080;
const PORT_MAX = 65_535;
/** How often node looks for clients that are too slow. */
const CHECK_EVERY_MS = 1_000;
const PRUNE_EVERY_MS = 60_000;
const PRUNE_BATCH = 500;

/** Somebody else listens there. */
export class PortTaken extends HoldfastError {
  readonly port: number;

  constructor({ host, port }: { host: string; port: number }, cause: unknown) {
    super(
      "PORT_TAKEN",
      `Port ${port} on ${host} is taken by another process. Choose another one with HEALTH_CHECK_PORT or --port.`,
      cause,
    );
    this.port = port;
  }
}

export interface Server extends AsyncDisposable {
  /** Where it is reached, such as http://127.0.0.1:8080. */
  readonly url: string;
  readonly port: number;
  /** Everything that can be asked for. */
  readonly routes: readonly Route[];
  /** The OpenAPI document. */
  readonly document: object;
  /** Ends streams at once, waits a little for requests under way, and ends what is left. */
  close(): Promise<void>;
}

export async function startServer(parts: ServerParts): Promise<Server> {
  const { holdfast, host = DEFAULT_HOST } = parts;
  const port = checkWhole("port", parts.port ?? DEFAULT_PORT, { least: 0, most: PORT_MAX });
  const logger = guardedLogger(parts.logger ?? holdfast.logger);
  const limits: Limits = { ...DEFAULT_LIMITS, ...parts.limits };
  const { store, runtime } = holdfast;
  const feed = new Feed({ store, runtime, logger, monitor: parts.monitor ?? null });
  const streams = new Streams(runtime, limits);
  const { routes, document } = routesOf({ ...parts, holdfast }, { limits, feed });
  const token = checkToken(parts.token);
  const { production = process.env["NODE_ENV"] === "production" } = parts;
  const isLocal = isLoopback(host);
  const auth = new Auth({ store, runtime, logger, limits, token, isLocal, production });
  const once = new Once({ store, runtime, logger, limits });
  const hosts = hostNames(host);
  const connections = new Connections(runtime, limits);
  const app = new App({ routes, auth, once, streams, connections, limits, runtime, logger, hosts });
  const http = httpServer({ app, connections, limits, runtime });
  await listen(http, { host, port });
  const at = http.address() as AddressInfo;
  const pruning = pruneLoop({ store, runtime, logger, limits });
  const url = `http://${at.family === "IPv6" ? `[${at.address}]` : at.address}:${at.port}`;
  logger.info({ url }, `listening on ${url}`);
  await warnWithoutToken(auth, { store, logger, token });
  const close = async (): Promise<void> => {
    feed.stop();
    streams.closeAll();
    await pruning.stop();
    await connections.close(limits.closeMs);
  };
  return { url, port: at.port, routes, document, close, [Symbol.asyncDispose]: close };
}

function routesOf(
  parts: ServerParts,
  { limits, feed }: { limits: Limits; feed: Feed },
): { routes: Route[]; document: object } {
  const { holdfast, tasks = [], workflows = [], metrics, health, monitor } = parts;
  const { runtime } = holdfast;
  const startedAt = runtime.monotonic();
  const given: RouteParts = {
    holdfast,
    limits,
    feed,
    tasks: new Map(tasks.map((task) => [task.name, task])),
    workflows: new Map(workflows.map((workflow) => [workflow.name, workflow])),
    metrics,
    health,
    monitor,
    uptime: () => runtime.monotonic() - startedAt,
  };
  const routes = [
    ...probeRoutes(given),
    ...bulkRoutes(given),
    ...jobRoutes(given),
    ...doubtRoutes(given),
    ...leaseRoutes(given),
    ...overviewRoutes(given),
    ...alertRoutes(given),
    ...workerRoutes(given),
    ...workflowRoutes(given),
    ...itemChangeRoutes(given),
    emitRoute(given),
    streamRoute(given),
  ];
  const told = documentRoute(() => document);
  routes.push(told);
  const document = openApiOf(routes, packageVersion());
  return { routes, document };
}

/** One buffer for all who ask: many who do not read what they asked for cost no memory. */
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

function packageVersion(): string {
  const file = new URL("../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

function checkToken(token: string | undefined): string | null {
  if (token === undefined || token === "") return null;
  if (isBearer(token) && !isGuessable(token)) return token;
  throw new InvalidArgument({ field: "HOLDFAST_TOKEN", problem: `must be ${BEARER_ALLOWED}.` });
}

interface HttpParts {
  readonly app: App;
  readonly connections: Connections;
  readonly limits: Limits;
  readonly runtime: Runtime;
}

function httpServer({ app, connections, limits, runtime }: HttpParts): HttpServer {
  const listener = getRequestListener(app.hono.fetch, {
    overrideGlobalObjects: false,
    errorHandler: () => app.refusal(400, "The request cannot be read."),
  });
  const http = createServer(
    {
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, limits.headersMs),
      // Node's own refusal would lack our headers; the listener refuses such requests as well.
      requireHostHeader: false,
    },
    (incoming, outgoing) => {
      if (connections.begin(incoming, outgoing)) void listener(incoming, outgoing);
    },
  );
  connections.watch(http);
  http.maxRequestsPerSocket = limits.requestsPerConnection;
  const refuse = (error: { readonly code?: string | undefined }, socket: Socket): void => {
    if (connections.isAnswering(socket)) socket.destroy();
    else refuseRaw(error, socket, runtime);
  };
  http.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => refuse(error, socket));
  // No other protocol is spoken here, and no expectation is known but 100-continue.
  http.on("checkExpectation", ({ socket }) => refuse({}, socket));
  http.on("upgrade", (_request, socket: Socket) => refuse({}, socket));
  http.on("connect", (_request, socket: Socket) => refuse({}, socket));
  return http;
}

function listen(http: HttpServer, at: { host: string; port: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    http.once("error", (error: NodeJS.ErrnoException) => reject(whyNot(error, at)));
    http.listen(at.port, at.host, () => resolve());
  });
}

function whyNot(error: NodeJS.ErrnoException, at: { host: string; port: number }): Error {
  if (error.code === "EADDRINUSE") return new PortTaken(at, error);
  if (error.code === "EACCES") {
    const problem = `this process may not listen on port ${at.port}. Choose one from 1024 on (HEALTH_CHECK_PORT or --port).`;
    return new InvalidArgument({ field: "port", problem }, error);
  }
  if (error.code === "EADDRNOTAVAIL" || error.code === "ENOTFOUND") {
    const problem = `this machine has no address '${at.host}'. Set HOLDFAST_HOST to one it has.`;
    return new InvalidArgument({ field: "host", problem }, error);
  }
  return error;
}

/** Says at every start without a token who may use the API. Probes and metrics are answered in any case. */
async function warnWithoutToken(
  auth: Auth,
  { store, logger, token }: { store: Access; logger: Logger; token: string | null },
): Promise<void> {
  if (token !== null || (await store.hasTokens().catch(() => true))) return;
  const remedy = "Create one with 'holdfast tokens create', or set HOLDFAST_TOKEN";
  const meaning = auth.mayBeOpen
    ? "every program on this machine may use the API"
    : "the API refuses every request";
  logger.warn({}, `there is no token, so ${meaning}. ${remedy}`);
}

function pruneLoop(parts: {
  store: Access;
  runtime: Runtime;
  logger: Logger;
  limits: Limits;
}): Loop {
  const { store, runtime, logger, limits } = parts;
  const once = async (): Promise<number> => {
    const gone = await store.pruneRequests({ forMs: limits.keepRequestsMs, limit: PRUNE_BATCH });
    return gone === PRUNE_BATCH ? 0 : PRUNE_EVERY_MS;
  };
  return new Loop({ name: "old requests", runtime, logger, once, background: true });
}
