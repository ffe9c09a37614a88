/** Published as `holdfast/dashboard`: the dashboard and its API inside of an application, behind its own login. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { InvalidArgumentError } from "../core/errors.ts";
import { guardedLogger } from "../core/log.ts";
import { checkKnown } from "../core/options.ts";
import type { Task } from "../core/task.ts";
import { Assets } from "../dashboard/assets.ts";
import { App, type Pages } from "../http-kernel/app.ts";
import {
  type AccessRule,
  type Admission,
  type Credentials,
  forbidden,
  type Principal,
  type Role,
  roles,
} from "../http-kernel/auth.ts";
import { RequestSender } from "../http-kernel/guards.ts";
import { Once } from "../http-kernel/idempotency.ts";
import { DEFAULT_LIMITS } from "../http-kernel/limits.ts";
import { Problem } from "../http-kernel/problem.ts";
import { send } from "../http-kernel/server.ts";
import { Streams } from "../http-kernel/sse.ts";
import type { AnyWorkflow } from "../workflows/workflow.ts";
import { Api } from "./api.ts";
import type { Holdfast } from "./holdfast.ts";

export type { Role } from "../http-kernel/auth.ts";

/** A person, as the application knows them. */
export interface DashboardPrincipal {
  /** The audit log shows it as the actor. */
  readonly name: string;
  /** Viewers only read. */
  readonly role: Role;
}

export interface DashboardOptions {
  readonly holdfast: Holdfast;
  /** The path that the handler is served below, such as "/admin/jobs". Default: the root. */
  readonly basePath?: string;
  /** Who sent this request; null: not signed in. It is called for every request, and for open event streams again. */
  readonly principal: (
    request: Request,
  ) => DashboardPrincipal | null | Promise<DashboardPrincipal | null>;
  /** Tasks whose schemas validate jobs that are enqueued here; other tasks are accepted unchecked. */
  readonly tasks?: readonly Task[];
  /** Workflows whose items can be moved here. */
  readonly workflows?: readonly AnyWorkflow[];
  /** @internal Serves the pages. Default: the dashboard. */
  readonly pages?: Pages;
}

export interface DashboardHandler {
  (request: Request): Promise<Response>;
  /** Ends open streams and background work. Call it before `holdfast.close()`. */
  close(): Promise<void>;
}

const KNOWN = new Set(["holdfast", "basePath", "principal", "tasks", "workflows", "pages"]);

/** Serves the dashboard and its API for standard requests: of Hono, Next.js, or with `toNodeListener` of Node's frameworks. */
export function dashboardHandler(options: DashboardOptions): DashboardHandler {
  checkKnown(options, KNOWN);
  const { holdfast, principal, pages = new Assets(), ...known } = options;
  if (typeof principal !== "function") {
    const problem = "give a function that returns { name, role } for a request, or null.";
    throw new InvalidArgumentError({ field: "principal", problem });
  }
  const { basePath: _path, ...parts } = known;
  const basePath = checkBasePath(options.basePath ?? "");
  const { store, runtime } = holdfast;
  const logger = guardedLogger(holdfast.logger);
  const limits = DEFAULT_LIMITS;
  const streams = new Streams(runtime, limits);
  const api = new Api({ ...parts, holdfast, logger }, { auth: null, port });
  const app = new App({
    routes: api.routes,
    auth: new ApplicationAuth(principal),
    once: new Once({ requests: store.requests, runtime, logger, limits }),
    streams,
    limits,
    runtime,
    logger,
    hosts: null,
    pages,
    basePath,
    port,
    redaction: holdfast.redaction,
  });
  const handle = async (request: Request): Promise<Response> => {
    const { pathname, search } = new URL(request.url);
    const sender = new RequestSender(request);
    const target = `${pathname}${search}`;
    const { body, ...rest } = await app.answer({ method: request.method, target, sender });
    return new Response(body as RequestInit["body"], rest);
  };
  return Object.assign(handle, {
    close: async () => {
      streams.closeAll();
      await api.close();
    },
  });
}

/** There are no sessions of ours, so no cookie. */
const port = (): null => null;

/** A path of plain segments, without a slash at its end. */
const BASE_PATH = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)*$/;

function checkBasePath(given: string): string {
  const path = typeof given === "string" ? given.replace(/\/$/, "") : "?";
  if (BASE_PATH.test(path)) return path;
  const problem = 'must begin with a slash and have plain segments, such as "/admin/jobs".';
  throw new InvalidArgumentError({ field: "basePath", problem });
}

/** The application says who sent a request. */
class ApplicationAuth implements Admission {
  readonly #ask: DashboardOptions["principal"];

  constructor(ask: DashboardOptions["principal"]) {
    this.#ask = ask;
  }

  async admit({ request }: Credentials, rule: AccessRule): Promise<Principal | null> {
    if (rule === "public" || request === undefined) return null;
    const found = await this.#ask(request);
    if (found === null || found === undefined) {
      const detail = "The application did not say who sent this request. Sign in there.";
      throw new Problem({ status: 401, code: "NO_PRINCIPAL", detail });
    }
    const principal = principalOf(found);
    if (rule === "operator" && principal.role !== "operator") throw forbidden(principal);
    return principal;
  }

  async isStillAdmitted({ request }: Credentials): Promise<boolean> {
    try {
      return request !== undefined && (await this.#ask(request)) !== null;
    } catch {
      return true; // unknown, as while the database of the application does not respond
    }
  }
}

function principalOf({ name, role }: DashboardPrincipal): Principal {
  if (typeof name !== "string" || name === "" || !roles.includes(role)) {
    // A mistake of the application: the request gets 500, and the log the reason.
    throw new Error(`principal() must return a name, and one of the roles ${roles.join(", ")}.`);
  }
  return { id: `app ${name}`, name: `app ${name}`, role, via: "app" };
}

// For frameworks on Node's own requests: Express, Fastify, NestJS.

/** Passes Node's requests to the handler, with their whole path: `basePath` must include what the framework cuts off. */
export function toNodeListener(
  handler: (request: Request) => Promise<Response>,
): (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void> {
  return async (incoming, outgoing) => {
    const aborted = new AbortController();
    outgoing.once("close", () => aborted.abort());
    const { status, headers, body } = await handler(requestOf(incoming, aborted.signal));
    const reply = { status, headers: Object.fromEntries(headers), body };
    await send(reply, outgoing).catch(() => outgoing.destroy());
  };
}

/** What frameworks add: the path before they cut off a prefix, and a body that they parsed. */
interface Adorned extends IncomingMessage {
  readonly originalUrl?: string;
  readonly body?: unknown;
}

function requestOf(incoming: Adorned, signal: AbortSignal): Request {
  const { method = "GET", headers } = incoming;
  const path = incoming.originalUrl ?? incoming.url ?? "/";
  const isSecure = "encrypted" in incoming.socket && incoming.socket.encrypted === true;
  const url = `${isSecure ? "https" : "http"}://${headers.host ?? "localhost"}${path}`;
  const list = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [value].flat().map((one) => [name, one]),
  );
  const body = method === "GET" || method === "HEAD" ? null : bodyOf(incoming);
  const init = { method, headers: list, signal, body, duplex: "half" };
  return new Request(url, init as RequestInit);
}

/** A framework that parsed the body has read the stream to its end. */
function bodyOf(incoming: Adorned): RequestInit["body"] {
  const { body } = incoming;
  if (!incoming.readableEnded || body === undefined)
    return Readable.toWeb(incoming) as RequestInit["body"];
  return typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body);
}
