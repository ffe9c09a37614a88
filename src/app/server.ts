/**
 * The HTTP server: health and metrics for machines, the API for programs and the dashboard.
 *
 * It listens on the loopback interface by default. Node's server keeps open streams and idle connections when it closes; this
 * one ends them within a time limit.
 */
import type { AddressInfo } from "node:net";
import { BEARER_ALLOWED, isBearer, isGuessable, PORT_MAX } from "../config/kind.ts";
import { invalid } from "../core/errors.ts";
import { guardedLogger, type Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { checkWhole } from "../core/options.ts";
import { Assets } from "../dashboard/assets.ts";
import { App, type Pages } from "../http-kernel/app.ts";
import { Auth, type TokenLookup } from "../http-kernel/auth.ts";
import { hostNames, isLoopback } from "../http-kernel/guards.ts";
import { Once } from "../http-kernel/idempotency.ts";
import { DEFAULT_LIMITS, type Limits, serverSettings } from "../http-kernel/limits.ts";
import type { Route } from "../http-kernel/route.ts";
import { Connections, httpServer, listen, type Requested } from "../http-kernel/server.ts";
import { Streams } from "../http-kernel/sse.ts";
import { thrifty } from "../http-kernel/thrift.ts";
import { Api, type ApiParts } from "./api.ts";

const PRUNE_EVERY_MS = 60_000;
const PRUNE_BATCH = 500;

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
  const { basePath = serverSettings.basePath.initial } = parts;
  const port = checkWhole("port", given, { least: 0, most: PORT_MAX });
  const logger = guardedLogger(parts.logger ?? holdfast.logger);
  const limits: Limits = { ...DEFAULT_LIMITS, ...parts.limits };
  const { store, runtime } = holdfast;
  const streams = new Streams(runtime, limits);
  const token = checkToken(parts.token);
  const { production = process.env["NODE_ENV"] === "production" } = parts;
  const isLocal = isLoopback(host);
  const { tokens, sessions, requests } = store;
  const auth = new Auth({ tokens, sessions, runtime, logger, limits, token, isLocal, production });
  const listening = (): number => (http.address() as AddressInfo | null)?.port ?? 0;
  const api = new Api(
    { ...parts, logger },
    { auth, port: listening, ask: (request) => app.answer(request), basePath },
  );
  const { routes } = api;
  const once = new Once({ requests, runtime, logger, limits });
  const hosts = hostNames(host);
  const connections = new Connections(runtime, limits);
  const { pages = new Assets() } = parts;
  const serving = { routes, auth, once, streams, limits, runtime, logger };
  const { redaction } = holdfast;
  const below = { basePath, isMapped: true };
  const app = new App({ ...serving, ...below, hosts, pages, port: listening, redaction });
  const packing = {
    answer: async (request: Requested) => thrifty(await app.answer(request), request),
  };
  const http = httpServer({ app: packing, connections, limits, runtime });
  await listen(http, { host, port });
  const at = http.address() as AddressInfo;
  api.carry();
  const prune = async (): Promise<number> => {
    const gone = await requests.prune({ forMs: limits.keepRequestsMs, limit: PRUNE_BATCH });
    await sessions.prune(PRUNE_BATCH);
    return gone === PRUNE_BATCH ? 0 : PRUNE_EVERY_MS;
  };
  const pruning = new Loop({
    name: "old requests",
    runtime,
    logger,
    once: prune,
    background: true,
  });
  const url = `http://${at.family === "IPv6" ? `[${at.address}]` : at.address}:${at.port}`;
  logger.info({ event: "http:listening", url }, `listening on ${url}`);
  await warnWithoutToken(auth, { tokens, logger, token });
  const close = async (): Promise<void> => {
    streams.closeAll();
    await Promise.all([pruning.stop(), api.close()]);
    await connections.close(limits.closeMs);
  };
  return {
    url,
    port: at.port,
    routes,
    get document() {
      return api.document;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function checkToken(token: string | undefined): string | null {
  if (token === undefined || token === "") return null;
  if (isBearer(token) && !isGuessable(token)) return token;
  throw invalid("HOLDFAST_TOKEN", `must be ${BEARER_ALLOWED}.`);
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

export interface ServerParts extends ApiParts {
  /** The address to listen on. Default 127.0.0.1, which is not reachable from other machines. */
  readonly host?: string;
  /** Default 8080; 0: any free port. */
  readonly port?: number;
  /**
   * The path below which a proxy serves it, without a slash at its end. Requests may have it or not: a proxy may keep it or
   * cut it off, and probes come without one.
   */
  readonly basePath?: string;
  readonly logger?: Logger;
  /** An operator token from the configuration (HOLDFAST_TOKEN), in addition to those in the database. */
  readonly token?: string;
  /** Requires a token on the loopback interface too. Default: whether NODE_ENV is "production". */
  readonly production?: boolean;
  readonly limits?: Partial<Limits>;
  /** @internal Serves the pages. Default: the dashboard. */
  readonly pages?: Pages;
}
